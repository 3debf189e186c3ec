"""The page's pictures: resident memory as one bar, the time line, the flame graph. All scale with the page's width."""

from __future__ import annotations

from typing import Iterator, List, Optional

from hakmem.explain.explanation import Explanation, Part
from hakmem.page.course import Course, Point, Stacks
from hakmem.page.html import data, section, size_of, text
from hakmem.profile.flame import colour, layout, tree

_ROW = 20
_STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8)


def bar(explanation: Explanation) -> str:
    """Each part as wide as it is large, and a legend."""
    pieces, place = [], 0.0
    for part in explanation.parts:
        wide = max(explanation.share(part), 0.0)
        title = f"{part.title} {explanation.size_of(part)}, {wide:.1f}%"
        pieces.append(
            f'<rect class="part-{part.key}" x="{place:.4f}" y="0" width="{wide:.4f}" height="10">'
            f"<title>{text(title)}</title></rect>"
        )
        place += wide
    return (
        f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(explanation.equation)}">{"".join(pieces)}</svg>'
        f'<ul class="legend">{"".join(_legend(explanation, part) for part in explanation.parts)}</ul>'
    )


def _legend(explanation: Explanation, part: Part) -> str:
    return (
        f'<li><a href="#part-{part.key}"><span class="swatch part-{part.key}"></span>{text(part.title)}</a> '
        f'<b class="n" data-part="{part.key}" data-value="{part.amount}">{part.shown}</b> {explanation.unit}</li>'
    )


# ---- The time line.


def time_line(found: List[Point]) -> str:
    """Resident, live and cached over time."""
    if len(found) < 2:
        return section(
            "time",
            "Over time",
            ["<p>There is one moment only: no line can be drawn.</p>", data("course", _rows(found))],
        )
    end, top = found[-1].seconds or 1.0, _round_up(max(one.resident for one in found))
    names = ["resident", "live", "cached"] if all(one.live is not None for one in found) else ["resident", "cached"]
    lines = "".join(_line(name, [getattr(one, name) for one in found], found, end, top) for name in names)
    grid = "".join(f'<line class="grid" x1="0" x2="100" y1="{y}" y2="{y}"/>' for y in (0, 25, 50, 75, 100))
    marks = "".join(f'<span style="top:{100 - 25 * i}%">{size_of(top * i // 4)}</span>' for i in range(5))
    keys = "".join(f'<li><span class="swatch line-{name}"></span>{name}</li>' for name in names)
    body = [
        f'<ul class="legend">{keys}</ul>',
        f'<div class="chart"><div class="axis" aria-hidden="true">{marks}</div>'
        f'<div class="plot" id="plot" tabindex="0" role="slider" aria-label="moment" aria-valuemin="0" '
        f'aria-valuemax="{len(found) - 1}" aria-valuenow="{len(found) - 1}">'
        f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">{grid}{lines}</svg>'
        f'<div class="cursor" id="cursor" hidden></div></div></div>',
        f'<div class="times" aria-hidden="true"><span>0 s</span><span>{end / 2:.3g} s</span>'
        f"<span>{end:.3g} s</span></div>",
        '<p id="moment" class="readout" aria-live="polite">'
        "Point at the picture, or move in it with the arrow keys.</p>",
        data("course", _rows(found)),
    ]
    return section("time", "Over time", body)


def _rows(found: List[Point]) -> List[dict[str, Optional[float]]]:
    return [{"seconds": one.seconds, "resident": one.resident, "live": one.live, "cached": one.cached} for one in found]


def _line(name: str, values: List[int], found: List[Point], end: float, top: int) -> str:
    places = " ".join(
        f"{100 * one.seconds / end:.2f},{100 - 100 * value / top:.2f}" for one, value in zip(found, values)
    )
    return f'<polyline class="line-{name}" data-line="{name}" points="{places}"/>'


def _round_up(value: int) -> int:
    """To a figure that divides well by four in its unit."""
    unit = 1 << 10
    while value >= unit << 10:
        unit <<= 10
    power = 4 * unit
    while True:
        for step in _STEPS:
            if power * step >= value:
                return int(power * step)
        power *= 10


# ---- The flame graph.


def flame(course: Course) -> str:
    """Live bytes by stack; buttons, so that a keyboard reaches them."""
    found = course.live_stacks()
    if not found:
        why = course.evidence.no_sites or "the profile has no live blocks"
        return section("flame", "Which code holds it", [f"<p>Not known: {text(why)}.</p>"])
    lead = (
        "The width is bytes in use, of the samples since the profile began. "
        "A click zooms in; arrow keys move, Escape zooms out."
    )
    return section("flame", "Which code holds it", _flame(found), lead)


def _flame(found: Stacks) -> Iterator[str]:
    root = tree(found)
    frames = list(layout(root))
    rows = max(depth for _, depth, _ in frames) + 1
    yield '<p class="tools"><label>search <input id="flame-search" type="search" autocomplete="off"></label> '
    yield '<button type="button" id="flame-reset">zoom out</button> '
    yield '<span id="flame-status" aria-live="polite"></span></p>'
    yield f'<div class="flame" id="flame-graph" style="height:{rows * _ROW}px">'
    for node, depth, begin in frames:
        share, start = (node.value / root.value, begin / root.value) if root.value else (1.0, 0.0)
        told = f"{node.name}: {size_of(node.value)}, {100 * share:.1f}%"
        yield (
            f'<button type="button" tabindex="{0 if depth == 0 else -1}" title="{text(told)}" '
            f'data-name="{text(node.name)}" data-value="{node.value}" '
            f'data-x="{start:.9f}" data-w="{share:.9f}" data-depth="{depth}" '
            f'style="left:{100 * start:.5f}%;width:{100 * share:.5f}%;top:{depth * _ROW}px;'
            f'background:{colour(node.name)}">'
            f"{text(node.name)}</button>"
        )
    yield "</div>"
