"""The metrics of a run, and how their figures are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, Optional, Tuple

_KIB = 1024.0


def seconds(value: float) -> str:
    """Three significant figures and a unit."""
    if value < 0.0009995:
        return f"{value * 1e6:.0f} µs"
    if value < 0.9995:
        return f"{_three_figures(value * 1e3)} ms"
    return f"{value:.2f} s" if value < 99.995 else f"{value:.0f} s"


def _three_figures(value: float) -> str:
    """Formats with enough digits after the point, zeros too, so that figures below each other compare."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def size(value: float) -> str:
    """In the unit that fits: the next one from where the rounded figure would be 1024."""
    if value < 1023.5:
        return f"{value:.0f} B"
    if value < 1023.5 * _KIB:
        return f"{value / _KIB:.0f} KiB"
    unit, bytes_of_unit = ("MiB", _KIB**2) if value < 1023.95 * _KIB**2 else ("GiB", _KIB**3)
    figure = value / bytes_of_unit
    return f"{figure:.2f} {unit}" if figure < 9.995 else f"{figure:.1f} {unit}"


def exact_size(value: int) -> str:
    """Of a block of a size class: with all figures, as several classes have the same KiB when rounded."""
    return f"{value} B" if value < _KIB else f"{value / _KIB:g} KiB"


def count(value: float) -> str:
    """With thousands."""
    return f"{value:,.0f}"


@dataclass(frozen=True)
class Metric:
    """One figure of a run. Less is better in all of them."""

    key: str
    title: str
    text: Callable[[float], str]
    less: str = "less"
    more: str = "more"


def per_operation(value: float) -> str:
    """Nanoseconds, as a micro workload's operation takes."""
    return f"{value:.2f} ns" if value < 9.995 else f"{value:.1f} ns" if value < 999.5 else seconds(value / 1e9)


TIME_PER_OPERATION = Metric("ns_per_operation", "time per operation", per_operation)
WALL = Metric("wall_seconds", "wall time", seconds)
CPU = Metric("cpu_seconds", "CPU time", seconds)
PEAK = Metric("peak_bytes", "peak resident", size)
PEAK_TREE = Metric("peak_tree_bytes", "peak resident, all processes", size)
MEAN = Metric("mean_bytes", "mean resident", size)
AFTER = Metric("after_bytes", "resident after the load", size)
MINOR = Metric("minor_faults", "minor faults", count, "fewer", "more")
MAJOR = Metric("major_faults", "major faults", count, "fewer", "more")

METRICS: Tuple[Metric, ...] = (WALL, CPU, PEAK, PEAK_TREE, MEAN, AFTER, MINOR, MAJOR)
BENCH_METRICS: Tuple[Metric, ...] = (TIME_PER_OPERATION, *METRICS)
# The figures that the one-line verdicts name.
HEADLINE: Tuple[Metric, ...] = (WALL, CPU, PEAK, MEAN)

Figures = Dict[str, Optional[float]]
