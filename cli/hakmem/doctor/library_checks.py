"""Checks of the library: whether and by which users it can be loaded, and other preloads before it."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Iterator, List, Mapping, Optional

from hakmem import paths
from hakmem.doctor.finding import Finding, Level, ok
from hakmem.elf_check import defines, sanitizer_of
from hakmem.environment import preload_list
from hakmem.errors import Failure
from hakmem.kernel_files import KernelFiles, Mount

_TUNABLES = "GLIBC_TUNABLES"
_OF_GLIBC = re.compile(
    r"MALLOC_(ARENA_MAX|ARENA_TEST|TOP_PAD_|PERTURB_|MMAP_MAX_|MMAP_THRESHOLD_|TRIM_THRESHOLD_|CHECK_)$"
)
_SYSTEM_PRELOAD = "/etc/ld.so.preload"


def check_file(files: KernelFiles, library: Path) -> Iterator[Finding]:
    """The file, its folders, its mount."""
    try:
        paths.preloadable(library)
    except Failure as failure:
        why = "The dynamic linker takes the pieces of the name for several libraries, and finds none of them."
        yield Finding(Level.PROBLEM, "library", failure.message, why, "Move or copy it elsewhere, or `make install`.")
        return
    if not os.access(library, os.R_OK):
        why = "The dynamic linker cannot load it: programs run with the C library's malloc."
        yield Finding(Level.PROBLEM, "library", f"{library} cannot be read", why, f"chmod a+r {library}")
        return
    yield _readable(library)
    mount = _mount_of(files, str(library))
    if mount is not None and "noexec" in mount.options:
        yield Finding(
            Level.PROBLEM,
            "library's mount",
            f"{mount.where} is mounted noexec",
            "The dynamic linker may not map code from there: programs run with the C library's malloc.",
            "Copy the library to another file system, or `make install PREFIX=/usr/local`.",
        )
    sanitizer = sanitizer_of(str(library))
    if sanitizer is not None:
        yield Finding(
            Level.PROBLEM,
            "library's build",
            f"it was built with a sanitizer ({sanitizer})",
            "Such a build is for the library's tests, and does not work in programs without a sanitizer.",
            "Build it with `make lib`.",
        )


def _readable(library: Path) -> Finding:
    closed = _closed_to_others(library)
    if closed is None:
        return ok("library", str(library))
    return Finding(
        Level.NOTE,
        "library",
        f"{library}, but other users cannot get past {closed}",
        "Programs of other users that preload it from there run with the C library's malloc, and print a line that "
        "says so.",
        "For services and other users: `make install PREFIX=/usr/local`, or chmod.",
    )


def _closed_to_others(library: Path) -> Optional[str]:
    """The first folder, or the file, that others may not use."""
    for folder in reversed(library.parents):
        if not _mode(folder) & stat.S_IXOTH:
            return str(folder)
    return None if _mode(library) & stat.S_IROTH else str(library)


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _mount_of(files: KernelFiles, path: str) -> Optional[Mount]:
    above = [mount for mount in files.mounts() if os.path.commonpath([mount.where, path]) == mount.where]
    longest = max((len(mount.where) for mount in above), default=0)
    return next((mount for mount in reversed(above) if len(mount.where) == longest), None)


def check_preloads(files: KernelFiles, environment: Mapping[str, str], library: Optional[Path]) -> Iterator[Finding]:
    """Checks the entries of LD_PRELOAD and /etc/ld.so.preload."""
    entries = preload_list(environment.get("LD_PRELOAD", ""))
    found = [finding for entry in entries if (finding := _preloaded(entry, library)) is not None]
    yield from found or [ok("LD_PRELOAD", ", ".join(entries) or "not set")]
    yield from _system_preload(files, library)


def _preloaded(entry: str, library: Optional[Path]) -> Optional[Finding]:
    """`hakmem run` appends the library to these entries: the first that defines malloc serves it."""
    path = _path_of(entry)
    if path is not None and not path.exists():
        return Finding(
            Level.NOTE,
            "LD_PRELOAD",
            f"{entry} does not exist",
            "Every program that starts prints a line about it.",
            "Take it out of LD_PRELOAD.",
        )
    if path is None or path.resolve() == library or not defines(str(path), "malloc"):
        return None
    return Finding(
        Level.PROBLEM,
        "LD_PRELOAD",
        f"{entry} has a malloc, and comes first",
        "The first of several mallocs serves the program: hakmem would be loaded, and not used.",
        "Take it out of LD_PRELOAD.",
    )


def _path_of(entry: str) -> Optional[Path]:
    """None where only the dynamic linker knows it."""
    if "$" in entry:
        return None
    return Path(entry) if "/" in entry else paths.known_to_linker().get(entry)


def _system_preload(files: KernelFiles, library: Optional[Path]) -> Iterator[Finding]:
    """Spaces, colons and newlines separate entries; a # begins a comment."""
    lines = [line.partition("#")[0] for line in (files.text(_SYSTEM_PRELOAD) or "").splitlines()]
    entries = preload_list(" ".join(lines).replace("\t", " "))
    if not entries:
        yield ok(_SYSTEM_PRELOAD, "names nothing")
    for entry in entries:
        path = _path_of(entry)
        if path is None or path.resolve() == library or not defines(str(path), "malloc"):
            yield ok(_SYSTEM_PRELOAD, entry)
            continue
        yield Finding(
            Level.NOTE,
            _SYSTEM_PRELOAD,
            f"{entry} has a malloc",
            "LD_PRELOAD comes before it, so that `hakmem run` works; every other program has that malloc.",
            f"Put hakmem into {_SYSTEM_PRELOAD} in its place, if all programs are to have it.",
        )


def check_other_settings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Checks for variables of the C library's malloc, which have no effect."""
    names = _meant_for_glibc(environment)
    if not names:
        yield ok(_TUNABLES, "nothing about malloc")
        return
    yield Finding(
        Level.NOTE,
        _TUNABLES,
        ", ".join(names) + (" is set" if len(names) == 1 else " are set"),
        "They steer the C library's malloc, which programs do not use under hakmem: they have no effect.",
        "Unset them, and see `hakmem help options` for hakmem's own.",
    )


def _meant_for_glibc(environment: Mapping[str, str]) -> List[str]:
    tunables = (entry.partition("=")[0] for entry in environment.get(_TUNABLES, "").split(":"))
    about_malloc = [name for name in tunables if name.startswith("glibc.malloc.")]
    return about_malloc + [name for name in sorted(environment) if _OF_GLIBC.match(name)]
