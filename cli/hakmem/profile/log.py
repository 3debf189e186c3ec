"""Names for the addresses in the reports of guards and crashes: `path+0x…`."""

from __future__ import annotations

import json
import re
from typing import Dict, List, Optional, Sequence, Tuple

from hakmem.profile.debug_files import DEBUG_FOLDERS, Search, files_of
from hakmem.profile.model import Frame, Location, Mapping, Profile
from hakmem.profile.module import ElfModule, Unreadable
from hakmem.profile.symbolize import Symbolizer

# `#3 0x7f12 /usr/lib/libc.so.6+0x27249` of a text, `"module":"/usr/lib/libc.so.6","offset":"0x27249"` of JSON. A path
# may have any characters, so the offset is what the line ends with.
_IN_TEXT = re.compile(r"#\d+ 0x[0-9a-f]+ (?P<path>/.*)\+0x(?P<offset>[0-9a-f]+)\s*$")
_IN_JSON = re.compile(r'"module":"(?P<path>/(?:[^"\\]|\\.)*)","offset":"0x(?P<offset>[0-9a-f]+)"')
_WHOLE = 1 << 64

Place = Tuple[str, int]


# The library's escapes: a backslash and each byte that is no printable UTF-8 in a text (`hk_format_name`), and of JSON
# those bytes that are no ASCII (`hk_form_json_quote`).
_TEXT_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|\\)")
_JSON_ESCAPE = re.compile(r"\\(?:u00([89a-f][0-9a-f])|.)")


def _byte(digits: str) -> str:
    """The byte as os.fsdecode has it."""
    value = int(digits, 16)
    return chr(value) if value < 0x80 else chr(0xDC00 + value)


def _joined(text: str) -> str:
    """The path, where single bytes may be parts of a character."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _path_in_text(text: str) -> str:
    return _joined(_TEXT_ESCAPE.sub(lambda match: _byte(match[1]) if match[1] else "\\", text))


def _path_in_json(text: str) -> str:
    """Another program's log may have anything."""
    try:
        with_bytes = _JSON_ESCAPE.sub(lambda match: _byte(match[1]) if match[1] else match[0], text)
        return _joined(str(json.loads(f'"{with_bytes}"')))
    except ValueError:
        return text


def _places(line: str) -> List[Place]:
    """The places of a line: files, and the distances from their first bytes in memory."""
    match = _IN_TEXT.search(line)
    if match is not None:
        return [(_path_in_text(match["path"]), int(match["offset"], 16))]
    return [(_path_in_json(match["path"]), int(match["offset"], 16)) for match in _IN_JSON.finditer(line)]


def _offset_in_file(path: str, roots: Sequence[str], distance: int) -> Optional[int]:
    """Where the byte lies in the file that is `distance` behind the file's first one in memory."""
    for name in (root + one.path for one in files_of(path) for root in roots):
        try:
            module = ElfModule(name)
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
        symbolizer.symbolize(profile)
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
