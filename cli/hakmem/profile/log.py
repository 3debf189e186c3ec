"""Names for the addresses in the reports of guards and crashes: `path+0x…`."""

from __future__ import annotations

import json
import re
from typing import Dict, List, Optional, Sequence, Tuple

from hakmem.profile.debug_files import DEBUG_FOLDERS, Search
from hakmem.profile.model import Frame, Location, Mapping, Profile
from hakmem.profile.module import ElfModule, Unreadable
from hakmem.profile.symbolize import Symbolizer

# `#3 0x7f12 /usr/lib/libc.so.6+0x27249` of a text, `"module":"/usr/lib/libc.so.6","offset":"0x27249"` of JSON.
_IN_TEXT = re.compile(r"#\d+ 0x[0-9a-f]+ (?P<path>/.*?)\+0x(?P<offset>[0-9a-f]+)(?=\s|$)")
_IN_JSON = re.compile(r'"module":"(?P<path>/(?:[^"\\]|\\.)*)","offset":"0x(?P<offset>[0-9a-f]+)"')
_WHOLE = 1 << 64

Place = Tuple[str, int]


def _path_in_json(text: str) -> str:
    """Another program's log may have anything."""
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def _places(line: str) -> List[Place]:
    """The places of a line: files, and the distances from their first bytes in memory."""
    in_text = [(match["path"], match) for match in _IN_TEXT.finditer(line)]
    in_json = [(_path_in_json(match["path"]), match) for match in _IN_JSON.finditer(line)]
    return [(path, int(match["offset"], 16)) for path, match in in_text + in_json]


def _offset_in_file(path: str, roots: Sequence[str], distance: int) -> Optional[int]:
    """Where the byte lies in the file that is `distance` behind the file's first one in memory."""
    for root in roots:
        try:
            module = ElfModule(root + path)
        except Unreadable:
            continue
        try:
            base = next((one.address - one.offset for one in module.segments if one.offset == 0), 0)
            for one in module.segments:
                if one.executable and one.address <= base + distance < one.address + one.memory_bytes:
                    return base + distance - one.address + one.offset
        finally:
            module.close()
    return None


def names_of(
    lines: Sequence[str], folders: Sequence[str], roots: Sequence[str] = ("",)
) -> Tuple[Dict[Place, List[Frame]], List[str]]:
    """The functions at each place of the lines, the innermost inlined one first, and notes about those without."""
    profile = Profile([], [], [], [])
    locations: Dict[Place, Location] = {}
    mappings: Dict[str, Mapping] = {}
    for line in lines:
        for place in _places(line):
            if place in locations:
                continue
            path, distance = place
            offset = _offset_in_file(path, roots, distance)
            mapping = mappings.setdefault(path, Mapping(0, _WHOLE, 0, path))
            locations[place] = Location(distance if offset is None else offset, mapping)
    profile.mappings.extend(mappings.values())
    profile.locations.extend(locations.values())
    with Symbolizer(Search(roots, (*folders, *DEBUG_FOLDERS))) as symbolizer:
        symbolizer.symbolise(profile)
        notes = list(symbolizer.notes.values())
    return {place: location.shown() for place, location in locations.items()}, notes


def _text(frame: Frame) -> str:
    return f"{frame.function} ({frame.file}:{frame.line})" if frame.file and frame.line else frame.function


def named(line: str, names: Dict[Place, List[Frame]]) -> List[str]:
    """The line with the names behind it. Each function that was inlined there has a line of its own."""
    found = [place for place in _places(line) if place in names]
    if len(found) != 1:
        return [line]
    first, *others = names[found[0]]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return [f"{line} {_text(first)}", *(f"{indent}inlined in {_text(other)}" for other in others)]
