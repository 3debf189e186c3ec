"""The results of `hakmem bench` as JSON and as a page of Markdown, with what we lose plainly marked.

They can be published: they hold no path and no name of a machine or user (privacy.py)."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence

from hakmem.allocators import HAKMEM, Allocator
from hakmem.bench_cells import marked, matrix, number_cell, ratio_cell, short_cell
from hakmem.bench_results import Results
from hakmem.contest import Contest
from hakmem.cost_report import cost_losses, cost_section
from hakmem.counts import COLUMNS, as_entries, rows
from hakmem.errors import plural
from hakmem.measure import Run
from hakmem.metrics import BENCH_METRICS, MEAN, PEAK
from hakmem.privacy import scrub
from hakmem.schemas import SCHEMAS
from hakmem.settings import one_line
from hakmem.standing import LOSES, MEMORY, Standing, word
from hakmem.statistics import FEWEST_TO_DECIDE, Ratio, coverage, geometric_mean

# ---- JSON.


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
        "failures": {name: _failure(run) for name, run in contest.failed.items()},
    }
    lines = [f"   {json.dumps(name)}: {json.dumps(_figures(contest, name))}" for name in contest.names]
    return "  " + json.dumps(head)[:-1] + ', "figures": {\n' + ",\n".join(lines) + "\n  }}"


def _failure(run: Run) -> str:
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


# ---- Markdown.


def as_markdown(results: Results, pictures: Sequence[str]) -> str:
    """The page."""
    parts = [
        "# hakmem beside its peers" if results.standings else "# What hakmem does",
        "",
        f"{results.settings['time_utc']}. {one_line(results.settings)}. {_rounds_text(results)}",
        "",
        *(_comparison(results, pictures) if results.standings else []),
        *_counts(results),
        *_failures(results),
        *_allocators(results),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _rounds_text(results: Results) -> str:
    if not results.standings:
        return f"Counted with seed {results.seed}; no run was timed."
    return (
        f"{plural(results.rounds, 'complete round')}, interleaved, each workload in an order of its own, shuffled "
        f"with seed {results.seed}; how many each workload had stands in its row."
    )


def _comparison(results: Results, pictures: Sequence[str]) -> List[str]:
    return [
        "Ratios below 1 are in hakmem's favour. **LOSES**: worse, and the interval leaves 1 out. level: the "
        "difference is inside "
        f"the noise. Brackets: the interval, {_coverages(results)}.",
        "",
        *_summary(results),
        "",
        *[f"![{name}]({name})\n" for name in pictures],
        "## Where hakmem stands",
        "",
        *_standing_table(results),
        "",
        *cost_section(results),
        "## Time of all, × the best peer",
        "",
        *matrix(results, {s.workload.name: results.relative_times(s) for s in results.standings}, with_floor=True),
        "",
        "## Peak resident memory of all, × the median peer",
        "",
        *matrix(results, {s.workload.name: results.relative_memory(s, PEAK) for s in results.standings}),
        "",
        "## Mean resident memory of all, × the median peer",
        "",
        *matrix(results, {s.workload.name: results.relative_memory(s, MEAN) for s in results.standings}),
        "",
    ]


def _coverages(results: Results) -> str:
    """How sure the intervals are, by how many rounds there were."""
    numbers = sorted({standing.rounds for standing in results.standings}, reverse=True)
    return ", ".join(f"{coverage(number) * 100:.0f}% with {plural(number, 'round')}" for number in numbers)


def _counts(results: Results) -> List[str]:
    if not results.counted:
        return []
    head = ["workload", "threads", *(column.title for column in COLUMNS)]
    return [
        "## What hakmem does, for each million operations",
        "",
        "Counted by its counting build in one run of each workload; bench/README.md says how to read it. Units "
        "other than events for each million operations are named.",
        "",
        f"| {' | '.join(head)} |",
        f"|---|{'--:|' * (len(head) - 1)}",
        *[f"| {' | '.join(cells)} |" for cells in rows(results.counted)],
        "",
    ]


def _allocators(results: Results) -> List[str]:
    lines = [f"- {allocator.name}: {_origin(allocator)}" for allocator in results.allocators]
    return ["## Allocators", "", *lines] if lines else []


def _origin(allocator: Allocator) -> str:
    parts = [allocator.version or "version unknown", allocator.notes]
    return ", ".join(part for part in parts if part)


def losses(results: Results) -> List[str]:
    """One line for each decided loss."""
    lines: List[str] = []
    for standing in results.standings:
        if standing.time_word == LOSES and standing.time_ratio:
            lines.append(f"{standing.workload.name}: time × {standing.time_ratio.value:.2f} of {standing.best_peer}")
        for metric in MEMORY:
            ratio = standing.memory_ratios[metric.key]
            if ratio is not None and word(ratio) == LOSES:
                lines.append(f"{standing.workload.name}: {metric.title} × {ratio.value:.2f} of the median peer")
        lines += cost_losses(standing)
        if HAKMEM in results.contests[standing.workload.name].failed:
            run = results.contests[standing.workload.name].failed[HAKMEM]
            lines.append(f"{standing.workload.name}: FAILED: {scrub(str(run.failure))}")
    return lines


def losses_title(results: Results) -> str:
    """The line above the losses, or in their place."""
    if losses(results):
        return "What hakmem loses:"
    if all(standing.rounds < FEWEST_TO_DECIDE for standing in results.standings):
        return f"No winner and no loser is named: that takes {FEWEST_TO_DECIDE} rounds."
    return "hakmem loses nowhere by more than the noise."


def _summary(results: Results) -> List[str]:
    times = [s.time_ratio.value for s in results.standings if s.time_ratio]
    lines = [
        f"Geometric mean over {len(times)} workloads: time × {number_cell(geometric_mean(times))} of each one's best "
        "peer"
    ]
    for metric in MEMORY:
        ratios = [ratio.value for s in results.standings if (ratio := s.memory_ratios[metric.key])]
        lines[0] += f", {metric.title} × {number_cell(geometric_mean(ratios))} of the median peer"
    lost = losses(results)
    lines += ["", losses_title(results), ""]
    return [*lines, *[f"- {line}" for line in lost]]


def _standing_table(results: Results) -> List[str]:
    lines = [
        "| workload | threads | rounds | time × best peer | best peer | | peak × median peer | mean × median peer | | "
        "time × floor | what |",
        "|---|--:|--:|--:|---|---|--:|--:|---|--:|---|",
    ]
    for standing in results.standings:
        memory = [ratio_cell(standing.memory_ratios[metric.key]) for metric in MEMORY]
        cells = [
            standing.workload.name, str(standing.workload.threads), str(standing.rounds),
            ratio_cell(standing.time_ratio),
            standing.best_peer or "–", marked(standing.time_word), *memory, marked(standing.memory_word),
            short_cell(standing.floor_ratio), standing.workload.what,
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _failures(results: Results) -> List[str]:
    lines = [f"- {name} was left out: {scrub(reason)}" for name, reason in results.left_out.items()]
    for name, contest in results.contests.items():
        lines += [f"- {name} under {who}: {_failure(run)}" for who, run in contest.failed.items()]
    lines += [f"- {one.workload} was not counted: {scrub(one.failure)}" for one in results.counted if one.failure]
    lines += [f"- {scrub(note)}" for note in results.notes]
    return ["## Left out, failed, noted", "", *lines, ""] if lines else []
