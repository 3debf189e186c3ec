"""Puts the page together: one file, which loads nothing and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import time
from pathlib import Path
from typing import Iterator

from hakmem.explain.explain import explain
from hakmem.explain.explanation import Explanation, Part
from hakmem.page import map_picture, pictures, site_sections, tables
from hakmem.page.course import Course, points
from hakmem.page.html import data, number, section, text

_SECTIONS = {
    "why": "Why", "time": "Over time", "flame": "Which code holds it", "lifetimes": "How long blocks live",
    "pinned": "Which blocks pin free memory", "classes": "Size classes", "map": "Where memory lies",
    "learner": "What was learned", "details": "All figures",
}  # fmt: skip


def document(course: Course) -> str:
    """The whole file."""
    explanation = explain(course.evidence)
    snapshot = course.evidence.snapshot
    script, style = _own("page.js"), _own("page.css")
    content = "".join(
        [
            _header(course, explanation),
            _why(explanation),
            pictures.time_line(points(course.snapshots)),
            pictures.flame(course),
            site_sections.lifetimes(course),
            site_sections.pinned(course),
            tables.classes(snapshot),
            map_picture.picture(course),
            tables.learner(snapshot),
            tables.heaps(snapshot),
            tables.details(snapshot),
        ]
    )
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{text(course.title)}: memory</title><style>{style}</style></head>\n"
        f'<body><a class="skip" href="#why">to the explanation</a>{content}\n'
        f"{data('snapshot', snapshot.document)}\n{data('explanation', explanation.as_json())}\n"
        f"<script>{script}</script></body></html>\n"
    )


def _own(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """The page's Content Security Policy: it loads nothing, and runs no other script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"script-src 'sha256-{digest}'"
    return f"default-src 'none'; {scripts}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _header(course: Course, explanation: Explanation) -> str:
    snapshot = course.evidence.snapshot
    moment = snapshot.number("time_ms")
    when = f", {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(moment / 1000))}" if moment else ""
    figures = [("resident", "memory.resident"), ("peak", "memory.peak")]
    if snapshot.parts:
        figures += [
            ("live", "parts.live"),
            ("free in slabs", "parts.free_in_slabs"),
            ("not malloc", "parts.not_malloc"),
        ]
    tiles = "".join(
        f"<div><dt>{title}</dt><dd>{number(path, snapshot.number(*path.split('.')))}</dd></div>"
        for title, path in figures
    )
    notes = "".join(f"<li>{text(one)}</li>" for one in (*course.notes, *explanation.notes))
    links = "".join(f'<a href="#{name}">{title}</a>' for name, title in _SECTIONS.items())
    return (
        f"<header><h1>{text(course.title)}</h1><p>hakmem {text(snapshot.version)}{when}</p>"
        f'<dl class="figures">{tiles}</dl><nav aria-label="sections">{links}</nav>'
        f"{f'<ul class=notes>{notes}</ul>' if notes else ''}</header>"
    )


def _why(explanation: Explanation) -> str:
    body = [
        f'<p class="equation" id="equation">{text(explanation.equation)}</p>',
        pictures.bar(explanation),
        *(_part(explanation, part, is_open=i == 0) for i, part in enumerate(explanation.parts)),
    ]
    return section("why", "Why memory is resident", body)


def _part(explanation: Explanation, part: Part, is_open: bool) -> str:
    return (
        f'<details id="part-{part.key}" class="part"{" open" if is_open else ""}>'
        f'<summary><span class="swatch part-{part.key}"></span>'
        f"{text(part.title)}: {text(f'{explanation.size_of(part)}, {explanation.share_of(part)}')}</summary>"
        f"<p>{text(part.what)}</p>{''.join(_lists(part))}</details>"
    )


def _lists(part: Part) -> Iterator[str]:
    for title, lines in (("Why it is there", part.why), ("What to do", part.todo), ("What is unknown", part.unknown)):
        if lines:
            yield f"<h4>{title}</h4><ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>"
