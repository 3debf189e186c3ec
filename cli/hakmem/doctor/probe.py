"""Probes: how the program's dynamic linker resolves malloc's names, and a harmless program that runs on the library."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import FrozenSet, Iterator, List, Mapping

from hakmem.doctor.finding import Finding, Level, ok
from hakmem.dynamic_linker import Bound, Trace, bind, trace
from hakmem.elf_check import LIBC_MALLOC, Executable, defines, wraps_malloc
from hakmem.environment import is_allocator, with_preload
from hakmem.musl import runs_on_musl
from hakmem.self_report import VARIABLE, SelfReports

RESOLVED = "malloc resolves"
STARTED = "a program starts"
_SECONDS = 20
_C_LIBRARY = "libc.so.6"
_NAMES: FrozenSet[str] = frozenset(
    {"malloc", "free", "calloc", "realloc", "reallocarray", "aligned_alloc", "memalign", "posix_memalign"}
)
# Functions that allocate or free memory under names of an allocator's own.
_OWN_NAME = re.compile(r"(je_|_rjem_|mi_|tc_|rp)\w*(alloc|free|new|delete)|(m|r|x|d|sd)allocx$")


def check_binding(executable: Executable, library: Path, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Starts the program's dynamic linker with the preload, and reads which file serves each name."""
    if runs_on_musl(executable.interpreter):
        yield from _check_files(executable, library, environment)
        return
    traced = trace(executable, with_preload(environment, str(library)))
    if traced is None:
        yield _unknown(executable)
        return
    if traced.missing:
        yield Finding(
            Level.PROBLEM,
            "libraries",
            "not found: " + ", ".join(dict.fromkeys(traced.missing)),
            "The program does not start, under hakmem or not.",
            "Install them, or name their folder by LD_LIBRARY_PATH.",
        )
    served = _served(executable, library, traced)
    yield served
    if served.level is not Level.PROBLEM:
        yield from _through_other_names(library, traced)


