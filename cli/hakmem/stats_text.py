"""The library's text of all statistics, within the columns of a terminal."""

from __future__ import annotations

import re
import textwrap
from typing import Iterator, List

from hakmem.folding import fold

# The library's columns (src/report/report_form.c): two spaces, then cells of 13.
_MARGIN, _CELL = 2, 13
_TABLES = ("hakmem: bands", "hakmem: classes", "hakmem: heaps")
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
            folded += rows if all(len(row) <= columns for row in rows) else _list(rows, columns)
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


def _list(rows: List[str], columns: int) -> Iterator[str]:
    if not rows:
        return
    names = _cells(rows[0])
    for row in rows[1:]:
        # No line ends between a name and its figure.
        pairs = (f"{name} {cell}".replace(" ", "\0") for name, cell in zip(names, _cells(row)))
        joined = textwrap.wrap(
            ", ".join(pairs), columns, initial_indent="  ", subsequent_indent="    ", break_long_words=False
        )
        yield from (line.replace("\0", " ") for line in joined)


def _cells(row: str) -> List[str]:
    return [row[at : at + _CELL].strip() for at in range(_MARGIN, len(row), _CELL)]
