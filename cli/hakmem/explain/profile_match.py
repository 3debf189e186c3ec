"""Whether a profile in a file can be of the explained process at the explained moment."""

from __future__ import annotations

import math
from typing import Optional

from hakmem.explain import process_memory
from hakmem.explain.sites import Sites
from hakmem.explain.snapshot import Snapshot
from hakmem.metrics import size
from hakmem.process_files import mappings
from hakmem.profile.model import Mapping, Profile

# An estimate from samples may exceed the whole by a quarter, and by this many standard deviations.
_MOST_SHARE = 4
_MOST_DEVIATIONS = 4


def doubt(found: Sites, taken: Snapshot, pid: Optional[int]) -> str:
    """The reason why the profile is not of that process or moment, as the rest of a sentence; empty where none is
    seen. `pid` is None for a saved snapshot, which has no mappings."""
    profile = found.profile
    if profile is not None and (_is_older(profile, taken) or (pid is not None and _has_other_code(profile, pid))):
        return "is of another process"
    whole = taken.number("live", "bytes")
    if taken.schema >= 2 and _is_more(found, whole):
        told = f"has {size(found.live_bytes)} in use, more than all blocks of the process, {size(whole)}"
        return f"{told}: it is of another process or moment"
    return ""


def _is_older(profile: Profile, taken: Snapshot) -> bool:
    """Whether the profile was taken before the process started."""
    start_ms = taken.number("time_ms") - taken.number("uptime_ms")
    return 0 < profile.time_nanos // 1_000_000 < start_ms


def _has_other_code(profile: Profile, pid: int) -> bool:
    """Whether most of the profile's files lie elsewhere in the process: its addresses differ from start to start. A
    library that was unloaded may be missing."""
    files = [one for one in profile.mappings if one.path.startswith("/")]
    places = process_memory.code_places(mappings(pid) or "")
    return bool(places) and sum(_place_of(one) in places for one in files) * 2 < len(files)


def _place_of(mapping: Mapping) -> int:
    """The address at which the file's first byte would lie."""
    return mapping.start - mapping.offset


def _is_more(found: Sites, whole: int) -> bool:
    deviation = math.sqrt(found.live_bytes * found.rate)
    return found.live_bytes - whole > max(whole / _MOST_SHARE, _MOST_DEVIATIONS * deviation)
