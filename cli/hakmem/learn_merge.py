"""Merges what many runs of one program have learned into one record. docs/learning.md has the reasons.

A record's `owed` and `staked` are sums over the epochs that its learner still remembers. Sums add up: the merged record
owes what one learner would owe that had seen the epochs of all runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence, Tuple

from hakmem.errors import Failure
from hakmem.learn_record import CANDIDATES, LARGEST, Record, State, timeout_ms

# Constants of src/policy/learn.c; tests/cli/test_learn_merge.py compares them.
FORGET_SHARE = 20  # an epoch with the usual stake takes this part of the debts away
USUAL_EPOCHS = 16  # the usual stake is the mean of this number of epochs
HYSTERESIS_SHARE = 64  # a new leader owes less by this part


@dataclass(frozen=True)
class Merged:
    """The merged record, and each run's share of the evidence, in the order of the files."""

    record: Record
    shares: Tuple[float, ...]


def check(names: Sequence[str], records: Sequence[Record]) -> None:
    """Raises a Failure where the records do not belong together, or none has evidence."""
    for name, record in zip(names, records):
        if record.price != records[0].price:
            raise Failure(
                f"{name} was learned at a price of {record.price:,} ns for a MiB-second, {names[0]} at "
                f"{records[0].price:,}: runs of one price and mode belong together"
            )
    if not any(record.staked for record in records):
        raise Failure("nothing was learned in these runs: no memory that they freed was needed again, or waited")


def merge(records: Sequence[Record]) -> Merged:
    """Merges records that `check` accepts. Their order has no effect on the record."""
    evidence = sum(record.staked for record in records)
    usual_stake = _usual_stake(records)
    staked = min(evidence, _most_evidence(records, usual_stake))
    owed = tuple(
        _scaled(sum(record.owed[number] for record in records), staked, evidence) for number in range(CANDIDATES)
    )
    leader = _leader(records, owed)
    merged = Record(
        price=records[0].price,
        state=_state(records, leader),
        leader=leader,
        epoch=_capped(sum(record.epoch for record in records)),
        usual_stake=usual_stake,
        staked=_capped(staked),
        frozen_owed=_scaled(sum(record.frozen_owed for record in records), staked, evidence),
        frozen_staked=_scaled(sum(record.frozen_staked for record in records), staked, evidence),
        owed=owed,
    )
    return Merged(merged, tuple(record.staked / evidence for record in records))


def told_timeout(record: Record) -> str:
    """The time-out of the record's leader, for people."""
    found = timeout_ms(record.price, record.leader)
    return "never" if found is None else f"{found:,} ms"


def _usual_stake(records: Sequence[Record]) -> int:
    """The mean stake of all epochs that the runs' means are of."""
    counts = [min(record.epoch, USUAL_EPOCHS) for record in records]
    total = sum(counts)
    return sum(count * record.usual_stake for count, record in zip(counts, records)) // total if total else 0


def _most_evidence(records: Sequence[Record], usual_stake: int) -> int:
    """The evidence of one learner that has run for long. With more, a run that begins with the record would need more
    epochs than any learner to change its mind."""
    return max(FORGET_SHARE * usual_stake, *(record.staked for record in records))


def _scaled(value: int, numerator: int, denominator: int) -> int:
    return _capped(value * numerator // denominator)


def _capped(value: int) -> int:
    return min(value, LARGEST)


def _leader(records: Sequence[Record], owed: Sequence[int]) -> int:
    """The best of the runs' leaders stays, as in a learner, unless another candidate owes less by enough."""
    leaders = {record.leader for record in records if record.staked}
    leader = min(leaders, key=lambda number: (owed[number], number))
    best = min(range(CANDIDATES), key=lambda number: (owed[number], number))
    return best if owed[best] < owed[leader] - owed[leader] // HYSTERESIS_SHARE else leader


def _state(records: Sequence[Record], leader: int) -> State:
    """Runs that have settled on one leader are settled together. Otherwise the next run learns on, with shares by what
    each candidate owes."""
    states = {record.state for record in records if record.staked}
    agree = all(record.leader == leader for record in records if record.staked)
    return states.pop() if agree and len(states) == 1 else State.LEARNING
