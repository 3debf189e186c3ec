"""Pieces of HTML. All text from outside goes through `text`; numbers carry where in the snapshot they come from."""

from __future__ import annotations

import html
import json
from typing import Any, Iterable

from hakmem.metrics import size


def text(value: str) -> str:
    """Escaped, also for attributes; what cannot be shown becomes a question mark."""
    return html.escape("".join(one if one.isprintable() else "?" for one in value), quote=True)


def number(path: str, value: int, unit: str = "bytes") -> str:
    """A figure of the snapshot: `path` leads to it there."""
    shown = size_of(value) if unit == "bytes" else f"{value:,}"
    exact = f' title="{value:,} bytes"' if unit == "bytes" else ""
    return f'<span class="n" data-path="{text(path)}" data-value="{value}" data-unit="{unit}"{exact}>{shown}</span>'


def size_of(value: int) -> str:
    """Also below a KiB."""
    return f"{value} B" if abs(value) < 1024 else size(value)


def data(name: str, value: Any) -> str:
    """JSON in the page, which nothing in it can end or leave."""
    content = json.dumps(value, separators=(",", ":"))
    safe = content.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="{name}">{safe}</script>'


def section(name: str, title: str, body: Iterable[str], lead: str = "") -> str:
    """One part of the page."""
    told = f'<p class="lead">{lead}</p>' if lead else ""
    return f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>{told}{"".join(body)}</section>'
