"""A mapped ELF file for symbolizing: its build ID, segments, symbols and debug information."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, BinaryIO, Callable, List, Optional, Tuple, Union

from elftools.elf.elffile import ELFFile

from hakmem.profile.symbols import SymbolTable
from hakmem.regular_file import open_regular

_PF_X = 1
_PAGE = 4096


class Unreadable(Exception):
    """Not an ELF file, or a damaged one."""


@dataclass(frozen=True)
class Segment:
    """A PT_LOAD."""

    offset: int
    file_bytes: int
    address: int
    memory_bytes: int
    executable: bool


class ElfModule:
    """One file, open until `close`."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.elf = ELFFile(open_regular(path), _loader(path))
            self.build_id = _build_id(self.elf)
            self.segments = _segments(self.elf)
        except OSError as error:
            raise Unreadable(error.strerror) from None
        except Exception:  # pyelftools raises any exception for a damaged file
            raise Unreadable("it is not a whole ELF file") from None
        self.modified_nanos = os.fstat(self.elf.stream.fileno()).st_mtime_ns

    def close(self) -> None:
        """Give the descriptor back."""
        self.elf.close()

    def address_of(self, offset: int) -> Optional[int]:
        """The address that the file gives to the byte at this offset; an executable segment comes before one that
        shares its page."""
        for segment in sorted(self.segments, key=lambda one: not one.executable):
            if segment.offset <= offset < segment.offset + segment.file_bytes:
                return offset - segment.offset + segment.address
        return None

    def address_by_page(self, mapping_offset: int, into: int) -> Optional[int]:
        """The same for a file of debug information alone, which has the segments' addresses and none of their bytes:
        `into` bytes behind the page where the one executable segment begins."""
        executable = [segment for segment in self.segments if segment.executable]
        if len(executable) != 1:
            return None
        segment = executable[0]
        begin = segment.address - segment.address % _PAGE
        # The start of the mapping must be the start of the segment: their offsets in the page of memory agree.
        if mapping_offset % _PAGE or into >= segment.memory_bytes + _PAGE:
            return None
        return begin + into

    def symbols(self) -> SymbolTable:
        """Its functions."""
        return SymbolTable(self.elf)

    def has_dwarf(self) -> bool:
        """Whether it has debug information of its own."""
        return any(self.elf.get_section_by_name(name) is not None for name in (".debug_info", ".zdebug_info"))

    def debug_link(self) -> Optional[Tuple[str, int]]:
        """The name and checksum of its separate debug file, where it names one."""
        section: Any = self.elf.get_section_by_name(".gnu_debuglink")
        if section is None:
            return None
        data = section.data()
        name = data.split(b"\0", 1)[0]
        place = len(name) // 4 * 4 + 4
        order = "little" if self.elf.little_endian else "big"
        return os.fsdecode(name), int.from_bytes(data[place : place + 4], order)  # type: ignore[arg-type,unused-ignore]


def _loader(path: str) -> Callable[[Union[str, bytes]], BinaryIO]:
    """Opens the files that it names for more debug information, below the file's own folder."""
    folder = os.path.realpath(os.path.dirname(path))

    def load(name: Union[str, bytes]) -> BinaryIO:
        target = os.path.realpath(os.path.join(folder, os.fsdecode(name)))
        if os.path.commonpath([folder, target]) != folder:
            raise Unreadable(f"{target} is outside of its folder")
        return open_regular(target)

    return load


def _segments(elf: ELFFile) -> List[Segment]:
    return [
        Segment(one["p_offset"], one["p_filesz"], one["p_vaddr"], one["p_memsz"], bool(one["p_flags"] & _PF_X))
        for one in elf.iter_segments("PT_LOAD")
    ]


def _build_id(elf: ELFFile) -> str:
    """Lower-case hexadecimal, empty when there is none."""
    holders: List[Any] = [*elf.iter_sections("SHT_NOTE"), *elf.iter_segments("PT_NOTE")]
    for holder in holders:
        for note in holder.iter_notes():
            if note["n_type"] == "NT_GNU_BUILD_ID" and note["n_name"] == "GNU":
                return str(note["n_desc"]).lower()
    return ""
