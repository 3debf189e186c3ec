"""One finding, and what it means for hakmem."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Dict, Iterable


class Level(Enum):
    """How much a finding matters, the least first."""

    OK = "ok"
    NOTE = "note"  # worth knowing
    WARNING = "warning"  # works, but not well
    PROBLEM = "problem"  # does not work

    @property
    def rank(self) -> int:
        """For comparisons."""
        return list(Level).index(self)


@dataclass(frozen=True)
class Finding:
    """A finding about `subject`. All but an OK also have a reason and an advice."""

    level: Level
    subject: str
    found: str
    why: str = ""
    todo: str = ""

    def as_json(self) -> Dict[str, str]:
        """For programs."""
        return {
            "level": self.level.value,
            "subject": self.subject,
            "found": self.found,
            "why": self.why,
            "do": self.todo,
        }


def ok(subject: str, found: str) -> Finding:
    """Nothing to do here."""
    return Finding(Level.OK, subject, found)


def worst(findings: Iterable[Finding]) -> Level:
    """The level of the worst."""
    return max((finding.level for finding in findings), key=lambda level: level.rank, default=Level.OK)
