"""Answers to `profile sites`, checked, because they may come from a foreign file: stacks, lifetimes of their blocks,
and the free memory that they pin. docs/profile.md has the form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from hakmem import bounded
from hakmem.errors import Failure
from hakmem.json_text import decode, figure
from hakmem.profile.answer_stacks import AnswerStacks
from hakmem.profile.model import Profile, Sample

NEWEST_SCHEMA = 1
_MOST_BYTES = 256 << 20
# The i-th counts blocks that lived for less than 2^i ms, and not for less than half of it; the last one all that lived
# longer.
LIFETIMES = 16
_TYPES = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]
_VALUES = ("alloc_objects", "alloc_bytes", "inuse_objects", "inuse_bytes")


@dataclass(frozen=True)
class Site:
    """A stack, with the figures that no pprof file has."""

    sample: Sample
    shared: bool  # of stacks that share one entry for want of room
    lifetimes: Tuple[int, ...]
    block_bytes: int  # usable bytes of the blocks in use
    pinned_bytes: Optional[int]  # free bytes beside its live blocks; None: unknown


@dataclass
class SiteList:
    """One answer, and its stacks as a profile, for the symbolizer."""

    rows: List[Site]
    profile: Profile


def _stacks_of(document: Dict[str, Any]) -> Profile:
    """A sample for each site, in their order. A missing figure counts as 0."""
    stacks = AnswerStacks(document.get("mappings", []))
    samples = [
        Sample(stacks.stack(one["frames"]), tuple(figure(one.get(name) or 0) for name in _VALUES))
        for one in document["sites"]
    ]
    return Profile(list(_TYPES), samples, stacks.mappings, stacks.locations, period=figure(document.get("rate") or 0))


def read(path: str) -> bytes:
    """Reads a saved answer."""
    return bounded.read_file(path, _MOST_BYTES)


def parse(data: bytes, name: str) -> SiteList:
    """Returns the answer, or raises a Failure with the reason."""
    if data.startswith(b"\x1f\x8b"):
        raise Failure(f"{name} is gzipped, as pprof files are: those have neither lifetimes nor pinned bytes")
    try:
        document = decode(data)
    except ValueError as error:
        raise Failure(f"{name} is no answer to `profile sites`: cut off, damaged, or no JSON ({error})") from None
    if not isinstance(document, dict) or not isinstance(document.get("sites"), list):
        raise Failure(f"{name} is JSON, but no answer to `profile sites` (a statistics snapshot is no profile)")
    schema = document.get("schema")
    if not isinstance(schema, int) or not 1 <= schema <= NEWEST_SCHEMA:
        raise Failure(f"{name} has schema {schema!r:.40}, and this tool knows up to {NEWEST_SCHEMA}")
    try:
        profile = _stacks_of(document)
        profile.name = name
        rows = [_site(raw, sample) for raw, sample in zip(document["sites"], profile.samples)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Failure(f"{name} is damaged: {type(error).__name__} {error!s:.60}") from None
    return SiteList(rows, profile)


def _site(raw: Dict[str, Any], sample: Sample) -> Site:
    lifetimes = tuple(figure(one) for one in raw["lifetimes"])
    if len(lifetimes) != LIFETIMES:
        raise ValueError(f"{len(lifetimes)} lifetimes")
    pinned = raw["pinned"]
    free = None if pinned is None else figure(pinned["bytes"])
    return Site(sample, bool(raw["shared"]), lifetimes, figure(raw["block_bytes"]), free)
