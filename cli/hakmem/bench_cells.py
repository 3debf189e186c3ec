"""Cells and matrices of the page that `hakmem bench` writes."""

from __future__ import annotations

from typing import List, Mapping, Optional, Sequence

from hakmem.bench_results import Results
from hakmem.standing import LOSES
from hakmem.statistics import Ratio, geometric_mean
from hakmem.workload_runner import is_floor


def number_cell(value: Optional[float]) -> str:
    """Two places, or a dash."""
    return "–" if value is None else f"{value:.2f}"


def ratio_cell(ratio: Optional[Ratio]) -> str:
    """A ratio with its interval."""
    return "–" if ratio is None else f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def short_cell(ratio: Optional[Ratio]) -> str:
    """Without it."""
    return number_cell(ratio.value if ratio else None)


def marked(text: str) -> str:
    """A verdict, with a loss in bold."""
    return f"**{text}**" if text == LOSES else text


def matrix(
    results: Results,
    ratios: Mapping[str, Mapping[str, float]],
    of: Optional[Sequence[str]] = None,
    with_floor: bool = False,
) -> List[str]:
    """A row for each workload, a column for each allocator, and the means below. `of`: the allocators; default all."""
    names = results.names if of is None else of
    head = [*names, *(["floor"] if with_floor else [])]
    lines = [f"| workload | {' | '.join(head)} |", f"|---|{'--:|' * len(head)}"]
    for workload, row in ratios.items():
        failed = results.contests[workload].failed
        cells = ["failed" if name in failed else number_cell(row.get(name)) for name in names]
        if with_floor:
            cells.append(number_cell(min((value for name, value in row.items() if is_floor(name)), default=None)))
        lines.append(f"| {workload} | {' | '.join(cells)} |")
    means = [number_cell(geometric_mean([row[name] for row in ratios.values() if name in row])) for name in names]
    lines.append(f"| **geometric mean** | {' | '.join(means)} |{' |' if with_floor else ''}")
    return lines
