"""Medians, intervals and ratios against values that were worked out by hand."""

from __future__ import annotations

import random

import pytest
from hakmem import statistics


def rounds(*values: float) -> dict[int, float]:
    return dict(enumerate(values, 1))


def test_spread() -> None:
    found = statistics.spread([3.0, 1.0, 2.0, 10.0])
    assert found == statistics.Spread(median=2.5, low=1.0, high=10.0, count=4)
    assert statistics.spread([]) is None


def test_percentile_is_between_its_neighbours() -> None:
    assert statistics.percentile([1.0, 2.0, 3.0, 4.0, 5.0], 0.5) == 3.0
    assert statistics.percentile([10.0, 20.0], 0.25) == 12.5
    assert statistics.percentile([7.0], 0.975) == 7.0


@pytest.mark.parametrize(("count", "sure"), [(1, 0.0), (2, 0.5), (3, 0.75), (5, 0.9375), (6, 0.95), (50, 0.95)])
def test_coverage_of_few_rounds(count: int, sure: float) -> None:
    assert statistics.coverage(count) == pytest.approx(sure)


def test_the_same_factor_in_every_round_is_exact() -> None:
    base = rounds(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    found = statistics.ratio({number: 0.5 * value for number, value in base.items()}, base)
    assert found is not None
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)
    assert found.decided


def test_an_interval_lies_between_the_extremes() -> None:
    found = statistics.ratio(rounds(9, 10, 11, 12, 8, 10), rounds(10, 10, 10, 10, 10, 10))
    assert found is not None
    assert found.value == 1.0
    assert 0.8 <= found.low < 1.0 < found.high <= 1.2
    assert not found.decided


def test_few_rounds_decide_only_where_the_ranges_are_apart() -> None:
    overlapping = statistics.ratio(rounds(5, 6, 11), rounds(10, 11, 12))
    apart = statistics.ratio(rounds(5, 6, 7), rounds(10, 11, 12))
    assert overlapping is not None and apart is not None
    assert overlapping.high < 1 and not overlapping.decided
    assert apart.decided


@pytest.mark.parametrize("count", [1, 2])
def test_two_rounds_decide_nothing(count: int) -> None:
    found = statistics.ratio(rounds(*[1.0] * count), rounds(*[2.0] * count))
    assert found is not None and not found.decided


def test_only_common_rounds_count() -> None:
    found = statistics.ratio({1: 2.0, 3: 2.0}, {1: 1.0, 2: 100.0, 3: 1.0})
    assert found is not None
    assert (found.value, found.rounds) == (2.0, 2)
    assert statistics.ratio({1: 2.0}, {2: 1.0}) is None


def test_a_base_of_zero_has_no_ratio() -> None:
    assert statistics.ratio(rounds(1, 2), rounds(0, 0)) is None


def test_the_seed_fixes_the_interval() -> None:
    values, base = rounds(3, 1, 4, 1, 5, 9), rounds(2, 6, 5, 3, 5, 8)
    assert statistics.ratio(values, base, seed=3) == statistics.ratio(values, base, seed=3)


def test_noise_is_seldom_taken_for_a_difference() -> None:
    """Two samples of the same distribution: at ten rounds about one in twenty may look different."""
    generator = random.Random(11)
    decided = 0
    for _ in range(100):
        values, base = ({number: generator.gauss(100, 5) for number in range(10)} for _ in range(2))
        found = statistics.ratio(values, base)
        decided += found is not None and found.decided
    assert decided <= 12


def test_geometric_mean() -> None:
    assert statistics.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert statistics.geometric_mean([]) is None
    assert statistics.geometric_mean([1.0, 0.0]) is None
