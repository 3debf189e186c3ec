"""The page's tables: size classes, heaps, the learner's decisions, options and events."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

from hakmem.explain import reasons
from hakmem.explain.snapshot import Snapshot
from hakmem.json_text import is_figure
from hakmem.page.html import Head, number, section, table, text
from hakmem.units import unit_of

_CLASSES = [
    ("bytes", "block, bytes", "count"),
    ("live_blocks", "live blocks", "count"),
    ("live_bytes", "live", "bytes"),
    ("free_blocks", "free blocks", "count"),
    ("free_bytes", "free", "bytes"),
    ("spans", "spans", "count"),
    ("spans_nearly_empty", "nearly empty", "count"),
    ("resident", "resident", "bytes"),
    ("requested_estimate", "requested, estimated", "bytes"),
]
_HEAPS = [
    ("number", "number", "count"),
    ("node", "node", "count"),
    ("live_blocks", "live blocks", "count"),
    ("live_bytes", "live", "bytes"),
    ("free_blocks", "free blocks", "count"),
    ("free_bytes", "free", "bytes"),
    ("resident", "resident", "bytes"),
    ("requested_estimate", "requested, estimated", "bytes"),
    ("slabs", "slabs", "count"),
    ("spare_slabs", "spare slabs", "count"),
    ("refill", "refills", "count"),
    ("remote_free", "remote frees", "count"),
    ("remote_drain", "collected", "count"),
]
_MOST_HEAPS = 200


def classes(snapshot: Snapshot) -> str:
    """A row for each size class, sortable by each column."""
    rows = snapshot.rows("classes")
    if not rows:
        return section("classes", "Size classes", ["<p>The snapshot has none.</p>"])
    lead = (
        "Blocks of up to 32 KiB are carved from spans of one size class. "
        "Live blocks keep the free ones of their span resident."
    )
    return section("classes", "Size classes", [_table("classes", _CLASSES, list(enumerate(rows)))], lead)


def heaps(snapshot: Snapshot) -> str:
    """A row for each heap; of very many, those with most in use."""
    rows = list(enumerate(snapshot.rows("heaps")))
    if not rows:
        return ""
    more = ""
    if len(rows) > _MOST_HEAPS:
        more = f"<p>and {len(rows) - _MOST_HEAPS:,} more, which have less in use</p>"
        rows.sort(key=lambda row: -_known(row[1], "live_bytes"))
    lead = "Each thread has one. A block of up to 32 KiB belongs to the heap that has its span, a larger one to none."
    return section("heaps", "Heaps", [_table("heaps", _HEAPS, rows[:_MOST_HEAPS], word="state"), more], lead)


def _known(row: Dict[str, Any], key: str) -> int:
    value = row.get(key)
    return value if isinstance(value, int) else 0


# A row, and its place in the snapshot.
_Row = Tuple[int, Dict[str, Any]]


def _table(name: str, columns: Sequence[Tuple[str, str, str]], rows: Sequence[_Row], word: str = "") -> str:
    known = [column for column in columns if _is_told(column[0], rows)]
    heads = [Head(title, order="ascending" if i == 0 and not word else "") for i, (_, title, _) in enumerate(known)]
    cells = (_cells(name, i, known, row, word) for i, row in rows)
    return table(name, [Head(word, sorts=False), *heads] if word else heads, cells)


def _is_told(key: str, rows: Sequence[_Row]) -> bool:
    """Whether any row has the figure; an older version lacks some."""
    values = [row.get(key, "") for _, row in rows]
    return any(value is not None for value in values) and all(
        value is None or isinstance(value, int) for value in values
    )


def _cells(name: str, i: int, columns: Sequence[Tuple[str, str, str]], row: Dict[str, Any], word: str) -> str:
    first = f"<td>{text(str(row.get(word, '?')))}</td>" if word else ""
    cells = (f'<td class="num">{_cell(f"{name}.{i}.{key}", row[key], unit)}</td>' for key, _, unit in columns)
    return first + "".join(cells)


def _cell(path: str, value: Optional[int], unit: str) -> str:
    """An unknown figure, which sorts as 0."""
    return '<span class="n" data-value="0">?</span>' if value is None else number(path, value, unit)


def learner(snapshot: Snapshot) -> str:
    """The time for which memory stays dirty, and the last decisions."""
    learning = snapshot.section("learning")
    if not learning:
        return section("learner", "What was learned", ["<p>The snapshot does not tell.</p>"])
    body = [f"<p>{text(one)}</p>" for one in reasons.policy(snapshot)]
    body.append(
        f"<p>{number('learning.epochs', snapshot.number('learning', 'epochs'), 'count')} epochs had something at "
        "stake.</p>"
    )
    decisions = learning.get("decisions")
    if isinstance(decisions, list) and decisions:
        items = "".join(f"<li>{text(str(one))}</li>" for one in reversed(decisions))
        body.append(f'<h3>Decisions, the last one first</h3><ol class="decisions">{items}</ol>')
    if not snapshot.document.get("purge_thread"):
        body.append("<p>No purge thread runs: the learned time-out has no effect here.</p>")
    return section(
        "learner", "What was learned", body, "hakmem learns from the program for how long memory stays dirty."
    )


def details(snapshot: Snapshot) -> str:
    """Events, sums and options."""
    options = snapshot.section("options")
    rows = "".join(
        f"<tr><th scope=row>{text(name)}</th><td>{text(str(value))}</td></tr>" for name, value in options.items()
    )
    body = [
        f"<details><summary>Events since the start</summary>{''.join(_figures(snapshot, 'events'))}</details>",
        f"<details><summary>Memory, in sums</summary>{''.join(_figures(snapshot, 'memory'))}</details>",
        f"<details><summary>Options that differ from their defaults</summary>"
        f"{f'<table>{rows}</table>' if rows else '<p>None.</p>'}</details>",
    ]
    return section("details", "All figures", body)


def _figures(snapshot: Snapshot, name: str) -> Iterator[str]:
    usual = "count" if name == "events" else "bytes"
    yield "<table>"
    for key, value in snapshot.section(name).items():
        if is_figure(value):
            shown = number(f"{name}.{key}", value, unit_of(name, key, usual))
            yield f'<tr><th scope=row>{text(key.replace("_", " "))}</th><td class="num">{shown}</td></tr>'
    yield "</table>"
