"""The verdict of `hakmem run`: one line, five, or JSON."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from hakmem.allocators import HAKMEM
from hakmem.engine import Outcome
from hakmem.errors import plural
from hakmem.memory import MemorySampler
from hakmem.metrics import count, seconds, size
from hakmem.private_folder import COULD_NOT_WRITE
from hakmem.report import thinned
from hakmem.schemas import SCHEMAS
from hakmem.self_report import SelfReports, summary

_USUAL = " served malloc"
_NAME = len("hakmem: ")


@dataclass(frozen=True)
class Verdict:
    """The facts of one run. `version` is the library's, where it is known beforehand. `can_map` is false where the
    program's dynamic linker cannot load the library, or where it has none. `is_linked`: without a preload."""

    pid: int
    ended: Outcome
    sampler: MemorySampler
    reports: SelfReports
    library: str
    version: Optional[str]
    can_map: bool = True
    is_linked: bool = False

    @property
    def is_hakmem(self) -> bool:
        """Whether the library is hakmem. --library may name another allocator, which its file tells. A static program
        is its own library."""
        return self.is_linked or os.path.basename(self.library).startswith(f"lib{HAKMEM}")

    @property
    def mapped(self) -> Optional[bool]:
        """Whether the program maps the library. A program that reports has it, however short it lived."""
        if self.reports.documents:
            return True
        return False if self.sampler.mapped is None and not self.can_map else self.sampler.mapped


def line(told: Verdict, width: Optional[int] = None) -> str:
    """The verdict of one line. A narrow width, with `hakmem: ` before the verdict, gets a shorter form."""
    ended = told.ended
    peak = told.sampler.peak_together(ended.peak_bytes) if told.sampler.most_processes > 1 else None
    figures = [
        f"{ended.describe()} after {seconds(ended.wall_seconds)}",
        f"CPU {seconds(ended.user_seconds + ended.system_seconds)}",
        f"peak {size(peak or ended.peak_bytes)}",
    ]
    whole = ", ".join([*figures, _briefly(told)])
    forms = [f"{whole} (-v says more)", whole, whole.replace(_USUAL, "")]
    return next((form for form in forms if width is None or len(form) + _NAME <= width), whole)


def _briefly(told: Verdict) -> str:
    if told.mapped is False:
        return f"{told.library} was NOT mapped by the program: its malloc was another"
    troubles = [
        plural(number, noun)
        for key, noun in (("out_of_memory", "failed request"), ("misuse", "misuse"))
        if (number := told.reports.total("events", key))
    ]
    where = [f"the report goes to {told.reports.elsewhere}"] if told.reports.elsewhere else []
    at_work = "was preloaded" if told.mapped is None else _USUAL.strip()
    return ", ".join([f"{_name(told)} {at_work}", *troubles, *where])


def lines(told: Verdict) -> List[str]:
    """Wall, CPU, memory, faults, allocator."""
    ended = told.ended
    return [
        f"wall       {seconds(ended.wall_seconds)}, {ended.describe()}",
        f"CPU        {seconds(ended.user_seconds + ended.system_seconds)}: "
        f"{seconds(ended.user_seconds)} user, {seconds(ended.system_seconds)} system",
        f"resident   {_resident(ended, told.sampler)}",
        f"faults     {count(ended.minor_faults)} minor, {count(ended.major_faults)} major",
        f"allocator  {_allocator(told)}",
    ]


def _resident(ended: Outcome, sampler: MemorySampler) -> str:
    mean = sampler.mean(0.0, ended.wall_seconds)
    mean_text = f"{size(mean)} mean ({plural(len(sampler.samples), 'sample')})" if mean else "too short for a mean"
    together = sampler.peak_together(ended.peak_bytes)
    if sampler.most_processes == 1 or together is None:
        return f"{size(ended.peak_bytes)} peak, {mean_text}"
    return (
        f"{size(together)} peak, {mean_text}, up to {sampler.most_processes} processes together; "
        f"the largest {size(ended.peak_bytes)} peak"
    )


def _allocator(told: Verdict) -> str:
    if told.mapped is False:
        return f"{told.library} was NOT mapped by the program: its malloc was another"
    reports = told.reports
    where = f" in {count(len(reports.documents))} processes" if len(reports.documents) > 1 else ""
    parts = [f"{_name(told)} served malloc{where} ({told.library})"]
    if told.mapped is None:
        parts = [
            f"{_name(told)} was preloaded ({told.library})",
            "the program was too short, or too private, to see it at work",
        ]
    if reports.documents:
        parts[0] += f": {summary(reports, told.pid)}"
    if reports.of(told.pid) is None:
        parts.append(f"no report{' of the program itself' if reports.documents else ''}: {_why_no_report(told)}")
    if peak := told.sampler.peak_anonymous():
        parts.append(f"heaps and stacks peaked at {size(peak)}")
    return "; ".join(parts)


def _name(told: Verdict) -> str:
    """The allocator: hakmem with its version, or another one's file."""
    if version := _version(told):
        return f"hakmem {version}"
    return HAKMEM if told.is_hakmem else os.path.basename(told.library)


def _version(told: Verdict) -> Optional[str]:
    documents = told.reports.documents
    return str(documents[0]["version"]) if documents else told.version


def _why_no_report(told: Verdict) -> str:
    """Only exit and the end of main write one, and only in a program with the library that may write here."""
    if told.mapped is False:
        return "the program does not map the library"
    if told.reports.absent is not None:
        return told.reports.absent
    if told.ended.signal is not None:
        return f"it was {told.ended.describe()}"
    if not told.reports.documents and not told.is_hakmem:
        return "a library of another allocator writes none"
    return (
        "it ended by _exit, past its exit handlers, or as another program (exec) without the library, "
        f"or {COULD_NOT_WRITE}"
    )


def as_json(told: Verdict, command: List[str]) -> Dict[str, Any]:
    """The same, and the curve."""
    ended, sampler = told.ended, told.sampler
    return {
        "schema": SCHEMAS["run"],
        "command": command,
        "library": told.library,
        "version": _version(told),
        "library_mapped": told.mapped,
        "exit_code": ended.exit_code,
        "signal": ended.signal,
        "wall_seconds": ended.wall_seconds,
        "user_seconds": ended.user_seconds,
        "system_seconds": ended.system_seconds,
        "peak_bytes": ended.peak_bytes,
        "peak_tree_bytes": sampler.peak_together(ended.peak_bytes),
        "peak_anonymous_bytes": sampler.peak_anonymous(),
        "mean_bytes": sampler.mean(0.0, ended.wall_seconds),
        "minor_faults": ended.minor_faults,
        "major_faults": ended.major_faults,
        "most_processes": sampler.most_processes,
        "allocator": _allocator_json(told),
        "resident_over_time": [[round(s.seconds, 4), s.resident] for s in thinned(sampler.samples)],
    }


def _allocator_json(told: Verdict) -> Dict[str, Any]:
    """The allocator's counts: of the program's own process, and of all processes that wrote a report."""
    own = told.reports.of(told.pid)
    return {
        "processes": len(told.reports.documents),
        "own": own,
        "sums": told.reports.sums(),
        "no_report": None if own is not None else _why_no_report(told),
    }


def to_text(document: Dict[str, Any]) -> str:
    """JSON, one line."""
    return json.dumps(document) + "\n"
