"""Opens files whose names come from others: of a process that is looked at, of a profile. What has such a name need not be a file."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def open_regular(path: str) -> BinaryIO:
    """To read it; an OSError where it is no regular file. A pipe is not waited for, and to open a device may do something."""
    # This opens the name alone, so that what is looked at and what is opened then are the same.
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", path)
        return open(f"/proc/self/fd/{place}", "rb")
    finally:
        os.close(place)
