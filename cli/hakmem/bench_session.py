"""One run of the standard set: first the counts, then the contests, in rounds, within a time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from hakmem import counts, environment, settings
from hakmem.allocators import Allocator
from hakmem.bench_results import Results
from hakmem.contest import Contest, Listener
from hakmem.cost import Price, unknown_mode
from hakmem.counts import Counted
from hakmem.errors import Failure, plural
from hakmem.measure import Run
from hakmem.progress import ProgressBar
from hakmem.schedule import Ending, Schedule, rounds_of_programs
from hakmem.standing import stand
from hakmem.workload_runner import make_contest
from hakmem.workloads import Places, Workload

# A run is given up when it takes this many times as long as expected.
_PATIENCE_FACTOR = 60
_PATIENCE_SECONDS = 60


@dataclass
class Session:
    """What the run measures, and how. Without allocators it only counts."""

    workloads: Sequence[Workload]
    places: Places
    allocators: Sequence[Allocator]
    counting_library: Optional[Path]
    rounds: int
    program_rounds: Optional[int]
    minutes: float
    seed: int
    facts: Dict[str, settings.Setting]
    left_out: Dict[str, str]
    prices: Sequence[Price] = ()
    began: float = field(default_factory=time.monotonic)
    notes: List[str] = field(default_factory=list)
    ending: Ending = field(default_factory=Ending)

    def __post_init__(self) -> None:
        self._variables, removed = environment.neutral(environment.of_caller())
        if removed:
            self.notes.append(f"left out of the environment: {', '.join(removed)}")
        if busy := settings.busy_machine(self.facts):
            self.notes.append(busy)
        if self.prices and (unknown := unknown_mode(self.allocators, self._variables)):
            self.notes.append(unknown)

    def rounds_of(self, workload: Workload) -> int:
        """Returns the number of rounds of a workload."""
        if workload.own:
            return self.rounds
        if self.program_rounds is not None:
            return min(self.program_rounds, self.rounds)
        return rounds_of_programs(self.rounds, any(other.own for other in self.workloads))

    @property
    def _counted_workloads(self) -> List[Workload]:
        return [workload for workload in self.workloads if workload.own] if self.counting_library else []

    def run_count(self) -> int:
        """The number of runs, warm-ups included, if none fails."""
        contests = sum((len(self.allocators) + len(w.floors)) * self.rounds_of(w) + 1 for w in self.workloads)
        return (contests if self.allocators else 0) + len(self._counted_workloads)

    def measure(self, bar: ProgressBar) -> Results:
        """All of it."""
        counted = self._count(bar)
        contests = self._contests(bar) if self.allocators else {}
        complete = self._play(contests, bar) if contests else 0
        for name, contest in contests.items():
            self.notes += [
                f"{name}: the library of {who} was not seen in the running program: its figures may be the C library's"
                for who in sorted(contest.unverified())
            ]
        standings = [
            stand(workload, contests[workload.name]) for workload in self.workloads if workload.name in contests
        ]
        return Results(
            self.facts,
            self.allocators,
            complete,
            self.seed,
            standings,
            contests,
            self.left_out,
            self.notes,
            counted,
            self.prices,
        )

    def _patience(self, workload: Workload) -> float:
        return _PATIENCE_SECONDS + _PATIENCE_FACTOR * workload.expected_seconds

    def _count(self, bar: ProgressBar) -> List[Counted]:
        library = self.counting_library
        if library is None:
            return []
        if counts.is_stale(library):
            self.notes.append(
                f"{library.name} is older than the sources: its counts may be another version's ({counts.HOW_TO_BUILD})"
            )
        counted: List[Counted] = []
        for workload in self._counted_workloads:
            bar.describe(f"counting: {workload.name}")
            one = counts.count(workload, self.places, library, self._variables, self._patience(workload), bar.tick)
            counted.append(one)
            bar.advance()
            if one.failure is not None:
                bar.line(f"{workload.name} under {library.name}: {one.failure}")
        return counted

    def _contests(self, bar: ProgressBar) -> Dict[str, Contest]:
        contests: Dict[str, Contest] = {}
        for workload in self.workloads:
            try:
                contest, remarks = make_contest(
                    workload, self.places, self.allocators, self._variables, self.rounds_of(workload), self.seed,
                    self._patience(workload), bar.tick, self.prices,
                )  # fmt: skip
            except Failure as failure:
                self.left_out[workload.name] = failure.message
                bar.line(f"left out: {workload.name}: {failure.message}")
                continue
            self.notes += [f"{workload.name}: {remark}" for remark in remarks]
            contest.listener = _listener(workload.name, bar)
            contests[workload.name] = contest
        return contests

    def _play(self, contests: Dict[str, Contest], bar: ProgressBar) -> int:
        rounds = max(contest.rounds for contest in contests.values())
        schedule = Schedule(contests, rounds, self.began + 60 * self.minutes, bar)
        self.ending = schedule.run()
        if self.ending.out_of_time:
            self.notes.append(
                f"{schedule.complete} of {plural(rounds, 'round')} are complete: more would have taken longer than "
                f"{self.minutes:g} minutes"
            )
        if self.ending.signal is not None:
            self.notes.append(f"broken off: {schedule.complete} of {plural(rounds, 'round')} are complete")
        return schedule.complete


def _listener(name: str, bar: ProgressBar) -> Listener:
    def listen(run: Run) -> None:
        bar.advance()
        if run.failure is not None:
            bar.line(f"{name} under {run.allocator}, round {run.round}: {run.failure}")

    return listen


def expected_minutes(workloads: Sequence[Workload], allocators: int) -> float:
    """The expected time of a round, from workloads.toml and programs.toml."""
    return sum(w.expected_seconds * (allocators + len(w.floors)) for w in workloads) / 60
