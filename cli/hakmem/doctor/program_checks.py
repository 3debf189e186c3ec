"""Checks of one program: whether hakmem can be preloaded into it, and which of its memory hakmem would serve."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, Mapping, Tuple

from hakmem.doctor import bundled, deep_binding
from hakmem.doctor.finding import Finding, Level, ok
from hakmem.dynamic_linker import bind
from hakmem.elf_check import Chain, find_obstacle
from hakmem.musl import runs_on_musl

SUBJECT = "program"
_SHELL = re.compile(r"(ba|da|z|k|mk|a)?sh\d*$|busybox")

# Reason and advice for each kind of obstacle.
_ADVICE: Dict[str, Tuple[str, str]] = {
    "architecture": (
        "A dynamic linker loads only libraries for its own processor and word size.",
        "Build hakmem for that processor. 32-bit programs it cannot serve at all.",
    ),
    "static": (
        "Only the dynamic linker can put another malloc in place of the built-in one.",
        "Link it with libhakmem.a, before the C library on the command line, or build it dynamically.",
    ),
    "static-musl": (
        "Only the dynamic linker can put another malloc in place of the built-in one.",
        "musl-gcc -static PROGRAM.c build/musl/libhakmem.a; `make musl` in the checkout builds that library.",
    ),
    "musl": (
        "A library for glibc needs glibc's dynamic linker and thread-local memory.",
        "`make musl` in the checkout builds the library for musl. Then hakmem finds it.",
    ),
    "glibc": (
        "A library for musl needs musl's dynamic linker.",
        "Leave --library out, or build the library for glibc with `make lib`.",
    ),
    "raised-rights": (
        "Otherwise any caller could put code into a program with more rights than theirs.",
        "Link it with hakmem, or start it as the user whose rights it takes.",
    ),
    "sanitizer": (
        "A sanitizer sees only memory of its own malloc; with another one it ends the program, or finds nothing.",
        "Build it without the sanitizer for use under hakmem.",
    ),
    "own-malloc": (
        "The program's own names come first, before every library's.",
        "Build it with the system's malloc; many programs have an option for that.",
    ),
    "environment": (
        "LD_PRELOAD is lost with all other variables.",
        "Set LD_PRELOAD on that line, behind `env -i`, or start the interpreter yourself.",
    ),
}


def check(chain: Chain, library: str, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Reads the files of the program. Nothing runs."""
    executable = chain.executable
    if executable is None and not os.path.exists(chain.files[-1]):
        yield Finding(
            Level.PROBLEM,
            SUBJECT,
            f"{chain.files[0]} needs the interpreter {chain.files[-1]}, which does not exist",
            "Without it the program does not start, under hakmem or not.",
            "Install it, or correct the program's first line.",
        )
        return
    if executable is None:
        yield Finding(
            Level.NOTE,
            SUBJECT,
            f"{chain.files[-1]} could not be examined: it is unknown which file it runs in the end",
            "It is unknown whether hakmem would have an effect.",
            "Name the program itself, or its interpreter.",
        )
        return
    obstacle = find_obstacle(chain, library)
    if obstacle is not None:
        why, todo = _ADVICE[obstacle.kind]
        yield Finding(Level.PROBLEM, SUBJECT, obstacle.message, why, todo)
    elif executable.interpreter is not None and not os.path.exists(executable.interpreter):
        yield Finding(
            Level.PROBLEM,
            SUBJECT,
            f"{executable.path} needs {executable.interpreter}, which does not exist",
            "Without its dynamic linker the program does not start, under hakmem or not.",
            "Install the C library that it was built for.",
        )
        return
    else:
        yield _fit(chain)
    binding = bind(executable, environment) if obstacle is None else None
    libraries = binding.files if binding else ()
    yield from bundled.check(executable.path, libraries)
    if obstacle is None and not runs_on_musl(executable.interpreter):  # musl has no RTLD_DEEPBIND
        yield from deep_binding.check(executable.path, libraries, library, environment)


def check_linked(chain: Chain, own: str, environment: Mapping[str, str]) -> Iterator[Finding]:
    """The findings of a program that is linked with hakmem, in the file `own`."""
    executable = chain.executable
    assert executable is not None
    where = "has hakmem in it" if own == executable.path else f"is linked with {own}"
    yield ok(SUBJECT, f"{chain.files[-1]} {where}, and needs no preload")
    binding = bind(executable, environment)
    yield from bundled.check(executable.path, binding.files if binding else ())


def _fit(chain: Chain) -> Finding:
    found = ", which runs ".join(chain.files)
    if len(chain.files) == 1 or not _SHELL.match(os.path.basename(chain.files[-1])):
        return ok(SUBJECT, found)
    return Finding(
        Level.NOTE,
        SUBJECT,
        found,
        "This examined the shell. Programs that the script starts inherit the preload, and may have obstacles of "
        "their own.",
        "Name the program that does the work.",
    )


def is_possible(chain: Chain, library: str) -> bool:
    """Whether the library can be preloaded into the program."""
    return chain.executable is not None and find_obstacle(chain, library) is None
