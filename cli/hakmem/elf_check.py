"""Tells whether a library can be preloaded into a program and will serve malloc, without running the program.

Only the dynamic linkers of glibc and musl read LD_PRELOAD as needed, each for libraries of its own C library, and only
in programs that run with their caller's rights.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Callable, Iterator, List, Mapping, Optional, Tuple

from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.hash import GNUHashTable

from hakmem.errors import Failure
from hakmem.kernel_files import KernelFiles
from hakmem.musl import is_for_musl, is_static_musl, runs_on_musl
from hakmem.needed import needed
from hakmem.program import SHELL, has_no_magic, resolve

_MOST_INTERPRETERS = 5  # the kernel gives up after this number of `#!` in a row
_LINE_BYTES = 4096
LIBC_MALLOC = "__libc_malloc"
_NAME_OF_LINKER = re.compile(r"ld(-linux.*|-[0-9.]+|64)?\.so(\.\d+)?$")
_SANITIZER_FILE = re.compile(r"lib(?:clang_rt\.)?(asan|hwasan|msan|tsan|lsan)\b")


@dataclass(frozen=True)
class Executable:
    """The ELF header of a program. `interpreter` is its dynamic linker, None in a static program."""

    path: str
    machine: str
    bits: int
    interpreter: Optional[str]


# Behind other obstacles the library is in the process, and another malloc comes before it.
_NOT_LOADED = ("architecture", "static", "static-musl", "musl", "glibc", "raised-rights", "environment")


@dataclass(frozen=True)
class Obstacle:
    """The reason why preloading has no effect: one word for programs, one sentence for people."""

    kind: str
    message: str

    @property
    def hides_library(self) -> bool:
        """Whether the program does not load the library at all."""
        return self.kind in _NOT_LOADED


@dataclass(frozen=True)
class Chain:
    """The files that run when a program is executed: the file itself, the interpreters of scripts, the ELF file at the
    end.

    `executable` is None when the end is unknown."""

    files: Tuple[str, ...]
    executable: Optional[Executable]
    clears_environment: bool = False


def follow(path: str, environment: Mapping[str, str]) -> Chain:
    """Resolve `#!` lines, through /usr/bin/env too, down to the ELF file. A text without such a line is the shell's."""
    files: List[str] = []
    clears = False
    for _ in range(_MOST_INTERPRETERS):
        path = os.path.realpath(path)
        files.append(path)
        words = _interpreter_line(path)
        if words is None and len(files) == 1 and has_no_magic(path):
            words = [SHELL]
        if words is None:
            return Chain(tuple(files), read_executable(path), clears)
        path = words[0]
        if os.path.basename(path) == "env":
            name, clears_here = _program_of_env(words[1:])
            clears = clears or clears_here
            if name is None:
                break
            files.append(os.path.realpath(path))
            try:
                path = resolve([name], environment).path
            except Failure:
                break
    return Chain(tuple(files), None, clears)


def _interpreter_line(path: str) -> Optional[List[str]]:
    """The words of a `#!` line; None when there is none. The kernel passes all after the first word as one."""
    try:
        with open(path, "rb") as file:
            line = file.readline(_LINE_BYTES)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = os.fsdecode(line[2:]).strip().split(None, 1)
    return words or None


def _program_of_env(words: List[str]) -> Tuple[Optional[str], bool]:
    """The program that an `env` line starts, and whether env empties the environment before."""
    try:
        arguments = shlex.split(" ".join(words))
    except ValueError:
        return None, False
    clears = False
    while arguments:
        word = arguments.pop(0)
        if word in ("-i", "-", "--ignore-environment") or re.match(r"-[a-zA-Z]*i", word):
            clears = True
        elif word in ("-u", "-C") and arguments:
            arguments.pop(0)
        elif not word.startswith("-") and "=" not in word:
            return word, clears
    return None, clears


def read_executable(path: str) -> Optional[Executable]:
    """The ELF header of a program; None when it cannot be read or is none."""
    try:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            segments: Iterator[Any] = elf.iter_segments("PT_INTERP")
            interpreter = next((segment.get_interp_name() for segment in segments), None)
            return Executable(path, elf.get_machine_arch(), elf.elfclass, interpreter)
    except Exception:  # pyelftools raises any exception for a damaged file
        return None


def find_obstacle(chain: Chain, library: str) -> Optional[Obstacle]:
    """Returns the first known reason why `library` cannot be preloaded into the program, or None."""
    executable = chain.executable
    if executable is None:
        return None
    return (
        _other_architecture(executable, library)
        or _static(executable)
        or _other_c_library(executable, library)
        or _raised_rights(executable.path)
        or _sanitizer(executable.path)
        or _own_malloc(executable)
        or _emptied_environment(chain)
    )


def _other_architecture(executable: Executable, library: str) -> Optional[Obstacle]:
    ours = read_executable(library)
    if ours is None or (ours.machine, ours.bits) == (executable.machine, executable.bits):
        return None
    return Obstacle(
        "architecture",
        f"{executable.path} is a {executable.bits}-bit {executable.machine} program, and {library} is for "
        f"{ours.bits}-bit {ours.machine}",
    )


