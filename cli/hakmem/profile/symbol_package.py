"""The package that has the symbols of a stripped file, as the system's package manager names it."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import lru_cache
from typing import List, Optional

_SECONDS = 5


@lru_cache(maxsize=None)
def advice(path: str) -> str:
    """What to install, for instance `install coreutils-dbgsym`; empty where no package has the file."""
    if shutil.which("dpkg-query"):
        package = _of_debian(path)
        return f"install {_debian_symbols(package)}" if package else ""
    if shutil.which("rpm"):
        name = _first_line(["rpm", "-qf", "--queryformat", "%{NAME}", path])
        return f"run debuginfo-install {name}" if name else ""
    return ""


def _of_debian(path: str) -> str:
    """The package of a file. The database may know it by its name before /bin and /lib became links into /usr."""
    names = [path, *([path[len("/usr") :]] if path.startswith("/usr/") else [f"/usr{path}"])]
    for name in dict.fromkeys([*names, os.path.realpath(path)]):
        owner = _first_line(["dpkg-query", "-S", name]).rpartition(": ")[0]
        if owner and "diversion" not in owner:
            return owner.split(",")[0].partition(":")[0].strip()
    return ""


def _debian_symbols(package: str) -> str:
    """`-dbg` is an ordinary package where it exists; `-dbgsym` is in the archive of debug packages."""
    old = f"{package}-dbg"
    return old if _first_line(["apt-cache", "pkgnames", old]) == old else f"{package}-dbgsym"


def _first_line(words: List[str]) -> str:
    try:
        done: Optional[subprocess.CompletedProcess[bytes]] = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    assert done is not None
    return os.fsdecode(done.stdout).partition("\n")[0].strip() if done.returncode == 0 else ""
