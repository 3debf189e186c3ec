"""The library's answers about leaks. docs/leaks.md has the form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from hakmem.errors import Failure
from hakmem.json_text import decode, figure
from hakmem.profile.answer_stacks import AnswerStacks
from hakmem.profile.model import Profile, Sample, stack_of

SCHEMA = 1
KINDS = ("unreachable", "reachable", "unjudged")


@dataclass(frozen=True)
class Sums:
    """Estimates, and the number of their samples."""

    samples: int
    blocks: int
    bytes: int

    def plus(self, other: Sums) -> Sums:
        """Both together."""
        return Sums(self.samples + other.samples, self.blocks + other.blocks, self.bytes + other.bytes)


@dataclass
class Site:
    """A stack, and its live blocks by kind."""

    sample: Sample
    shared: bool
    of: Dict[str, Sums]


@dataclass(frozen=True)
class Threads:
    """The number of threads besides the scanning one, and of those whose system call arguments it saw."""

    others: int
    asked: int


@dataclass
class Leaks:
    """One process's answer."""

    rate: int
    samples: int
    lost: int
    scan: str
    threads: Optional[Threads]  # None: not scanned, or not known
    of: Dict[str, Sums]
    sites: List[Site]
    left_out: int
    profile: Profile  # the stacks, for the symbolizer
    unknown_ms: int = 0  # the time of the program before the profile

    @property
    def is_exact(self) -> bool:
        """Whether every block since the start counts."""
        return self.rate == 1 and not self.lost

    @property
    def kind(self) -> str:
        """The kind to list: after a scan the unreachable blocks, else all live ones."""
        return "unreachable" if self.scan == "done" else "unjudged"

    def merge(self) -> None:
        """Merges sites that differ only inside the allocator. Requires named frames."""
        merged: Dict[Tuple[bool, Tuple[int, ...]], Site] = {}
        for site in self.sites:
            key = (site.shared, tuple(location.address for _, location in stack_of(site.sample)))
            first = merged.setdefault(key, site)
            if first is not site:
                first.of = {kind: first.of[kind].plus(site.of[kind]) for kind in KINDS}
        self.sites = list(merged.values())

    def found(self) -> List[Site]:
        """The sites of that kind, largest first."""
        sites = [site for site in self.sites if site.of[self.kind].samples]
        return sorted(sites, key=lambda site: (-site.of[self.kind].bytes, -site.of[self.kind].blocks))


def parse(data: bytes, name: str) -> Leaks:
    """Returns the answer, or raises a Failure when it is invalid."""
    try:
        return _leaks(decode(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failure(f"{name} is no leak report of hakmem: damaged, or of another version ({error})") from None


def _leaks(document: Any) -> Leaks:
    if document["schema"] != SCHEMA:
        raise ValueError(f"schema {document['schema']}")
    stacks = AnswerStacks(document["mappings"])
    sites = [
        Site(Sample(stacks.stack(one["frames"]), ()), bool(one["shared"]), _sums(one)) for one in document["sites"]
    ]
    profile = Profile([], [site.sample for site in sites], stacks.mappings, stacks.locations)
    return Leaks(
        figure(document["rate"]),
        figure(document["samples"]),
        figure(document["lost"]),
        str(document["scan"]),
        _threads(document.get("threads")),
        _sums(document),
        sites,
        figure(document["left_out"]),
        profile,
    )


def _threads(document: Any) -> Optional[Threads]:
    return None if document is None else Threads(figure(document["others"]), figure(document["asked"]))


def _sums(document: Any) -> Dict[str, Sums]:
    return {kind: Sums(*(figure(document[kind][name]) for name in ("samples", "blocks", "bytes"))) for kind in KINDS}
