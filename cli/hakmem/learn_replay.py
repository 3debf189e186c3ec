"""The costs of a trace of bytes in use: those of the learner beside those of each fixed time-out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence

from hakmem.level_trace import Trace
from hakmem.policy_library import NEVER_MS, Candidates, Learned, PolicyLibrary
from hakmem.schemas import SCHEMAS


@dataclass(frozen=True)
class Replay:
    """One trace at one price. Costs are in ns of CPU."""

    trace: Trace
    price: int
    candidates: Candidates
    learned: Learned
    fixed_ns: Sequence[int]
    fixed_by_epoch_ns: Sequence[Sequence[int]]  # of each candidate, at the end of each of the learner's epochs

    @property
    def best(self) -> int:
        """The candidate with the lowest cost in hindsight; of equals the shortest time-out."""
        return min(range(len(self.fixed_ns)), key=lambda candidate: self.fixed_ns[candidate])

    def relative(self, cost_ns: int) -> float:
        """A cost relative to the best candidate's. Where the best pays nothing, paying nothing too is 1."""
        best = self.fixed_ns[self.best]
        return cost_ns / best if best > 0 else 1.0 if cost_ns == 0 else float("inf")

    @property
    def regret(self) -> float:
        """The learner's cost relative to the best candidate's."""
        return self.relative(self.learned.cost_ns)


def replay(library: PolicyLibrary, trace: Trace, price: int) -> Replay:
    """Runs the learner and every candidate over the trace."""
    candidates = library.candidates(price)
    learned = library.learner(trace, price)
    stops = [epoch.end_ms for epoch in learned.epochs]
    fixed = [library.fixed(trace, price, number, stops) for number in range(len(candidates.timeouts_ms))]
    totals, by_epoch = [total for total, _ in fixed], [costs for _, costs in fixed]
    return Replay(trace, price, candidates, learned, totals, by_epoch)


def timeout_text(timeout_ms: int) -> str:
    """For people."""
    if timeout_ms == NEVER_MS:
        return "never"
    return f"{timeout_ms} ms" if timeout_ms < 10_000 else f"{timeout_ms / 1000:.1f} s"


def as_json(result: Replay) -> Dict[str, Any]:
    """The whole result as JSON. A time-out of null is never."""
    timeouts = [None if timeout == NEVER_MS else timeout for timeout in result.candidates.timeouts_ms]
    return {
        "schema": SCHEMAS["learn replay"],
        "trace": result.trace.name,
        "records": len(result.trace.times_ms),
        "duration_ms": result.trace.duration_ms(),
        "price_ns_per_mib_second": result.price,
        "learner": {
            "cost_ns": result.learned.cost_ns,
            "relative": result.regret if result.regret != float("inf") else None,
            "decisions": list(result.learned.decisions),
            "epochs": _epochs(result),
        },
        "candidates": [
            {"timeout_ms": timeout, "cost_ns": cost, "rating": rating, "break_even": i == result.candidates.break_even}
            for i, (timeout, cost, rating) in enumerate(zip(timeouts, result.fixed_ns, result.learned.ratings))
        ],
        "best": {"timeout_ms": timeouts[result.best], "cost_ns": result.fixed_ns[result.best]},
    }


def _epochs(result: Replay) -> List[Dict[str, Any]]:
    """The costs of each single epoch, not the sums up to it."""
    epochs: List[Dict[str, Any]] = []
    paid, paid_by = 0, [0] * len(result.fixed_ns)
    for number, epoch in enumerate(result.learned.epochs):
        by_now = [costs[number] for costs in result.fixed_by_epoch_ns]
        epochs.append(
            {
                "end_ms": epoch.end_ms,
                "timeout_ms": None if epoch.timeout_ms == NEVER_MS else epoch.timeout_ms,
                "learner_ns": epoch.cost_ns - paid,
                "candidates_ns": [now - before for now, before in zip(by_now, paid_by)],
            }
        )
        paid, paid_by = epoch.cost_ns, by_now
    return epochs
