"""The results of `hakmem bench` as a page of Markdown, with what hakmem loses plainly marked.

It can be published: it holds no path and no name of a machine or user (privacy.py)."""

from __future__ import annotations

from typing import List, Sequence

from hakmem.allocators import HAKMEM, Allocator
from hakmem.bench_cells import marked, matrix, number_cell, ratio_cell, short_cell
from hakmem.bench_json import failure_text
from hakmem.bench_results import Results
from hakmem.cost_report import cost_losses, cost_section
from hakmem.counts import COLUMNS, rows
from hakmem.errors import plural
from hakmem.metrics import MEAN, PEAK
from hakmem.privacy import scrub
from hakmem.settings import one_line
from hakmem.standing import LOSES, MEMORY, word
from hakmem.statistics import FEWEST_TO_DECIDE, coverage, geometric_mean


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
        f"difference is inside the noise. Brackets: the interval, {_coverages(results)}.",
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
        lines += [f"- {name} under {who}: {failure_text(run)}" for who, run in contest.failed.items()]
    lines += [f"- {one.workload} was not counted: {scrub(one.failure)}" for one in results.counted if one.failure]
    lines += [f"- {scrub(note)}" for note in results.notes]
    return ["## Left out, failed, noted", "", *lines, ""] if lines else []
