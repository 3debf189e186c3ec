"""An explanation: one equation that adds up, and a paragraph for each of its parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from hakmem.explain.process_memory import Outside
from hakmem.explain.rounding import Scale
from hakmem.explain.sites import Sites
from hakmem.explain.snapshot import Snapshot
from hakmem.metrics import size
from hakmem.schemas import SCHEMAS


@dataclass
class Part:
    """A part of resident memory: what it is, why it is there, what to do, and the unknown."""

    key: str
    title: str
    amount: int
    what: str = ""
    why: List[str] = field(default_factory=list)
    todo: List[str] = field(default_factory=list)
    unknown: List[str] = field(default_factory=list)
    remark: str = ""  # in brackets behind its figure in the equation
    shown: str = ""  # the figure as the equation has it


@dataclass(frozen=True)
class Evidence:
    """The input of an explanation. All but the snapshot may be missing."""

    snapshot: Snapshot
    sites: Optional[Sites] = None
    no_sites: str = ""  # why they are missing, and how to get them
    outside: Optional[Outside] = None
    is_alive: bool = False
    process: str = ""  # its name
    doubt: str = ""  # why a given profile is left out


@dataclass
class Explanation:
    """Parts from the largest to the smallest."""

    resident: int
    parts: List[Part]
    notes: List[str] = field(default_factory=list)
    resident_shown: str = ""
    unit: str = ""

    def round(self) -> None:
        """Give each part its figure."""
        self.parts.sort(key=lambda part: -part.amount)
        scale = Scale(self.resident)
        steps = scale.rounded(self.resident, [part.amount for part in self.parts])
        for part, count in zip(self.parts, steps):
            part.shown = scale.text(count)
        self.resident_shown, self.unit = scale.text(scale.steps(self.resident)), scale.unit

    @property
    def equation(self) -> str:
        """`resident 812 MiB = live 510 + …`."""
        terms = [f"{part.title} {part.shown}" + (f" ({part.remark})" if part.remark else "") for part in self.parts]
        return f"resident {self.resident_shown} {self.unit} = {' + '.join(terms) or '0'}"

    def share(self, part: Part) -> float:
        """In percent of the resident memory, or of what the parts count where that is more (pages of zeros)."""
        whole = max(self.resident, sum(one.amount for one in self.parts if one.amount > 0))
        return 100 * part.amount / whole if whole else 0.0

    def size_of(self, part: Part) -> str:
        """With its unit. A part that is too small for the equation's unit has one of its own."""
        rounds_to_nothing = part.amount > 0 and not part.shown.strip("0.")
        return size(part.amount) if rounds_to_nothing else f"{part.shown} {self.unit}"

    def share_of(self, part: Part) -> str:
        """In percent, as text: never 0 for a part that is there."""
        share = self.share(part)
        return "< 1%" if 0 < share < 0.5 else f"{share:.0f}%"

    def as_json(self) -> Dict[str, Any]:
        """For programs."""
        return {
            "resident": self.resident,
            "equation": self.equation,
            "unit": self.unit,
            "parts": [
                {
                    "part": part.key, "title": part.title, "bytes": part.amount, "shown": part.shown,
                    "what": part.what, "why": part.why, "do": part.todo, "not_known": part.unknown,
                }
                for part in self.parts
            ],
            "notes": self.notes,
        }  # fmt: skip


def as_json(evidence: Evidence, explanation: Explanation) -> Dict[str, Any]:
    """The explanation of a process as JSON, for `hakmem explain` and `hakmem report`."""
    snapshot = evidence.snapshot
    return {
        "schema": SCHEMAS["explain"],
        "pid": snapshot.pid,
        "name": evidence.process,
        "version": snapshot.version,
        "time_ms": snapshot.number("time_ms"),
        "snapshot_schema": snapshot.schema,
        **explanation.as_json(),
    }
