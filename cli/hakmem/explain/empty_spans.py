"""Spans without a live block, which heaps keep for their threads' next requests, as far as a snapshot's figures tell.

The figures have no count of them. A heap without a live block has only such spans. Of a size class with fewer live
blocks than spans, the difference is the least number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List


@dataclass(frozen=True)
class EmptySpans:
    """`bytes`, `slabs` and `heaps` are of heaps without a live block, `least_spans` of all heaps."""

    bytes: int = 0
    slabs: int = 0
    heaps: int = 0
    least_spans: int = 0


def find(document: Dict[str, Any]) -> EmptySpans:
    """From a snapshot's figures."""
    heaps = [row for row in document.get("heaps", []) if figure(row, "slabs") and row.get("live_blocks") == 0]
    held = sum(min(figure(row, "free_bytes"), figure(row, "resident")) for row in heaps)
    rows: List[Dict[str, Any]] = document.get("classes", [])
    return EmptySpans(
        min(held, document["parts"]["free_in_slabs"]),
        sum(figure(row, "slabs") for row in heaps),
        len(heaps),
        sum(least_of_class(row) for row in rows),
    )


def least_of_class(row: Dict[str, Any]) -> int:
    """The least number of a size class's spans that have no live block."""
    return max(figure(row, "spans") - figure(row, "live_blocks"), 0) if "live_blocks" in row else 0


def figure(row: Dict[str, Any], name: str) -> int:
    """A figure of a table's row, 0 where it is missing."""
    value = row.get(name, 0)
    return value if isinstance(value, int) else 0
