"""Traces of a program's bytes in use over time, for `hakmem learn replay`. docs/learning.md has the format."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, List, Sequence, Tuple

from hakmem import bounded
from hakmem.errors import Failure

MAGIC = b"hkLEVEL\n"
VERSION = 1
UNIT_BYTES = 65536  # the unit of hakmem's own traces: a slab
MAX_IN_USE_BYTES = 1 << 47
MAX_TIME_MS = 1 << 40
_HEADER = struct.Struct("<8sHHIQI")  # magic, version, header's bytes, unit, price, checksum of the fields before it
_CHUNK = struct.Struct("<III")  # payload's bytes, points, checksum of these two and of the payload
_LARGEST_PAYLOAD = 1 << 24
_CHUNK_POINTS = 4096
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Trace:
    """The bytes in use from each time on. `price` is the price of a MiB-second at the recording, in ns of
    CPU time; 0 where it is unknown."""

    name: str
    times_ms: Sequence[int]
    in_use_bytes: Sequence[int]
    price: int = 0

    def duration_ms(self) -> int:
        """From the first point to the last."""
        return self.times_ms[-1] - self.times_ms[0] if self.times_ms else 0


def write(path: Path, points: Iterable[Tuple[int, int]], unit_bytes: int = UNIT_BYTES, price: int = 0) -> None:
    """Points are (time in ms, bytes in use); bytes are rounded up to whole units."""
    start = struct.pack("<8sHHIQ", MAGIC, VERSION, _HEADER.size, unit_bytes, price)
    content = [start, struct.pack("<I", zlib.crc32(start))]
    all_points = list(points)
    last_time, last_units = (all_points[0][0], 0) if all_points else (0, 0)
    for at in range(0, len(all_points), _CHUNK_POINTS):
        part = all_points[at : at + _CHUNK_POINTS]
        payload = bytearray()
        for time_ms, in_use in part:
            units = -(-in_use // unit_bytes)
            _put(payload, time_ms - last_time)
            change = units - last_units
            _put(payload, change * 2 if change >= 0 else -change * 2 - 1)
            last_time, last_units = time_ms, units
        sizes = struct.pack("<II", len(payload), len(part))
        content += [sizes, struct.pack("<I", zlib.crc32(sizes + payload)), bytes(payload)]
    path.write_bytes(b"".join(content))


def _put(payload: bytearray, value: int) -> None:
    """Seven bits a byte, the lowest first; the eighth bit says that more follow."""
    assert value >= 0, "times rise"
    while value >= 0x80:
        payload.append(value & 0x7F | 0x80)
        value >>= 7
    payload.append(value)


def read(name: str) -> Trace:
    """The trace in the file of this name; a Failure says at which byte it is damaged."""
    return _Reader(name, bounded.read_file(name, _MOST_BYTES)).trace()


class _Reader:
    """Reads one file from its beginning to its end."""

    def __init__(self, name: str, data: bytes) -> None:
        self._name = name
        self._data = data
        self._at = 0
        self._time_ms = 0
        self._units = 0
        self._unit_bytes = 0
        self._times: List[int] = []
        self._in_use: List[int] = []

    def trace(self) -> Trace:
        """All of it."""
        price = self._header()
        while self._at < len(self._data):
            self._chunk()
        return Trace(self._name, self._times, self._in_use, price)

    def _fail(self, offset: int, what: str) -> Failure:
        return Failure(f"{self._name} is damaged at byte {offset}: {what}")

    def _header(self) -> int:
        if len(self._data) < _HEADER.size or not self._data.startswith(MAGIC):
            raise Failure(f"{self._name} is no trace of bytes in use: its first bytes are others")
        _, version, header_bytes, unit_bytes, price, checksum = _HEADER.unpack_from(self._data)
        if version != VERSION:
            raise Failure(f"{self._name} has version {version} of the format; this tool knows version {VERSION}")
        if checksum != zlib.crc32(self._data[: _HEADER.size - 4]):
            raise self._fail(_HEADER.size - 4, "the header's checksum is wrong")
        if header_bytes != _HEADER.size or unit_bytes == 0:
            raise self._fail(8, "the header makes no sense")
        self._at, self._unit_bytes = header_bytes, unit_bytes
        return int(price)

    def _chunk(self) -> None:
        start = self._at
        if len(self._data) - start < _CHUNK.size:
            raise self._fail(start, f"it ends within the {_CHUNK.size} bytes that begin a chunk")
        payload_bytes, points, checksum = _CHUNK.unpack_from(self._data, start)
        end = start + _CHUNK.size + payload_bytes
        if payload_bytes > _LARGEST_PAYLOAD:
            raise self._fail(start, f"a chunk of {payload_bytes} bytes")
        if end > len(self._data):
            raise self._fail(
                start, f"the chunk that begins here lacks {end - len(self._data)} of its {payload_bytes} bytes"
            )
        self._at = start + _CHUNK.size
        if checksum != zlib.crc32(self._data[start : start + 8] + self._data[self._at : end]):
            raise self._fail(start, "the checksum of the chunk that begins here is wrong")
        for _ in range(points):
            self._point(end)
        if self._at != end:
            raise self._fail(self._at, f"{end - self._at} bytes behind the chunk's last point")

    def _point(self, end: int) -> None:
        start = self._at
        self._time_ms += self._number(end)
        change = self._number(end)
        self._units += -(change + 1) // 2 if change & 1 else change // 2
        in_use = self._units * self._unit_bytes
        if not 0 <= in_use <= MAX_IN_USE_BYTES:
            raise self._fail(start, f"{in_use} bytes in use")
        if self._time_ms > MAX_TIME_MS:
            raise self._fail(start, f"a time of {self._time_ms} ms")
        self._times.append(self._time_ms)
        self._in_use.append(in_use)

    def _number(self, end: int) -> int:
        start, value, shift = self._at, 0, 0
        while self._at < end and shift < 64:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        raise self._fail(start, "a number that does not end")
