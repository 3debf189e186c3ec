"""Stacks in the library's JSON answers (`profile sites`, `leaks`): return addresses, and the mappings."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from hakmem.profile.model import Location, Mapping


class AnswerStacks:
    """The stacks of one answer. Any exception means that the answer is damaged."""

    def __init__(self, mappings: Sequence[Dict[str, Any]]) -> None:
        self.mappings = [_mapping(one) for one in mappings]
        self._locations: Dict[int, Location] = {}

    @property
    def locations(self) -> List[Location]:
        """The locations of all requested stacks."""
        return list(self._locations.values())

    def stack(self, frames: Sequence[str]) -> Tuple[Location, ...]:
        """The call stands before the address that it returns to."""
        return tuple(self._location(int(text, 16) - 1) for text in frames)

    def _location(self, address: int) -> Location:
        if address not in self._locations:
            mapping = next((one for one in self.mappings if one.start <= address < one.limit), None)
            self._locations[address] = Location(address, mapping)
        return self._locations[address]


def _mapping(raw: Dict[str, Any]) -> Mapping:
    start, end, offset = (int(str(raw[name]), 0) for name in ("start", "end", "offset"))
    return Mapping(start, end, offset, str(raw["path"]), str(raw.get("build_id") or ""))
