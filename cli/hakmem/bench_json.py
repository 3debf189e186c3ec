"""The results of `hakmem bench` as JSON.

They can be published: they hold no path and no name of a machine or user (privacy.py)."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence

from hakmem.bench_results import Results
from hakmem.contest import Contest
from hakmem.counts import as_entries
from hakmem.measure import Run
from hakmem.metrics import BENCH_METRICS
from hakmem.privacy import scrub
from hakmem.schemas import SCHEMAS
from hakmem.standing import Standing, word
from hakmem.statistics import Ratio


def as_json(results: Results) -> str:
    """One line for each workload and allocator, so that two versions can be compared line by line."""
    head = {
        "schema": SCHEMAS["bench"],
        "settings": dict(results.settings),
        "rounds": results.rounds,
        "seed": results.seed,
        "prices": {price.mode: price.ns_per_mib_second for price in results.prices},
        "allocators": [{"name": one.name, "version": one.version, "notes": one.notes} for one in results.allocators],
        "left_out": {name: scrub(reason) for name, reason in results.left_out.items()},
        "notes": [scrub(note) for note in results.notes],
    }
    workloads = [_workload_json(standing, results) for standing in results.standings]
    counts = ["  " + json.dumps(entry) for entry in _counts_json(results)]
    parts = [json.dumps(head, indent=1)[:-2], _list_json("counts", counts), _list_json("workloads", workloads)]
    return ",\n".join(parts) + "\n}\n"


def _list_json(key: str, lines: Sequence[str]) -> str:
    inside = "\n" + ",\n".join(lines) + "\n " if lines else ""
    return f" {json.dumps(key)}: [{inside}]"


def _counts_json(results: Results) -> List[Dict[str, Any]]:
    entries = as_entries(results.counted)
    return [{**entry, "failure": scrub(entry["failure"]) if entry["failure"] else None} for entry in entries]


def _workload_json(standing: Standing, results: Results) -> str:
    workload, contest = standing.workload, results.contests[standing.workload.name]
    head = {
        "name": workload.name,
        "group": workload.group,
        "threads": workload.threads,
        "rounds": standing.rounds,
        "what": workload.what,
        "time_metric": standing.time.key,
        "best_peer": standing.best_peer,
        "time": _ratio_json(standing.time_ratio),
        **{f"{key}_to_median_peer": _ratio_json(ratio) for key, ratio in standing.memory_ratios.items()},
        "floor": standing.floor,
        "time_to_floor": _ratio_json(standing.floor_ratio),
        "cost": {
            cost.price.mode: {"best_peer": cost.best_peer, "to_best_peer": _ratio_json(cost.ratio)}
            for cost in standing.costs
        },
        "failures": {name: failure_text(run) for name, run in contest.failed.items()},
    }
    lines = [f"   {json.dumps(name)}: {json.dumps(_figures(contest, name))}" for name in contest.names]
    return "  " + json.dumps(head)[:-1] + ', "figures": {\n' + ",\n".join(lines) + "\n  }}"


def failure_text(run: Run) -> str:
    """The round and the reason."""
    return scrub(f"round {run.round}: {run.failure}")


def _ratio_json(ratio: Optional[Ratio]) -> Optional[Dict[str, Any]]:
    if ratio is None:
        return None
    return {
        "ratio": round(ratio.value, 4),
        "low": round(ratio.low, 4),
        "high": round(ratio.high, 4),
        "verdict": word(ratio),
    }


def _figures(contest: Contest, name: str) -> Dict[str, List[float]]:
    """By metric, the counted rounds in their order."""
    metrics = (*BENCH_METRICS, *(price.metric for price in contest.prices))
    figures = {metric.key: contest.figures(name, metric) for metric in metrics}
    return {key: [_short(values[number]) for number in sorted(values)] for key, values in figures.items() if values}


def _short(value: float) -> float:
    return int(value) if value == int(value) else float(f"{value:.6g}")
