"""The functions and inlined calls of one DWARF unit that contain certain addresses."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from hakmem.profile.dwarf_plan import (
    BLOCK,
    BLOCK1,
    BLOCK2,
    BLOCK4,
    FUNCTION,
    INLINED,
    OTHER,
    STRING,
    ULEB,
    Field,
    Plan,
    Plans,
)
from hakmem.profile.dwarf_ranges import Range, Ranges, uleb

_Values = Dict[str, Tuple[str, int]]


@dataclass(frozen=True)
class Call:
    """A function, or an inlined call of one: the place of its entry, and the place of the call."""

    entry: int
    file: int = 0
    line: int = 0


class Unit:
    """One unit. `data` is all of .debug_info."""

    def __init__(self, unit: Any, data: bytes, ranges: Ranges) -> None:
        self.unit = unit
        self.version: int = unit["version"]
        self._data = data
        self._ranges = ranges
        self._address_bytes: int = unit["address_size"]
        self._plans = Plans(unit)
        self._first: int = unit.cu_die_offset
        self._end: int = unit.cu_offset + unit["unit_length"] + (12 if unit.dwarf_format() == 64 else 4)
        position = self._first
        code, position = uleb(data, position)
        self._top, _ = self._read(self._plans[code], position)
        low = self._top.get("low_pc")
        self._base = self._address(*low) if low else 0

    def covered(self) -> List[Range]:
        """The addresses of its code, as its top entry has them."""
        return list(self._covers(self._top))

    def calls(self, addresses: Sequence[int]) -> Dict[int, List[Call]]:
        """For each address (sorted) that a function contains: that function and the calls inlined there, the outermost
        first."""
        data, plans = self._data, self._plans
        found: Dict[int, List[Call]] = {}
        position, depth = self._first, 0
        inside = 0  # the depth of the last function that has one of the addresses
        dull = 0  # the depth of a function without one, while the walk is in it; 0: in none
        while position < self._end:
            entry = position
            code, position = uleb(data, position) if data[position] >= 0x80 else (data[position], position + 1)
            if code == 0:
                depth -= 1
                dull = dull if depth > dull else 0
                if depth <= 0 or (depth <= inside and len(found) == len(addresses)):
                    break
                continue
            plan = plans[code]
            if dull or (plan.kind == OTHER and not plan.jumps):
                position = _skip(data, position, plan.skip)
                depth += plan.has_children
                continue
            values, position = self._read(plan, position)
            wanted = self._within(values, addresses) if plan.kind in (FUNCTION, INLINED) else []
            self._note(found, wanted, plan, entry, values)
            if not plan.has_children:
                continue
            is_empty = plan.kind == FUNCTION and not wanted and ("low_pc" in values or "ranges" in values)
            if "sibling" in values and (plan.jumps or is_empty):
                position = self._sibling(values)
                continue
            if is_empty:
                dull = depth
            elif plan.kind == FUNCTION and wanted:
                inside = depth
            depth += 1
        return found

    def _sibling(self, values: _Values) -> int:
        form, value = values["sibling"]
        return value if form == "DW_FORM_ref_addr" else value + int(self.unit.cu_offset)

    def _note(self, found: Dict[int, List[Call]], wanted: List[int], plan: Plan, entry: int, values: _Values) -> None:
        for address in wanted:
            if plan.kind == FUNCTION:
                found[address] = [Call(entry)]
            elif address in found:
                file, line = values.get("call_file", ("", 0))[1], values.get("call_line", ("", 0))[1]
                found[address].append(Call(entry, file, line))

    def _within(self, values: _Values, addresses: Sequence[int]) -> List[int]:
        wanted: List[int] = []
        for begin, end in self._covers(values):
            first = bisect_left(addresses, begin)
            while first < len(addresses) and addresses[first] < end:
                wanted.append(addresses[first])
                first += 1
        return wanted

    def _covers(self, values: _Values) -> Iterator[Range]:
        if "ranges" in values:
            form, value = values["ranges"]
            base = self._top.get("rnglists_base", ("", 0))[1]
            yield from self._ranges.read(self.version, form, value, base, self._base, self._address_of_index)
        elif "low_pc" in values and "high_pc" in values:
            low = self._address(*values["low_pc"])
            form, value = values["high_pc"]
            high = self._address(form, value) if _is_address(form) else low + value
            if low:  # 0: code that the linker threw away
                yield low, high

    def _address(self, form: str, value: int) -> int:
        return value if form == "DW_FORM_addr" else self._address_of_index(value)

    def _address_of_index(self, index: int) -> int:
        base = self._top.get("addr_base") or self._top.get("GNU_addr_base") or ("", 0)
        return self._ranges.address(base[1] + index * self._address_bytes)

    def _read(self, plan: Plan, position: int) -> Tuple[_Values, int]:
        values: _Values = {}
        data = self._data
        for steps, field in zip(plan.steps, plan.fields):
            position = _skip(data, position, steps)
            value, position = _value(data, position, field)
            values[field.name] = field.form, value
        return values, _skip(data, position, plan.steps[-1])


def _is_address(form: str) -> bool:
    return form == "DW_FORM_addr" or "addrx" in form or form == "DW_FORM_GNU_addr_index"


def _skip(data: bytes, position: int, steps: Tuple[int, ...]) -> int:
    for step in steps:
        if step >= 0:
            position += step
        elif step == ULEB:
            while data[position] >= 0x80:
                position += 1
            position += 1
        elif step == STRING:
            position = data.index(0, position) + 1
        elif step == BLOCK:
            length, position = uleb(data, position)
            position += length
        else:
            size = {BLOCK1: 1, BLOCK2: 2, BLOCK4: 4}[step]
            position += size + int.from_bytes(data[position : position + size], "little")
    return position


def _value(data: bytes, position: int, field: Field) -> Tuple[int, int]:
    if field.form == "DW_FORM_implicit_const":
        return field.constant, position
    if field.step > 0:
        return int.from_bytes(data[position : position + field.step], "little"), position + field.step
    if field.step == ULEB:
        return uleb(data, position)
    return 0, _skip(data, position, (field.step,))
