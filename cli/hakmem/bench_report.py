"""The results of `hakmem bench` as JSON and as a page of Markdown, with what we lose plainly marked."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Dict, List, Mapping, Optional, Sequence

from hakmem.allocators import HAKMEM, Allocator
from hakmem.contest import Contest
from hakmem.metrics import BENCH_METRICS, MEAN, PEAK, Metric
from hakmem.settings import Setting, one_line
from hakmem.standing import LOSES, MEMORY, Standing, peers, word
from hakmem.statistics import Ratio, coverage, geometric_mean
from hakmem.workload_runner import is_floor

SCHEMA = 1


@dataclass(frozen=True)
class Results:
    """One run of the standard set."""

    settings: Mapping[str, Setting]
    allocators: Sequence[Allocator]
    rounds: int
    seed: int
    standings: Sequence[Standing]
    contests: Mapping[str, Contest]
    left_out: Mapping[str, str]
    notes: Sequence[str]

    @property
    def names(self) -> List[str]:
        """The allocators, ours first."""
        names = [allocator.name for allocator in self.allocators]
        return sorted(names, key=lambda name: (not name.startswith(HAKMEM), names.index(name)))

    def relative_times(self, standing: Standing) -> Dict[str, float]:
        """Each allocator's median time, and the floor's, to the best peer's."""
        contest = self.contests[standing.workload.name]
        medians = _medians(contest, standing.time)
        base = medians.get(standing.best_peer or "")
        return {name: value / base for name, value in medians.items()} if base else {}

    def relative_memory(self, standing: Standing, metric: Metric) -> Dict[str, float]:
        """Each allocator's median memory to the median peer's."""
        contest = self.contests[standing.workload.name]
        medians = _medians(contest, metric)
        theirs = [medians[name] for name in peers(contest) if name in medians]
        return (
            {n: v / median(theirs) for n, v in medians.items() if not is_floor(n)} if theirs and median(theirs) else {}
        )


def _medians(contest: Contest, metric: Metric) -> Dict[str, float]:
    figures = {name: contest.figures(name, metric) for name in contest.names}
    return {name: median(values.values()) for name, values in figures.items() if values}


# ---- JSON.


def as_json(results: Results) -> str:
    """A line a workload and allocator, so that two versions can be compared line by line."""
    head = {
        "schema": SCHEMA,
        "settings": dict(results.settings),
        "rounds": results.rounds,
        "seed": results.seed,
        "allocators": [asdict(allocator) for allocator in results.allocators],
        "left_out": dict(results.left_out),
        "notes": list(results.notes),
    }
    workloads = ",\n".join(_workload_json(standing, results) for standing in results.standings)
    return json.dumps(head, indent=1)[:-2] + ',\n "workloads": [\n' + workloads + "\n ]\n}\n"


def _workload_json(standing: Standing, results: Results) -> str:
    workload, contest = standing.workload, results.contests[standing.workload.name]
    head = {
        "name": workload.name,
        "group": workload.group,
        "threads": workload.threads,
        "what": workload.what,
        "time_metric": standing.time.key,
        "best_peer": standing.best_peer,
        "time": _ratio_json(standing.time_ratio),
        **{f"{key}_to_median_peer": _ratio_json(ratio) for key, ratio in standing.memory_ratios.items()},
        "floor": standing.floor,
        "time_to_floor": _ratio_json(standing.floor_ratio),
        "failures": {name: f"round {run.round}: {run.failure}" for name, run in contest.failed.items()},
    }
    lines = [f"   {json.dumps(name)}: {json.dumps(_figures(contest, name))}" for name in contest.names]
    return "  " + json.dumps(head)[:-1] + ', "figures": {\n' + ",\n".join(lines) + "\n  }}"


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
    figures = {metric.key: contest.figures(name, metric) for metric in BENCH_METRICS}
    return {key: [_short(values[number]) for number in sorted(values)] for key, values in figures.items() if values}


def _short(value: float) -> float:
    return int(value) if value == int(value) else float(f"{value:.6g}")


# ---- Markdown.


