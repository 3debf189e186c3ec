"""A curve that is one line of text high."""

from __future__ import annotations

from typing import List, Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-:=+*#"


def sparkline(values: Sequence[float], width: int, first: int = 0, levels: str = BLOCKS) -> str:
    """At most `width` columns, the newest last, from the lowest value to the highest.

    `first` is the number of the first value among all values ever: values that share a column keep it when
    older ones drop out, or the curve would flicker.
    """
    columns = _columns(values, width, first)
    if not columns:
        return ""
    low, high = min(columns), max(columns)
    # A curve that hardly moves is drawn flat.
    span = max(high - low, abs(high) / 1000)
    if span == 0:
        return levels[0] * len(columns)
    return "".join(levels[min(len(levels) - 1, int((value - low) / span * len(levels)))] for value in columns)


def _columns(values: Sequence[float], width: int, first: int) -> List[float]:
    """The mean of each column's values: as many for each as it takes, a power of two."""
    if width <= 0 or not values:
        return []
    share = 1
    while (first + len(values) - 1) // share - first // share >= width:
        share *= 2
    columns: List[List[float]] = []
    for number, value in enumerate(values, first):
        if not columns or number % share == 0:
            columns.append([])
        columns[-1].append(value)
    return [sum(column) / len(column) for column in columns]
