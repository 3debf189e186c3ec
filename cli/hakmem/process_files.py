"""Files of /proc/PID, of a process that may belong to another user and may end at any time."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

from hakmem.errors import Failure
from hakmem.kernel_files import fields


def read(pid: int, name: str) -> bytes:
    """Returns a file of its folder. Raises a Failure that says whether the process has ended or forbids it."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except PermissionError:
        raise Failure(
            f"process {pid} cannot be inspected: it runs with raised rights, or forbids it (prctl PR_SET_DUMPABLE)"
        ) from None
    except (FileNotFoundError, ProcessLookupError):
        if not os.path.exists("/proc/self"):
            raise Failure("/proc is not mounted here, and without it no process can be looked at") from None
        raise Failure(f"there is no process {pid}") from None


def status(pid: int) -> Dict[str, str]:
    """Its `status`, by the names of the lines."""
    return status_fields(read(pid, "status").decode(errors="replace"))


def status_fields(text: str) -> Dict[str, str]:
    """The values of a `status`, by the names of the lines. The kernel writes a backslash in the process's name as
    two, and a line break as \\n."""
    found = fields(text)
    if "Name" in found:
        found["Name"] = re.sub(r"\\([\\n])", lambda one: "\n" if one.group(1) == "n" else "\\", found["Name"])
    return found


def start_of(pid: int) -> Optional[str]:
    """Its start, in ticks since the system's start, which with its number identifies it. None when it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may have some itself.
    words = text.rpartition(")")[2].split()
    state, threads, began = words[0], int(words[17]), words[19]
    # Its first thread may have ended before the others.
    return None if state == "X" or (state == "Z" and threads <= 1) else began


def thread_folders(pid: int) -> List[Path]:
    """The numbers of its threads, sorted; empty when it has ended."""
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [Path(f"/proc/{pid}/task/{number}") for number in sorted(map(int, names))]


def mappings(pid: int, name: str = "maps") -> Optional[str]:
    """The text of its `maps` or `smaps`, every character of a path kept. None where /proc does not show it."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return None


def lines_of(text: str) -> List[str]:
    """The lines of `maps` or `smaps`. A path may have the other characters that end a line for Python; of the kernel's
    own, the newline, it has an escape."""
    return text.split("\n")


def mapped_files(maps: str) -> Iterator[Tuple[str, str]]:
    """Rights and path of each mapping of a file, from the text of its `maps`."""
    for line in lines_of(maps):
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5].startswith("/"):
            yield words[1], words[5]


def auxiliary(vector: bytes, kind: int) -> Optional[int]:
    """The entry of that kind in its `auxv`, or None."""
    pairs = struct.iter_unpack("=QQ", vector[: len(vector) // 16 * 16])
    return next((value for one, value in pairs if one == kind), None)


def roots(pid: int) -> Tuple[str, str]:
    """The roots before a path of its own: the process's root while it runs, then this process's."""
    return f"/proc/{pid}/root", ""


def network_of(pid: int) -> Optional[str]:
    """The network namespace, in which abstract sockets have their names."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None
