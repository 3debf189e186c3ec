"""A temporary folder of this tool, into which the library writes a file for each process of a program."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Iterator, Tuple


class PrivateFolder:
    """An OSError where there is no room for one. `purpose` stands in its name, `suffix` ends those of the files."""

    def __init__(self, purpose: str, suffix: str = "") -> None:
        self._suffix = suffix
        self._path = Path(tempfile.mkdtemp(prefix=f"hakmem-{purpose}-"))

    def __enter__(self) -> PrivateFolder:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()

    def remove(self) -> None:
        """Removes the folder with its files."""
        shutil.rmtree(self._path, ignore_errors=True)

    @property
    def pattern(self) -> str:
        """The value of the library's option. The minus: a process that outlives this tool finds its folder gone, and
        must not complain."""
        folder = str(self._path).replace("%", "%%")
        return f"-{folder}/%p{self._suffix}"

    def files(self) -> Iterator[Tuple[int, Path]]:
        """Each process with its file."""
        with contextlib.suppress(OSError):
            for entry in sorted(os.listdir(self._path)):
                # The time stands behind a number that two processes have, in different pid namespaces.
                number = entry[: len(entry) - len(self._suffix)].partition("-")[0]
                if entry.endswith(self._suffix) and number.isdecimal():
                    yield int(number), self._path / entry
