"""Range lists of DWARF: .debug_ranges up to version 4, .debug_rnglists from version 5 on, and .debug_addr."""

from __future__ import annotations

from typing import Callable, Iterator, Tuple

Range = Tuple[int, int]
_END, _BASE_INDEX, _START_END_INDEX, _START_LENGTH_INDEX, _OFFSET_PAIR, _BASE, _START_END, _START_LENGTH = range(8)


class Ranges:
    """Over the sections' bytes, which are empty where there are none. Little-endian, as x86-64 and arm64 are."""

    def __init__(self, ranges: bytes, lists: bytes, addresses: bytes, address_bytes: int) -> None:
        self._ranges = ranges
        self._lists = lists
        self._addresses = addresses
        self._bytes = address_bytes

    def address(self, offset: int) -> int:
        """An entry of .debug_addr."""
        return self._number(self._addresses, offset, self._bytes)

    def read(
        self, version: int, form: str, value: int, lists_base: int, base: int, by_index: Callable[[int], int]
    ) -> Iterator[Range]:
        """The list that an attribute means. Ranges of code that the linker threw away begin at 0, and are left out."""
        if version < 5:
            found = self._old(value, base)
        else:
            if form == "DW_FORM_rnglistx":
                value = lists_base + self._number(self._lists, lists_base + 4 * value, 4)
            found = self._new(value, base, by_index)
        return ((begin, end) for begin, end in found if 0 < begin < end)

    def _old(self, offset: int, base: int) -> Iterator[Range]:
        size = self._bytes
        largest = (1 << 8 * size) - 1
        while offset + 2 * size <= len(self._ranges):
            begin = self._number(self._ranges, offset, size)
            end = self._number(self._ranges, offset + size, size)
            offset += 2 * size
            if begin == largest:
                base = end
            elif begin == end == 0:
                return
            else:
                yield base + begin, base + end

    def _new(self, offset: int, base: int, by_index: Callable[[int], int]) -> Iterator[Range]:
        data, size = self._lists, self._bytes
        while offset < len(data):
            kind = data[offset]
            offset += 1
            if kind == _END:
                return
            if kind in (_BASE, _START_END, _START_LENGTH):
                begin, offset = self._number(data, offset, size), offset + size
            else:
                begin, offset = uleb(data, offset)
            if kind == _BASE:
                base = begin
                continue
            if kind == _BASE_INDEX:
                base = by_index(begin)
                continue
            if kind == _START_END:
                end, offset = self._number(data, offset, size), offset + size
            else:
                end, offset = uleb(data, offset)
            if kind == _OFFSET_PAIR:
                yield base + begin, base + end
            elif kind == _START_END:
                yield begin, end
            elif kind == _START_LENGTH:
                yield begin, begin + end
            elif kind == _START_END_INDEX:
                yield by_index(begin), by_index(end)
            elif kind == _START_LENGTH_INDEX:
                yield by_index(begin), by_index(begin) + end
            else:
                raise ValueError(f"a range list has an entry of kind {kind}")

    @staticmethod
    def _number(data: bytes, offset: int, size: int) -> int:
        if offset + size > len(data):
            raise IndexError("a range list or an address ends behind its section")
        return int.from_bytes(data[offset : offset + size], "little")


def uleb(data: bytes, position: int) -> Tuple[int, int]:
    """An unsigned LEB128 number, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
