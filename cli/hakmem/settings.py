"""Settings that figures depend on besides the allocators: machine, kernel, huge pages, versions. No host names."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from typing import Dict, Mapping, Optional

from hakmem import __version__, paths
from hakmem.kernel_files import KernelFiles

Setting = Optional[object]
Settings = Mapping[str, Setting]
# Figures of time are doubtful when other work takes more than this share of the processors.
_BUSY_SHARE = 0.25


def collect() -> Dict[str, Setting]:
    """The settings, for reports."""
    files = KernelFiles()
    return {
        "time_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "tool_version": __version__,
        "commit": commit(),
        "kernel": platform.release().split("-", 1)[0],  # the rest is a builder's name for it
        "machine": platform.machine(),
        "processor": processor(files),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "thp": files.chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "thp_defrag": files.chosen("/sys/kernel/mm/transparent_hugepage/defrag"),
        "overcommit": files.text("/proc/sys/vm/overcommit_memory"),
        "governor": files.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "c_library": " ".join(platform.libc_ver()),
        "compiler": _compiler(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def busy_machine(settings: Settings) -> Optional[str]:
    """A sentence when the machine was busy before the measurement began."""
    load, cores = settings["load_before"], settings["cores"]
    if not isinstance(load, float) or not isinstance(cores, int) or load <= _BUSY_SHARE * cores:
        return None
    busy = f"The machine was not idle before (load {load:g}, {cores} cores)"
    return f"{busy}: times are not reliable, memory is less affected."


def one_line(settings: Settings) -> str:
    """The settings beside the figures."""
    shown = {
        "Linux": settings["kernel"],
        "": settings["machine"],
        "processor": settings["processor"],
        "cores": settings["cores"],
        "huge pages": settings["thp"] or "unknown",
        "C library": settings["c_library"],
        "compiler": settings["compiler"],
        "commit": settings["commit"],
        "load before": settings["load_before"],
    }
    return ", ".join(f"{name} {value}".strip() for name, value in shown.items() if value not in (None, ""))


def processor(files: KernelFiles) -> Optional[str]:
    """The processor's name and its numbers: virtual machines have one name for several kinds, arm64 none."""
    fields = files.fields("/proc/cpuinfo")
    numbers = {"family": "cpu family", "model": "model", "implementer": "CPU implementer", "part": "CPU part"}
    words = [fields.get("model name", ""), *(f"{word} {fields[key]}" for word, key in numbers.items() if key in fields)]
    return " ".join(filter(None, words)) or None


def commit() -> Optional[str]:
    """The checkout's commit, with a plus when it was changed since."""
    root = paths.checkout()
    if root is None:
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--exclude=*"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _compiler() -> Optional[str]:
    """The first line of the C compiler's --version."""
    try:
        done = subprocess.run(
            ["cc", "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.partition("\n")[0].strip() or None
