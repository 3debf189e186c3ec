"""The looks of the last minutes at a process's memory, and their course over time."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Deque, Dict, Iterator, List

from hakmem.errors import Failure
from hakmem.explain.snapshot import with_new_names
from hakmem.json_text import decode

SCHEMA = 2
# Twenty minutes at the interval that is the default.
_MOST_LOOKS = 600

Value = Callable[[Dict[str, Any]], float]


@dataclass(frozen=True)
class Look:
    """One answer, and its time in seconds."""

    seconds: float
    document: Dict[str, Any]


def parse(answer: bytes) -> Look:
    """Parses an answer; raises a Failure when it is invalid."""
    try:
        document = with_new_names(decode(answer))
        schema = document["schema"]
        seconds = document["time_ms"] / 1000
    except (ValueError, KeyError, TypeError, OverflowError):
        raise Failure(f"the process's answer is no statistics: {answer[:60]!r}") from None
    if schema != SCHEMA:
        raise Failure(f"the process answers by schema {schema}, and this tool reads {SCHEMA} alone: another version?")
    return Look(seconds, document)


@contextmanager
def figures_needed() -> Iterator[None]:
    """Around code that shows figures of an answer. Raises a Failure where one is missing, or is no number."""
    try:
        yield
    except KeyError as missing:
        raise Failure(f"the process's answer has no {missing.args[0]}: another version?") from None
    except (AttributeError, TypeError, ValueError):
        raise Failure("the process's answer has a figure that is no number: another version?") from None


class History:
    """The last looks, the newest last."""

    def __init__(self) -> None:
        self.looks: Deque[Look] = deque(maxlen=_MOST_LOOKS)
        # The number of the oldest kept look among all looks.
        self.first = 0

    def add(self, look: Look) -> None:
        """One more. A process that became another program (exec) has another history."""
        if self.looks and look.document["uptime_ms"] < self.looks[-1].document["uptime_ms"]:
            self.first += len(self.looks)
            self.looks.clear()
        if len(self.looks) == self.looks.maxlen:
            self.first += 1
        self.looks.append(look)

    @property
    def now(self) -> Dict[str, Any]:
        """The last look."""
        return self.looks[-1].document

    @property
    def seconds(self) -> float:
        """The time between the first look and the last."""
        return self.looks[-1].seconds - self.looks[0].seconds

    def levels(self, value: Value) -> List[float]:
        """The figure at each look."""
        return [value(look.document) for look in self.looks]

    def rates(self, value: Value) -> List[float]:
        """The counter's growth per second before each look; 0 for the first."""
        looks = list(self.looks)
        grown = [0.0] * min(1, len(looks))
        for before, after in zip(looks, looks[1:]):
            seconds = after.seconds - before.seconds
            grown.append(max(0.0, value(after.document) - value(before.document)) / seconds if seconds > 0 else 0.0)
        return grown
