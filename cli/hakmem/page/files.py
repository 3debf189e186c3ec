"""A report from saved files: snapshots, and a map and a profile where given."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence

from hakmem.errors import EXIT_USAGE, Failure
from hakmem.explain import sites, snapshot
from hakmem.explain.explanation import Evidence
from hakmem.explain.snapshot import Snapshot
from hakmem.page.course import Course
from hakmem.page.watch import is_map


def of_files(paths: Sequence[str], profile: Optional[str]) -> Course:
    """Tells the files apart by their contents. The report explains the latest snapshot."""
    snapshots: List[Snapshot] = []
    profiles = [] if profile is None else [profile]
    maps: List[str] = []
    drawn: Optional[Dict[str, Any]] = None
    for path in paths:
        data = snapshot.read(path)
        if data.startswith(b"\x1f\x8b"):
            profiles.append(path)
            continue
        document = snapshot.decode(data, path) if data.lstrip().startswith(b"{") else None
        if isinstance(document, dict) and "sites" in document:
            profiles.append(path)
        elif isinstance(document, dict) and "superslabs" in document and "memory" not in document:
            maps.append(path)
            drawn = _map(document, path)
        else:
            snapshots.append(snapshot.parse(data, path))
    for what, given in (("profiles", profiles), ("maps", maps)):
        if len(given) > 1:
            raise Failure(f"{given[0]} and {given[1]} are two {what}: a page has one at most", EXIT_USAGE)
    if not snapshots:
        raise Failure("none of the files is a statistics snapshot (`hakmem stats --json PID` prints one)", EXIT_USAGE)
    snapshots.sort(key=lambda one: one.number("time_ms"))
    found = sites.of_file(profiles[0]) if profiles else None
    last = snapshots[-1]
    notes = [f"{os.path.basename(last.name)} is of process {last.pid}, others are of other processes"]
    notes = notes if len({one.pid for one in snapshots}) > 1 else []
    title = os.path.basename(last.name) + (f" (process {last.pid})" if last.pid else "")
    evidence = Evidence(last, found, "no profile is among the files")
    return Course(title, snapshots, evidence, drawn, "no map is among the files", notes)


def _map(document: Dict[str, Any], path: str) -> Dict[str, Any]:
    if not is_map(document):
        raise Failure(f"{path} is a map of another version than this tool knows, or damaged")
    return document
