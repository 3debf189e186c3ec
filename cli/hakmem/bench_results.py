"""The findings of one run of the standard set, and the comparison of the allocators in it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Dict, List, Mapping, Sequence

from hakmem.allocators import HAKMEM, Allocator
from hakmem.contest import Contest
from hakmem.cost import Price
from hakmem.counts import Counted
from hakmem.metrics import Metric
from hakmem.settings import Setting
from hakmem.standing import Standing, peers
from hakmem.workload_runner import is_floor


@dataclass(frozen=True)
class Results:
    """One run of the standard set. `rounds`: the complete rounds of every workload that has that many."""

    settings: Mapping[str, Setting]
    allocators: Sequence[Allocator]
    rounds: int
    seed: int
    standings: Sequence[Standing]
    contests: Mapping[str, Contest]
    left_out: Mapping[str, str]
    notes: Sequence[str]
    counted: Sequence[Counted] = ()
    prices: Sequence[Price] = ()

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

    def relative_costs(self, standing: Standing, price: Price) -> Dict[str, float]:
        """The peers' median costs, and ours in the mode of the price, to the peer's that cost least."""
        contest = self.contests[standing.workload.name]
        medians = _medians(contest, price.metric)
        theirs = {name: medians[name] for name in peers(contest) if name in medians}
        least = min(theirs.values(), default=0.0)
        shown = {price.entrant: medians[price.entrant], **theirs} if price.entrant in medians else theirs
        return {name: value / least for name, value in shown.items()} if least else {}

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
