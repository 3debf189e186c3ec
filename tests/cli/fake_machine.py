"""A machine of files below a folder, on which hakmem works well until a test changes something."""

from __future__ import annotations

import struct
from pathlib import Path

from hakmem.kernel_files import KernelFiles

THP = "/sys/kernel/mm/transparent_hugepage"
GROUP = "/sys/fs/cgroup/a/b"

_STATUS = (
    "Name:\tpython\nTHP_enabled:\t1\nSigBlk:\t0000000000000000\nSigIgn:\t0000000001001000\n"
    "NoNewPrivs:\t0\nSeccomp:\t0\n"
)
_LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max data size             unlimited            unlimited            bytes
Max address space         unlimited            unlimited            bytes
"""
_FILES = {
    "/proc/self/status": _STATUS,
    "/proc/self/limits": _LIMITS,
    "/proc/self/cgroup": "0::/\n",
    "/proc/self/mountinfo": "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n",
    "/proc/meminfo": "MemTotal:       16000000 kB\nCommitLimit:    8000000 kB\nCommitted_AS:   7000000 kB\n",
    "/proc/sys/kernel/osrelease": "6.12.3-generic\n",
    "/proc/sys/kernel/yama/ptrace_scope": "0\n",
    "/proc/sys/vm/max_map_count": "65530\n",
    "/proc/sys/vm/overcommit_memory": "0\n",
    f"{THP}/enabled": "always [madvise] never\n",
    f"{THP}/defrag": "always defer defer+madvise [madvise] never\n",
    f"{THP}/khugepaged/pages_to_scan": "4096\n",
    f"{THP}/khugepaged/max_ptes_none": "511\n",
}


class FakeMachine:
    """Its files are real, elsewhere."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = KernelFiles(str(root))
        for path, text in _FILES.items():
            self.write(path, text)
        self.page_bytes(4096)

    def _path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def write(self, path: str, text: str) -> None:
        """One file."""
        self._path(path).parent.mkdir(parents=True, exist_ok=True)
        self._path(path).write_text(text)

    def replace(self, path: str, old: str, new: str) -> None:
        """A part of a file, which must be there."""
        text = self._path(path).read_text()
        assert old in text
        self._path(path).write_text(text.replace(old, new))

    def remove(self, path: str) -> None:
        """As on a kernel that does not have it."""
        self._path(path).unlink()

    def page_bytes(self, number: int) -> None:
        """What the kernel would have told this process."""
        auxv = self._path("/proc/self/auxv")
        auxv.write_bytes(struct.pack("=6Q", 33, 0x7FFF00000000, 6, number, 0, 0))

    def group(self, limit: str, use: int, file: str = "memory.max", idle_files: int = 0) -> None:
        """A control group /a/b of version 2."""
        self.write("/proc/self/cgroup", "0::/a/b\n")
        self.write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
        self.write(f"{GROUP}/{file}", f"{limit}\n")
        self.write(f"{GROUP}/memory.current", f"{use}\n")
        self.write(f"{GROUP}/memory.stat", f"anon 5\ninactive_file {idle_files}\n")
