"""The allocators that are present: glibc, ours, those of `make peers`, and the distribution's."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from hakmem import paths
from hakmem.errors import EXIT_CANNOT, EXIT_USAGE, Failure, say

GLIBC = "glibc"
HAKMEM = "hakmem"
HAKMEM_FAST = "hakmem-fast"
HAKMEM_SECURE = "hakmem-secure"
MODE_VARIABLE = "HAKMEM_MODE"
_MODE_MARK = "@"
# Allocators that distributions package, by the file that the dynamic linker knows.
_DISTRIBUTED = {
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2",
    "mimalloc-3": "libmimalloc.so.3",
    "tcmalloc_minimal": "libtcmalloc_minimal.so.4",
}
# Notes on the distribution's packages begin so, here and in bench/peers/peers.toml.
_OF_DISTRIBUTION = "the distribution's"
# Another name of a distributed allocator. It counts unless `make peers` uses it.
_ALIASES = {"tcmalloc": "tcmalloc_minimal"}


@dataclass(frozen=True)
class Allocator:
    """An allocator that programs can run under. Without a library it is the C library's own."""

    name: str
    library: Optional[str]
    version: Optional[str] = None
    notes: str = ""
    # Compared only when the user names it.
    on_request: bool = False
    # The value of HAKMEM_MODE for an entry of hakmem that runs in a mode.
    mode: Optional[str] = None

    @property
    def variables(self) -> Tuple[Tuple[str, str], ...]:
        """Returns the variables of its programs, besides the preload."""
        return ((MODE_VARIABLE, self.mode),) if self.mode is not None else ()

    @property
    def is_ours(self) -> bool:
        """Whether it reads the options of hakmem."""
        return self.name.partition(_MODE_MARK)[0] in (HAKMEM, HAKMEM_FAST, HAKMEM_SECURE)

    def describe(self) -> str:
        """For lists."""
        parts = [self.version or "", self.library or "the C library's own", self.notes]
        return f"{self.name}: " + ", ".join(part for part in parts if part)


def present() -> Dict[str, Allocator]:
    """Every allocator on this machine, by name. The first entry of a name and of a library counts."""
    found: Dict[str, Allocator] = {GLIBC: Allocator(GLIBC, None, _glibc_version())}
    for allocator in [*_ours(), *_peers(), *_distributed()]:
        libraries = {other.library for other in found.values()}
        if allocator.name not in found and (allocator.library is None or allocator.library not in libraries):
            found[allocator.name] = allocator
    return found


def choose(names: Optional[str], base: str, with_older: bool = True) -> List[Allocator]:
    """The allocators to compare, the base first. `names` is a list with commas; without it all that are present, or all
    without those that are there in a newer version too."""
    known = present()
    if names is None:
        older = set() if with_older else set(older_versions(known.values()))
        wanted = [name for name, allocator in known.items() if not allocator.on_request and name not in older]
        if HAKMEM not in known:
            raise Failure(
                "libhakmem.so was not found: build it with `make lib`, or name the allocators by --allocators"
            )
    else:
        wanted = [name.strip() for name in names.split(",") if name.strip()]
    chosen = [known[_known_name(name, known)] for name in dict.fromkeys([base, *wanted])]
    if len(chosen) < 2:
        raise Failure(f"only {base} is left: name at least one other by --allocators", EXIT_USAGE)
    for allocator in chosen:
        if allocator.library is not None:
            paths.preloadable(Path(allocator.library))
    return chosen


def name_in_mode(mode: str) -> str:
    """The name of hakmem in this mode."""
    return f"{HAKMEM}{_MODE_MARK}{mode}"


def with_modes(allocators: Sequence[Allocator], modes: Sequence[str]) -> List[Allocator]:
    """Adds hakmem in each mode. Without modes hakmem need not be among them."""
    if not modes:
        return list(allocators)
    ours = next((allocator for allocator in allocators if allocator.name == HAKMEM), None)
    if ours is None:
        raise Failure(f"--cost needs {HAKMEM} among the allocators", EXIT_USAGE)
    notes = [f"{MODE_VARIABLE}={mode}" for mode in modes]
    return [
        *allocators,
        *(replace(ours, name=name_in_mode(mode), notes=note, mode=mode) for mode, note in zip(modes, notes)),
    ]


def older_versions(allocators: Iterable[Allocator]) -> List[str]:
    """The distribution's versions of allocators that were also built from newer sources."""
    everyone = list(allocators)
    built = [one.name for one in everyone if not one.notes.startswith(_OF_DISTRIBUTION)]
    distributed = [one.name for one in everyone if one.notes.startswith(_OF_DISTRIBUTION)]
    return [name for name in distributed if any(other.startswith(name.partition("-")[0]) for other in built)]


def _known_name(name: str, known: Dict[str, Allocator]) -> str:
    name = name if name in known else _ALIASES.get(name, name)
    if name not in known:
        raise Failure(f"unknown allocator {name!r}. Present are: {', '.join(known)}", EXIT_USAGE)
    return name


def _ours() -> Sequence[Allocator]:
    version = paths.hakmem_version()
    safe, fast = paths.find_library(), paths.find_library(paths.FAST_LIBRARY)
    ours = [Allocator(HAKMEM, str(safe), version)] if safe else []
    if fast:
        ours.append(Allocator(HAKMEM_FAST, str(fast), version, "without checks", on_request=True))
    secure = paths.find_library(paths.SECURE_LIBRARY)
    if secure:
        ours.append(Allocator(HAKMEM_SECURE, str(secure), version, "hardened", on_request=True))
    return ours


def _peers() -> Sequence[Allocator]:
    """Returns the entries of build/peers/peers.json, without those whose library is gone, with a message for each."""
    root = paths.checkout()
    listing = root / "build" / "peers" / "peers.json" if root is not None else None
    if listing is None or not listing.is_file():
        return []
    try:
        entries = json.loads(listing.read_text(encoding="utf-8"))
        peers = [_peer(entry, listing.parent) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failure(f"{listing} is invalid ({error}): make it anew with `make peers`", EXIT_CANNOT) from None
    for peer in peers:
        if peer.library is not None and not Path(peer.library).is_file():
            say(f"left out: {peer.name}, its library {peer.library} is gone (`make peers` builds it)")
    return [peer for peer in peers if peer.library is None or Path(peer.library).is_file()]


def _peer(entry: Dict[str, Optional[str]], folder: Path) -> Allocator:
    library = entry["library"]
    path = str((folder / library).resolve()) if library else None
    return Allocator(str(entry["name"]), path, entry.get("version"), entry.get("notes") or "")


def _distributed() -> Sequence[Allocator]:
    linked = paths.known_to_linker()
    return [
        Allocator(name, str(linked[file]), None, _OF_DISTRIBUTION)
        for name, file in _DISTRIBUTED.items()
        if file in linked
    ]


def _glibc_version() -> Optional[str]:
    import os

    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")[2] or None
    except (ValueError, OSError):
        return None
