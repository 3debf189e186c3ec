"""The input of a report: snapshots in the order of their times, and the evidence of the moment that it explains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

from hakmem.explain.explanation import Evidence
from hakmem.explain.sites import Sites
from hakmem.explain.snapshot import Snapshot
from hakmem.profile.export import stacks

Stacks = Dict[Tuple[str, ...], int]


@dataclass
class Course:
    """`evidence` is of the one moment that the page explains; its snapshot is one of `snapshots`."""

    title: str
    snapshots: List[Snapshot]
    evidence: Evidence
    map: Optional[Dict[str, Any]] = None
    no_map: str = ""  # why it is missing
    notes: List[str] = field(default_factory=list)

    @property
    def sites(self) -> Optional[Sites]:
        """The sites that hold memory, where they are known."""
        return self.evidence.sites

    def live_stacks(self) -> Stacks:
        """Live bytes by stack, the outermost function first."""
        profile = self.sites.profile if self.sites is not None else None
        return stacks(profile, "inuse_space") if profile is not None else {}


@dataclass(frozen=True)
class Point:
    """A moment of the time line. An older snapshot lacks `live`."""

    seconds: float
    resident: int
    live: Optional[int]
    cached: int


def points(snapshots: List[Snapshot]) -> List[Point]:
    """The moments of the snapshots that have a time, counted from the first one."""
    timed = sorted((one for one in snapshots if one.number("time_ms")), key=lambda one: one.number("time_ms"))
    timed = timed or snapshots[-1:]
    start = timed[0].number("time_ms") if timed else 0
    return [_point(one, start) for one in timed]


def _point(snapshot: Snapshot, start_ms: int) -> Point:
    parts = snapshot.parts
    if parts:
        cached, live = parts["kept_by_heaps"] + parts["dirty_slabs"] + parts["large_dirty"], parts["live"]
    else:
        cached, live = snapshot.number("memory", "dirty_slabs") + snapshot.number("memory", "large_dirty"), None
    seconds = (snapshot.number("time_ms") - start_ms) / 1000
    return Point(seconds, snapshot.number("memory", "resident"), live, cached)
