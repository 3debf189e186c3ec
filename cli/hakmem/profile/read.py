"""Reads pprof files: gzipped or plain, of the library or of other writers.

A bad file gives one line with the reason.
"""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any, Dict, List, Tuple

from hakmem import bounded
from hakmem.errors import Failure
from hakmem.profile.model import Frame, Label, Location, Mapping, Profile, Sample
from hakmem.profile.schema import profile_class

_GZIP = b"\x1f\x8b"
# Profiles of the library are at most tens of MiB. A file that unpacks to more than this is no profile.
MOST_BYTES = 1 << 30


def read(path: str) -> Profile:
    """The profile in a file."""
    return parse(bounded.read_file(path, MOST_BYTES), path)


def parse(data: bytes, name: str) -> Profile:
    """The profile in these bytes; `name` is for messages."""
    if not data:
        raise Failure(f"{name} is empty: no profile was written to it")
    content = _unpacked(data, name) if data.startswith(_GZIP) else data
    message = _message(content, name)
    try:
        return _Reader(message, name).profile()
    except (KeyError, IndexError) as error:
        raise Failure(f"{name} is damaged: it refers to {error}, which it does not contain") from None


def _unpacked(data: bytes, name: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            content = bounded.read(stream, MOST_BYTES + 1)
    except EOFError:
        raise Failure(
            f"{name} is cut off: its gzip stream has no end after {len(data):,} bytes. Was the disk full, or is it "
            "still being written?"
        ) from None
    except (OSError, zlib.error) as error:
        raise Failure(f"{name} is damaged: its gzip stream cannot be unpacked ({error})") from None
    if len(content) > MOST_BYTES:
        raise Failure(f"{name} is no profile: it unpacks to more than {MOST_BYTES >> 20:,} MiB")
    return content


def _message(content: bytes, name: str) -> Any:
    start = content[:64].lstrip()
    if start.startswith(b"{"):
        raise Failure(f"{name} is JSON, no pprof profile (hakmem diff compares two statistics snapshots)")
    if start.startswith((b"heap profile:", b"heap_v2/")):
        raise Failure(f"{name} is a heap profile in the text form of other allocators, no pprof profile.proto")
    message = profile_class()()
    from google.protobuf.message import DecodeError

    try:
        message.ParseFromString(content)
    except DecodeError:
        raise Failure(f"{name} is no pprof profile, or damaged: it cannot be decoded as profile.proto") from None
    if not message.sample_type or not message.string_table or message.string_table[0] != b"":
        raise Failure(f"{name} is no pprof profile: it has no sample types or no string table")
    return message


class _Reader:
    """Turns numbers into objects. A missing one raises a KeyError or an IndexError with its description."""

    def __init__(self, message: Any, name: str) -> None:
        self.message = message
        self.name = name
        # Decoded as paths: bytes that are no UTF-8 come back unchanged when the file is opened.
        self.strings: List[str] = [text.decode("utf-8", "surrogateescape") for text in message.string_table]
        self.mappings: Dict[int, Mapping] = {one.id: self._mapping(one) for one in message.mapping}
        self.functions: Dict[int, Any] = {one.id: one for one in message.function}
        self.locations: Dict[int, Location] = {one.id: self._location(one) for one in message.location}

    def profile(self) -> Profile:
        """All of it."""
        message = self.message
        types = [self._type(one) for one in message.sample_type]
        return Profile(
            sample_types=types,
            samples=[self._sample(one, len(types)) for one in message.sample],
            mappings=list(self.mappings.values()),
            locations=list(self.locations.values()),
            period_type=self._type(message.period_type),
            period=message.period,
            time_nanos=message.time_nanos,
            duration_nanos=message.duration_nanos,
            comments=[self._string(index) for index in message.comment],
            default_sample_type=self._string(message.default_sample_type),
            drop_frames=self._string(message.drop_frames),
            keep_frames=self._string(message.keep_frames),
            name=self.name,
        )

    def _string(self, index: int) -> str:
        if not 0 <= index < len(self.strings):
            raise IndexError(f"string {index}")
        return self.strings[index]

    def _type(self, one: Any) -> Tuple[str, str]:
        return self._string(one.type), self._string(one.unit)

    def _mapping(self, one: Any) -> Mapping:
        return Mapping(
            one.memory_start, one.memory_limit, one.file_offset, self._string(one.filename), self._string(one.build_id),
            one.has_functions, one.has_filenames, one.has_line_numbers, one.has_inline_frames,
        )  # fmt: skip

    def _location(self, one: Any) -> Location:
        mapping = _find(self.mappings, one.mapping_id, "mapping") if one.mapping_id else None
        return Location(one.address, mapping, [self._frame(line) for line in one.line])

    def _frame(self, line: Any) -> Frame:
        function = _find(self.functions, line.function_id, "function")
        return Frame(
            self._string(function.name), self._string(function.system_name), self._string(function.filename), line.line
        )

    def _sample(self, one: Any, types: int) -> Sample:
        if len(one.value) != types:
            raise Failure(
                f"{self.name} is damaged: a sample has {len(one.value)} values, and there are {types} sample types"
            )
        locations = tuple(_find(self.locations, index, "location") for index in one.location_id)
        return Sample(locations, tuple(one.value), tuple(self._label(label) for label in one.label))

    def _label(self, one: Any) -> Label:
        return Label(self._string(one.key), self._string(one.str), one.num, self._string(one.num_unit))


def _find(table: Dict[int, Any], index: int, kind: str) -> Any:
    if index not in table:
        raise IndexError(f"{kind} {index}")
    return table[index]
