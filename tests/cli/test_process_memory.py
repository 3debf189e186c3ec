"""What a process has resident beside malloc's memory, by /proc/PID/smaps."""

from __future__ import annotations

from pathlib import Path

from hakmem.explain import process_memory
from report_support import MIB


def test_what_is_not_mallocs_adds_up() -> None:
    """Shared libraries' data counts to them; a stack is where a thread's stack pointer is; the rest is anonymous."""
    area = process_memory.Area
    found = process_memory.sort(
        [
            area(0x1000, 0x2000, "r-xp", "/bin/x", 100), area(0x2000, 0x3000, "rw-p", "/bin/x", 20),
            area(0x3000, 0x4000, "r--p", "/data", 7), area(0x4000, 0x5000, "rw-s", "/dev/shm/a", 3),
            area(0x5000, 0x6000, "rw-p", "", 50), area(0x6000, 0x7000, "rw-p", "", 1000),
            area(0x7000, 0x8000, "rw-p", "[stack]", 11), area(0x8000, 0x9000, "rw-p", "[heap]", 9),
        ],
        [0x5800], 1, 230,
    )  # fmt: skip
    assert (found.code, found.data_files, found.shared, found.stacks) == (120, 7, 3, 61)
    assert (found.others, sum(found.kinds.values()), found.brk) == (39, 230, 9)
    assert found.files == [("/bin/x", 120), ("/data", 7)]


def test_smaps_of_our_own() -> None:
    text = Path("/proc/self/smaps").read_text()
    total = sum(area.resident for area in process_memory.areas(text))
    assert total == sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Rss:")) > MIB
