"""Programs and libraries of musl, the C library of Alpine Linux and of many static programs."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Optional

from hakmem import paths
from hakmem.errors import Failure
from hakmem.needed import needed
from hakmem.paths import LIBRARY

HOW_TO_BUILD = "`make musl` in the checkout builds the library for musl"
_PRESETS = ("musl", "musl-zig")
# musl's names for itself: the plain one, and Alpine's.
_OWN_NAMES = ("libc.so", "libc.musl-")
# In the symbols of a static program, and in the data of one without symbols: musl's text for error 0.
_MARKS = (b"\0__init_libc\0", b"\0No error information\0")


def runs_on_musl(interpreter: Optional[str]) -> bool:
    """Whether a program's dynamic linker is musl's, by its name."""
    return interpreter is not None and os.path.basename(interpreter).startswith("ld-musl")


def is_for_musl(library: str) -> bool:
    """Whether a library is linked with musl."""
    return any(name == _OWN_NAMES[0] or name.startswith(_OWN_NAMES[1]) for name in needed(library))


def is_static_musl(path: str) -> bool:
    """Whether a static program has musl in it, as far as its file tells."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(mark) >= 0 for mark in _MARKS)
    except (OSError, ValueError):  # an empty file has no map
        return False


def library_for(interpreter: str, name: str = LIBRARY) -> Optional[Path]:
    """The library for programs of this dynamic linker of musl: the checkout's, else one that is installed, first below
    the prefix of this package."""
    machine = os.path.basename(interpreter)[len("ld-musl-") :].partition(".")[0]
    root = paths.checkout()
    candidates = [root / "build" / preset / name for preset in _PRESETS] if root is not None else []
    folders = [*paths.library_folders_of_prefix(), Path("/usr/local/lib"), Path("/usr/lib")]
    candidates += [folder / f"{machine}-linux-musl" / name for folder in folders]
    usual = paths.find_library(name)  # on a machine whose C library is musl
    candidates += [usual] if usual is not None else []
    return next((file.resolve() for file in candidates if file.is_file() and is_for_musl(str(file))), None)


def require_library(given: Optional[str], interpreter: Optional[str], name: str = LIBRARY) -> Path:
    """The library of this name, or the given one, to preload into a program of this dynamic linker; or a Failure."""
    if given is not None or interpreter is None or not runs_on_musl(interpreter):
        return paths.require_library(given, name)
    found = library_for(interpreter, name)
    if found is None:
        raise Failure(f"the program runs on musl ({interpreter}): {HOW_TO_BUILD}, or name it by --library")
    return paths.preloadable(found)
