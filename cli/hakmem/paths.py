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
# By the name that it was imported by: a folder above it may be a link, to the current release or to another disk.
_PACKAGE = Path(os.path.abspath(__file__)).parent
# `make install` makes it a link to the folder hakmem of lib, lib64, or Debian's folder of the processor.
_NATIVE = _PACKAGE / "native"
_LIBRARY_FOLDERS = (Path("/usr/local/lib"), Path("/usr/lib"))


def _find_packaged() -> Path:
    """The built files of an installed package: tools/build_wheel.py puts them there. The link leads from the folders'
    names: from another disk, to which /usr/local/share may be a link, no relative way leads back."""
    if not _NATIVE.is_symlink():
        return _NATIVE
    target = Path(os.path.normpath(_PACKAGE / os.readlink(_NATIVE)))
    return target if target.is_dir() else _NATIVE


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
            [ldconfig, "-p"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
            errors="surrogateescape",  # a folder's name may be of another encoding
        )  # fmt: skip
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


def _built(name: str) -> Optional[Path]:
    root = checkout()
    for folder in [_PACKAGED, *([root / "build" / "release"] if root is not None else [])]:
        if (folder / name).is_file():
            return folder / name
    return None


def _library(name: str) -> Optional[Path]:
    found = _built(name)
    if found is not None:
        return found
    for folder in _LIBRARY_FOLDERS:
        if (folder / name).is_file():
            return folder / name
    return known_to_linker().get(name)


def find_built(name: str) -> Optional[Path]:
    """Returns a built file: that of this package when it was installed with one, else the checkout's."""
    found = _built(name)
    return found.resolve() if found is not None else None


def find_library(name: str = LIBRARY) -> Optional[Path]:
    """Returns a library: a built file, else one that was installed for all programs."""
    found = _library(name)
    return found.resolve() if found is not None else None


def require_library(given: Optional[str] = None, name: str = LIBRARY) -> Path:
    """The library to preload, or a Failure that says how to get it."""
    return preloadable(named_library(given) if given is not None else _required(name).resolve())


def _required(name: str) -> Path:
    found = _library(name)
    if found is None:
        raise Failure(f"{name} was not found: build it with `make lib` in the checkout, or name it by --library")
    return found


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


def require_lasting(given: Optional[str], name: str) -> Path:
    """The library to preload, as require_library, by the name that it keeps in later releases: libhakmem.so.0, beside
    libhakmem.so.0.1.0. Folders that are links keep their names, because an update may lead them elsewhere."""
    if given is not None:
        named_library(given)
        return lasting(preloadable(Path(given).absolute()))
    return lasting(preloadable(_without_own_links(_required(name))))


def _without_own_links(library: Path) -> Path:
    """The file's name in the folder of the libraries: the tool's folder has links to it."""
    target = library
    while target.is_symlink() and not re.search(r"\.so\.\d", target.name):
        target = Path(os.path.normpath(target.parent / os.readlink(target)))
    return target if target.exists() and target.samefile(library) else library.resolve()


def lasting(library: Path) -> Path:
    """The library by the link to its major version, where that is beside it."""
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
