"""Which places in the program hold memory: from a profile that runs in the process, its saved sites, or a pprof file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from hakmem.attach import Refused
from hakmem.errors import Failure
from hakmem.explain.snapshot import decode, read
from hakmem.profile.debug_files import DEBUG_FOLDERS, Search
from hakmem.profile.model import Profile, names_of
from hakmem.profile.read import parse
from hakmem.profile.sites import NEWEST_SCHEMA, stacks_of
from hakmem.profile.symbolize import Symbolizer


@dataclass(frozen=True)
class Site:
    """A stack, the innermost function first, and what its live blocks amount to, estimated from samples."""

    names: Tuple[str, ...]
    live_bytes: int
    live_blocks: int
    block_bytes: Optional[int] = None  # what the allocator gave for live_bytes
    pinned_bytes: Optional[int] = None  # free bytes beside its live blocks, which they keep resident
    samples: int = 0

    @property
    def title(self) -> str:
        """The function that asked, and who called it."""
        return " ← ".join(self.names[:3]) if self.names else "a stack that is not known"


@dataclass
class Sites:
    """All of them, those that hold most first."""

    rows: List[Site] = field(default_factory=list)
    rate: int = 0
    profile: Optional[Profile] = None
    notes: List[str] = field(default_factory=list)

    @property
    def inside_share(self) -> Optional[float]:
        """Which part of the blocks nobody asked for: block sizes are rounded up. None where the profile does not tell."""
        known = [one for one in self.rows if one.block_bytes]
        given = sum(one.block_bytes or 0 for one in known)
        return max(0.0, 1 - sum(one.live_bytes for one in known) / given) if given else None

    @property
    def pinning(self) -> List[Site]:
        """Those that keep free memory resident, the worst first; empty where the profile does not tell."""
        return sorted((one for one in self.rows if one.pinned_bytes), key=lambda one: -(one.pinned_bytes or 0))


def of_file(path: str) -> Sites:
    """Of a pprof file, or of the saved answer of `profile sites`."""
    data = read(path)
    if data.lstrip().startswith(b"{"):
        return of_document(decode(data, path), path)
    return of_recorded(parse(data, path))


def of_recorded(profile: Profile) -> Sites:
    """Of a profile that was read already."""
    return _of_profile(profile, Search())


def of_process(ask: Callable[[str], bytes], pid: int) -> Tuple[Optional[Sites], str]:
    """Of the profile that runs there; or None and why there is none."""
    try:
        state = decode(ask("profile state"), "what the process says of its profile")
        if not isinstance(state, dict) or not state.get("running"):
            return None, f"no profile runs: `hakmem profile -o heap.pb.gz {pid}` takes one, for --profile heap.pb.gz"
        answer = ask("profile sites")
    except Refused:
        return None, "the process's library has no profiles"
    search = Search((f"/proc/{pid}/root", ""), DEBUG_FOLDERS)
    return of_document(decode(answer, f"the profile of process {pid}"), f"the profile of process {pid}", search), ""


def of_document(document: Any, name: str, search: Optional[Search] = None) -> Sites:
    """Of the answer of `profile sites`."""
    if not isinstance(document, dict) or not isinstance(document.get("sites"), list):
        raise Failure(f"{name} is JSON, but not what `profile sites` answers (a statistics snapshot is no profile)")
    schema = document.get("schema")
    if not isinstance(schema, int) or not 1 <= schema <= NEWEST_SCHEMA:
        raise Failure(f"{name} has schema {schema!r:.40}, and this tool knows up to {NEWEST_SCHEMA}")
    try:
        return _of_sites(document, search or Search())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Failure(f"{name} is damaged: {type(error).__name__} {error!s:.60}") from None


def _of_sites(document: Dict[str, Any], search: Search) -> Sites:
    profile = stacks_of(document)
    notes = _symbolise(profile, search)
    rows = [_site(raw, names_of(sample)) for raw, sample in zip(document["sites"], profile.samples)]
    return Sites(_ordered(rows), profile.period, profile, notes)


def _site(raw: Dict[str, Any], names: Sequence[str]) -> Site:
    pinned = raw.get("pinned")
    free = pinned.get("bytes") if isinstance(pinned, dict) else None
    block_bytes = raw.get("block_bytes")
    return Site(
        tuple(names),
        int(raw.get("inuse_bytes") or 0),
        int(raw.get("inuse_objects") or 0),
        int(block_bytes) if block_bytes is not None else None,
        int(free) if free is not None else None,
        int(raw.get("inuse_samples") or 0),
    )


def _of_profile(profile: Profile, search: Search) -> Sites:
    space, objects = profile.column("inuse_space"), profile.column("inuse_objects")
    notes = _symbolise(profile, Search(search.roots, search.debug_folders, profile.time_nanos))
    rows = [Site(tuple(names_of(one)), one.values[space], one.values[objects]) for one in profile.samples]
    return Sites(_ordered(rows), profile.period, profile, notes)


def _symbolise(profile: Profile, search: Search) -> List[str]:
    with Symbolizer(search) as symbolizer:
        symbolizer.symbolise(profile)
        return list(symbolizer.notes.values())


def _ordered(rows: List[Site]) -> List[Site]:
    return sorted((one for one in rows if one.live_bytes), key=lambda one: (-one.live_bytes, one.names))
