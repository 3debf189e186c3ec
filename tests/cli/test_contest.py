"""The allocators that run and that drop out, and the table of made-up figures."""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Sequence

import pytest
from hakmem import table
from hakmem.allocators import Allocator
from hakmem.contest import Contest
from hakmem.measure import Run
from hakmem.metrics import MEAN, PEAK, PEAK_TREE, WALL
from hakmem.preload_plan import Prepared
from hakmem.standing import LEVEL, LOSES, WINS, stand
from hakmem.workloads import Workload

Figures = Dict[str, Sequence[float]]


def contest(wall: Figures, fail: Callable[[str, int], Optional[str]] = lambda name, number: None) -> Contest:
    """Runs that take the times of `wall`, and as many bytes."""
    rounds = len(next(iter(wall.values())))

    def run(prepared: Prepared, number: int) -> Run:
        name = prepared.allocator.name
        value = wall[name][number - 1] if number else 1.0
        figures = {WALL.key: value, PEAK.key: value, MEAN.key: value}
        return Run(name, number, figures, exit_code=0, failure=fail(name, number))

    entrants = [Prepared(Allocator(name, None), {}, None) for name in wall]
    made = Contest(entrants, next(iter(wall)), run, rounds)
    made.warm_up(1)
    for number in range(1, rounds + 1):
        made.play(number)
    return made


def words(made: Contest) -> List[str]:
    return table.verdicts(made)


def test_a_difference_is_named_and_noise_is_not() -> None:
    made = contest(
        {"glibc": [10, 11, 10, 12, 10, 11], "fast": [5, 5.5, 5, 6, 5, 5.5], "same": [10.5, 10, 11, 10, 12, 10]}
    )
    fast, same = words(made)
    assert fast.startswith("fast against glibc: wall time 50.0% less")
    assert same.startswith("same against glibc: wall time inside the noise")


def test_twice_as_much() -> None:
    made = contest({"glibc": [1.0] * 6, "slow": [2.5] * 6})
    assert "wall time 2.5 times as much" in words(made)[0]


def test_runs_of_which_samples_saw_one_process_are_in_the_peak_of_all() -> None:
    """Else a row's median would be of other rounds than its ratio."""
    made = contest({"glibc": [10.0, 20.0], "other": [30.0, 40.0]})
    assert made.rows_of(PEAK_TREE) == []
    for run in made.runs:
        run.peak_of_all = int(run.figures[WALL.key] or 0)
    assert made.rows_of(PEAK_TREE) == []
    made.runs[0].figures[PEAK_TREE.key] = float(made.runs[0].peak_of_all or 0)
    base, other = made.rows_of(PEAK_TREE)
    assert (base.spread.median, other.spread.median) == (15, 35)
    assert other.ratio is not None and other.ratio.rounds == 2 and round(other.ratio.value, 3) == round(35 / 15, 3)


def test_one_round_says_once_below_the_table_that_it_decides_nothing() -> None:
    made = contest({"glibc": [1.0], "slow": [2.0]})
    assert words(made) == []
    (told,) = table.remarks(made, 1, {"load_before": 0.0, "cores": 2})
    assert told.startswith("1 round: too few to name any difference")
    assert {table.difference(row) for row in made.rows()} == {"", "one round: the noise is unknown"}


def test_one_that_failed_runs_no_more_and_the_others_go_on() -> None:
    made = contest(
        {"glibc": [1.0] * 4, "bad": [1.0] * 4, "good": [1.0] * 4},
        lambda n, r: "crash" if (n, r) == ("bad", 2) else None,
    )
    counts = {name: sum(run.allocator == name for run in made.runs) for name in made.names}
    assert counts == {"glibc": 4, "bad": 2, "good": 4}
    assert list(made.failed) == ["bad"] and made.failed["bad"].round == 2
    assert made.figures("bad", WALL) == {}
    assert len(words(made)) == 1
    assert table.failure_lines(made) == ["bad: FAILED in round 2: crash"]


def test_without_a_base_there_are_figures_and_no_ratios() -> None:
    made = contest({"glibc": [1.0] * 3, "other": [1.0] * 3}, lambda n, r: "crash" if n == "glibc" else None)
    assert [(row.allocator, row.ratio) for row in made.rows_of(WALL)] == [("other", None)]
    assert words(made) == []


@pytest.mark.parametrize(("ours", "time", "memory"), [(0.5, WINS, WINS), (1.05, LOSES, LEVEL), (3.0, LOSES, LOSES)])
def test_standing(ours: float, time: str, memory: str) -> None:
    """Time is compared with the best peer, memory with the one in the middle; floors are no peers."""
    made = contest(
        {
            "glibc": [2.0] * 6, "hakmem": [ours] * 6, "best": [1.0] * 6, "third": [1.05] * 6, "hakmem-fast": [0.1] * 6,
            "floor: bump": [0.01] * 6,
        }
    )  # fmt: skip
    standing = stand(Workload("w", "program", "what", ("x",)), made)
    assert standing.best_peer == "best" and standing.floor == "floor: bump"
    assert (standing.time_word, standing.memory_word) == (time, memory)
    assert standing.floor_ratio is not None and standing.floor_ratio.value == pytest.approx(100 * ours)
