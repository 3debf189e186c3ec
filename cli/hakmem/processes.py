"""The processes on hakmem of this host, looked for again and again."""

from __future__ import annotations

import os
from typing import Dict, Tuple

from hakmem import linked
from hakmem.errors import Failure
from hakmem.process_files import start_of
from hakmem.watched import runs_on_hakmem

_FileKey = Tuple[int, int, int, int]
_MOST_FILES = 10_000


class Finder:
    """Finds them. Remembers of each mapped file whether it has the library's mark, because reading all programs of the
    host takes long."""

    def __init__(self) -> None:
        self._marks: Dict[_FileKey, bool] = {}

    def look(self) -> Dict[int, str]:
        """The start of each process on hakmem by its number. Those that this user may not inspect are left out."""
        found = {}
        for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()):
            began = start_of(pid)
            try:
                if began is not None and runs_on_hakmem(pid, self._has_mark):
                    found[pid] = began
            except (Failure, OSError):
                continue
        return found

    def _has_mark(self, path: str) -> bool:
        try:
            status = os.stat(path)
        except OSError:
            return False
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if key not in self._marks:
            if len(self._marks) >= _MOST_FILES:
                self._marks.clear()
            self._marks[key] = linked.has_hakmem(path)
        return self._marks[key]