def as_markdown(results: Results, pictures: Sequence[str]) -> str:
    """The page."""
    parts = [
        "# hakmem beside its peers",
        "",
        f"{results.settings['time_utc']}. {one_line(results.settings)}. {results.rounds} rounds, interleaved, in an order "
        f"shuffled with seed {results.seed}.",
        "",
        "Ratios below 1 are in hakmem's favour. **LOSES**: worse, and the interval leaves 1 out. level: the difference is inside "
        f"the noise. Brackets: {coverage(results.rounds) * 100:.0f} % interval.",
        "",
        *_summary(results),
        "",
        *[f"![{name}]({name})\n" for name in pictures],
        "## Where hakmem stands",
        "",
        *_standing_table(results),
        "",
        "## Time of all, × the best peer",
        "",
        *_matrix(results, {s.workload.name: results.relative_times(s) for s in results.standings}, with_floor=True),
        "",
        "## Peak resident memory of all, × the median peer",
        "",
        *_matrix(results, {s.workload.name: results.relative_memory(s, PEAK) for s in results.standings}),
        "",
        "## Mean resident memory of all, × the median peer",
        "",
        *_matrix(results, {s.workload.name: results.relative_memory(s, MEAN) for s in results.standings}),
        "",
        *_failures(results),
        "## Allocators",
        "",
        *[f"- {allocator.name}: {_origin(allocator)}" for allocator in results.allocators],
    ]
    return "\n".join(parts).rstrip() + "\n"


def _origin(allocator: Allocator) -> str:
    parts = [allocator.version or "version unknown", allocator.notes]
    return ", ".join(part for part in parts if part)


def losses(results: Results) -> List[str]:
    """Every decided loss, one line each."""
    lines: List[str] = []
    for standing in results.standings:
        if standing.time_word == LOSES and standing.time_ratio:
            lines.append(f"{standing.workload.name}: time × {standing.time_ratio.value:.2f} of {standing.best_peer}")
        for metric in MEMORY:
            ratio = standing.memory_ratios[metric.key]
            if ratio is not None and word(ratio) == LOSES:
                lines.append(f"{standing.workload.name}: {metric.title} × {ratio.value:.2f} of the median peer")
        if HAKMEM in results.contests[standing.workload.name].failed:
            lines.append(
                f"{standing.workload.name}: FAILED: {results.contests[standing.workload.name].failed[HAKMEM].failure}"
            )
    return lines


def _summary(results: Results) -> List[str]:
    times = [s.time_ratio.value for s in results.standings if s.time_ratio]
    lines = [
        f"Geometric mean over {len(times)} workloads: time × {_number(geometric_mean(times))} of each one's best peer"
    ]
    for metric in MEMORY:
        ratios = [ratio.value for s in results.standings if (ratio := s.memory_ratios[metric.key])]
        lines[0] += f", {metric.title} × {_number(geometric_mean(ratios))} of the median peer"
    lost = losses(results)
    lines += ["", "What hakmem loses:" if lost else "hakmem loses nowhere by more than the noise.", ""]
    return [*lines, *[f"- {line}" for line in lost]]


def _standing_table(results: Results) -> List[str]:
    lines = [
        "| workload | threads | time × best peer | best peer | | peak × median peer | mean × median peer | | time × floor | what |",
        "|---|--:|--:|---|---|--:|--:|---|--:|---|",
    ]
    for standing in results.standings:
        memory = [_cell(standing.memory_ratios[metric.key]) for metric in MEMORY]
        cells = [
            standing.workload.name, str(standing.workload.threads), _cell(standing.time_ratio), standing.best_peer or "–",
            _marked(standing.time_word), *memory, _marked(standing.memory_word), _short_cell(standing.floor_ratio),
            standing.workload.what,
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _matrix(results: Results, ratios: Mapping[str, Mapping[str, float]], with_floor: bool = False) -> List[str]:
    names = results.names
    head = [*names, *(["floor"] if with_floor else [])]
    lines = [f"| workload | {' | '.join(head)} |", f"|---|{'--:|' * len(head)}"]
    for workload, row in ratios.items():
        failed = results.contests[workload].failed
        cells = ["failed" if name in failed else _number(row.get(name)) for name in names]
        if with_floor:
            cells.append(_number(min((value for name, value in row.items() if is_floor(name)), default=None)))
        lines.append(f"| {workload} | {' | '.join(cells)} |")
    means = [_number(geometric_mean([row[name] for row in ratios.values() if name in row])) for name in names]
    lines.append(f"| **geometric mean** | {' | '.join(means)} |{' |' if with_floor else ''}")
    return lines


def _failures(results: Results) -> List[str]:
    lines = [f"- {name} was left out: {reason}" for name, reason in results.left_out.items()]
    for name, contest in results.contests.items():
        lines += [f"- {name} under {who}: round {run.round}: {run.failure}" for who, run in contest.failed.items()]
    lines += [f"- {note}" for note in results.notes]
    return ["## Left out, failed, noted", "", *lines, ""] if lines else []


def _number(value: Optional[float]) -> str:
    return "–" if value is None else f"{value:.2f}"


def _cell(ratio: Optional[Ratio]) -> str:
    return "–" if ratio is None else f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def _short_cell(ratio: Optional[Ratio]) -> str:
    return _number(ratio.value if ratio else None)


def _marked(text: str) -> str:
    return f"**{text}**" if text == LOSES else text
