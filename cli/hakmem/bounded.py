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


def read_whole(file: Union[IO[bytes], BufferedIOBase], name: str, most: int, advice: str = "") -> bytes:
    """Returns the whole content. One of more than `most` bytes is a Failure; its message ends with the advice."""
    content = read(file, most + 1)
    if len(content) > most:
        raise Failure(f"{name} is larger than {most >> 20:,} MiB{advice}")
    return content


def read_file(path: str, most: int, advice: str = "") -> bytes:
    """Returns the whole content of a file that the user names, as read_whole does."""
    try:
        with open(path, "rb") as file:
            return read_whole(file, path, most, advice)
    except OSError as error:
        raise cannot_read(path, error) from None
