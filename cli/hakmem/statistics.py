"""Medians, and how sure a ratio of two medians is.

The ratio's interval is a percentile bootstrap over rounds: rounds are drawn with replacement, the same for both
allocators, because what disturbed the machine during a round disturbed both. No distribution is assumed. With few
rounds it cannot be as sure as 95%: the widest interval that n rounds allow contains the true median with
probability 1 - 2^(1-n). Below FEW_ROUNDS a difference therefore counts only where, besides, the two ranges do not
overlap.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import median
from typing import Dict, List, Mapping, Optional, Sequence

CONFIDENCE = 0.95
RESAMPLES = 2000
# The fewest rounds whose widest interval contains the true median with at least CONFIDENCE.
ENOUGH_ROUNDS = 6
FEW_ROUNDS = 5
# With fewer rounds than this nothing is decided.
FEWEST_TO_DECIDE = 3


@dataclass(frozen=True)
class Spread:
    """The middle and the edges of some figures."""

    median: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Ratio:
    """How many times the base's median, with its interval."""

    value: float
    low: float
    high: float
    rounds: int
    # Whether the largest of one is below the smallest of the other.
    apart: bool = True

    @property
    def decided(self) -> bool:
        """Whether the interval leaves 1 out: otherwise the difference is inside the noise."""
        if self.rounds < FEWEST_TO_DECIDE or (self.rounds < FEW_ROUNDS and not self.apart):
            return False
        return not self.low <= 1.0 <= self.high


def spread(values: Sequence[float]) -> Optional[Spread]:
    """None when there are no figures."""
    return Spread(median(values), min(values), max(values), len(values)) if values else None


def coverage(rounds: int) -> float:
    """The highest confidence that an interval of that many rounds can have."""
    return min(CONFIDENCE, 1 - 2.0 ** (1 - rounds)) if rounds > 0 else 0.0


def ratio(values: Mapping[int, float], base: Mapping[int, float], seed: int = 1) -> Optional[Ratio]:
    """`values` to `base`, figures by round. None without common rounds, or when the base's median is zero."""
    rounds = sorted(set(values) & set(base))
    if not rounds:
        return None
    middle = _ratio_of_medians([values[r] for r in rounds], [base[r] for r in rounds])
    if middle is None:
        return None
    generator = random.Random(seed)
    drawn: List[float] = []
    for _ in range(RESAMPLES):
        sample = generator.choices(rounds, k=len(rounds))
        value = _ratio_of_medians([values[r] for r in sample], [base[r] for r in sample])
        if value is not None:
            drawn.append(value)
    drawn.sort()
    tail = (1 - CONFIDENCE) / 2
    low, high = percentile(drawn, tail), percentile(drawn, 1 - tail)
    return Ratio(middle, min(low, middle), max(high, middle), len(rounds), _apart(values, base))


def _apart(values: Mapping[int, float], base: Mapping[int, float]) -> bool:
    return max(values.values()) < min(base.values()) or max(base.values()) < min(values.values())


def _ratio_of_medians(values: Sequence[float], base: Sequence[float]) -> Optional[float]:
    divisor = median(base)
    return median(values) / divisor if divisor else None


def percentile(ordered: Sequence[float], share: float) -> float:
    """The figure below which `share` of them lie, between the two nearest ones in proportion."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def geometric_mean(values: Sequence[float]) -> Optional[float]:
    """The mean of ratios. None when there are none, or one is not positive."""
    if not values or min(values) <= 0:
        return None
    return math.exp(sum(math.log(value) for value in values) / len(values))


def by_round(figures: Mapping[int, Optional[float]]) -> Dict[int, float]:
    """The known figures."""
    return {number: figure for number, figure in figures.items() if figure is not None}
