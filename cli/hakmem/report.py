"""A comparison as JSON and as CSV: every run, and the summary."""

from __future__ import annotations

import csv
import io
import json
import shlex
from dataclasses import asdict
from typing import Any, Dict, List, Sequence

from hakmem.contest import Contest, Row
from hakmem.measure import Run
from hakmem.memory import Sample
from hakmem.metrics import METRICS
from hakmem.schemas import SCHEMAS
from hakmem.settings import Setting

_MOST_POINTS = 200


def as_json(contest: Contest, command: Sequence[str], settings: Dict[str, Setting], extra: Dict[str, Any]) -> str:
    """The JSON document. docs/cli.md describes it."""
    document = {
        "schema": SCHEMAS["compare"],
        "command": list(command),
        "settings": settings,
        "base": contest.base,
        "rounds": contest.rounds,
        "seed": contest.seed,
        **extra,
        "prices": {price.mode: price.ns_per_mib_second for price in contest.prices},
        "allocators": allocator_entries(contest),
        "summary": [summary_entry(row) for row in (*contest.rows(), *contest.cost_rows())],
        "failures": failure_entries(contest),
        "runs": [run_entry(run) for run in contest.runs],
    }
    return json.dumps(document, indent=2) + "\n"


def allocator_entries(contest: Contest) -> List[Dict[str, Any]]:
    """The allocators, and the file that served malloc, where it is known."""
    return [{**asdict(one.allocator), "serves_malloc": one.serves} for one in contest.prepared]


def failure_entries(contest: Contest) -> List[Dict[str, Any]]:
    """The allocators under which the program failed."""
    return [
        {"allocator": name, "round": run.round, "failure": run.failure, "detail": run.detail}
        for name, run in contest.failed.items()
    ]


def summary_entry(row: Row) -> Dict[str, Any]:
    """One line of the table."""
    return {
        "allocator": row.allocator,
        "metric": row.metric.key,
        "median": row.spread.median,
        "min": row.spread.low,
        "max": row.spread.high,
        "runs": row.spread.count,
        "ratio": row.ratio.value if row.ratio else None,
        "ratio_low": row.ratio.low if row.ratio else None,
        "ratio_high": row.ratio.high if row.ratio else None,
        "decided": row.ratio.decided if row.ratio else None,
    }


def run_entry(run: Run) -> Dict[str, Any]:
    """One run, with a thinned curve."""
    return {
        "allocator": run.allocator,
        "round": run.round,
        "exit_code": run.exit_code,
        "failure": run.failure,
        "library_mapped": run.mapped,
        **run.figures,
        "resident_over_time": [[round(s.seconds, 4), s.resident] for s in thinned(run.samples)],
    }


def thinned(samples: Sequence[Sample], most: int = _MOST_POINTS) -> List[Sample]:
    """At most about `most` samples, the first, last and highest among them."""
    if len(samples) <= most:
        return list(samples)
    step = -(-len(samples) // most)
    kept = {*samples[::step], samples[-1], max(samples, key=lambda sample: sample.resident)}
    return sorted(kept, key=lambda sample: sample.seconds)


def as_csv(contest: Contest, command: Sequence[str]) -> str:
    """A line a run."""
    text = io.StringIO()
    keys = [metric.key for metric in (*METRICS, *(price.metric for price in contest.prices))]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["command", "allocator", "round", "exit_code", "failure", *keys])
    for run in contest.runs:
        figures = [run.figures.get(key) for key in keys]
        cells = ["" if figure is None else f"{figure:.9g}" if figure % 1 else f"{figure:.0f}" for figure in figures]
        code = "" if run.exit_code is None else run.exit_code
        writer.writerow([shlex.join(command), run.allocator, run.round, code, run.failure or "", *cells])
    return text.getvalue()
