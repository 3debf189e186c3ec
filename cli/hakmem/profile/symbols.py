"""The functions of an ELF file's symbol table, by address. An address in none of them has no name."""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import Any, Dict, Iterator, List, Optional, Tuple

from elftools.elf.elffile import ELFFile

_STT_NOTYPE, _STT_FUNC, _STT_IFUNC = 0, 2, 10
_SHF_EXECINSTR = 4
_UNDEFINED, _FIRST_RESERVED = 0, 0xFF00
# The order of several names at one address: sized before unsized, then global, weak, local.
_BINDING_RANK = {1: 0, 2: 1, 0: 2}
# The most functions that may begin between a function's start and an address in it (nested entry points of assembly).
_MOST_NESTED = 16


class SymbolTable:
    """Sorted by address; a function without a size reaches to the next one, or to its section's end."""

    def __init__(self, elf: ELFFile) -> None:
        best: Dict[int, Tuple[Tuple[int, int, str], int, int]] = {}
        for name, start, size, rank, section_end in _functions(elf):
            order = (0 if size else 1, rank, name)
            if start not in best or order < best[start][0]:
                best[start] = (order, size, section_end)
        self._starts = sorted(best)
        self._rows: List[Tuple[str, int]] = []
        for index, start in enumerate(self._starts):
            (_, _, name), size, section_end = best[start]
            following = self._starts[index + 1] if index + 1 < len(self._starts) else section_end
            self._rows.append((name, start + size if size else min(following, section_end)))

    def __len__(self) -> int:
        return len(self._starts)

    def find(self, address: int) -> Optional[str]:
        """The function that contains the address."""
        index = bisect_right(self._starts, address) - 1
        for candidate in range(index, max(index - _MOST_NESTED, -1), -1):
            name, end = self._rows[candidate]
            if address < end:
                return name
        return None


def _functions(elf: ELFFile) -> Iterator[Tuple[str, int, int, int, int]]:
    """Name, start, size, rank of its binding and end of its section. Read at once: a symbol at a time takes seconds."""
    sections = [(section["sh_addr"], section["sh_size"], section["sh_flags"]) for section in elf.iter_sections()]
    order = "<" if elf.little_endian else ">"
    for name in (".symtab", ".dynsym"):
        table: Any = elf.get_section_by_name(name)
        if table is None or table["sh_type"] == "SHT_NOBITS":
            continue
        strings = elf.get_section(table["sh_link"]).data()
        for text, info, section, start, size in _entries(table.data(), elf.elfclass, order):
            if section == _UNDEFINED or section >= _FIRST_RESERVED or section >= len(sections):
                continue
            kind = info & 15
            begin, length, flags = sections[section]
            if kind not in (_STT_FUNC, _STT_IFUNC) and (kind != _STT_NOTYPE or not flags & _SHF_EXECINSTR):
                continue
            found = strings[text : strings.find(b"\0", text)].decode("utf-8", "replace")
            if found and not found.startswith(("$", ".L")):
                yield found, start, size, _BINDING_RANK.get(info >> 4, 3), begin + length


def _entries(data: bytes, bits: int, order: str) -> Iterator[Tuple[int, int, int, int, int]]:
    """Name, info, section, value and size of each entry."""
    entry = struct.Struct(order + ("IBBHQQ" if bits == 64 else "IIIBBH"))
    whole = data[: len(data) - len(data) % entry.size]
    for row in entry.iter_unpack(whole):
        if bits == 64:
            yield row[0], row[1], row[3], row[4], row[5]
        else:
            yield row[0], row[3], row[5], row[1], row[2]
