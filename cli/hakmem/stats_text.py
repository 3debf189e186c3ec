"""The library's text of all statistics, within the columns of a terminal."""

from __future__ import annotations

import re
import textwrap
from typing import Dict, Iterator, List, Sequence

from hakmem.folding import fold

# The tables, with the places of their columns (src/report/report.c, report_named.c).
_EDGES = range(2, 200, 13)
_TABLES: Dict[str, Sequence[int]] = {
    "hakmem: bands": _EDGES,
    "hakmem: classes": _EDGES,
    "hakmem: heaps": _EDGES,
    "hakmem: named heaps and tags": (2, 30, *range(36, 109, 12)),
}
# The line below a table that does not have all rows.
_MORE = re.compile(r"  and \d+ more ")
_FIGURE = re.compile(r"(  \S.*?  +\S.*?  +)(\S.*)")


def fit(text: str, columns: int) -> str:
    """Folds explanations beside their figures, and makes a table that does not fit a list of its rows."""
    folded: List[str] = []
    lines = text.splitlines()
    while lines:
        line = lines.pop(0)
        folded += _fold(line, columns)
        if line in _TABLES:
            rows: List[str] = []
            while lines and not lines[0].startswith("hakmem: "):
                rows.append(lines.pop(0))
            folded += rows if all(len(row) <= columns for row in rows) else _list(rows, _TABLES[line], columns)
    return "\n".join(folded) + "\n"


def _fold(line: str, columns: int) -> List[str]:
    if len(line) <= columns:
        return [line]
    found = _FIGURE.fullmatch(line)
    if found is None:
        return fold(line, columns, "    ", breaks_words=False)
    indent = found.end(1) if columns - found.end(1) >= 20 else 4
    head = found[1] if indent > 4 else found[1].rstrip()
    rest = fold(found[2], columns - indent, breaks_words=False)
    if indent > 4:
        return [head + rest[0], *(" " * indent + more for more in rest[1:])]
    return [head, *(" " * indent + more for more in rest)]


def _list(rows: List[str], edges: Sequence[int], columns: int) -> Iterator[str]:
    if not rows:
        return
    names = _cells(rows[0], edges)
    for row in rows[1:]:
        if _MORE.match(row):
            yield from _fold(row, columns)
            continue
        # No line ends between a name and its figure. A column of words has no name.
        pairs = (f"{name} {cell}".strip().replace(" ", "\0") for name, cell in zip(names, _cells(row, edges)))
        joined = textwrap.wrap(
            ", ".join(pairs), columns, initial_indent="  ", subsequent_indent="    ", break_long_words=False
        )
        yield from (line.replace("\0", " ") for line in joined)


def _cells(row: str, edges: Sequence[int]) -> List[str]:
    return [row[start:end].strip() for start, end in zip(edges, [*edges[1:], None]) if start < len(row)]
