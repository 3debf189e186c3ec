"""Checks of the kernel's version, and of what a process inherits: sandboxes, blocked signals."""

from __future__ import annotations

import re
from typing import Iterator, Mapping, Optional, Tuple

from hakmem import attach_signal
from hakmem.doctor.finding import Finding, Level, ok
from hakmem.kernel_files import KernelFiles

Version = Tuple[int, int]

_OLDEST = (4, 14)  # MADV_WIPEONFORK
HAS_COLLAPSE = (6, 1)  # MADV_COLLAPSE
_FILTER = "2"
_CHOOSE_ANOTHER = f"Start the program from elsewhere, or choose another signal: {attach_signal.VARIABLE}."


def check(files: KernelFiles, environment: Mapping[str, str]) -> Iterator[Finding]:
    """All of them."""
    kernel = _kernel(files)
    if kernel is not None:
        yield kernel
    yield from _sandbox(files)
    yield _attach_signal(files, environment)
    yield _tracing(files)


def kernel_version(files: KernelFiles) -> Optional[Version]:
    """The first two numbers of the release."""
    found = re.match(r"(\d+)\.(\d+)", files.text("/proc/sys/kernel/osrelease") or "")
    return (int(found.group(1)), int(found.group(2))) if found else None


def _kernel(files: KernelFiles) -> Optional[Finding]:
    version = kernel_version(files)
    if version is None:
        return None
    name = "Linux " + ".".join(map(str, version))
    if version < _OLDEST:
        return Finding(
            Level.WARNING,
            "kernel",
            name,
            "Before Linux 4.14 the kernel cannot clear hakmem's locks in the child of a fork (MADV_WIPEONFORK). No "
            "test runs on so old a kernel.",
            "Use Linux 4.14 or later; 6.1 or later is better.",
        )
    if version < HAS_COLLAPSE:
        return Finding(
            Level.NOTE,
            "kernel",
            name,
            "Before Linux 6.1 memory in use becomes huge pages only in the kernel's own time (no MADV_COLLAPSE).",
            "Nothing is wrong; Linux 6.1 or later is a little faster for large heaps.",
        )
    return ok("kernel", name)


def _sandbox(files: KernelFiles) -> Iterator[Finding]:
    status = files.fields("/proc/self/status")
    if status.get("Seccomp") == _FILTER:
        yield Finding(
            Level.NOTE,
            "seccomp",
            "a filter decides which system calls programs here may use",
            "Such a filter may end a program for a call. So hakmem makes only calls that the dynamic loader and the C "
            "library make too, and mremap and madvise: the tool's commands get no answer from programs here, and "
            "HAKMEM_CRASH_REPORT, HAKMEM_STATS_SIGNAL and HAKMEM_TRACE do nothing. A container's own filter, which "
            "refuses calls and does not kill, is an exception.",
            "Set HAKMEM_SANDBOX=off where the filter kills for no call that hakmem makes (see: hakmem help sandbox). "
            "The probe below says whether a program starts.",
        )
    else:
        yield ok("seccomp", "no filter")
    if status.get("NoNewPrivs") == "1":
        yield ok("no_new_privs", "set: programs gain no rights here, set-user-ID or not")


def _attach_signal(files: KernelFiles, environment: Mapping[str, str]) -> Finding:
    subject = "attach signal"
    chosen = environment.get(attach_signal.VARIABLE, "")
    number = attach_signal.number(chosen)
    why = "Commands that look into a running program send it this signal first; without it they get no answer."
    if number == 0:
        return Finding(
            Level.NOTE,
            subject,
            f"none: {attach_signal.VARIABLE} is {chosen}",
            why,
            f"Unset {attach_signal.VARIABLE} to look into programs.",
        )
    status = files.fields("/proc/self/status")
    if _has(status.get("SigIgn"), number):
        return Finding(Level.NOTE, subject, f"{number} is ignored, and programs inherit that", why, _CHOOSE_ANOTHER)
    if _has(status.get("SigBlk"), number):
        return Finding(Level.NOTE, subject, f"{number} is blocked, and programs inherit that", why, _CHOOSE_ANOTHER)
    return ok(subject, f"{number} is free")


def _has(mask: Optional[str], number: int) -> bool:
    """Whether a mask of /proc/self/status has a signal."""
    try:
        return bool(int(mask or "0", 16) >> (number - 1) & 1)
    except ValueError:
        return False


def _tracing(files: KernelFiles) -> Finding:
    scope = files.number("/proc/sys/kernel/yama/ptrace_scope")
    if not scope:
        return ok("ptrace", "not restricted")
    who = {1: "a program's parent, or root", 2: "root"}.get(scope, "nobody")
    return Finding(
        Level.NOTE,
        "ptrace",
        f"yama/ptrace_scope is {scope}: {who} may trace a program",
        "Only debuggers need it: gdb -p is refused then. hakmem's own commands do not trace.",
        "Start the program under gdb"
        + (", or use sudo." if scope < 3 else "; this setting stays until the next boot."),
    )
