"""Runs programs under a preloaded allocator, and measures them. For the demo, the benchmarks and the tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Mapping, Optional, Sequence, Set, Tuple

REPOSITORY = Path(__file__).resolve().parent.parent

# Variables that change an allocator's behaviour: hakmem's and the peers', and preloads.
_ALLOCATOR_VARIABLE = re.compile(
    r"(HAKMEM_|MALLOC_|_RJEM_MALLOC_|MIMALLOC_|TCMALLOC_|GLIBC_TUNABLES$|PYTHONMALLOC$)"
    r"|LD_(PRELOAD|AUDIT|DEBUG|DEBUG_OUTPUT|BIND_NOW)$"
)

# The allocators that a distribution may have installed, by the name of their library.
_PEER_LIBRARIES = {
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
}


class LibraryMissing(Exception):
    """The library to preload is missing. The message says how to get it."""


def library_in(build: Path, name: str = "libhakmem.so") -> Path:
    """The absolute path of one of hakmem's libraries in a build folder."""
    library = (build / name).resolve()
    if not library.is_file():
        raise LibraryMissing(f"no {name} in {build}: build it with `make lib`")
    return library


def installed_peers() -> Dict[str, Path]:
    """The other allocators that the dynamic linker knows on this machine."""
    ldconfig = next((path for path in ("/sbin/ldconfig", "/usr/sbin/ldconfig") if os.path.exists(path)), "ldconfig")
    try:
        listing = subprocess.run([ldconfig, "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}
    peers: Dict[str, Path] = {}
    for name, library in _PEER_LIBRARIES.items():
        match = re.search(rf"^\s*{re.escape(library)} \(libc6,(?:x86-64|AArch64)[^)]*\) => (.+)$", listing, re.M)
        if match:
            peers[name] = Path(match.group(1)).resolve()
    return peers


def named_allocators(build: Path, named: Sequence[str], with_peers: bool) -> Dict[str, Optional[Path]]:
    """The allocators of a benchmark: hakmem's built ones, glibc (no library), peers on request, NAME=LIBRARY words.

    A missing library is left out with a note; a wrong word ends the program with a message.
    """
    allocators: Dict[str, Optional[Path]] = {}
    for name in ("hakmem", "hakmem-fast", "hakmem-secure"):
        try:
            allocators[name] = library_in(build, f"lib{name}.so")
        except LibraryMissing as missing:
            print(f"left out: {missing}", file=sys.stderr)
    allocators["glibc"] = None
    if with_peers:
        allocators.update(installed_peers())
    for word in named:
        name, _, library = word.partition("=")
        if not library or not Path(library).is_file():
            sys.exit(f"{word}: expected NAME=LIBRARY with a file that exists")
        allocators[name] = Path(library).resolve()
    return allocators


def environment(library: Optional[Path], extra: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """This process's environment without anything that steers an allocator, with `library` preloaded if there
    is one."""
    clean = {name: value for name, value in os.environ.items() if not _ALLOCATOR_VARIABLE.match(name)}
    if library is not None:
        clean["LD_PRELOAD"] = str(library)
    clean.update(extra or {})
    return clean


@dataclass(frozen=True)
class Usage:
    """The output, time and memory of one run. Memory and faults include the children that it waited for."""

    exit_code: int
    stdout: bytes
    wall_seconds: float
    cpu_seconds: float
    peak_kib: int
    minor_faults: int
    major_faults: int


def run_measured(command: Sequence[str], env: Mapping[str, str], cwd: Optional[Path] = None) -> Usage:
    """Run a program to its end. The kernel's peak counts this process's own size too (the child starts as its copy), so
    programs smaller than a Python interpreter need bench/small_program_memory.py's launcher."""
    with tempfile.TemporaryFile() as output:
        start = time.monotonic()
        process = subprocess.Popen(list(command), env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - start
        process.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        output.seek(0)
        return Usage(
            exit_code=process.returncode,
            stdout=output.read(),
            wall_seconds=wall,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_kib=usage.ru_maxrss,
            minor_faults=usage.ru_minflt,
            major_faults=usage.ru_majflt,
        )


def files_of_malloc(
    command: Sequence[str], env: Mapping[str, str], cwd: Optional[Path] = None, timeout: float = 300
) -> Set[Path]:
    """Run a program and return every file that the dynamic linker bound `malloc` or `free` to, in it and its children.

    Empty when the program is static, or runs with raised rights.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1733)  # the program may change its user
        traced = dict(env, LD_DEBUG="bindings", LD_DEBUG_OUTPUT=f"{folder}/bindings", LD_BIND_NOW="1")
        subprocess.run(
            list(command), env=traced, cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout, check=False,
        )  # fmt: skip
        found: Set[Path] = set()
        for report in sorted(Path(folder).iterdir()):
            found.update(_targets(_bindings_of_malloc(report.read_text(errors="replace"))))
        return found


def _bindings_of_malloc(report: str) -> Set[Tuple[Path, Path, str]]:
    """The bindings of the two names: caller, file, name."""
    binding = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(malloc|free)'")
    return {(Path(source).resolve(), Path(target).resolve(), name) for source, target, name in binding.findall(report)}


def _targets(bindings: Set[Tuple[Path, Path, str]]) -> Set[Path]:
    """Where calls end.

    An executable with fixed addresses lends its stub as the function's address: no end of its own.
    """
    bound_elsewhere = {
        (source, name) for source, target, name in bindings if source != target and ".so" not in source.name
    }
    return {target for _, target, name in bindings if (target, name) not in bound_elsewhere}
