"""The page's sections about call sites: lifetimes and pinned memory; or how to get them."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from hakmem.page.course import Course
from hakmem.page.html import Head, figure, section, table, text
from hakmem.profile import site_tables
from hakmem.profile.site_tables import Row
from hakmem.profile.sites import SiteList
from hakmem.profile.top import shortened

_MOST_ROWS = 100
_LIFETIMES = "How long blocks live"
_PINNED = "Which blocks pin free memory"
_LIFETIMES_LEAD = (
    "The bars are 16 ages, each twice the one before: under 1 ms, 1 to 2 ms, and so on to over 16 s. They are of "
    "blocks that were freed since the profile began; lifetimes of live blocks are still unknown."
)
_PINNED_LEAD = (
    "Free memory that the live blocks of a site pin: it stays resident because of them. "
    "Near 100% empty, a few blocks hold nearly empty slabs."
)


def lifetimes(course: Course) -> str:
    """A row for each site, the largest allocator first."""
    answer = _answer(course)
    if answer is None:
        return section("lifetimes", _LIFETIMES, _not_known(course))
    shown = site_tables.by_allocated(answer)
    heads = [
        Head("blocks of", sorts=False), Head("allocated", order="descending"), Head("in use"), Head("freed"),
        Head("<1 ms … >16 s", sorts=False), Head("median"), Head("<16 ms"),
    ]  # fmt: skip
    body = [
        f"<p>{text(site_tables.lifetimes_head(answer, shown))}</p>",
        table("lifetimes", heads, (_lifetimes_row(row) for row in shown[:_MOST_ROWS])) if shown else "",
        _more(shown),
    ]
    return section("lifetimes", _LIFETIMES, body, _LIFETIMES_LEAD)


def pinned(course: Course) -> str:
    """A row for each site, the largest holder first."""
    answer = _answer(course)
    if answer is None:
        return section("pinned", _PINNED, _not_known(course))
    shown = site_tables.by_pinned(answer)
    if shown is None:
        return section("pinned", _PINNED, [f"<p>{text(site_tables.PINNED_UNKNOWN)}</p>"])
    heads = [
        Head("held by blocks of", sorts=False), Head("free", order="descending"), Head("of all"), Head("in use"),
        Head("blocks"), Head("empty"),
    ]  # fmt: skip
    total = sum(row.pinned_bytes for row in shown)
    body = [
        f"<p>{text(site_tables.pinned_head(answer, shown))}</p>",
        table("pinned", heads, (_pinned_row(row, total) for row in shown[:_MOST_ROWS])) if shown else "",
        _more(shown),
    ]
    return section("pinned", _PINNED, body, _PINNED_LEAD)


def _answer(course: Course) -> Optional[SiteList]:
    return course.sites.answer if course.sites is not None else None


def _not_known(course: Course) -> Iterator[str]:
    why = "a pprof file, which programs write at their end, lacks it" if course.sites else course.evidence.no_sites
    yield f"<p>Not known: {text(why)}.</p>"
    yield (
        "<p>Only a profile that runs in a process tells: <code>hakmem report -o page.html PID</code> starts one for as "
        "long as it watches, and where the program was started with <code>HAKMEM_PROFILE=1</code> it covers its whole "
        "time. A saved file with it comes from what <code>hakmem profile --by lifetime -o sites.json PID</code> "
        "writes.</p>"
    )


def _lifetimes_row(row: Row) -> str:
    told = ", ".join(f"{site_tables.words(i)}: {count:,}" for i, count in enumerate(row.lifetimes) if count)
    bars = site_tables.bars(row.lifetimes) if row.freed else ""
    counts = " ".join(map(str, row.lifetimes))
    bucket = site_tables.median_bucket(row.lifetimes)
    return "".join(
        [
            _site(row),
            _cell(figure(row.allocated_bytes)),
            _cell(figure(row.live_blocks, "count")),
            _cell(figure(row.freed, "count")),
            f'<td><span class="bars" role="img" aria-label="{text(told or "none freed")}" title="{text(told)}" '
            f'data-lifetimes="{counts}">{bars}</span></td>',
            _cell(_sortable(-1 if bucket is None else bucket, site_tables.median(row.lifetimes))),
            _cell(_share(site_tables.short_share(row.lifetimes))),
        ]
    )


def _pinned_row(row: Row, total: int) -> str:
    return "".join(
        [
            _site(row),
            _cell(figure(row.pinned_bytes)),
            _cell(_share(row.pinned_bytes / total)),
            _cell(figure(row.live_bytes)),
            _cell(figure(row.live_blocks, "count")),
            _cell(_share(row.empty)),
        ]
    )


def _site(row: Row) -> str:
    return f'<th scope="row" title="{text(row.title)}">{text(shortened(row.title))}</th>'


def _cell(content: str) -> str:
    return f'<td class="num">{content}</td>'


def _sortable(value: float, shown: str) -> str:
    return f'<span class="n" data-value="{value:.6g}">{shown}</span>'


def _share(share: Optional[float]) -> str:
    return _sortable(-1 if share is None else share, site_tables.percent(share))


def _more(shown: Sequence[Row]) -> str:
    return f"<p>and {len(shown) - _MOST_ROWS:,} more</p>" if len(shown) > _MOST_ROWS else ""
