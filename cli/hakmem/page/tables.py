"""The page's tables: size classes, heaps, what the learner decided, options and events."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

from hakmem.explain import reasons
from hakmem.explain.snapshot import Snapshot
from hakmem.page.html import Head, number, section, table, text

_CLASSES = [
    ("bytes", "block, bytes", "count"),
    ("live_blocks", "live blocks", "count"),
    ("live_bytes", "live", "bytes"),
    ("free_blocks", "free blocks", "count"),
    ("free_bytes", "free", "bytes"),
    ("spans", "spans", "count"),
    ("spans_nearly_empty", "nearly empty", "count"),
    ("resident", "resident", "bytes"),
    ("requested_estimate", "asked for, estimated", "bytes"),
]
_HEAPS = [
    ("number", "number", "count"),
    ("node", "node", "count"),
    ("live_blocks", "live blocks", "count"),
    ("live_bytes", "live", "bytes"),
    ("free_blocks", "free blocks", "count"),
    ("free_bytes", "free", "bytes"),
    ("resident", "resident", "bytes"),
    ("requested_estimate", "asked for, estimated", "bytes"),
    ("slabs", "slabs", "count"),
    ("spare_slabs", "spare slabs", "count"),
    ("refill", "refills", "count"),
    ("remote_free", "remote frees", "count"),
    ("remote_drain", "came home", "count"),
]
_MOST_HEAPS = 200


def classes(snapshot: Snapshot) -> str:
    """A row a size class, sortable by each column."""
    rows = snapshot.rows("classes")
    if not rows:
        return section("classes", "Size classes", ["<p>The snapshot has none.</p>"])
    lead = "Blocks of up to 32 KiB are cut from spans of one size. Free blocks beside live ones keep a span resident."
    return section("classes", "Size classes", [_table("classes", _CLASSES, list(enumerate(rows)))], lead)


def heaps(snapshot: Snapshot) -> str:
    """A row a heap; of very many those that have most in use."""
    rows = list(enumerate(snapshot.rows("heaps")))
    if not rows:
        return ""
    more = ""
    if len(rows) > _MOST_HEAPS:
        more = f"<p>and {len(rows) - _MOST_HEAPS:,} more, which have less in use</p>"
        rows.sort(key=lambda row: -_known(row[1], "live_bytes"))
    lead = "Each thread has one. Blocks of up to 32 KiB belong to the heap that they were cut in; larger ones to none."
    return section("heaps", "Heaps", [_table("heaps", _HEAPS, rows[:_MOST_HEAPS], word="state"), more], lead)


def _known(row: Dict[str, Any], key: str) -> int:
    value = row.get(key)
    return value if isinstance(value, int) else 0


# A row, and where it stands in the snapshot.
_Row = Tuple[int, Dict[str, Any]]


def _table(name: str, columns: Sequence[Tuple[str, str, str]], rows: Sequence[_Row], word: str = "") -> str:
    known = [column for column in columns if _is_told(column[0], rows)]
    heads = [Head(title, order="ascending" if i == 0 and not word else "") for i, (_, title, _) in enumerate(known)]
    cells = (_cells(name, i, known, row, word) for i, row in rows)
    return table(name, [Head(word, sorts=False), *heads] if word else heads, cells)


def _is_told(key: str, rows: Sequence[_Row]) -> bool:
    """Of some rows, at least; an older version does not know all figures."""
    values = [row.get(key, "") for _, row in rows]
    return any(value is not None for value in values) and all(
        value is None or isinstance(value, int) for value in values
    )


def _cells(name: str, i: int, columns: Sequence[Tuple[str, str, str]], row: Dict[str, Any], word: str) -> str:
    first = f"<td>{text(str(row.get(word, '?')))}</td>" if word else ""
    cells = (f'<td class="num">{_cell(f"{name}.{i}.{key}", row[key], unit)}</td>' for key, _, unit in columns)
    return first + "".join(cells)


def _cell(path: str, value: Optional[int], unit: str) -> str:
    """What is not known sorts as nothing."""
    return '<span class="n" data-value="0">?</span>' if value is None else number(path, value, unit)


def learner(snapshot: Snapshot) -> str:
    """For how long idle memory stays, and what was decided last."""
    learning = snapshot.section("learning")
    if not learning:
        return section("learner", "What was learned", ["<p>The snapshot does not tell.</p>"])
    body = [f"<p>{text(one)}</p>" for one in reasons.policy(snapshot)]
    body.append(
        f"<p>{number('learning.epochs', snapshot.number('learning', 'epochs'), 'count')} epochs had something at stake.</p>"
    )
    decisions = learning.get("decisions")
    if isinstance(decisions, list) and decisions:
        items = "".join(f"<li>{text(str(one))}</li>" for one in reversed(decisions))
        body.append(f'<h3>Decisions, the last one first</h3><ol class="decisions">{items}</ol>')
    if not snapshot.document.get("purge_thread"):
        body.append("<p>No purge thread runs: the time-out has no effect here, and is learned all the same.</p>")
    return section("learner", "What was learned", body, "For how long idle memory stays is learned from the program.")


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


_COUNTS = {"mappings", "heaps", "heaps_idle", "heaps_lost"}
_BYTES = {"purged", "refaulted", "huge_asked", "huge_refused", "fork_lost"}


def _figures(snapshot: Snapshot, name: str) -> Iterator[str]:
    yield "<table>"
    for key, value in snapshot.section(name).items():
        if isinstance(value, int):
            of_bytes = key in _BYTES if name == "events" else key not in _COUNTS
            shown = number(f"{name}.{key}", value, "bytes" if of_bytes else "count")
            yield f'<tr><th scope=row>{text(key.replace("_", " "))}</th><td class="num">{shown}</td></tr>'
    yield "</table>"
