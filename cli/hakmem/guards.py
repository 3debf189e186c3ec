"""Sampled guards: their rate, and after how many repetitions of a bug they find it. docs/guards.md has the reasons."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, List

from hakmem.decimal_text import number
from hakmem.errors import EXIT_USAGE, Failure, plural, shown
from hakmem.guard_rates import MOST_RATE
from hakmem.json_text import decode, figure
from hakmem.metrics import size
from hakmem.schemas import SCHEMAS

# A bug of this frequency stands in for the reader's.
_HITS_A_DAY = 1000000


def rate_of(text: str) -> int:
    """Parses a rate. Raises a Failure for any other text."""
    rate = number(text)
    if rate is None or not 1 <= rate <= MOST_RATE:
        raise Failure(f"{shown(text)} is no RATE: one allocation in how many, 1 to {MOST_RATE}", EXIT_USAGE)
    return rate


@dataclass(frozen=True)
class State:
    """The process's answer about its guards."""

    rate: int
    recommended: int
    slots: int
    large_slots: int
    live: int
    live_bytes: int
    protected: int
    age_ms: int
    guarded: int
    missed: int
    found: int


def parse(answer: bytes) -> State:
    """Raises a Failure for an answer of another kind."""
    try:
        fields = decode(answer)
        return State(**{name: figure(fields[name]) for name in State.__dataclass_fields__})
    except (KeyError, TypeError, ValueError):
        raise Failure("the process's answer about its guards cannot be read") from None


def hits_until(rate: int, chance: float) -> int:
    """How often a bug that touches one block each time is hit until a guard has caught it with this chance."""
    return 1 if rate == 1 else math.ceil(math.log(1 - chance) / math.log(1 - 1 / rate))


def _days(hits: int) -> str:
    minutes = hits / _HITS_A_DAY * 24 * 60
    if minutes < 2:
        return "2 minutes"
    if minutes < 120:
        return f"{math.ceil(minutes)} minutes"
    hours = minutes / 60
    return f"{math.ceil(hours)} hours" if hours < 48 else f"{math.ceil(hours / 24)} days"


def expectation(rate: int) -> List[str]:
    """When a repeated bug is found, in sentences."""
    often, surely = rate, hits_until(rate, 0.99)
    return [
        f"A use after free that is hit again and again is caught after {plural(often, 'hit')} on "
        f"average, with 99% after {surely:,}.",
        f"Hit a million times a day: within {_days(often)} on average, with 99% within {_days(surely)}.",
    ]


def lines(state: State, pid: int, name: str) -> List[str]:
    """For people."""
    told = [f"guards of process {pid} ({name}): " + (f"one allocation in {state.rate:,}" if state.rate else "off")]
    if state.slots:
        all_slots = state.slots + state.large_slots
        in_use = f"{state.live:,} in use ({size(state.live_bytes)})"
        told.append(f"slots       {in_use}, {state.protected:,} protected after their free, of {all_slots:,}")
        if state.protected:
            told.append(f"protection  the oldest freed block has been protected for {state.age_ms / 1000:.1f} s")
        counts = f"{plural(state.guarded, 'allocation')} guarded, {state.missed:,} without a slot"
        told.append(f"so far      {counts}, {plural(state.found, 'error')} found")
    if state.rate:
        told += expectation(state.rate)
    return told


def document(state: State, pid: int) -> Any:
    """For programs."""
    fields = {name: getattr(state, name) for name in State.__dataclass_fields__}
    hits = {"mean": state.rate, "p99": hits_until(state.rate, 0.99)} if state.rate else None
    return {"schema": SCHEMAS["guard"], "pid": pid, **fields, "hits_until_found": hits}
