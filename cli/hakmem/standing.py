"""hakmem's standing in a workload: its time beside the best peer's, its memory beside the median peer's, and the floor;
and its cost in each mode beside the lowest cost of a peer."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Dict, List, Optional, Sequence, Tuple

from hakmem.allocators import HAKMEM
from hakmem.contest import Contest
from hakmem.cost import Price
from hakmem.metrics import MEAN, PEAK, TIME_PER_OPERATION, WALL, Metric
from hakmem.statistics import FEWEST_TO_DECIDE, Ratio, ratio
from hakmem.workload_runner import is_floor
from hakmem.workloads import Workload

LOSES = "LOSES"
WINS = "wins"
LEVEL = "level"
UNKNOWN = "–"
MEMORY = (PEAK, MEAN)


@dataclass(frozen=True)
class CostStanding:
    """hakmem in the mode of a price, against the peer that cost least at that price."""

    price: Price
    best_peer: Optional[str]
    ratio: Optional[Ratio]


@dataclass(frozen=True)
class Standing:
    """hakmem against the peers in one workload. Ratios below 1 are in hakmem's favour."""

    workload: Workload
    time: Metric
    best_peer: Optional[str]
    time_ratio: Optional[Ratio]
    memory_ratios: Dict[str, Optional[Ratio]]
    floor: Optional[str]
    floor_ratio: Optional[Ratio]
    rounds: int = 0
    costs: Sequence[CostStanding] = field(default_factory=tuple)

    @property
    def time_word(self) -> str:
        """wins, level, LOSES."""
        return word(self.time_ratio)

    @property
    def memory_word(self) -> str:
        """The worse one of peak and mean."""
        words = [word(ratio) for ratio in self.memory_ratios.values() if ratio is not None]
        return next((worst for worst in (LOSES, LEVEL, WINS) if worst in words), UNKNOWN)


def word(ratio: Optional[Ratio]) -> str:
    """A ratio as a verdict; none where the rounds are too few to decide."""
    if ratio is None or ratio.rounds < FEWEST_TO_DECIDE:
        return UNKNOWN
    if not ratio.decided:
        return LEVEL
    return WINS if ratio.value < 1 else LOSES


def time_metric(workload: Workload) -> Metric:
    """The time metric: time per operation for own workloads, wall time for programs."""
    return TIME_PER_OPERATION if workload.own else WALL


def peers(contest: Contest) -> List[str]:
    """The other allocators under which the program works."""
    return [n for n in contest.names if not n.startswith(HAKMEM) and not is_floor(n) and n not in contest.failed]


def stand(workload: Workload, contest: Contest) -> Standing:
    """Compare."""
    metric = time_metric(workload)
    ours = contest.figures(HAKMEM, metric)
    best = _best(contest, metric, peers(contest))
    floor = _best(contest, metric, [name for name in contest.names if is_floor(name)])
    return Standing(
        workload=workload,
        time=metric,
        best_peer=best,
        time_ratio=ratio(ours, contest.figures(best, metric), contest.seed) if best else None,
        memory_ratios={metric.key: _memory_ratio(contest, metric) for metric in MEMORY},
        floor=floor,
        floor_ratio=ratio(ours, contest.figures(floor, metric), contest.seed) if floor else None,
        rounds=contest.done,
        costs=[_stand_at(price, contest) for price in contest.prices],
    )


def _stand_at(price: Price, contest: Contest) -> CostStanding:
    best = _best(contest, price.metric, peers(contest))
    ours = contest.figures(price.entrant, price.metric)
    return CostStanding(price, best, ratio(ours, contest.figures(best, price.metric), contest.seed) if best else None)


def not_above_peers(standings: Sequence[Standing], mode: str) -> Tuple[int, int]:
    """The number of workloads in which hakmem cost no more than any peer, by the medians, and the number of all."""
    ratios = [cost.ratio.value for s in standings for cost in s.costs if cost.price.mode == mode and cost.ratio]
    return sum(value <= 1 for value in ratios), len(ratios)


def _best(contest: Contest, metric: Metric, names: Sequence[str]) -> Optional[str]:
    medians = {name: median(figures.values()) for name in names if (figures := contest.figures(name, metric))}
    return min(medians, key=lambda name: medians[name]) if medians else None


def _memory_ratio(contest: Contest, metric: Metric) -> Optional[Ratio]:
    """The ratio to the median peer, round by round."""
    ours = contest.figures(HAKMEM, metric)
    theirs = [figures for name in peers(contest) if (figures := contest.figures(name, metric))]
    rounds = [number for number in ours if theirs and all(number in figures for figures in theirs)]
    middle = {number: median(figures[number] for figures in theirs) for number in rounds}
    return ratio(ours, middle, contest.seed) if middle else None
