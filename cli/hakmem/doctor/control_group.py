"""The limits on memory of this process's control groups, found as the library finds them (src/os/memory_limit.c)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Iterator, List, Optional, Tuple

from hakmem.decimal_text import number
from hakmem.kernel_files import KernelFiles, Mount

# Version 1 writes "no limit" as the highest number of whole pages.
_NO_LIMIT_FROM = 1 << 62


@dataclass(frozen=True)
class Limit:
    """The limit of one group. `use` is without inactive file pages."""

    file: str
    limit: int
    use: int

    @property
    def room(self) -> int:
        """The memory that is left of it."""
        return max(self.limit - self.use, 0)


def tightest(files: KernelFiles) -> Optional[Limit]:
    """The limit with the least room, of the process's group and all above it."""
    limits = _limits(files, is_version_1=True) or _limits(files, is_version_1=False)
    return min(limits, key=lambda limit: limit.room, default=None)


def is_hidden(files: KernelFiles) -> bool:
    """Whether there is a memory control group whose files are not visible here."""
    groups = [(version, group) for version in (True, False) if (group := _group(files, version)) not in (None, "/")]
    return bool(groups) and all(_folder(files, version) is None for version, _ in groups)


def _group(files: KernelFiles, is_version_1: bool) -> Optional[str]:
    """Lines are `<number>:<controllers>:<name>`; version 2 has the number 0 and lists no controllers."""
    for line in (files.text("/proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if ("memory" in controllers.split(",")) if is_version_1 else (number == "0" and not controllers):
            return name
    return None


def _folder(files: KernelFiles, is_version_1: bool) -> Optional[Tuple[str, str]]:
    """The mount point and the group's folder."""
    group = _group(files, is_version_1)
    if not group:
        return None
    for mount in files.mounts():
        if _is_for_groups(mount, is_version_1):
            way = os.path.relpath(group, mount.shown)
            if way.split("/")[0] != "..":
                return mount.where, os.path.normpath(os.path.join(mount.where, way))
    return None


def _is_for_groups(mount: Mount, is_version_1: bool) -> bool:
    if not is_version_1:
        return mount.kind == "cgroup2"
    return mount.kind == "cgroup" and "memory" in mount.kind_options


def _limits(files: KernelFiles, is_version_1: bool) -> List[Limit]:
    place = _folder(files, is_version_1)
    if place is None:
        return []
    top, folder = place
    found: List[Limit] = []
    while True:
        found += _limits_of(files, folder, is_version_1)
        if folder in (top, "/", ""):
            return found
        folder = os.path.dirname(folder)


def _limits_of(files: KernelFiles, folder: str, is_version_1: bool) -> Iterator[Limit]:
    names = ("memory.limit_in_bytes",) if is_version_1 else ("memory.max", "memory.high")
    use = files.number(f"{folder}/" + ("memory.usage_in_bytes" if is_version_1 else "memory.current"))
    label = "total_inactive_file" if is_version_1 else "inactive_file"
    rows = (line.split() for line in (files.text(f"{folder}/memory.stat") or "").splitlines())
    idle_files = next((number(row[1]) or 0 for row in rows if len(row) == 2 and row[0] == label), 0)
    for name in names:
        limit = files.number(f"{folder}/{name}")  # "max", which is no number, says that there is none
        if limit is not None and limit < _NO_LIMIT_FROM and use is not None:
            yield Limit(f"{folder}/{name}", limit, max(use - idle_files, 0))
