"""The debug information of one file: the functions of addresses, inlined ones too, with files and lines.

Many addresses are looked up at once: each unit that has one of them is read once, and no other.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from elftools.elf.elffile import ELFFile

from hakmem.profile.dwarf_lines import LineTable
from hakmem.profile.dwarf_ranges import Ranges
from hakmem.profile.dwarf_unit import Call, Unit

_MOST_REFERENCES = 8
_NAMES = ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name", "DW_AT_name")


class Place(NamedTuple):
    """A function as the debug information names it, mangled where it has such a name (empty: unknown), and a line in
    it."""

    name: str
    file: str
    line: int


class DebugInfo:
    """`complaint` names the unreadable part, for a note to the user."""

    def __init__(self, elf: ELFFile) -> None:
        self.complaint = ""
        try:
            self._dwarf: Any = elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=True)
        except Exception:  # a missing or damaged supplementary file
            self._dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        self._data = _content(self._dwarf.debug_info_sec)
        self._ranges = Ranges(
            _content(self._dwarf.debug_ranges_sec),
            _content(getattr(self._dwarf, "debug_rnglists_sec", None)),
            _content(getattr(self._dwarf, "debug_addr_sec", None)),
            elf.elfclass // 8,
        )
        self._names: Dict[int, str] = {}

    def places(self, addresses: Iterable[int]) -> Dict[int, List[Place]]:
        """The functions at each address, the innermost inlined one first. Unknown addresses are missing."""
        found: Dict[int, List[Place]] = {}
        for unit, wanted in self._by_unit(sorted(set(addresses))):
            try:
                found.update(self._in_unit(unit, wanted))
            except Exception as error:  # pyelftools raises any exception for damaged debug information
                self.complaint = f"a part of its debug information cannot be read ({type(error).__name__}: {error})"
        return found

    def _by_unit(self, addresses: Sequence[int]) -> List[Tuple[Any, List[int]]]:
        """Units by .debug_aranges, then by their own ranges: not every compiler writes the former."""
        rest = list(addresses)
        units: Dict[int, Tuple[Any, List[int]]] = {}
        seen: Set[int] = set()
        try:
            rest = self._by_table(rest, units, seen)
            if rest:
                self._by_search(rest, units, seen)
        except Exception as error:  # as above
            self.complaint = f"its list of units cannot be read ({type(error).__name__}: {error})"
        return [(unit, sorted(wanted)) for unit, wanted in units.values()]

    def _by_table(self, addresses: List[int], units: Dict[int, Tuple[Any, List[int]]], seen: Set[int]) -> List[int]:
        table = self._dwarf.get_aranges()
        if table is None:
            return addresses
        entries = sorted((one.begin_addr, one.length, one.info_offset) for one in table.entries if one.begin_addr)
        starts = [begin for begin, _, _ in entries]
        seen.update(offset for _, _, offset in entries)
        rest: List[int] = []
        for address in addresses:
            index = bisect_right(starts, address) - 1
            if index < 0 or address >= entries[index][0] + entries[index][1]:
                rest.append(address)
                continue
            offset = entries[index][2]
            if offset not in units:
                units[offset] = (self._dwarf.get_CU_at(offset), [])
            units[offset][1].append(address)
        return rest

    def _by_search(self, addresses: List[int], units: Dict[int, Tuple[Any, List[int]]], seen: Set[int]) -> None:
        rest = set(addresses)
        for unit in self._dwarf.iter_CUs():
            if unit.cu_offset in seen or not rest:
                continue
            covered = Unit(unit, self._data, self._ranges).covered()
            wanted = [address for address in rest if any(begin <= address < end for begin, end in covered)]
            if wanted:
                units[unit.cu_offset] = (unit, wanted)
                rest.difference_update(wanted)

    def _in_unit(self, unit: Any, addresses: List[int]) -> Dict[int, List[Place]]:
        table = LineTable(self._dwarf, unit)
        lines = table.find(addresses)
        calls = Unit(unit, self._data, self._ranges).calls(addresses)
        found: Dict[int, List[Place]] = {}
        for address in addresses:
            if address in calls or address in lines:
                found[address] = self._places(calls.get(address, []), *lines.get(address, ("", 0)), table)
        return found

    def _places(self, calls: List[Call], file: str, line: int, table: LineTable) -> List[Place]:
        if not calls:
            return [Place("", file, line)]
        places: List[Place] = []
        for call in reversed(calls):
            places.append(Place(self._name(call.entry), file, line))
            file, line = table.file(call.file), call.line
        return places

    def _name(self, entry: int) -> str:
        if entry not in self._names:
            self._names[entry] = self._read_name(self._dwarf.get_DIE_from_refaddr(entry))
        return self._names[entry]

    @staticmethod
    def _read_name(die: Any) -> str:
        """The mangled name, else the plain one, of the function, its abstract origin, or its declaration."""
        plain: Optional[str] = None
        for _ in range(_MOST_REFERENCES):
            for attribute in _NAMES:
                if attribute in die.attributes:
                    text = str(die.attributes[attribute].value.decode("utf-8", "replace"))
                    if attribute != "DW_AT_name":
                        return text
                    plain = plain or text
            onward = next((a for a in ("DW_AT_abstract_origin", "DW_AT_specification") if a in die.attributes), None)
            if onward is None:
                break
            die = die.get_DIE_from_attribute(onward)
        return plain or ""


def _content(section: Any) -> bytes:
    if section is None:
        return b""
    section.stream.seek(0)
    return bytes(section.stream.read())
