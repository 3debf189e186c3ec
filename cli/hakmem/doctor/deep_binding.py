"""Finds out whether a program opens modules with RTLD_DEEPBIND, which bind malloc and free to the C library.

Reads the flags in the code, shortly before the call, and runs nothing. It does not recognise computed flags."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Set

from elftools.elf.elffile import ELFFile

from hakmem.doctor.finding import Finding, Level
from hakmem.elf_check import defines

SUBJECT = "deep binding"
VARIABLE = "HAKMEM_DEEPBIND"
_ON = ("1", "on", "yes", "true")

_BINDING_FLAGS = 3  # one of RTLD_LAZY and RTLD_NOW is always there
_DEEPBIND = 8
_FLAGS_MAX = 0xFFFF
_CALLS = {"dlopen": 1, "dlmopen": 2}  # which argument the flags are, counted from 0
_BYTES_BEFORE = 64  # of a call, in which its flags are looked for

_EXECUTABLE = 1  # PF_X


class _Code(NamedTuple):
    """An executable segment."""

    start: int
    data: bytes


def check(path: str, libraries: Iterable[str], library: str, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Checks a program and the libraries that it is linked with."""
    for file in dict.fromkeys((path, *libraries)):
        if not Path(file).name.startswith(("libc.so", "ld-linux", "libhakmem")) and opens_deep(file):
            yield _judge(file, library, environment)


def _judge(file: str, library: str, environment: Mapping[str, str]) -> Finding:
    found = f"{file} opens modules with RTLD_DEEPBIND"
    crash = "The modules bind `free` to the C library's, which ends the program when it gets a block of hakmem's."
    if environment.get(VARIABLE, "").lower() in _ON:
        return Finding(Level.PROBLEM, SUBJECT, f"{found}, and {VARIABLE} keeps the flag", crash, f"Unset {VARIABLE}.")
    if library and not defines(library, "dlopen"):
        todo = "Preload the libhakmem.so of this version."
        return Finding(Level.PROBLEM, SUBJECT, f"{found}, and {library} does not clear the flag", crash, todo)
    why = (
        "With the flag they would bind malloc to the C library's; hakmem clears it, and they bind as other modules do."
    )
    return Finding(Level.NOTE, SUBJECT, found, why, f"Nothing, but leave {VARIABLE} off.")


def opens_deep(path: str) -> bool:
    """Whether a call of dlopen or dlmopen with the flag is found in the file's code."""
    try:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            segment: Any = next(elf.iter_segments("PT_DYNAMIC"), None)
            places = _places(segment) if segment is not None else {}
            reader = {"x64": _flags_x86_64, "AArch64": _flags_aarch64}.get(elf.get_machine_arch())
            if reader is None or not any(places.values()):
                return False
            codes = [
                _Code(one["p_vaddr"], one.data())
                for one in elf.iter_segments("PT_LOAD")
                if one["p_flags"] & _EXECUTABLE
            ]
            return any(
                _is_deep(flags) for name, slots in places.items() for flags in reader(codes, slots, _CALLS[name])
            )
    except Exception:  # pyelftools raises any exception for a damaged file
        return False


def _is_deep(flags: Optional[int]) -> bool:
    return flags is not None and flags & _DEEPBIND != 0 and flags & _BINDING_FLAGS != 0 and flags <= _FLAGS_MAX


def _places(segment: Any) -> Dict[str, Set[int]]:
    """Where the dynamic linker puts each function's address."""
    places: Dict[str, Set[int]] = {name: set() for name in _CALLS}
    for table in segment.get_relocation_tables().values():
        for relocation in table.iter_relocations():
            index = relocation["r_info_sym"] if "r_info_sym" in relocation.entry else 0
            name = segment.get_symbol(index).name if index else ""
            if name in places:
                places[name].add(relocation["r_offset"])
    return places


# ---- x86-64.

_JUMP = re.compile(rb"\xff\x25(....)", re.DOTALL)  # jmp *slot(%rip)
_CALL_OF_SLOT = re.compile(rb"\xff\x15(....)", re.DOTALL)  # call *slot(%rip), with -fno-plt
_CALL = re.compile(rb"[\xe8\xe9](?=(....))", re.DOTALL)  # call or jmp
_MOVE = (b"\xbf", b"\xbe", b"\xba")  # mov $flags, %edi, %esi, %edx


def _relative(match: "re.Match[bytes]") -> int:
    return int(struct.unpack("<i", match[1])[0])


def _flags_x86_64(codes: List[_Code], slots: Set[int], argument: int) -> Iterator[Optional[int]]:
    stubs: Set[int] = set()
    for code in codes:
        for match in _JUMP.finditer(code.data):
            place = code.start + match.start()
            if place + 6 + _relative(match) in slots:
                stubs.update((place, place - 1, place - 4, place - 5))  # behind a prefix, and `endbr64`
    for code in codes:
        for pattern, length, targets in ((_CALL, 5, stubs), (_CALL_OF_SLOT, 6, slots)):
            for match in pattern.finditer(code.data):
                if code.start + match.start() + length + _relative(match) in targets:
                    yield _moved_x86_64(code.data[max(0, match.start() - _BYTES_BEFORE) : match.start()], argument)


def _moved_x86_64(before: bytes, argument: int) -> Optional[int]:
    end = len(before)
    while (end := before.rfind(_MOVE[argument], 0, end)) >= 0:
        if end + 5 <= len(before):
            value = int(struct.unpack_from("<I", before, end + 1)[0])
            if value <= _FLAGS_MAX:
                return value
    return None


# ---- arm64.


def _flags_aarch64(codes: List[_Code], slots: Set[int], argument: int) -> Iterator[Optional[int]]:
    words = [(code.start, struct.unpack_from(f"<{len(code.data) // 4}I", code.data)) for code in codes]
    stubs: Set[int] = set()
    for start, code_words in words:
        for index, (first, second) in enumerate(zip(code_words, code_words[1:])):
            if first & 0x9F00001F == 0x90000010 and second & 0xFFC003FF == 0xF9400211:  # adrp x16; ldr x17, [x16, ...]
                place = start + 4 * index
                if _page(place, first) + (second >> 10 & 0xFFF) * 8 in slots:
                    stubs.update((place, place - 4))  # behind `bti c`
    for start, code_words in words:
        for index, word in enumerate(code_words):
            if word & 0x7C000000 == 0x14000000:  # b, bl
                distance = ((word & 0x3FFFFFF) ^ 0x2000000) - 0x2000000
                if start + 4 * (index + distance) in stubs:
                    yield _moved_aarch64(code_words[max(0, index - _BYTES_BEFORE // 4) : index], argument)


def _page(place: int, adrp: int) -> int:
    pages = ((adrp >> 5 & 0x7FFFF) << 2 | (adrp >> 29 & 3)) ^ 0x100000
    return (place & ~0xFFF) + ((pages - 0x100000) << 12)


def _moved_aarch64(before: Iterable[int], argument: int) -> Optional[int]:
    moves = [word >> 5 & 0xFFFF for word in before if word & 0xFFE0001F == 0x52800000 | argument]  # mov w, #flags
    return moves[-1] if moves else None
