"""A report of a program that is started here: watched while it runs, explained at its peak."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple, Union

from hakmem.engine import Launch
from hakmem.errors import Failure, say
from hakmem.explain.explanation import Evidence
from hakmem.explain.sites import Sites, of_recorded
from hakmem.foreground import run_to_end
from hakmem.page.course import Course
from hakmem.page.watch import Onlooker
from hakmem.profile.record import Recording
from hakmem.under_hakmem import How, prepare


def of_program(command: Sequence[str], how: How) -> Tuple[Union[Course, Failure], int]:
    """Returns the course, or the reason why there is none, and the program's exit code."""
    start = prepare(command, how)
    for warning in start.warnings:
        say(f"warning: {warning}")
    onlookers: List[Onlooker] = []
    with Recording() as recording:
        variables = recording.ask(start.variables, None)
        launch = Launch(start.program, variables, library=start.library, sample=False)
        try:
            child = run_to_end(launch, on_start=lambda child: onlookers.append(Onlooker.begin(child.pid)))
        finally:
            for onlooker in onlookers:
                onlooker.finish()
        assert child.ended is not None
        own, _, notes = recording.collect(child.pid, "inuse_space")
        found = of_recorded(own) if own is not None else None
    return _course(onlookers[0], found, notes, start.program.name), child.ended.exit_code


def _course(onlooker: Onlooker, found: Optional[Sites], notes: List[str], name: str) -> Union[Course, Failure]:
    if onlooker.highest is None:
        told = f": {onlooker.trouble}" if onlooker.trouble else ""
        return Failure(f"{name} ended before it could answer{told} (`hakmem profile` shows short programs too)")
    notes = [*notes, "the explained moment is the one with the most resident memory"]
    if found is not None:
        notes.append("the profile is of the program's end, not of that moment")
    title = f"{name} (process {onlooker.highest.pid})"
    evidence = Evidence(onlooker.highest, found, "the program wrote no profile", process=name)
    return Course(title, onlooker.snapshots, evidence, onlooker.map, "no map was taken", notes)
