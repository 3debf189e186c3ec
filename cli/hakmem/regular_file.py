"""Opens files whose names come from a process or a profile. Such a name need not belong to a regular file."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def open_regular(path: str) -> BinaryIO:
    """Opens it for reading; an OSError where it is not a regular file. Never waits for a pipe, never opens a device."""
    # This opens only the name, so that the checked and the opened file are the same.
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        return open(f"/proc/self/fd/{place}", "rb")
    finally:
        os.close(place)
