"""Pieces of HTML. All text from outside goes through `text`; each number has its place in the snapshot."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import Any, Iterable

from hakmem.errors import printable
from hakmem.metrics import size


def text(value: str) -> str:
    """Escapes a text, also for attributes; a character that cannot be shown becomes a question mark."""
    return html.escape(printable(value), quote=True)


def number(path: str, value: int, unit: str = "bytes") -> str:
    """A figure of the snapshot: `path` leads to it there."""
    return figure(value, unit, f' data-path="{text(path)}"')


def figure(value: int, unit: str = "bytes", more: str = "") -> str:
    """Any other number. `more` are attributes."""
    shown = size_of(value) if unit == "bytes" else f"{value:,}"
    exact = f' title="{value:,} bytes"' if unit == "bytes" else ""
    return f'<span class="n"{more} data-value="{value}" data-unit="{unit}"{exact}>{shown}</span>'


def size_of(value: int) -> str:
    """A size, also below a KiB."""
    return f"{value} B" if abs(value) < 1024 else size(value)


def data(name: str, value: Any) -> str:
    """JSON in the page, escaped so that no text in it can end the element."""
    content = json.dumps(value, separators=(",", ":"))
    safe = content.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="{name}">{safe}</script>'


@dataclass(frozen=True)
class Head:
    """Of a column. A column that sorts has a number (`data-value`) in the first element of each of its cells."""

    title: str
    sorts: bool = True
    order: str = ""  # the column's order when the page opens


def table(name: str, heads: Iterable[Head], rows: Iterable[str]) -> str:
    """A wide table that scrolls by itself. `rows` have whole cells."""
    head = "".join(_head(one) for one in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{name}"><table id="{name}-table">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _head(one: Head) -> str:
    if not one.sorts:
        return f'<th scope="col">{text(one.title)}</th>'
    order = f' aria-sort="{one.order}"' if one.order else ""
    button = f'<button type="button"><span class="arrow" aria-hidden="true"></span>{text(one.title)}</button>'
    return f'<th scope="col" class="num"{order}>{button}</th>'


def section(name: str, title: str, body: Iterable[str], lead: str = "") -> str:
    """One part of the page."""
    told = f'<p class="lead">{lead}</p>' if lead else ""
    head = f'<h2 id="{name}-title">{title}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{head}{told}{"".join(body)}</section>'
