"""Lifetimes and fragmentation by call site, as tables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence

from hakmem import fitting
from hakmem.errors import plural
from hakmem.metrics import size
from hakmem.profile.model import Sample, stack_of
from hakmem.profile.sites import LIFETIMES, Site, SiteList
from hakmem.profile.top import shortened

_CALLERS = 2
_BARS = "▁▂▃▄▅▆▇█"
# Short-lived: the first buckets, under 16 ms. The clock behind them goes in steps of up to 10 ms, which must not
# decide.
_SHORT_BUCKETS = 5
# The places of columns that a narrow terminal does without, from right to left, and of the names. The last one is the
# place where the others are gone: that of the curve, and that of the bytes in use.
_OF_LIFETIMES = (
    (54 + LIFETIMES, 62 + LIFETIMES), (38 + LIFETIMES, 54 + LIFETIMES), (23, 36), (12, 23), (12, 14 + LIFETIMES)
)  # fmt: skip
_LIFETIMES_NAME_AT = 64 + LIFETIMES
_OF_PINNED = ((45, 53), (34, 45), (12, 20), (12, 26))
_PINNED_NAME_AT = 55


@dataclass
class Row:
    """The sites that one name stands for."""

    title: str
    allocated_bytes: int
    live_blocks: int
    live_bytes: int
    block_bytes: int
    pinned_bytes: int
    lifetimes: List[int]

    @property
    def freed(self) -> int:
        """Blocks whose lifetimes are known."""
        return sum(self.lifetimes)

    @property
    def empty(self) -> float:
        """The free part of the memory that its live blocks and the free memory beside them take together."""
        return self.pinned_bytes / (self.pinned_bytes + self.block_bytes)

    def add(self, other: Row) -> None:
        """Both together."""
        self.allocated_bytes += other.allocated_bytes
        self.live_blocks += other.live_blocks
        self.live_bytes += other.live_bytes
        self.block_bytes += other.block_bytes
        self.pinned_bytes += other.pinned_bytes
        self.lifetimes = [mine + its for mine, its in zip(self.lifetimes, other.lifetimes)]


def rows(sites: SiteList) -> List[Row]:
    """Groups the sites, unsorted. Requires named frames."""
    found: Dict[str, Row] = {}
    for site in sites.rows:
        row = _row(site)
        first = found.setdefault(row.title, row)
        if first is not row:
            first.add(row)
    return list(found.values())


def _row(site: Site) -> Row:
    _, allocated, live_blocks, live_bytes = site.sample.values
    title = "stacks that share one entry for want of room" if site.shared else _title(site.sample)
    free = site.pinned_bytes or 0
    return Row(title, allocated, live_blocks, live_bytes, site.block_bytes, free, list(site.lifetimes))


def _title(sample: Sample) -> str:
    """The function that allocated, its line, and its callers."""
    stack = stack_of(sample)
    if not stack:
        return "a stack that is not known"
    asked, _ = stack[0]
    line = f" ({os.path.basename(asked.file)}:{asked.line})" if asked.file and asked.line else ""
    callers = "".join(f" ← {frame.function}" for frame, _ in stack[1 : 1 + _CALLERS])
    return f"{asked.function}{line}{callers}"


# ---- Lifetimes.


def bars(lifetimes: Sequence[int]) -> str:
    """A bar for each bucket, the highest for the fullest; a dot for an empty one."""
    most = max(lifetimes)
    return "".join(_BARS[(one * len(_BARS) - 1) // most] if one else "·" for one in lifetimes)


def median(lifetimes: Sequence[int]) -> str:
    """The bucket that the median is in, in words."""
    bucket = median_bucket(lifetimes)
    return "none freed" if bucket is None else words(bucket)


def median_bucket(lifetimes: Sequence[int]) -> Optional[int]:
    """Its number; None where nothing was freed."""
    total, seen = sum(lifetimes), 0
    for bucket, blocks in enumerate(lifetimes):
        seen += blocks
        if blocks and 2 * seen >= total:
            return bucket
    return None


def words(bucket: int) -> str:
    """The lifetimes of a bucket, in words."""
    if bucket == 0:
        return "under 1 ms"
    if bucket == LIFETIMES - 1:
        return "over 16 s"
    low, high = 1 << (bucket - 1), 1 << bucket
    # 1,024 ms are a second here.
    if high < 1024:
        return f"{low} to {high} ms"
    return f"{'0.5' if low < 1024 else low >> 10} to {high >> 10} s"


def short_share(lifetimes: Sequence[int]) -> Optional[float]:
    """The short-lived part of the freed blocks."""
    total = sum(lifetimes)
    return sum(lifetimes[:_SHORT_BUCKETS]) / total if total else None


def by_allocated(sites: SiteList) -> List[Row]:
    """The sites that allocated most first."""
    return sorted(rows(sites), key=lambda row: (-row.allocated_bytes, -row.live_bytes, row.title))


def lifetimes_head(sites: SiteList, shown: Sequence[Row]) -> str:
    """The sums, as a line."""
    together = [sum(column) for column in zip(*(row.lifetimes for row in shown))]
    freed = sum(together)
    head = f"{size(sum(row.allocated_bytes for row in shown))} allocated; about {freed:,} blocks freed"
    if freed:
        head += f", {percent(short_share(together))} of them within 16 ms"
    return head + _rate(sites)


def lifetimes_text(sites: SiteList, most: int) -> List[str]:
    """The lines of the table, the sites that allocated most first."""
    shown = by_allocated(sites)
    lines = [lifetimes_head(sites, shown)]
    if not shown:
        return lines
    ends = f"{'<1 ms':<{LIFETIMES // 2}}{'>16 s':>{LIFETIMES // 2}}"
    lines.append(f"{'allocated':>12} {'in use':>10} {'freed':>12}  {ends}  {'median':<14} {'<16 ms':>7}  blocks of")
    for row in shown[:most]:
        drawn = bars(row.lifetimes) if row.freed else " " * LIFETIMES
        lines.append(
            f"{size(row.allocated_bytes):>12} {row.live_blocks:>10,} {row.freed:>12,}  {drawn}  "
            f"{median(row.lifetimes):<14} {percent(short_share(row.lifetimes)):>7}  {shortened(row.title)}"
        )
    return fitting.narrowed(lines + _more(len(shown), most), _OF_LIFETIMES, _LIFETIMES_NAME_AT)


# ---- Fragmentation.


PINNED_UNKNOWN = "it is unknown which sites hold free memory: the process had no memory to count its blocks"


def by_pinned(sites: SiteList) -> Optional[List[Row]]:
    """The sites that hold free memory, the largest first; None where that is unknown."""
    if any(site.pinned_bytes is None for site in sites.rows):
        return None
    holding = (row for row in rows(sites) if row.pinned_bytes)
    return sorted(holding, key=lambda row: (-row.pinned_bytes, row.block_bytes, row.title))


def pinned_head(sites: SiteList, shown: Sequence[Row]) -> str:
    """The sum, as a line."""
    return f"{size(sum(row.pinned_bytes for row in shown))} free between live blocks, which hold it{_rate(sites)}"


def pinned_text(sites: SiteList, most: int) -> List[str]:
    """The lines of the table, the sites that hold most free memory first."""
    shown = by_pinned(sites)
    if shown is None:
        return [PINNED_UNKNOWN]
    total = sum(row.pinned_bytes for row in shown)
    lines = [pinned_head(sites, shown)]
    if not shown:
        return lines
    lines.append(f"{'free':>12} {'free%':>7}  {'in use':>12} {'blocks':>10} {'empty':>7}  held by blocks of")
    for row in shown[:most]:
        lines.append(
            f"{size(row.pinned_bytes):>12} {percent(row.pinned_bytes / total):>7}  {size(row.live_bytes):>12} "
            f"{row.live_blocks:>10,} {percent(row.empty):>7}  {shortened(row.title)}"
        )
    return fitting.narrowed(lines + _more(len(shown), most), _OF_PINNED, _PINNED_NAME_AT)


def _rate(sites: SiteList) -> str:
    return f", from a sample every {size(sites.profile.period)}" if sites.profile.period else ""


def _more(count: int, most: int) -> List[str]:
    return [f"and {plural(count - most, 'more site')}"] if count > most else []


def percent(share: Optional[float]) -> str:
    """Empty where there is none."""
    return "" if share is None else f"{100 * share:.1f}%"
