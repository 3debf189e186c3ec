"""The tool's own stdout and stderr.

A stdout that cannot be written ends the command with one line and an exit code, and stderr never fails. Names of files
are written as the bytes that they are, in any encoding."""

from __future__ import annotations

import errno
import io
import os
import sys
from codecs import register_error
from typing import Any, Optional, TextIO, Tuple

_STDOUT = 1
_STDERR = 2
_AS_BYTES = "hakmem-as-bytes"
_FIRST_ESCAPE, _LAST_ESCAPE = 0xDC80, 0xDCFF


class OutputLost(BaseException):
    """Stdout cannot be written. No `except OSError` or `except Exception` may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.errno = number

    @property
    def message(self) -> str:
        """For stderr."""
        reason = "it is closed" if self.errno == errno.EBADF else os.strerror(self.errno)
        return f"cannot write to standard output: {reason}"


class _Raw(io.RawIOBase):
    """A descriptor. After the first failure it takes everything and writes nothing, so that no buffer fails at exit."""

    def __init__(self, descriptor: int, raises: bool) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._raises = raises
        self._lost = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        try:
            return os.isatty(self._descriptor)
        except OSError:
            return False

    def write(self, data: Any) -> int:
        if self._lost:
            return len(data)
        try:
            return os.write(self._descriptor, data)
        except OSError as error:
            self._lost = True
            if self._raises:
                raise OutputLost(error.errno or errno.EIO) from None
            return len(data)


def guard() -> None:
    """Replaces sys.stdout and sys.stderr. A stream that was closed at the start exists too, and fails on use."""
    register_error(_AS_BYTES, _as_bytes)
    sys.stdout = _stream(sys.stdout, _Raw(_STDOUT, raises=True))
    sys.stderr = _stream(sys.stderr, _Raw(_STDERR, raises=False), line_buffering=True)


def _stream(old: Optional[TextIO], raw: _Raw, line_buffering: bool = False) -> TextIO:
    if old is None:
        raw = _Closed(raw.fileno(), raises=raw.fileno() == _STDOUT)
    encoding = old.encoding if old is not None else "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, _AS_BYTES, line_buffering=line_buffering or raw.isatty()
    )  # fmt: skip


class _Closed(_Raw):
    """A stream that was closed at the start. Its number may be another file's by now."""

    def isatty(self) -> bool:
        return False

    def write(self, data: Any) -> int:
        if self._raises and not self._lost:
            self._lost = True
            raise OutputLost(errno.EBADF)
        return len(data)


def _as_bytes(error: UnicodeError) -> Tuple[bytes, int]:
    """Escaped bytes of a file's name as themselves; other characters that the encoding lacks as question marks."""
    assert isinstance(error, UnicodeEncodeError)
    found = [ord(one) for one in error.object[error.start : error.end]]
    return bytes(one - 0xDC00 if _FIRST_ESCAPE <= one <= _LAST_ESCAPE else ord("?") for one in found), error.end