def is_glibc_linker(path: str) -> bool:
    """Whether a file is glibc's dynamic linker, by its name."""
    return _NAME_OF_LINKER.match(os.path.basename(path)) is not None


def _static(executable: Executable) -> Optional[Obstacle]:
    if executable.interpreter is not None or is_glibc_linker(executable.path):
        return None
    if is_static_musl(executable.path):
        return Obstacle(
            "static-musl",
            f"{executable.path} is linked statically with musl: it has musl's malloc built in, and nothing reads "
            "LD_PRELOAD. Link it with musl's libhakmem.a instead",
        )
    return Obstacle(
        "static",
        f"{executable.path} is linked statically: it has its malloc built in, and nothing reads LD_PRELOAD. "
        "Link it with libhakmem.a instead, or build it dynamically",
    )


def _other_c_library(executable: Executable, library: str) -> Optional[Obstacle]:
    if runs_on_musl(executable.interpreter) == is_for_musl(library):
        return None
    if runs_on_musl(executable.interpreter):
        return Obstacle(
            "musl", f"{executable.path} runs on musl ({executable.interpreter}), and {library} is for glibc"
        )
    return Obstacle("glibc", f"{executable.path} runs on glibc, and {library} is for musl")


def _raised_rights(path: str) -> Optional[Obstacle]:
    """Set-user-ID, set-group-ID, file capabilities: the dynamic linker then ignores LD_PRELOAD, as it must."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    if KernelFiles().fields("/proc/self/status").get("NoNewPrivs") == "1":
        return None  # the file's bits have no effect
    raises = None
    if status.st_mode & stat.S_ISUID and status.st_uid != os.getuid():
        raises = "is set-user-ID"
    elif status.st_mode & stat.S_ISGID and status.st_mode & stat.S_IXGRP and status.st_gid != os.getgid():
        raises = "is set-group-ID"
    elif os.getuid() != 0 and _has_capabilities(path):
        raises = "has file capabilities"
    if raises is None:
        return None
    return Obstacle(
        "raised-rights", f"{path} {raises}: it runs with raised rights, and the system ignores LD_PRELOAD for it"
    )


def _has_capabilities(path: str) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def sanitizer_of(path: str) -> Optional[str]:
    """The sanitizer that a file was built with, of those that bring a malloc."""
    linked = (_SANITIZER_FILE.match(name) for name in needed(path))
    found = next((match.group(1) for match in linked if match), None)
    return found or next(
        (name for name in ("asan", "hwasan", "msan", "tsan", "lsan") if defines(path, f"__{name}_init")), None
    )


def _sanitizer(path: str) -> Optional[Obstacle]:
    name = sanitizer_of(path)
    if name is None:
        return None
    return Obstacle("sanitizer", f"{path} was built with a sanitizer ({name}), which brings a malloc of its own")


def _own_malloc(executable: Executable) -> Optional[Obstacle]:
    if not defines(executable.path, "malloc") or wraps_malloc(executable.path):
        return None
    return Obstacle(
        "own-malloc", f"{executable.path} brings a malloc of its own, which comes before any that is preloaded"
    )


def wraps_malloc(path: str) -> bool:
    """Whether a program has a malloc that can call another file's, by glibc's other name for it. hakmem's libraries
    define that name too."""
    return defines(path, "malloc") and _imports(path, LIBC_MALLOC)


def _emptied_environment(chain: Chain) -> Optional[Obstacle]:
    if not chain.clears_environment:
        return None
    return Obstacle(
        "environment", f"{chain.files[0]} starts its interpreter with an empty environment, without LD_PRELOAD"
    )


@lru_cache(maxsize=None)
def defines(path: str, name: str) -> bool:
    """Whether a file exports a function of this name to the dynamic linker."""
    return _tells(path, lambda segment: _segment_defines(segment, name))


def _imports(path: str, name: str) -> bool:
    """Whether a file calls a function of this name in another file."""
    return _tells(
        path, lambda segment: any(one.name == name and not _is_defined(one) for one in segment.iter_symbols())
    )


def _tells(path: str, question: Callable[[DynamicSegment], bool]) -> bool:
    """The answer of a file's dynamic segment; False where it cannot be read or has none."""
    try:
        with open(path, "rb") as file:
            segment: Any = next(ELFFile(file).iter_segments("PT_DYNAMIC"), None)
            return segment is not None and question(segment)
    except Exception:  # as above
        return False


def _segment_defines(segment: DynamicSegment, name: str) -> bool:
    _, offset = segment.get_table_offset("DT_GNU_HASH")
    if offset is not None:
        symbol = GNUHashTable(segment.elffile, offset, segment).get_symbol(name)
        return symbol is not None and _is_defined(symbol)
    return any(symbol.name == name and _is_defined(symbol) for symbol in segment.iter_symbols())


def _is_defined(symbol: Any) -> bool:
    return bool(symbol["st_shndx"] != "SHN_UNDEF")
