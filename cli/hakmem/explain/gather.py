"""Gathers the input of an explanation from a running process or a saved snapshot."""

from __future__ import annotations

from typing import Optional, Tuple

from hakmem.attach import Attached, attach
from hakmem.explain import process_memory, profile_match, sites, snapshot
from hakmem.explain.explanation import Evidence
from hakmem.process_or_program import PID, is_process

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
        found, doubt = _of_profile(profile, taken, attached.pid)
        return Evidence(taken, found, doubt, outside, True, name, doubt)
    found, why_none = sites.of_process(attached.ask, attached.pid)
    return Evidence(taken, found, why_none, outside, True, name)


def of_file(path: str, profile: Optional[str]) -> Evidence:
    """From a saved snapshot."""
    taken = snapshot.load(path)
    if profile is None:
        return Evidence(taken, None, _NO_PROFILE)
    found, doubt = _of_profile(profile, taken, None)
    return Evidence(taken, found, doubt, doubt=doubt)


def _of_profile(path: str, taken: snapshot.Snapshot, pid: Optional[int]) -> Tuple[Optional[sites.Sites], str]:
    """The sites of a file; none, and the reason, where they cannot be the process's."""
    found = sites.of_file(path)
    doubt = profile_match.doubt(found, taken, pid)
    return (None, f"{path} {doubt}") if doubt else (found, "")


def of_subject(subject: str, profile: Optional[str]) -> Evidence:
    """A word of digits is a PID, all else a file."""
    if is_process(subject):
        return of_process(PID.convert(subject, None, None), profile)
    return of_file(subject, profile)
