"""The tool's own stdout and stderr.

A stdout that cannot be written ends the command with one line and an exit code, and stderr never fails; of a whole
result the command learns that stderr has lost it. Names of files are written as the bytes that they are, in any
encoding."""

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
        self.lost: Optional[int] = None  # the first failure's number
        self.has_result = False

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
        if self.lost is not None:
            return len(data)
        try:
            return self._write(data)
        except OSError as error:
            self.lost = error.errno or errno.EIO
            if self._raises:
                raise OutputLost(self.lost) from None
            return len(data)

    def _write(self, data: Any) -> int:
        return os.write(self._descriptor, data)


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

    def _write(self, data: Any) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def mark_result(stream: Optional[TextIO]) -> None:
    """A result is written to stderr, whose failures are silent otherwise."""
    raw = _raw_of(stream)
    if raw is not None:
        raw.has_result = True


def has_lost_result(stream: Optional[TextIO]) -> bool:
    """Whether such a result is lost. A reader that has gone has all that it reads."""
    raw = _raw_of(stream)
    return raw is not None and raw.has_result and raw.lost not in (None, errno.EPIPE)


def _raw_of(stream: Optional[TextIO]) -> Optional[_Raw]:
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Raw) else None


def _as_bytes(error: UnicodeError) -> Tuple[bytes, int]:
    """Escaped bytes of a file's name as themselves; other characters that the encoding lacks as question marks."""
    assert isinstance(error, UnicodeEncodeError)
    found = [ord(one) for one in error.object[error.start : error.end]]
    return bytes(one - 0xDC00 if _FIRST_ESCAPE <= one <= _LAST_ESCAPE else ord("?") for one in found), error.end
