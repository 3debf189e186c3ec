"""Paths: where the library and other built files lie, and the checkout."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Dict, List, Optional

from hakmem import __version__
from hakmem.errors import Failure, shown

LIBRARY = "libhakmem.so"
FAST_LIBRARY = "libhakmem-fast.so"
SECURE_LIBRARY = "libhakmem-secure.so"
# `make install` makes it a link to the folder hakmem of lib, lib64, or Debian's folder of the processor.
_NATIVE = Path(__file__).resolve().parent / "native"
_LIBRARY_FOLDERS = (Path("/usr/local/lib"), Path("/usr/lib"))


def _find_packaged() -> Path:
    """The built files of an installed package: tools/build_wheel.py puts them there. The link leads from the folders'
    names: a folder above it, such as /usr/local/share, may be a link itself, to another disk."""
    named = Path(os.path.abspath(__file__)).parent
    if _NATIVE.is_symlink() and not _NATIVE.exists():
        return Path(os.path.normpath(named / os.readlink(_NATIVE)))
    return _NATIVE


_PACKAGED = _find_packaged()


def checkout() -> Optional[Path]:
    """The checkout this package lies in; None when it was installed elsewhere."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "src" / "policy" / "option.def").is_file() else None


def is_of_pip() -> bool:
    """Whether pip has installed this package. `make install` and the distributions' packages leave it no record."""
    from importlib import metadata  # here, because it takes longer than the rest of this file

    try:
        metadata.distribution("hakmem")
    except metadata.PackageNotFoundError:
        return False
    return True


def known_to_linker() -> Dict[str, Path]:
    """Libraries by file name, as the dynamic linker's cache lists them for this machine."""
    ldconfig = next((path for path in ("/sbin/ldconfig", "/usr/sbin/ldconfig") if os.path.exists(path)), "ldconfig")
    try:
        listing = subprocess.run(
            [ldconfig, "-p"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return {}
    rows = re.findall(r"^\s*(\S+) \(libc6,(?:x86-64|AArch64)[^)]*\) => (.+)$", listing.stdout, re.M)
    found: Dict[str, Path] = {}
    for name, path in rows:
        found.setdefault(name, Path(path).resolve())
    return found


def library_folders_of_prefix() -> List[Path]:
    """Folders of libraries below the prefix that this package is installed to."""
    if _PACKAGED == _NATIVE and not _NATIVE.is_symlink():
        return []
    own = _PACKAGED.resolve().parent
    return [own, own.parent, own.parent / "lib"]


def find_built(name: str) -> Optional[Path]:
    """Returns a built file: that of this package when it was installed with one, else the checkout's."""
    root = checkout()
    for folder in [_PACKAGED, *([root / "build" / "release"] if root is not None else [])]:
        if (folder / name).is_file():
            return (folder / name).resolve()
    return None


def find_library(name: str = LIBRARY) -> Optional[Path]:
    """Returns a library: a built file, else one that was installed for all programs."""
    found = find_built(name)
    if found is not None:
        return found
    for folder in _LIBRARY_FOLDERS:
        if (folder / name).is_file():
            return (folder / name).resolve()
    return known_to_linker().get(name)


def require_library(given: Optional[str] = None, name: str = LIBRARY) -> Path:
    """The library to preload, or a Failure that says how to get it."""
    if given is not None:
        library = named_library(given)
    else:
        found = find_library(name)
        if found is None:
            raise Failure(f"{name} was not found: build it with `make lib` in the checkout, or name it by --library")
        library = found
    return preloadable(library)


def named_library(given: str) -> Path:
    """The library that the caller named."""
    library = Path(given).resolve()
    if not library.is_file():
        raise Failure(f"no library {shown(given)}")
    return library


def preloadable(library: Path) -> Path:
    """Returns the library if LD_PRELOAD can name its path, else raises a Failure."""
    if re.search(r"[\s:$]", str(library)):
        raise Failure(
            f"{library} cannot be preloaded: its path has a space, a colon or a dollar sign, and LD_PRELOAD has no "
            "way to quote them. Move or copy it elsewhere"
        )
    return library


def lasting(library: Path) -> Path:
    """The library by the name that it keeps in later releases: libhakmem.so.0, beside libhakmem.so.0.1.0."""
    versioned = re.match(r"(.+\.so\.\d+)\.", library.name)
    if versioned is None:
        return library
    link = library.with_name(versioned[1])
    return link if link.exists() and link.samefile(library) else library


def hakmem_version() -> Optional[str]:
    """The version of the library that is found: this package's own, or the one that its header states."""
    if (_PACKAGED / LIBRARY).is_file():
        return __version__
    root = checkout()
    header = (
        root / "include" / "hakmem" / "hakmem.h" if root is not None else Path("/usr/local/include/hakmem/hakmem.h")
    )
    try:
        text = header.read_text(encoding="utf-8")
    except OSError:
        return None
    parts = re.findall(r"#define HAKMEM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text)
    return ".".join(parts) or None
