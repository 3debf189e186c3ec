"""A temporary folder of this tool, into which the library writes a file for each process of a program."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Iterator, Optional, Tuple

# The shell makes the folder, so that there is no moment in which a kill of this tool leaves one. It reads nothing but
# the end of its input, which comes when this tool ends, however it ends; a reader of `made` that has gone is no end.
# A process that begins or ends meanwhile may put a file into the folder while it is removed.
KEEP = """
PATH=/usr/bin:/bin:$PATH; trap "" PIPE
mkdir -m 700 -- "$1" && echo made && read -r _
rm -rf -- "$1" || { sleep 1; rm -rf -- "$1"; }
"""
_MADE = b"made\n"
# A reason why a process has left no file. A server often takes the rights of another user, or another root.
COULD_NOT_WRITE = "it could not write there any more (setuid, chroot)"


class PrivateFolder:
    """An OSError where there is no room for one. `purpose` stands in its name, `suffix` ends those of the files."""

    def __init__(self, purpose: str, suffix: str = "") -> None:
        self._suffix = suffix
        prefix = f"hakmem-{purpose}-"
        self._path = Path(tempfile.gettempdir()) / f"{prefix}{secrets.token_hex(8)}"
        self._keeper = _keeper_of(self._path)
        if self._keeper is None:
            self._path = Path(tempfile.mkdtemp(prefix=prefix))

    def __enter__(self) -> PrivateFolder:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()

    def remove(self) -> None:
        """Removes the folder with its files."""
        shutil.rmtree(self._path, ignore_errors=True)
        if self._keeper is not None:
            self._keeper.communicate()
            self._keeper = None

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


def _keeper_of(folder: Path) -> Optional["subprocess.Popen[bytes]"]:
    """A shell that makes the folder, and removes it when this tool is killed. In a session of its own: what ends the
    tool's does not end it. None where there is no shell, or it cannot make the folder."""
    try:
        keeper = subprocess.Popen(
            ["/bin/sh", "-c", KEEP, "sh", str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True, cwd="/",
        )  # fmt: skip
    except OSError:
        return None
    assert keeper.stdout is not None
    if keeper.stdout.readline() == _MADE:
        return keeper
    keeper.communicate()
    return None
