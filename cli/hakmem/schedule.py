"""The order of the workloads' turns: rounds over the whole set, within a time, and the result of an interruption."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Mapping, Optional

from hakmem.contest import Contest
from hakmem.errors import Interrupted
from hakmem.progress import ProgressBar


@dataclass(frozen=True)
class Ending:
    """How the rounds ended. `signal` stopped them; `out_of_time`: the time ended first."""

    out_of_time: bool = False
    signal: Optional[int] = None


@dataclass
class Schedule:
    """Every contest plays in the first round. A contest with fewer rounds than others plays in some of the later ones.

    `deadline` is on `clock`, and does not bound the first round. After that round, the first turn that would not end in
    time ends the session for all, because later rounds would have a part of the set only.
    """

    contests: Mapping[str, Contest]
    rounds: int
    deadline: float
    bar: ProgressBar
    clock: Callable[[], float] = time.monotonic
    _took: Dict[str, float] = field(default_factory=dict)

    @property
    def complete(self) -> int:
        """Complete rounds: each contest has played in all of its rounds up to here."""
        finished = [contest.done for contest in self.contests.values() if contest.done < contest.rounds]
        return min(finished, default=self.rounds)

    def run(self) -> Ending:
        """Runs all rounds.

        An interruption before the first round is complete passes through: there is no result then.
        """
        try:
            for name, contest in self.contests.items():
                self.bar.describe(f"warm-up: {name}")
                contest.warm_up(1)
            for number in range(1, self.rounds + 1):
                if not self._play(number):
                    return Ending(out_of_time=True)
                if self.bar.is_plain:
                    self.bar.line(f"round {number} of {self.rounds} done")
        except Interrupted as interrupted:
            if any(contest.done == 0 for contest in self.contests.values()):
                raise
            for contest in self.contests.values():
                contest.forget_unfinished()
            return Ending(signal=interrupted.signal_number)
        return Ending()

    def _play(self, number: int) -> bool:
        """Runs round `number`. False when the time is over."""
        for name in self._due(number):
            begin = self.clock()
            if begin + self._took.get(name, 0.0) > self.deadline and number > 1:
                return False
            self.bar.describe(f"round {number}: {name}")
            self.contests[name].play(self.contests[name].done + 1)
            self._took[name] = self.clock() - begin
        return True

    def _due(self, number: int) -> List[str]:
        return [name for name, contest in self.contests.items() if is_due(number, self.rounds, contest.rounds)]


def is_due(number: int, rounds: int, wanted: int) -> bool:
    """Whether a contest of `wanted` among `rounds` plays in round `number`: evenly, and in the first."""
    return (number - 1) * wanted % rounds < wanted


def rounds_of_programs(rounds: int, with_own: bool) -> int:
    """Real programs take longer than own workloads: three rounds where those have five, unless they are alone."""
    return -(-3 * rounds // 5) if with_own else rounds
