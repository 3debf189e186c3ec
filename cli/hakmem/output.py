"""Files that are written whole or not at all, and refused before the work begins when they cannot be written."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Iterator, Optional, Union

from hakmem.errors import Failure

_NEW_FILE_MODE = 0o666


class OutputFile:
    """A file to be written later. It exists under a temporary name beside its own until `write` renames it.

    A device or pipe (/dev/stdout, /dev/null) is written to directly, `-` is standard output."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._temporary: Optional[str] = None
        self._target = os.path.realpath(name)
        if name == "-" or self._is_special():
            return
        if os.path.isdir(self._target):
            raise Failure(f"{name} is a directory")
        if os.path.exists(self._target) and not os.access(self._target, os.W_OK):
            raise Failure(f"cannot write {name}: permission denied")
        try:
            folder, base = os.path.split(self._target)
            descriptor, self._temporary = tempfile.mkstemp(prefix=f".{base}.", suffix=Path(base).suffix, dir=folder)
            os.fchmod(descriptor, self._mode())
            os.close(descriptor)
        except OSError as error:
            raise Failure(f"cannot write {name}: {error.strerror}") from None

    def _is_special(self) -> bool:
        try:
            return not stat.S_ISREG(os.stat(self.name).st_mode) and not os.path.isdir(self.name)
        except OSError:
            return False

    def _mode(self) -> int:
        try:
            return stat.S_IMODE(os.stat(self._target).st_mode)
        except OSError:
            mask = os.umask(0)
            os.umask(mask)
            return _NEW_FILE_MODE & ~mask

    def write(self, content: Union[str, bytes]) -> None:
        """Writes the whole text at once, in place of an older file."""
        data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
        try:
            if self.name == "-":
                sys.stdout.flush()
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            elif self._temporary is None:
                with open(self.name, "wb") as file:
                    file.write(data)
            else:
                with open(self._temporary, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(self._temporary, self._target)
                self._temporary = None
        except OSError as error:
            self.discard()
            raise Failure(f"cannot write {self.name}: {error.strerror}") from None

    def discard(self) -> None:
        """Removes the temporary file."""
        if self._temporary is not None:
            with suppress(OSError):
                os.unlink(self._temporary)
            self._temporary = None


@contextmanager
def reserve(*names: Optional[str]) -> Iterator[list[Optional[OutputFile]]]:
    """The files of these names, None for None. Unwritten ones are discarded at the end."""
    with ExitStack() as stack:
        files: list[Optional[OutputFile]] = []
        for name in names:
            file = OutputFile(name) if name is not None else None
            if file is not None:
                stack.callback(file.discard)
            files.append(file)
        yield files
