"""The sites in the program that hold memory: from a running profile, its saved sites, or a pprof file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, List, Optional, Tuple

from hakmem.attach import Refused
from hakmem.explain.snapshot import read
from hakmem.process_files import roots
from hakmem.profile import live
from hakmem.profile import sites as site_lists
from hakmem.profile.debug_files import DEBUG_FOLDERS, Search
from hakmem.profile.model import Profile, names_of
from hakmem.profile.perf_map import paths_of
from hakmem.profile.read import parse
from hakmem.profile.sites import SiteList
from hakmem.profile.symbolize import Symbolizer

_NONE_RUNS = (
    "no profile runs. One that begins now knows only later blocks: `hakmem profile -o heap.pb.gz {0}` takes one, for "
    "--profile heap.pb.gz. A start with HAKMEM_PROFILE=1, or by `hakmem profile -- PROGRAM`, knows all blocks"
)


@dataclass(frozen=True)
class Site:
    """A stack, the innermost function first, and the sums of its live blocks, estimated from samples."""

    names: Tuple[str, ...]
    live_bytes: int
    live_blocks: int
    block_bytes: Optional[int] = None  # usable bytes of the blocks of live_bytes
    pinned_bytes: Optional[int] = None  # free bytes beside its live blocks, which they keep resident

    @property
    def title(self) -> str:
        """The function that allocated, and its callers."""
        return " ← ".join(self.names[:3]) if self.names else "a stack that is not known"


@dataclass
class Sites:
    """All sites, those that hold most first."""

    rows: List[Site] = field(default_factory=list)
    rate: int = 0
    profile: Optional[Profile] = None
    notes: List[str] = field(default_factory=list)
    # Their source, which has lifetimes too; None where it is a pprof file.
    answer: Optional[SiteList] = None

    @property
    def live_bytes(self) -> int:
        """The live blocks of all sites."""
        return sum(one.live_bytes for one in self.rows)

    @property
    def inside_share(self) -> Optional[float]:
        """The part of the blocks beyond the requested bytes. None where the profile does not tell."""
        known = [one for one in self.rows if one.block_bytes]
        given = sum(one.block_bytes or 0 for one in known)
        return max(0.0, 1 - sum(one.live_bytes for one in known) / given) if given else None

    @property
    def pinning(self) -> List[Site]:
        """The sites that pin free memory, the worst first; empty where the profile does not tell."""
        return sorted((one for one in self.rows if one.pinned_bytes), key=lambda one: -(one.pinned_bytes or 0))


def of_file(path: str) -> Sites:
    """From a pprof file, or from a saved answer to `profile sites`."""
    data = read(path)
    if data.lstrip().startswith(b"{"):
        return of_answer(site_lists.parse(data, path), Search())
    return of_recorded(parse(data, path))


def of_recorded(profile: Profile) -> Sites:
    """From a profile."""
    return _of_profile(profile, Search())


def of_process(ask: Callable[[str], bytes], pid: int) -> Tuple[Optional[Sites], str]:
    """From the profile that runs in the process; or None and the reason."""
    try:
        if not live.state(ask).running:
            return None, _NONE_RUNS.format(pid)
        answer = ask("profile sites")
    except Refused:
        return None, "the process's library has no profiles"
    search = Search(roots(pid), DEBUG_FOLDERS, perf_maps=paths_of(pid, roots(pid)))
    return of_answer(site_lists.parse(answer, f"the profile of process {pid}"), search), ""


def of_answer(answer: SiteList, search: Search) -> Sites:
    """From an answer to `profile sites`."""
    notes = _symbolize(answer.profile, search)
    rows = [_site(one) for one in answer.rows]
    return Sites(_ordered(rows), answer.profile.period, answer.profile, notes, answer)


def _site(found: site_lists.Site) -> Site:
    blocks, live = found.sample.values[2:]
    return Site(tuple(names_of(found.sample)), live, blocks, found.block_bytes, found.pinned_bytes)


def _of_profile(profile: Profile, search: Search) -> Sites:
    space, objects = profile.column("inuse_space"), profile.column("inuse_objects")
    notes = _symbolize(profile, Search(search.roots, search.debug_folders, profile.began_nanos, search.perf_maps))
    rows = [Site(tuple(names_of(one)), one.values[space], one.values[objects]) for one in profile.samples]
    return Sites(_ordered(rows), profile.period, profile, notes)


def _symbolize(profile: Profile, search: Search) -> List[str]:
    with Symbolizer(search) as symbolizer:
        symbolizer.symbolize(profile)
        return list(symbolizer.notes.values())


def _ordered(rows: List[Site]) -> List[Site]:
    return sorted((one for one in rows if one.live_bytes), key=lambda one: (-one.live_bytes, one.names))
