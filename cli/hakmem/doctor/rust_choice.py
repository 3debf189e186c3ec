"""Tells from a file of Rust which global allocator its sources chose: the system's, which is Rust's own choice, or
another one.

Rust's code calls __rust_alloc. Without a choice in the sources that function calls the standard library's __rdl_alloc.
With one it calls __rg_alloc, or is the choice itself, as rustc 1.95 compiles it. Optimisation of the whole program at
link time removes some of these functions, and with them the one whose name begins with _SHIM."""

from __future__ import annotations

import enum
import mmap

from elftools.elf.elffile import ELFFile

_CALLED = b"__rust_alloc\0"
_CHOSEN_BEFORE = b"__rg_alloc\0"
_SYSTEM = b"__rdl_alloc\0"
_SHIM = b"__rust_no_alloc_shim_is_unstable"
_STANDARD_LIBRARY = b"RUST_BACKTRACE"


class Choice(enum.Enum):
    """What the file says about the choice."""

    NO_RUST = enum.auto()
    SYSTEM = enum.auto()
    OWN = enum.auto()
    UNKNOWN = enum.auto()


def read_choice(data: mmap.mmap) -> Choice:
    """The choice of a program or library. UNKNOWN in stripped files, and after optimisation at link time."""
    names = _symbol_names(data)
    if _CALLED not in names and data.find(_STANDARD_LIBRARY, 0) < 0:
        return Choice.NO_RUST
    if _CHOSEN_BEFORE in names:
        return Choice.OWN
    if _SYSTEM in names:
        return Choice.SYSTEM
    return Choice.OWN if _CALLED in names and _SHIM in names else Choice.UNKNOWN


def _symbol_names(data: mmap.mmap) -> bytes:
    """The names of all symbols, each with a zero byte behind it. Names in debug information are left out: it describes
    functions that the program does not have."""
    try:
        section = ELFFile(data).get_section_by_name(".strtab")
        return bytes(section.data()) if section is not None else b""
    except Exception:  # pyelftools raises any exception for a damaged file
        return b""
