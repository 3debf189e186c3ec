"""Reads of files that may have no end, such as a device."""

from __future__ import annotations

from io import BufferedIOBase
from typing import IO, List, Union

_PIECE = 1 << 20


def read(file: Union[IO[bytes], BufferedIOBase], most: int) -> bytes:
    """At most that number of bytes. A single read of them would take their memory for a small file too."""
    pieces: List[bytes] = []
    while most > 0 and (piece := file.read(min(most, _PIECE))):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)
