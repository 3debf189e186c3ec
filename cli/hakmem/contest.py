"""A program under several allocators: the runs, the failures, and the figures side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Sequence, Set

from hakmem.cost import Price, costs
from hakmem.measure import Run, compare_exit, orders
from hakmem.metrics import METRICS, PEAK_TREE, Metric
from hakmem.preload_plan import Prepared
from hakmem.statistics import Ratio, Spread, by_round, ratio, spread

Runner = Callable[[Prepared, int], Run]
Listener = Callable[[Run], None]


@dataclass(frozen=True)
class Row:
    """One allocator's figures in one metric. `ratio` is None for the base itself and where it is unknown."""

    allocator: str
    metric: Metric
    spread: Spread
    ratio: Optional[Ratio]


@dataclass
class Contest:
    """Collects runs. An allocator under which the program failed runs no more; the others go on. Each run has a cost at
    each of the prices."""

    prepared: Sequence[Prepared]
    base: str
    runner: Runner
    rounds: int
    seed: int = 1
    listener: Listener = lambda run: None
    prices: Sequence[Price] = ()
    runs: List[Run] = field(default_factory=list)
    failed: Dict[str, Run] = field(default_factory=dict)
    expected_exit: Optional[int] = None
    done: int = 0  # complete rounds
    _orders: List[List[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._by_name = {one.allocator.name: one for one in self.prepared}
        self._orders = orders(list(self._by_name), self.rounds, self.seed, first=self.base)

    @property
    def names(self) -> List[str]:
        """Every allocator, the base first."""
        return list(self._by_name)

    @property
    def all_failed(self) -> bool:
        """Whether the program failed under every allocator."""
        return len(self.failed) == len(self._by_name)

    def warm_up(self, times: int) -> None:
        """Uncounted runs under the base: they fill the page cache, and show how the program ends."""
        for _ in range(times):
            if self.base not in self.failed:
                self._play(self.base, 0)

    def play(self, number: int) -> None:
        """Runs round `number`, from 1: each allocator once."""
        for name in self._orders[number - 1]:
            if name not in self.failed:
                self._play(name, number)
        self.done = number

    def forget_unfinished(self) -> None:
        """Drops the runs of an incomplete round."""
        self.runs = [run for run in self.runs if run.round <= self.done]

    def _play(self, name: str, number: int) -> None:
        run = self.runner(self._by_name[name], number)
        if name == self.base and self.expected_exit is None and run.failure is None:
            self.expected_exit = run.exit_code
        compare_exit(run, self.expected_exit)
        if run.failure is not None:
            self.failed[name] = run
        run.figures.update(costs(run.figures, self.prices))
        if number > 0:
            self.runs.append(run)
        self.listener(run)

    def figures(self, name: str, metric: Metric) -> Dict[int, float]:
        """An allocator's figures by round; none when the program failed under it."""
        if name in self.failed:
            return {}
        return by_round({run.round: self._figure(run, metric) for run in self.runs if run.allocator == name})

    def _figure(self, run: Run, metric: Metric) -> Optional[float]:
        """In one run the samples see several processes, in the next one alone: the peaks of both go into the row."""
        figure = run.figures.get(metric.key)
        if metric is not PEAK_TREE or figure is not None:
            return figure
        are_several = any(one.figures.get(metric.key) is not None for one in self.runs)
        return run.peak_of_all if are_several else None

    def rows(self) -> List[Row]:
        """Every metric that has figures, for every allocator."""
        return [row for metric in METRICS if self._is_telling(metric) for row in self.rows_of(metric)]

    def cost_rows(self) -> List[Row]:
        """Every price, for every allocator."""
        return [row for price in self.prices for row in self.rows_of(price.metric)]

    def rows_of(self, metric: Metric) -> List[Row]:
        """One metric, best first."""
        base = self.figures(self.base, metric)
        found: List[Row] = []
        for name in self.names:
            figures = self.figures(name, metric)
            of_all = spread(list(figures.values()))
            if of_all is not None:
                found.append(Row(name, metric, of_all, None if name == self.base else ratio(figures, base, self.seed)))
        return sorted(found, key=lambda row: row.spread.median)

    def _is_telling(self, metric: Metric) -> bool:
        """Major faults, sums over processes and the like are shown only when there are any."""
        return any(row.spread.median > 0 for row in self.rows_of(metric))

    def typical_runs(self) -> Dict[str, Run]:
        """Each allocator's run with the median wall time: its curve stands for the others."""
        chosen: Dict[str, Run] = {}
        for name in self.names:
            runs = [run for run in self.runs if run.allocator == name and name not in self.failed and run.samples]
            runs.sort(key=lambda run: run.figures.get("wall_seconds") or 0.0)
            if runs:
                chosen[name] = runs[len(runs) // 2]
        return chosen

    def unverified(self) -> Set[str]:
        """Allocators whose library was not mapped in the running program."""
        states: Dict[str, Set[Optional[bool]]] = {}
        for run in self.runs:
            states.setdefault(run.allocator, set()).add(run.mapped)
        return {
            name
            for name, seen in states.items()
            if False in seen and True not in seen and self._by_name[name].allocator.library is not None
        }
