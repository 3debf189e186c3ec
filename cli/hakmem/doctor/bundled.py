"""Memory that a program does not take from malloc: allocators that were built into it or its libraries, and runtimes
with heaps of their own."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Iterable, Iterator, List, Tuple

from hakmem.doctor.finding import Finding, Level, ok
from hakmem.doctor.rust_choice import Choice, read_choice
from hakmem.elf_check import defines
from hakmem.environment import is_allocator
from hakmem.linked import has_hakmem

SUBJECT = "bundled allocator"


@dataclass(frozen=True)
class _Mark:
    """The marks of an allocator: texts of its messages, and names that a symbol table has between zero bytes."""

    allocator: str
    texts: Tuple[bytes, ...] = ()
    names: Tuple[bytes, ...] = ()


_ALLOCATORS = (
    _Mark("jemalloc", (b"<jemalloc>: ",), (b"je_malloc", b"_rjem_malloc", b"je_mallocx", b"_rjem_mallocx")),
    _Mark("mimalloc", (b"mimalloc: error: ",), (b"mi_malloc", b"mi_malloc_aligned", b"_mi_malloc_generic")),
    _Mark("tcmalloc", (b"tcmalloc: large alloc",), (b"tc_malloc", b"TCMallocInternalMalloc")),
    _Mark("rpmalloc", (), (b"rpmalloc",)),
    _Mark("snmalloc", (b"Failed to initialise snmalloc.",), (b"sn_malloc", b"sn_rust_alloc")),
)
_GO = b"\xff Go buildinf:"
_PYTHON = b"PyObject_Malloc\0"  # which may be the tail of another name
_JAVA_LIBRARY = "libjli.so"
# Left out: they name other allocators' functions without having them.
_LEFT_OUT = ("libc.so", "libstdc++", "ld-linux", "libhakmem")


def check(path: str, libraries: Iterable[str]) -> Iterator[Finding]:
    """A program and its libraries, as its dynamic linker lists them."""
    files = [path, *(file for file in libraries if file != path and not _is_left_out(file))]
    found: List[Finding] = []
    for file in files:
        found += _in_file(file)
    yield from found or [ok(SUBJECT, "none was found")]


def _is_left_out(file: str) -> bool:
    name = os.path.basename(file)
    return is_allocator(file) or name.startswith(_LEFT_OUT)


def _in_file(file: str) -> Iterator[Finding]:
    try:
        with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield from _in_data(file, data)
    except (OSError, ValueError):  # unreadable, or empty
        return


def _in_data(file: str, data: mmap.mmap) -> Iterator[Finding]:
    allocators = [mark.allocator for mark in _ALLOCATORS if _has(data, mark)]
    choice = read_choice(data)
    for allocator in allocators:
        if choice in (Choice.OWN, Choice.UNKNOWN):
            yield _chosen_in_rust(file, allocator, choice)
        else:
            yield _allocator(file, allocator)
    if not allocators and choice in (Choice.OWN, Choice.UNKNOWN):
        if has_hakmem(file):
            yield from _hakmem_in_rust(file)
        elif choice is Choice.OWN:
            yield _own_choice_in_rust(file)
    if data.find(_GO, 0) >= 0:
        yield _runtime(file, "Go", "Go takes its heap from the system; hakmem serves what cgo calls in C alone.", "")
    if data.find(_PYTHON, 0) >= 0:
        yield _runtime(
            file,
            "Python",
            "Objects of up to 512 bytes come from arenas of Python's own (pymalloc), which it maps itself.",
            "PYTHONMALLOC=malloc gives them to hakmem too; measure which of both is better.",
        )
    if os.path.basename(file).startswith(_JAVA_LIBRARY):
        yield _runtime(
            file,
            "Java",
            "Java maps its heap itself; hakmem serves the virtual machine's and libraries' own memory.",
            "",
        )


def _has(data: mmap.mmap, mark: _Mark) -> bool:
    """Searches from 0: without a start `find` begins where the last reader of the file stopped."""
    named = (b"\0" + name + b"\0" for name in mark.names)
    return any(data.find(text, 0) >= 0 for text in (*mark.texts, *named))


def _allocator(file: str, name: str) -> Finding:
    return Finding(
        Level.WARNING,
        SUBJECT,
        f"{file} has {name} in it, or calls it by its own names",
        "Memory of that allocator never comes from hakmem, also with the preload.",
        f"Build the program without it (often an option such as --without-{name}, MALLOC=libc, or a Cargo feature).",
    )


def _chosen_in_rust(file: str, name: str, choice: Choice) -> Finding:
    return Finding(
        Level.WARNING,
        SUBJECT,
        f"{file} is Rust with {name} as its {'' if choice is Choice.OWN else 'probable '}global allocator",
        f"Rust's allocations go to {name}, and never to hakmem, also with the preload.",
        "Leave #[global_allocator] out of its sources, or name hakmem_alloc::Hakmem there (the crate hakmem-alloc).",
    )


def _hakmem_in_rust(file: str) -> Iterator[Finding]:
    if defines(file, "malloc"):  # the crate's feature `override`: the program is linked with hakmem
        return
    yield Finding(
        Level.NOTE,
        SUBJECT,
        f"{file} is Rust with hakmem as its global allocator (the crate hakmem-alloc)",
        "Rust's allocations need no preload. The preload is a second hakmem, which serves the malloc of C code.",
        "Start it without `hakmem run`, or build it with the crate's feature `override`, which serves malloc too.",
    )


def _own_choice_in_rust(file: str) -> Finding:
    return Finding(
        Level.NOTE,
        SUBJECT,
        f"{file} is Rust with a global allocator of its own choice",
        "Unless that is the system's, allocations of Rust code never come to hakmem.",
        "Look for #[global_allocator] in its sources.",
    )


def _runtime(file: str, name: str, why: str, todo: str) -> Finding:
    return Finding(
        Level.NOTE, "own heap", f"{file} has {name}'s runtime in it", why, todo or "Nothing; expect little difference."
    )
