"""Checks of the system's memory: pages, mappings, overcommit, limits."""

from __future__ import annotations

import re
from typing import Iterator, Optional

from hakmem.doctor import control_group
from hakmem.doctor.finding import Finding, Level, ok
from hakmem.kernel_files import KernelFiles
from hakmem.metrics import size
from hakmem.process_files import auxiliary

_MIB = 1 << 20
_AT_PAGESZ = 6
_USUAL_PAGE = 4096
_SUPERSLAB = 2 * _MIB
_KERNELS_MAPPINGS = 65530  # the kernel's default
# Chosen: below these, the memory that hakmem retains (8 MiB, 2 MiB a thread) is a large part of the limit.
_SMALL_GROUP = 64 * _MIB
_SMALL_ADDRESS_SPACE = 64 * _MIB  # the least that tests run with
_LITTLE_COMMIT = 256 * _MIB
# From these shares of a limit on, less memory stays dirty, and none does (src/policy/pressure.c).
_LOWERED_FROM = 0.65
_NOTHING_FROM = 0.95


def check(files: KernelFiles) -> Iterator[Finding]:
    """All of them."""
    for one in (_page_size, _mappings, _overcommit, _group):
        finding = one(files)
        if finding is not None:
            yield finding
    yield _limit(files, "ulimit -v", "Max address space")
    yield _limit(files, "ulimit -d", "Max data size")


def page_bytes(files: KernelFiles) -> Optional[int]:
    """The page size of this process."""
    return auxiliary(files.bytes("/proc/self/auxv") or b"", _AT_PAGESZ)


def _page_size(files: KernelFiles) -> Optional[Finding]:
    found = page_bytes(files)
    if found is None:
        return None
    if found == _USUAL_PAGE:
        return ok("page size", size(found))
    return Finding(
        Level.NOTE,
        "page size",
        size(found),
        "Huge pages are then not 2 MiB, and hakmem uses none; it purges memory in these larger pages.",
        "Nothing is wrong. Where memory matters most, a kernel with pages of 4 KiB wastes less of it.",
    )


def _mappings(files: KernelFiles) -> Optional[Finding]:
    most = files.number("/proc/sys/vm/max_map_count")
    if most is None:
        return None
    why = (
        "Each large block and each stack is a mapping, and huge pages split mappings. At the limit requests fail with "
        "ENOMEM, though memory is free."
    )
    todo = "As root: sysctl vm.max_map_count=1048576, and the same in /etc/sysctl.d to keep it."
    if most < _KERNELS_MAPPINGS:
        return Finding(Level.WARNING, "vm.max_map_count", f"{most:,}, below the usual {_KERNELS_MAPPINGS:,}", why, todo)
    memory = _kilobytes(files, "MemTotal")
    if memory is not None and memory > most * _SUPERSLAB:
        found = f"{most:,}, with {size(memory)} of memory"
        return Finding(Level.NOTE, "vm.max_map_count", found, why, todo)
    return ok("vm.max_map_count", f"{most:,}")


def _kilobytes(files: KernelFiles, name: str) -> Optional[int]:
    words = files.fields("/proc/meminfo").get(name, "").split()
    return int(words[0]) * 1024 if words and words[0].isdecimal() else None


def _overcommit(files: KernelFiles) -> Optional[Finding]:
    mode = files.number("/proc/sys/vm/overcommit_memory")
    if mode is None:
        return None
    if mode != 2:
        return ok(
            "vm.overcommit_memory", f"{mode}: " + ("everything is granted" if mode == 1 else "the kernel guesses")
        )
    most, used = _kilobytes(files, "CommitLimit"), _kilobytes(files, "Committed_AS")
    room = max(most - used, 0) if most is not None and used is not None else None
    is_little = room is not None and room < _LITTLE_COMMIT
    return Finding(
        Level.WARNING if is_little else Level.NOTE,
        "vm.overcommit_memory",
        "2: the kernel grants only memory that it can back"
        + (f", {size(room)} of it are left" if room is not None else ""),
        "hakmem takes address space in pieces of 2 MiB, each of which counts whole, also where parts of it were "
        "purged. When nothing is left, requests fail with ENOMEM.",
        "Raise vm.overcommit_ratio or vm.overcommit_kbytes, add swap, or set vm.overcommit_memory=0.",
    )


def _group(files: KernelFiles) -> Optional[Finding]:
    subject = "control group"
    tightest = control_group.tightest(files)
    without_sys = not files.has("/sys/kernel")
    if tightest is None and (control_group.is_hidden(files) or without_sys):
        return Finding(
            Level.NOTE,
            subject,
            "not known: /sys is not visible here"
            if without_sys
            else "this process is in a group whose files are not visible here",
            "If it has a limit on memory, hakmem does not see it, and keeps dirty memory that is needed elsewhere.",
            "Mount /sys/fs/cgroup in the container, or set HAKMEM_MEMORY_LIMIT to the limit.",
        )
    if tightest is None:
        return ok(subject, "no limit on memory")
    share = tightest.use / max(tightest.limit, 1)
    found = f"{size(tightest.use)} of {size(tightest.limit)} are in use ({tightest.file})"
    todo = "Raise the limit, or let the programs in the group use less. HAKMEM_MODE=lean purges dirty memory sooner."
    if tightest.limit < _SMALL_GROUP:
        why = (
            f"Below {size(_SMALL_GROUP)} most of a program's memory is not its heap, and near the limit no memory "
            "stays dirty: every freed page is faulted in again."
        )
        return Finding(Level.WARNING, subject, found, why, todo)
    if share >= _NOTHING_FROM:
        why = "From 95% of the limit on hakmem keeps no dirty memory, which costs faults; the kernel may end a program."
        return Finding(Level.WARNING, subject, found, why, todo)
    if share >= _LOWERED_FROM:
        why = "From 65% of the limit on hakmem keeps less dirty memory, which costs faults."
        return Finding(Level.NOTE, subject, found, why, todo)
    return ok(subject, found)


def _limit(files: KernelFiles, subject: str, name: str) -> Finding:
    """One row of the process's limits, which the programs that it starts inherit."""
    row = re.search(rf"^{name}\s+(\d+)\s", files.text("/proc/self/limits") or "", re.M)
    if row is None:
        return ok(subject, "unlimited")
    limit = int(row.group(1))
    is_small = limit < _SMALL_ADDRESS_SPACE
    return Finding(
        Level.WARNING if is_small else Level.NOTE,
        subject,
        size(limit),
        "It counts address space, not memory: stacks, code, and memory that hakmem has purged but keeps mapped. At "
        "the limit requests fail with ENOMEM."
        + (f" Below {size(_SMALL_ADDRESS_SPACE)} nothing was tested." if is_small else ""),
        "Limit resident memory by a control group instead, or raise this limit.",
    )
