"""A flame graph as one self-contained SVG file: the root on top, the width is bytes.

It shows all without its script.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Tuple
from xml.sax.saxutils import escape, quoteattr

from hakmem.errors import printable
from hakmem.metrics import size

_WIDTH = 1200
_MARGIN = 10
_INNER = _WIDTH - 2 * _MARGIN
_ROW = 18
_HEAD = 58
_LETTER = 6.6
# Frames narrower than this, in pixels, are not drawn: hundreds of thousands of them make a file that no browser opens.
_NARROWEST = 0.3
_STYLE = """
text { font: 11px ui-monospace, monospace; fill: #111; pointer-events: none; }
.title { font: bold 15px sans-serif; } .small { font: 12px sans-serif; fill: #555; }
.button { font: 12px sans-serif; fill: #0550ae; cursor: pointer; pointer-events: auto; }
.frame rect { cursor: pointer; stroke: #fff; stroke-width: 0.5; } .frame:hover rect { stroke: #111; }
.hidden { display: none; } .above { opacity: 0.5; } .found rect { fill: #c03ad0; }
"""


@dataclass
class Node:
    """A function at its place in the stacks, with its callees."""

    name: str
    value: int = 0
    below: Dict[str, Node] = field(default_factory=dict)


def tree(stacks: Mapping[Tuple[str, ...], int]) -> Node:
    """Merges the stacks by their common outer frames."""
    root = Node("all")
    for names, value in stacks.items():
        root.value += value
        node = root
        for name in names:
            node = node.below.setdefault(name, Node(name))
            node.value += value
    return root


def draw(stacks: Mapping[Tuple[str, ...], int], title: str) -> str:
    """The whole file."""
    root = tree(stacks)
    frames = list(layout(root))
    height = _HEAD + (max(depth for _, depth, _ in frames) + 1) * _ROW + _MARGIN
    script = (Path(__file__).parent / "flame.js").read_text(encoding="utf-8")
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'data-inner="{_INNER}" data-margin="{_MARGIN}" data-letter="{_LETTER}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fdfdfb"/>',
        f'<text class="title" x="{_MARGIN}" y="20">{_clean(title)}</text>',
        f'<text class="small" x="{_MARGIN}" y="38">{size(root.value)}; a click zooms in, / searches</text>',
        f'<text id="find" class="button" x="{_WIDTH - 130}" y="20">search</text>',
        f'<text id="all" class="button" x="{_WIDTH - 70}" y="20">zoom out</text>',
        f'<text id="status" class="small" x="{_WIDTH - _MARGIN}" y="38" text-anchor="end"></text>',
        *(_frame(node, depth, begin, root.value) for node, depth, begin in frames),
        f"<script><![CDATA[{script}]]></script>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def layout(root: Node) -> Iterator[Tuple[Node, int, int]]:
    """Each node with its depth and where it begins; without recursion, since stacks may be deep."""
    waiting: List[Tuple[Node, int, int]] = [(root, 0, 0)]
    while waiting:
        node, depth, begin = waiting.pop()
        yield node, depth, begin
        for child in sorted(node.below.values(), key=lambda one: one.name):
            if child.value * _INNER >= _NARROWEST * root.value:
                waiting.append((child, depth + 1, begin))
            begin += child.value


def _frame(node: Node, depth: int, begin: int, total: int) -> str:
    share = node.value / total if total else 1.0
    start = begin / total if total else 0.0
    left, wide, top = _MARGIN + start * _INNER, share * _INNER, _HEAD + depth * _ROW
    fits = int((wide - 6) / _LETTER)
    shown = "" if fits < 3 else node.name if len(node.name) <= fits else f"{node.name[: fits - 1]}…"
    name = quoteattr(_clean(node.name, escaped=False))
    return (
        f'<g class="frame" data-name={name} data-x="{start:.9f}" data-w="{share:.9f}" data-depth="{depth}">'
        f"<title>{_clean(node.name)}: {size(node.value)}, {100 * share:.1f}%</title>"
        f'<rect x="{left:.2f}" y="{top}" width="{max(wide - 0.5, 0.5):.2f}" height="{_ROW - 1}" '
        f'fill="{colour(node.name)}"/>'
        f'<text x="{left + 3:.2f}" y="{top + 12}">{_clean(shown)}</text></g>'
    )


def _clean(text: str, escaped: bool = True) -> str:
    """Without control characters, which XML does not permit."""
    clean = printable(text)
    return escape(clean) if escaped else clean


def colour(name: str) -> str:
    """The same for a name in every graph, so that two can be compared by eye."""
    value = zlib.crc32(name.encode("utf-8", "replace"))
    return f"hsl({20 + value % 36} {70 + (value >> 8) % 20}% {62 + (value >> 16) % 14}%)"