def _check_files(executable: Executable, library: Path, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Musl's linker lists the files that it loads. Every file of a program calls the first malloc among them."""
    binding = bind(executable, with_preload(environment, str(library)))
    if binding is None:
        yield _unknown(executable)
    elif binding.server() == str(library):
        yield ok(RESOLVED, f"into {library}")
    else:
        yield Finding(
            Level.PROBLEM,
            RESOLVED,
            f"not into {library}: malloc is {binding.server()}'s",
            binding.complaint or "The program calls another malloc in spite of LD_PRELOAD.",
            "Take the library that serves malloc out of LD_PRELOAD, or out of the program.",
        )


def _unknown(executable: Executable) -> Finding:
    return Finding(
        Level.NOTE,
        RESOLVED,
        f"the dynamic linker of {executable.path} does not say what it would do",
        "Whether hakmem's malloc is used is not known.",
        f"{executable.path} may lack a library: try ldd -r {executable.path}",
    )


def _served(executable: Executable, library: Path, traced: Trace) -> Finding:
    wraps = wraps_malloc(executable.path)
    names = _NAMES | {LIBC_MALLOC} if wraps else _NAMES
    calls = [one for one in traced.calls(names) if one.file != str(library)]
    if wraps:
        calls = [one for one in calls if one.server != os.path.realpath(executable.path)]
    elsewhere = [one for one in calls if one.server != str(library) and _really_serves(one)]
    if any(_is_central(one, executable) for one in elsewhere):
        complaint = next((line for line in traced.complaints if library.name in line), None)
        return Finding(
            Level.PROBLEM,
            RESOLVED,
            f"not into {library}: {_told(elsewhere)}",
            complaint or "The program calls another malloc in spite of LD_PRELOAD.",
            "See the findings above; if there is none that explains it, LD_DEBUG=libs,bindings tells more.",
        )
    if elsewhere:
        return Finding(
            Level.WARNING,
            RESOLVED,
            f"not everywhere into {library}: {_told(elsewhere)}",
            "Where one malloc's memory is freed by the other, hakmem ends the program with a message; the other may "
            "damage it.",
            "Take the library that serves these names out of LD_PRELOAD, or out of the program.",
        )
    if wraps:
        return ok(RESOLVED, f"into {library}, through the program's own malloc")
    if not calls:
        return Finding(
            Level.NOTE,
            RESOLVED,
            "neither the program nor its libraries call malloc by its name",
            "hakmem would be loaded, and serve no request.",
            "Nothing, unless the program loads libraries later that do.",
        )
    files = len({one.file for one in calls})
    return ok(RESOLVED, f"into {library}, for {files} of the program's files" if files > 1 else f"into {library}")


def _really_serves(one: Bound) -> bool:
    """A program at a fixed address has an entry for a function whose address is taken, and other files use that entry.
    It leads to the file that the program itself is bound to."""
    return defines(one.server, one.name)


def _is_central(one: Bound, executable: Executable) -> bool:
    """The program's own calls, and those of the C library for it (strdup, getline)."""
    return one.file == os.path.realpath(executable.path) or os.path.basename(one.file) == _C_LIBRARY


def _told(bound: List[Bound]) -> str:
    rows = [f"{one.name} of {os.path.basename(one.file)} is {os.path.basename(one.server)}'s" for one in bound]
    return "; ".join(rows[:3]) + ("; …" if len(rows) > 3 else "")


def _through_other_names(library: Path, traced: Trace) -> Iterator[Finding]:
    """Allocators that the program is linked with, and calls by names that hakmem does not have."""
    servers = {one.server for one in traced.bound if one.server != str(library) and is_allocator(one.server)}
    for server in sorted(servers):
        names = sorted({one.name for one in traced.bound if one.server == server and one.file != server})
        own = [name for name in names if _OWN_NAME.match(name)]
        shown = ", ".join((own or names)[:4])
        if own:
            yield Finding(
                Level.WARNING,
                "linked allocator",
                f"{server} serves {shown}",
                "Memory of that allocator is not hakmem's; where the program passes it to free, hakmem ends the "
                "program with a message.",
                "Build the program without that allocator.",
            )
        elif names:
            yield Finding(
                Level.NOTE,
                "linked allocator",
                f"{server} is loaded too, and serves {shown}",
                "malloc is hakmem's all the same. Statistics that the program reads from that allocator are about "
                "unused memory.",
                "Nothing, or build the program without it.",
            )


def check_start(program: str, library: Path, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Runs a harmless program on the library, which has to report that it was loaded."""
    variables = with_preload(environment, str(library))
    variables.pop(VARIABLE, None)
    with SelfReports() as reports:
        try:
            done = subprocess.run(
                [program], env=reports.ask(variables), stdin=subprocess.DEVNULL,
                capture_output=True, timeout=_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            yield _not_started(program, str(error))
            return
        reports.collect()
    said = os.fsdecode(done.stderr).strip()
    if done.returncode != 0:
        yield _not_started(program, f"exit code {done.returncode}" + (f": {said}" if said else ""))
    elif reports.absent is not None:
        yield Finding(Level.NOTE, STARTED, reports.absent, "The library's report could not be read.", "Set TMPDIR.")
    elif not reports.documents:
        yield _not_started(program, "the library was not loaded" + (f": {said}" if said else ""))
    else:
        yield ok(STARTED, f"{program}, with hakmem {reports.documents[0].get('version', '')}".rstrip())
        if said:
            why = "Every program that starts with this environment says so."
            yield Finding(
                Level.NOTE, "messages", said, why, "Correct the variable that it names (see: hakmem help options)."
            )


def _not_started(program: str, told: str) -> Finding:
    return Finding(
        Level.PROBLEM,
        STARTED,
        f"{program} does not run on the library: {told}",
        "Other programs will not either.",
        "Start it by hand: HAKMEM_STATS=1 LD_PRELOAD=… " + program,
    )
