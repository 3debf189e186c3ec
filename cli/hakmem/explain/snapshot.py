"""A statistics snapshot: the answer to `stats json`. It is checked, because it may come from a foreign file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List

from hakmem import bounded
from hakmem.errors import Failure
from hakmem.json_text import decode as decode_json
from hakmem.json_text import ends_early, is_figure
from hakmem.old_figures import OLD_FIGURES

NEWEST_SCHEMA = 2
# Snapshots are some tens of KiB, those of many thousand heaps some MiB.
_MOST_BYTES = 64 << 20
# Columns of the tables that are never texts. A later library may add others of either kind.
_NUMBERS = frozenset(
    {
        "bytes", "free_blocks", "free_bytes", "hard_limit", "live_blocks", "live_bytes", "memory", "number", "peak",
        "resident", "slabs", "spans", "spans_nearly_empty",
    }
)  # fmt: skip
PARTS = ("live", "free_in_slabs", "uncarved", "kept_by_heaps", "dirty_slabs", "large_dirty", "metadata", "not_malloc")


@dataclass(frozen=True)
class Snapshot:
    """One moment of one process. Figures that an older version lacks are empty."""

    document: Dict[str, Any]
    name: str

    @property
    def schema(self) -> int:
        """2 has parts, classes, heaps; 1 has sums of address space alone."""
        return int(self.document["schema"])

    @property
    def pid(self) -> int:
        """The process's number in its own namespace; 0 where it is missing."""
        return self.number("pid")

    @property
    def version(self) -> str:
        """Of the library."""
        return str(self.document.get("version", "?"))

    @property
    def parts(self) -> Dict[str, int]:
        """Resident bytes by part; empty in schema 1."""
        return dict(self.section("parts"))

    def section(self, name: str) -> Dict[str, Any]:
        """An object of figures, which may be missing."""
        found: Dict[str, Any] = self.document.get(name, {})
        return found

    def rows(self, name: str) -> List[Dict[str, Any]]:
        """A table, which may be missing."""
        found: List[Dict[str, Any]] = self.document.get(name, [])
        return found

    def number(self, *path: str) -> int:
        """A figure, 0 where it is missing."""
        found: Any = self.document
        for name in path:
            found = found.get(name, 0) if isinstance(found, dict) else 0
        return found if is_figure(found) else 0


def load(path: str) -> Snapshot:
    """The snapshot in a file."""
    return parse(read(path), path)


def read(path: str) -> bytes:
    """The bytes of a file that may be a snapshot."""
    return bounded.read_file(path, _MOST_BYTES)


def parse(data: bytes, name: str) -> Snapshot:
    """The snapshot in these bytes; `name` is for messages."""
    if not data.strip():
        raise Failure(f"{name} is empty: no snapshot was written to it")
    if data.startswith(b"\x1f\x8b"):
        raise Failure(f"{name} is gzipped, as heap profiles are: a profile goes to --profile, a snapshot is JSON")
    if data.startswith((b"# HELP", b"# TYPE", b"# UNIT")):
        raise Failure(f"{name} is OpenMetrics text: a snapshot is JSON, as `hakmem stats --json PID` prints it")
    return check(decode(data, name), name)


def decode(data: bytes, name: str) -> Any:
    """Parses the JSON."""
    try:
        return decode_json(data)
    except ValueError as error:
        if not data.lstrip().startswith((b"{", b"[")):
            raise Failure(f"{name} is no statistics snapshot: it is no JSON") from None
        cut = "is cut off: was the disk full, or is it still being written?"
        how = cut if ends_early(error) else "is damaged: it is no valid JSON"
        raise Failure(f"{name} {how} ({error})") from None


def _rename(figures: Any, names: Dict[str, str]) -> None:
    for old, name in names.items():
        if isinstance(figures, dict) and old in figures:
            value = figures.pop(old)
            figures.setdefault(name, value)


def with_new_names(document: Any) -> Any:
    """The document of any version with the figures' present names alone."""
    if not isinstance(document, dict):
        return document
    for section, names in OLD_FIGURES.items():
        found = document.get(section)
        for figures in found if isinstance(found, list) else [found]:
            _rename(figures, names)
    _rename(document.get("bands"), {"big": "large"})
    return document


def check(document: Any, name: str) -> Snapshot:
    """The document as a snapshot, if it is one that this tool understands."""
    document = with_new_names(document)
    if not isinstance(document, dict) or "schema" not in document or "memory" not in document:
        raise Failure(f"{name} is JSON, but no statistics snapshot of hakmem (`hakmem stats --json PID` prints one)")
    schema = document["schema"]
    if not is_figure(schema) or schema < 1:
        raise Failure(f"{name} is damaged: schema is {schema!r:.40}")
    if schema > NEWEST_SCHEMA:
        raise Failure(
            f"{name} has schema {schema}, and this tool knows up to {NEWEST_SCHEMA}: use the tool of that version"
        )
    _check_section(document, "memory", ["resident"], name)
    if schema >= 2:
        _check_section(document, "parts", PARTS, name)
    for section in ("events", "learning", "live", "huge", "options", "bands"):
        if not isinstance(document.get(section, {}), dict):
            raise Failure(f"{name} is damaged: {section} is no object")
    for table in ("classes", "heaps", "named"):
        _check_table(document.get(table, []), table, name)
    _check_table(list(document.get("bands", {}).values()), "bands", name)
    return Snapshot(document, name)


def _check_section(document: Dict[str, Any], section: str, names: Any, where: str) -> None:
    values = document.get(section)
    if not isinstance(values, dict):
        raise Failure(f"{where} is damaged: it has no {section}")
    for name in names:
        if not is_figure(values.get(name)):
            raise Failure(f"{where} is damaged: {section}.{name} is {values.get(name)!r:.40}, no number of bytes")


def _check_table(rows: Any, table: str, where: str) -> None:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Failure(f"{where} is damaged: {table} is no list of objects")
    for row in rows:
        for name, value in row.items():
            is_unknown = value is None and name.endswith("_estimate")
            is_text = isinstance(value, str) and name not in _NUMBERS
            if not is_figure(value) and not is_text and not is_unknown:
                raise Failure(f"{where} is damaged: {table} has {name} {value!r:.40}")
