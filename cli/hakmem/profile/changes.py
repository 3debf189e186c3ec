"""The differences between two profiles, or two statistics snapshots, as sections of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Tuple

from hakmem import bounded
from hakmem.errors import EXIT_USAGE, Failure
from hakmem.explain import snapshot
from hakmem.json_text import decode, is_figure
from hakmem.profile.model import OBJECTS_OF, Profile, names_of
from hakmem.profile.read import MOST_BYTES, parse
from hakmem.units import unit_of


@dataclass(frozen=True)
class Change:
    """A figure that differs. `detail` is for the JSON alone."""

    name: str
    before: int
    after: int
    detail: Dict[str, Any] = field(default_factory=dict)

    @property
    def change(self) -> int:
        """How much it grew."""
        return self.after - self.before


@dataclass(frozen=True)
class Section:
    """Rows of one kind, the largest growth first. The unit is bytes or count."""

    name: str
    unit: str
    rows: List[Change]
    before: int = 0
    after: int = 0
    has_total: bool = False


Document = Dict[str, Any]


def is_json(data: bytes) -> bool:
    """Whether the bytes are JSON, or begin like a snapshot."""
    if data[:64].lstrip().startswith((b"{", b"[")):
        return True
    try:
        decode(data)
    except ValueError:
        return False
    return True


def load(path: str) -> Any:
    """A Profile, or a snapshot as a dictionary."""
    data = bounded.read_file(path, MOST_BYTES)
    return _snapshot(data, path) if is_json(data) else parse(data, path)


def _snapshot(data: bytes, path: str) -> Document:
    """The document, with all checks of `hakmem explain`, and of each figure that is compared here."""
    document = snapshot.parse(data, path).document
    bands = {f"bands.{name}": values for name, values in document.get("bands", {}).items()}
    for name, values in {**{name: document.get(name) for name in _USUAL}, **bands}.items():
        for one, value in values.items() if isinstance(values, dict) else ():
            is_unknown = value is None and one.endswith("_estimate")
            if not is_figure(value) and not is_unknown:
                raise Failure(f"{path} is damaged: {name}.{one} is {value!r:.40}")
    return document


def of_profiles(before: Profile, after: Profile, sample_type: str, group: str) -> List[Section]:
    """By stack, or by the innermost function."""
    first, second = (_by_site(profile, sample_type, group) for profile in (before, after))
    rows: List[Change] = []
    for site in {**first, **second}:
        (bytes_before, objects_before), (bytes_after, objects_after) = first.get(site, (0, 0)), second.get(site, (0, 0))
        detail = {"stack": list(site), "objects_before": objects_before, "objects_after": objects_after}
        rows.append(Change(" ← ".join(site) or "[no stack]", bytes_before, bytes_after, detail))
    totals = before.total(sample_type), after.total(sample_type)
    return [Section(sample_type, "bytes", _sorted(rows), *totals, has_total=True)]


def _by_site(profile: Profile, sample_type: str, group: str) -> Dict[Tuple[str, ...], Tuple[int, int]]:
    bytes_at, objects_at = profile.column(sample_type), profile.column(OBJECTS_OF[sample_type])
    found: Dict[Tuple[str, ...], Tuple[int, int]] = {}
    for sample in profile.samples:
        names = tuple(names_of(sample))
        site = names[:1] if group == "function" else names
        amount, objects = found.get(site, (0, 0))
        found[site] = amount + sample.values[bytes_at], objects + sample.values[objects_at]
    return found


def of_snapshots(before: Document, after: Document) -> List[Section]:
    """Resident memory by part, sums, bands, classes, events that both snapshots have."""
    sections = [
        _flat("parts", "bytes", before, after, has_total=True),
        _flat("memory", "bytes", before, after),
        _flat("memory", "count", before, after),
        *(_table("bands", one, before, after) for one in ("resident", "live_bytes", "free_bytes")),
        *(_table("classes", one, before, after) for one in ("resident", "live_bytes", "free_bytes")),
        _flat("events", "count", before, after),
        _flat("events", "bytes", before, after),
    ]
    return [section for section in sections if section.rows or section.has_total]


# The unit of most figures in a section.
_USUAL = {"parts": "bytes", "memory": "bytes", "events": "count"}


def _flat(name: str, unit: str, before: Document, after: Document, has_total: bool = False) -> Section:
    """The figures of a section that have this unit."""
    first, second = (_of_unit(name, unit, document.get(name)) for document in (before, after))
    both = name in before and name in after
    rows = [Change(one, first.get(one, 0), second.get(one, 0)) for one in {**first, **second}] if both else []
    total = has_total and both
    title = name if unit == _USUAL[name] else f"{name}: {unit}"
    return Section(title, unit, _sorted(rows), sum(first.values()), sum(second.values()), total)


def _of_unit(section: str, unit: str, values: Any) -> Dict[str, int]:
    usual = _USUAL[section]
    return {name: value for name, value in _numbers(values).items() if unit_of(section, name, usual) == unit}


def _table(name: str, column: str, before: Document, after: Document) -> Section:
    first, second = (_column(document.get(name), column) for document in (before, after))
    both = name in before and name in after
    rows = [Change(one, first.get(one, 0), second.get(one, 0)) for one in {**first, **second}] if both else []
    return Section(f"{name}: {column}", "bytes", _sorted(rows))


def _column(table: Any, column: str) -> Dict[str, int]:
    """Sections of bands, by name, and of classes, by size."""
    if isinstance(table, dict):
        return {
            name: row[column] for name, row in table.items() if isinstance(row, dict) and is_figure(row.get(column))
        }
    rows = [row for row in table if isinstance(row, dict)] if isinstance(table, list) else []
    return {f"{row.get('bytes', '?')} B": row[column] for row in rows if is_figure(row.get(column))}


def _numbers(values: Any) -> Dict[str, int]:
    return {name: value for name, value in values.items() if is_figure(value)} if isinstance(values, dict) else {}


def _sorted(rows: List[Change]) -> List[Change]:
    return sorted((row for row in rows if row.change), key=lambda row: (-row.change, row.name))


def remarks(before: Any, after: Any) -> List[str]:
    """Reasons why a comparison is doubtful."""
    if isinstance(before, Profile) is not isinstance(after, Profile):
        raise Failure("one is a profile and the other a statistics snapshot: diff compares two of a kind", EXIT_USAGE)
    if isinstance(before, Profile):
        times = before.time_nanos, after.time_nanos
        said = [] if before.period == after.period else ["the two were sampled at different rates"]
    else:
        times = before.get("time_ms", 0), after.get("time_ms", 0)
        said = [] if before.get("pid") == after.get("pid") else ["the two are of different processes"]
        if before["schema"] != after["schema"]:
            said.append("one is of an older version, with fewer figures: only what both have is compared")
    if all(is_figure(one) and one for one in times) and times[1] < times[0]:
        said.append("the second is older than the first: what shrank is shown as grown")
    return said
