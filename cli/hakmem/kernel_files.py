"""Files of the kernel in /proc and /sys, and files in /etc; below another root for tests."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional

from hakmem.decimal_text import number


@dataclass(frozen=True)
class Mount:
    """A line of mountinfo. `shown` is the part of the file system that is mounted."""

    shown: str
    where: str
    options: List[str]
    kind: str
    kind_options: List[str]


@dataclass(frozen=True)
class KernelFiles:
    """Reads such files. An unreadable file gives None, or nothing."""

    root: str = "/"

    def bytes(self, path: str) -> Optional[bytes]:
        """A whole file."""
        try:
            return Path(self.root, path.lstrip("/")).read_bytes()
        except OSError:
            return None

    def has(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return os.path.exists(os.path.join(self.root, path.lstrip("/")))

    def text(self, path: str) -> Optional[str]:
        """A whole file, without the space around it."""
        data = self.bytes(path)
        return None if data is None else os.fsdecode(data).strip()

    def number(self, path: str) -> Optional[int]:
        """A file that is one number."""
        return number(self.text(path) or "")

    def chosen(self, path: str) -> Optional[str]:
        """The word in brackets of a file such as `always [madvise] never`."""
        found = re.search(r"\[([^]]*)\]", self.text(path) or "")
        return found.group(1) if found else None

    def fields(self, path: str) -> Dict[str, str]:
        """A file of lines `name: value`."""
        return fields(self.text(path) or "")

    def mounts(self) -> List[Mount]:
        """The mounts that this process sees, the latest last."""
        rows = (_mount(line) for line in (self.text("/proc/self/mountinfo") or "").splitlines())
        return [mount for mount in rows if mount is not None]


def fields(text: str) -> Dict[str, str]:
    """Lines `name: value`, as `status` and others have them."""
    rows = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in rows if colon}


def _mount(line: str) -> Optional[Mount]:
    """Behind ` - ` stand the kind of file system, its source and its options."""
    before, dash, after = line.partition(" - ")
    left, right = before.split(" "), after.split(" ")
    if not dash or len(left) < 6 or len(right) < 3:
        return None
    return Mount(_plain(left[3]), _plain(left[4]), left[5].split(","), right[0], right[2].split(","))


def _plain(text: str) -> str:
    """The kernel writes spaces and similar characters as \\040."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda found: chr(int(found.group(1), 8)), text)
