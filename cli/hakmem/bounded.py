"""Reads of files that may have no end, such as a device."""

from __future__ import annotations

from io import BufferedIOBase, BytesIO
from typing import IO, Union

from hakmem.errors import Failure, cannot_read

_PIECE = 1 << 20


def read(file: Union[IO[bytes], BufferedIOBase], most: int) -> bytes:
    """Reads at most `most` bytes, in pieces: a single read would allocate `most` bytes for a small file too."""
    content = BytesIO()
    while most > 0 and (piece := file.read(min(most, _PIECE))):
        content.write(piece)
        most -= len(piece)
    return content.getvalue()


def read_file(path: str, most: int) -> bytes:
    """Returns the content of a file that the user names. A larger one is a Failure."""
    try:
        with open(path, "rb") as file:
            content = read(file, most + 1)
    except OSError as error:
        raise cannot_read(path, error) from None
    if len(content) > most:
        raise Failure(f"{path} is larger than {most >> 20:,} MiB")
    return content
