"""Gathers the input of an explanation from a running process or a saved snapshot."""

from __future__ import annotations

import os
from typing import Optional

from hakmem.attach import Attached, attach
from hakmem.errors import Failure
from hakmem.explain import process_memory, sites, snapshot
from hakmem.explain.explanation import Evidence

_NO_PROFILE = "--profile FILE names a profile that was taken at the same time"


def of_process(pid: int, profile: Optional[str]) -> Evidence:
    """From a running process. A profile from a file goes before a running one."""
    with attach(pid) as attached:
        taken = snapshot.parse(attached.ask("stats json"), f"the answer of process {pid}")
        return with_sites(attached, taken, profile)


def with_sites(attached: Attached, taken: snapshot.Snapshot, profile: Optional[str]) -> Evidence:
    """Adds what the process and /proc show of the same moment."""
    outside = process_memory.look(attached.pid, taken.parts.get("not_malloc", 0))
    name = attached.process.name
    if profile is not None:
        return Evidence(taken, sites.of_file(profile), "", outside, True, name)
    found, why_none = sites.of_process(attached.ask, attached.pid)
    return Evidence(taken, found, why_none, outside, True, name)


def of_file(path: str, profile: Optional[str]) -> Evidence:
    """From a saved snapshot."""
    taken = snapshot.load(path)
    return Evidence(taken, sites.of_file(profile) if profile is not None else None, _NO_PROFILE)


def of_subject(subject: str, profile: Optional[str]) -> Evidence:
    """A word of digits is a PID, all else a file."""
    if subject.isdecimal() and not os.path.exists(subject):
        if int(subject) < 1:
            raise Failure(f"there is no process {subject}")
        return of_process(int(subject), profile)
    return of_file(subject, profile)
