"""The system's settings of huge pages."""

from __future__ import annotations

from typing import Iterator, Optional

from hakmem.doctor.finding import Finding, Level, ok
from hakmem.doctor.system_checks import HAS_COLLAPSE, kernel_version
from hakmem.kernel_files import KernelFiles

# Each kernel has it, with or without huge pages.
_FOLDER_OF_MEMORY = "/sys/kernel/mm"
_FOLDER = f"{_FOLDER_OF_MEMORY}/transparent_hugepage"
_SUBJECT = "huge pages"
# The most of the 512 small pages that may be missing when hakmem makes them a huge page (src/policy/thp_policy.c).
_MISSING_PAGES = 8


def check(files: KernelFiles) -> Iterator[Finding]:
    """Checks the setting, and the settings of khugepaged."""
    setting = files.chosen(f"{_FOLDER}/enabled")
    if setting is None and not files.has(_FOLDER_OF_MEMORY):
        yield _unknown()
        return
    if setting in (None, "never") or files.fields("/proc/self/status").get("THP_enabled") == "0":
        yield _never(files, setting)
        return
    yield _enabled(setting)
    for finding in (_defrag(files), _khugepaged(files)):
        if finding is not None:
            yield finding


def _unknown() -> Finding:
    return Finding(
        Level.NOTE,
        _SUBJECT,
        f"not known: {_FOLDER_OF_MEMORY} is not visible here",
        "hakmem asks for huge pages where they pay; whether the kernel gives them cannot be seen from here.",
        "Mount /sys in the container to see the setting, or look on the host.",
    )


def _never(files: KernelFiles, setting: Optional[str]) -> Finding:
    if setting is None:
        found, todo = "the kernel has none", "Use a kernel with CONFIG_TRANSPARENT_HUGEPAGE where time matters."
    elif setting == "never":
        found, todo = "never", f"As root: echo madvise > {_FOLDER}/enabled"
    else:
        found = "forbidden to this process"
        todo = "Start programs from elsewhere: a parent process has set PR_SET_THP_DISABLE, and they inherit it."
    why = "Nothing fails, but hakmem cannot use huge pages where they pay, to save faults."
    return Finding(Level.NOTE, _SUBJECT, found, why, todo)


def _enabled(setting: Optional[str]) -> Finding:
    if setting != "always":
        return ok(_SUBJECT, f"{setting}: programs that advise them get them")
    return Finding(
        Level.NOTE,
        _SUBJECT,
        "always",
        "hakmem forbids them in its own sparse memory, but the stacks and other mappings of a program can take 2 MiB "
        "with their first page.",
        f"Where memory matters, as root: echo madvise > {_FOLDER}/enabled",
    )


def _defrag(files: KernelFiles) -> Optional[Finding]:
    defrag = files.chosen(f"{_FOLDER}/defrag")
    if defrag != "always":
        return None if defrag is None else ok("huge pages, defrag", defrag)
    return Finding(
        Level.NOTE,
        "huge pages, defrag",
        "always",
        "A fault may then wait until the kernel has moved other pages to make room for a huge one: rare pauses of "
        "milliseconds.",
        f"As root: echo madvise > {_FOLDER}/defrag",
    )


def _khugepaged(files: KernelFiles) -> Optional[Finding]:
    """Checks settings that matter where no program can make a huge page at once."""
    version = kernel_version(files)
    if version is None or version >= HAS_COLLAPSE:
        return None
    scanned = files.number(f"{_FOLDER}/khugepaged/pages_to_scan")
    missing = files.number(f"{_FOLDER}/khugepaged/max_ptes_none")
    if scanned == 0:
        found = "pages_to_scan is 0"
    elif missing is not None and missing < _MISSING_PAGES:
        found = f"max_ptes_none is {missing}"
    else:
        return None
    return Finding(
        Level.NOTE,
        "khugepaged",
        found,
        "This kernel has no MADV_COLLAPSE, so that only khugepaged makes huge pages of memory in use; with this "
        "setting it does not.",
        f"As root: echo 511 > {_FOLDER}/khugepaged/max_ptes_none; echo 4096 > {_FOLDER}/khugepaged/pages_to_scan",
    )
