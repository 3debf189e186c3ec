"""The superslab map as a picture: a tile for each superslab of 2 MiB, a field for each of its slabs."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

from hakmem.json_text import is_figure
from hakmem.page.course import Course
from hakmem.page.html import section, size_of, text

_COLUMNS = 8
# Browsers are slow to open a page with more.
_MOST_TILES = 512
_MOST_BIG = 20
_STATES = {
    "span": "blocks of one size",
    "run": "one block of up to 1 MiB",
    "kept": "kept by a heap",
    "idle": "dirty",
    "lazy": "purged lazily",
    "untouched": "never touched",
}
_FAINTEST = 0.3


def picture(course: Course) -> str:
    """All of it."""
    if course.map is None:
        return section("map", "Where memory lies", [f"<p>There is no map: {text(course.no_map)}.</p>"])
    superslabs = course.map["superslabs"]
    legend = "".join(f'<li><span class="swatch slab-{state}"></span>{title}</li>' for state, title in _STATES.items())
    tiles = "".join(_tile(i, one) for i, one in enumerate(superslabs[:_MOST_TILES]))
    body = [
        f'<ul class="legend">{legend}<li><span class="swatch slab-span absent"></span>not resident</li></ul>',
        f'<div class="tiles" id="tiles" role="listbox" aria-label="superslabs">{tiles}</div>'
        if tiles
        else "<p>No superslab.</p>",
        '<p id="tile-readout" class="readout" aria-live="polite">'
        "Choose a superslab with the mouse or the arrow keys.</p>",
        _left_out(superslabs[_MOST_TILES:], course.map),
        *_big(course.map["big"]),
    ]
    lead = "Each tile is 2 MiB of addresses, each field a slab of 64 KiB. A strong colour: most of it is in use."
    return section("map", "Where memory lies", body, lead)


def _tile(i: int, superslab: Dict[str, Any]) -> str:
    slabs = [one for one in _list(superslab.get("slabs")) if isinstance(one, dict)]
    huge = " huge" if superslab.get("huge") is True else ""
    told = _told(superslab, slabs)
    rows = -(-len(slabs) // _COLUMNS)
    fields = "".join(_field(k, slab) for k, slab in enumerate(slabs))
    return (
        f'<div class="tile{huge}" role="option" aria-selected="false" tabindex="{0 if i == 0 else -1}" '
        f'data-address="{text(str(superslab.get("address", "?")))}" aria-label="{text(told)}">'
        f'<svg viewBox="0 0 {_COLUMNS * 10} {max(rows, 1) * 10}" aria-hidden="true">{fields}</svg></div>'
    )


def _field(k: int, slab: Dict[str, Any]) -> str:
    given = slab.get("state")
    state = given if isinstance(given, str) and given in _STATES else "unknown"
    live, resident = _figure(slab, "live_permille"), _figure(slab, "resident")
    full = _FAINTEST + (1 - _FAINTEST) * min(live, 1000) / 1000 if "live_permille" in slab else 1.0
    told = f"{_STATES.get(state, 'unknown')}, {size_of(resident)} resident"
    if "class_bytes" in slab:
        told += f", {live / 10:.0f}% of {_figure(slab, 'class_bytes'):,} bytes in use" if state == "span" else ""
    absent = " absent" if resident == 0 else ""
    x, y = k % _COLUMNS * 10, k // _COLUMNS * 10
    return (
        f'<rect class="slab-{state}{absent}" x="{x + 0.5}" y="{y + 0.5}" width="9" height="9" '
        f'fill-opacity="{full:.2f}" data-resident="{resident}"><title>{text(told)}</title></rect>'
    )


def _told(superslab: Dict[str, Any], slabs: List[Dict[str, Any]]) -> str:
    counts = [f"{count} {title}" for state, title in _STATES.items() if (count := _count(slabs, state))]
    resident = sum(_figure(slab, "resident") for slab in slabs)
    huge = ", in a huge page" if superslab.get("huge") is True else ""
    told = f"superslab {superslab.get('address', '?')}: {size_of(resident)} resident{huge}"
    return f"{told}; slabs: {', '.join(counts) or 'none'}"


def _count(slabs: List[Dict[str, Any]], state: str) -> int:
    return sum(slab.get("state") == state for slab in slabs)


def _left_out(rest: List[Dict[str, Any]], document: Dict[str, Any]) -> str:
    left_out = len(rest) + _figure(document, "left_out")
    return f"<p>{left_out:,} more are not drawn.</p>" if left_out else ""


def _big(rows: List[Dict[str, Any]]) -> Iterator[str]:
    """The largest blocks and free extents."""
    ordered = sorted(rows, key=lambda row: -_figure(row, "bytes"))
    if not ordered:
        return
    yield "<h3>Large blocks, and free extents between them</h3><ul class=bigs>"
    most = max(_figure(ordered[0], "bytes"), 1)
    for row in ordered[:_MOST_BIG]:
        state = "free" if row.get("state") == "free" else "live"
        size, resident = _figure(row, "bytes"), _figure(row, "resident")
        yield (
            f'<li><span class="big-{state}" style="width:{max(100 * size / most, 0.5):.2f}%"></span>'
            f"<code>{text(str(row.get('address', '?')))}</code> {state}, {size_of(size)}, {size_of(resident)} "
            "resident</li>"
        )
    yield "</ul>"
    if len(ordered) > _MOST_BIG:
        yield f"<p>and {len(ordered) - _MOST_BIG:,} smaller ones</p>"


def _list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else []


def _figure(row: Dict[str, Any], name: str) -> int:
    value = row.get(name, 0)
    return value if is_figure(value) else 0
