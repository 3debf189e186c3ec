"""The figures of the live picture: their names, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Tuple

from hakmem.metrics import count, seconds, size
from hakmem.top.history import Value

# The parts of resident memory: name among the "parts", name here, colour. A rare part is shown where it exists.
SELDOM = ("lazy",)
PARTS: Tuple[Tuple[str, str, str], ...] = (
    ("live", "live", "green"),
    ("free_in_slabs", "free in slabs", "yellow"),
    ("uncarved", "never used", "bright_yellow"),
    ("kept_by_heaps", "kept by heaps", "cyan"),
    ("dirty_slabs", "dirty", "bright_cyan"),
    ("large_dirty", "dirty extents", "blue"),
    ("lazy", "purged lazily", "bright_blue"),
    ("metadata", "metadata", "magenta"),
    ("not_malloc", "not malloc", "white"),
)
_FREE = ("free_in_slabs", "uncarved", "kept_by_heaps", "dirty_slabs", "large_dirty")


@dataclass(frozen=True)
class Trend:
    """A figure over time; for a counter, its growth."""

    title: str
    value: Value
    text: Callable[[float], str]
    is_counter: bool = False


def _event(*names: str) -> Value:
    return lambda document: sum(document["events"].get(name, 0) for name in names)


def _free(document: Dict[str, Any]) -> float:
    return float(sum(document["parts"][part] for part in _FREE))


def _per_second(text: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: f"{text(value)}/s"


TRENDS: Tuple[Trend, ...] = (
    Trend("resident", lambda document: float(document["memory"]["resident"]), size),
    Trend("live", lambda document: float(document["live"]["bytes"]), size),
    Trend("free, resident", _free, size),
    Trend("refills", _event("refill"), _per_second(count), True),
    Trend("remote frees", _event("remote_free"), _per_second(count), True),
    Trend("blocks > 32 KiB", _event("run_alloc", "large_alloc"), _per_second(count), True),
    Trend("purged", _event("purged", "purged_lazily"), _per_second(size), True),
    Trend("refaulted", _event("refaulted"), _per_second(size), True),
)


def duration(value: float) -> str:
    """Days, hours, minutes: the two largest; below a minute as everywhere, from where that is no 60.00 s."""
    if value < 59.995:
        return seconds(value)
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
