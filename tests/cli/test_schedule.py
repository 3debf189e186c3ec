"""The workloads of each round, the rounds that fit into a time, and the results that an interruption leaves."""

from __future__ import annotations

import signal
from typing import Callable, Dict, List, Tuple

import pytest
from hakmem.allocators import Allocator
from hakmem.contest import Contest
from hakmem.errors import Interrupted
from hakmem.measure import Run
from hakmem.metrics import WALL
from hakmem.preload_plan import Prepared
from hakmem.progress import ProgressBar
from hakmem.schedule import Ending, Schedule, is_due, rounds_of_programs

Played = List[Tuple[str, int]]


class Clock:
    """Time that passes when a run is made."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def nothing(_workload: str, _number: int) -> None:
    pass


def schedule(
    wanted: Dict[str, int], deadline: float = 1e9, on_run: Callable[[str, int], None] = nothing
) -> Tuple[Schedule, Played]:
    """Contests of two allocators, each of whose runs takes a second."""
    clock, played = Clock(), []

    def contest(workload: str, rounds: int) -> Contest:
        def run(prepared: Prepared, number: int) -> Run:
            on_run(workload, number)
            clock.now += 1
            played.append((f"{workload} {prepared.allocator.name}", number))
            return Run(prepared.allocator.name, number, {WALL.key: 1.0}, exit_code=0)

        return Contest(
            [Prepared(Allocator(name, None), {}, None) for name in ("glibc", "hakmem")], "glibc", run, rounds
        )

    contests = {name: contest(name, rounds) for name, rounds in wanted.items()}
    return Schedule(contests, max(wanted.values()), deadline, ProgressBar(0, quiet=True), clock), played


@pytest.mark.parametrize(
    ("rounds", "wanted", "due"),
    [(5, 5, [1, 2, 3, 4, 5]), (5, 3, [1, 3, 5]), (5, 1, [1]), (10, 6, [1, 3, 5, 6, 8, 10]), (1, 1, [1])],
)
def test_turns_are_spread(rounds: int, wanted: int, due: List[int]) -> None:
    assert [number for number in range(1, rounds + 1) if is_due(number, rounds, wanted)] == due


@pytest.mark.parametrize("rounds", range(1, 30))
def test_each_contest_has_its_rounds_and_the_first_one(rounds: int) -> None:
    for wanted in range(1, rounds + 1):
        due = [number for number in range(1, rounds + 1) if is_due(number, rounds, wanted)]
        assert len(due) == wanted and due[0] == 1


def test_real_programs_have_three_rounds_for_every_five() -> None:
    assert [rounds_of_programs(rounds, with_own=True) for rounds in (1, 2, 5, 6, 10)] == [1, 2, 3, 4, 6]
    assert rounds_of_programs(5, with_own=False) == 5


def test_all_rounds() -> None:
    made, played = schedule({"quick": 5, "slow": 3})
    assert made.run() == Ending()
    assert {name: contest.done for name, contest in made.contests.items()} == {"quick": 5, "slow": 3}
    assert made.complete == 5
    assert [number for who, number in played if who == "slow hakmem"] == [1, 2, 3]
    assert played[:2] == [("quick glibc", 0), ("slow glibc", 0)]  # the warm-ups


@pytest.mark.parametrize(
    ("deadline", "done", "complete"),
    # Two warm-ups of a second each; then two seconds a turn: 2–4 quick, 4–6 slow, 6–8 quick, 8–10 slow.
    [(0.5, (1, 1), 1), (6, (1, 1), 1), (7.9, (1, 1), 1), (8, (2, 1), 1), (9.9, (2, 1), 1), (10, (2, 2), 2)],
)
def test_nothing_is_begun_that_would_end_late_but_the_first_round(
    deadline: float, done: Tuple[int, int], complete: int
) -> None:
    made, _ = schedule({"quick": 9, "slow": 9}, deadline)
    assert made.run() == Ending(out_of_time=True)
    assert tuple(contest.done for contest in made.contests.values()) == done
    assert made.complete == complete


def interrupt_at(workload: str, number: int) -> Callable[[str, int], None]:
    turns: List[int] = []

    def on_run(current: str, current_number: int) -> None:
        if (current, current_number) == (workload, number):
            turns.append(number)
            if len(turns) == 2:  # the second allocator's turn: the round is half done
                raise Interrupted(signal.SIGINT)

    return on_run


def test_an_interruption_keeps_the_rounds_that_are_complete() -> None:
    made, _ = schedule({"quick": 4, "slow": 4}, on_run=interrupt_at("quick", 3))
    assert made.run() == Ending(signal=signal.SIGINT)
    assert made.complete == 2
    for contest in made.contests.values():
        assert sorted(run.round for run in contest.runs) == [1, 1, 2, 2]


@pytest.mark.parametrize("workload", ["quick", "slow"])
def test_an_interruption_in_the_first_round_leaves_nothing_to_tell(workload: str) -> None:
    made, _ = schedule({"quick": 4, "slow": 4}, on_run=interrupt_at(workload, 1))
    with pytest.raises(Interrupted):
        made.run()
