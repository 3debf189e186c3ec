"""The memory of a running process that is not malloc's: stacks, files and other mappings, from /proc/PID/smaps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Optional, Set, Tuple

from hakmem.process_files import lines_of, mappings, thread_folders

_HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ \d+ *(.*)\Z")
_RESIDENT = re.compile(r"Rss: *([0-9]{1,20}) kB")
_MOST_FILES = 5
_KERNEL = ("[vdso]", "[vvar]", "[vsyscall]", "[vvar_vclock]")
_SHARED = ("/memfd:", "/dev/shm/", "/SYSV", "/dev/zero", "[anon_shmem")


@dataclass(frozen=True)
class Area:
    """One mapping, and its resident bytes."""

    start: int
    end: int
    rights: str
    name: str
    resident: int


@dataclass
class Outside:
    """Resident bytes that are not malloc's, by kind. `others` are anonymous mappings that malloc did not make."""

    stacks: int = 0
    code: int = 0
    data_files: int = 0
    shared: int = 0
    others: int = 0
    files: List[Tuple[str, int]] = field(default_factory=list)
    brk: int = 0
    threads_unseen: int = 0
    # The excess of the kinds over `not_malloc`: the two were counted at different moments.
    too_much: int = 0

    @property
    def kinds(self) -> Dict[str, int]:
        """The kinds, largest first. They add up."""
        found = {
            "programs and libraries": self.code,
            "files that are mapped": self.data_files,
            "shared memory": self.shared,
            "stacks": self.stacks,
            "other anonymous memory": self.others,
        }
        return dict(sorted(found.items(), key=lambda one: -one[1]))


def look(pid: int, not_malloc: int) -> Optional[Outside]:
    """Returns None where /proc does not show it. The kinds add up to `not_malloc`: the allocator counts its own memory,
    and /proc cannot tell that from other anonymous memory."""
    text = mappings(pid, "smaps")
    if not text:
        return None
    pointers, unseen = _stack_pointers(pid)
    return sort(list(areas(text)), pointers, unseen, not_malloc)


def areas(text: str) -> Iterator[Area]:
    """The mappings of an smaps."""
    head = None
    for line in lines_of(text):
        match = _HEAD.match(line)
        if match is not None:
            head = match
            continue
        resident = _RESIDENT.match(line)
        if head is not None and resident is not None:
            start, end, rights, _, name = head.groups()
            yield Area(int(start, 16), int(end, 16), rights, name, int(resident.group(1)) << 10)
            head = None


def code_places(text: str) -> Set[int]:
    """Where the first byte of each mapped code file would lie, from the text of a `maps`."""
    heads = [match for match in map(_HEAD.match, lines_of(text)) if match is not None]
    return {
        int(one.group(1), 16) - int(one.group(4), 16)
        for one in heads
        if "x" in one.group(3) and one.group(5).startswith("/")
    }


def sort(found: List[Area], pointers: List[int], unseen: int, not_malloc: int) -> Outside:
    """Sums by kind. The rest of not_malloc is anonymous memory that malloc did not map."""
    outside = Outside(threads_unseen=unseen)
    by_file: Dict[str, int] = {}
    code = {area.name for area in found if area.name.startswith("/") and "x" in area.rights}
    for area in found:
        if area.name.startswith(_SHARED):
            outside.shared += area.resident
        elif area.name.startswith("/"):
            by_file[area.name] = by_file.get(area.name, 0) + area.resident
            if area.name in code:
                outside.code += area.resident
            else:
                outside.data_files += area.resident
        elif area.name.startswith("[stack") or any(area.start <= one < area.end for one in pointers):
            outside.stacks += area.resident
        elif area.name == "[heap]":
            outside.brk += area.resident
        elif area.name in _KERNEL:
            outside.code += area.resident
    outside.files = sorted(by_file.items(), key=lambda one: (-one[1], one[0]))[:_MOST_FILES]
    left = not_malloc - sum(outside.kinds.values())
    outside.others, outside.too_much = max(left, 0), max(-left, 0)
    return outside


def _stack_pointers(pid: int) -> Tuple[List[int], int]:
    """The stacks of threads that wait in the kernel, and the number of threads that do not, or may not be inspected."""
    found: List[int] = []
    unseen = 0
    for task in thread_folders(pid):
        try:
            words = (task / "syscall").read_text(encoding="ascii").split()
        except OSError:
            unseen += 1
            continue
        if len(words) >= 3 and words[-2].startswith("0x"):
            found.append(int(words[-2], 16))
        else:
            unseen += 1
    return found, unseen
