"""The allocator's own counts in a program that `hakmem run` starts, and in the processes that this program starts.

The library writes a file for each process, at exit, where HAKMEM_STATS_FILE says (docs/options.md). Here that is
a private folder, which this module empties while the program runs and removes afterwards.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Type

from hakmem.errors import plural
from hakmem.json_text import decode
from hakmem.metrics import size
from hakmem.private_folder import PrivateFolder

VARIABLE = "HAKMEM_STATS_FILE"
# The second has more sections than the first. The sections that are read here are the same.
_SCHEMAS = (1, 2)
_LOOK_SECONDS = 1.0

Report = Dict[str, Any]


@dataclass
class SelfReports:
    """The reports of one run. `absent` says why there can be none, `elsewhere` names the caller's own file."""

    documents: List[Report] = field(default_factory=list)
    absent: Optional[str] = None
    elsewhere: Optional[str] = None
    _folder: Optional[PrivateFolder] = None
    _next_look: float = 0.0

    def __enter__(self) -> SelfReports:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._folder is not None:
            self._folder.remove()

    def ask(self, environment: Mapping[str, str]) -> Dict[str, str]:
        """The environment in which the library writes its reports here, unless it writes them elsewhere already."""
        if environment.get(VARIABLE):
            self.elsewhere = environment[VARIABLE]
            self.absent = f"{VARIABLE} was set already: the report goes to {self.elsewhere}"
            return dict(environment)
        try:
            self._folder = PrivateFolder("run")
        except OSError as error:
            self.absent = f"no temporary folder to read a report from ({error.strerror})"
            return dict(environment)
        return {**environment, VARIABLE: self._folder.pattern}

    def look(self) -> None:
        """Collects now and then, so that thousands of processes do not leave thousands of files."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self.collect()

    def collect(self) -> None:
        """Reads and removes the written reports."""
        for _, file in self._folder.files() if self._folder is not None else ():
            self._take(file)

    def _take(self, file: Path) -> None:
        try:
            document = decode(file.read_bytes())
        except (OSError, ValueError):
            return  # not whole yet
        with contextlib.suppress(OSError):
            file.unlink()
        if isinstance(document, dict) and document.get("schema") in _SCHEMAS:
            self.documents.append(document)

    def of(self, pid: int) -> Optional[Report]:
        """One process's."""
        return next((document for document in reversed(self.documents) if document["pid"] == pid), None)

    def total(self, section: str, name: str) -> int:
        """A figure, summed over the processes."""
        return sum(int(document[section].get(name, 0)) for document in self.documents)

    def sums(self) -> Dict[str, Dict[str, int]]:
        """All of them."""
        names = {
            section: dict.fromkeys(name for document in self.documents for name in document.get(section, {}))
            for section in ("memory", "events", "costs")
        }
        return {
            section: {name: self.total(section, name) for name in found} for section, found in names.items() if found
        }


def summary(reports: SelfReports, pid: int) -> str:
    """The summary for users: held and purged memory, remote frees, large blocks, failures and misuses."""
    own = reports.of(pid)
    alone = own is not None and len(reports.documents) == 1
    given_back = reports.total("events", "purged")
    parts = [
        f"{size(given_back)} purged" if given_back else "nothing purged",
        _number(reports.total("events", "remote_free"), "remote free"),
        _number(reports.total("events", "large_alloc"), "large block"),
        _number(reports.total("events", "out_of_memory"), "failed request"),
        _number(reports.total("events", "misuse"), "misuse"),
    ]
    held = (
        f"{size(_held([own]))} held at exit" if own is not None else f"{size(_held(reports.documents))} held at exits"
    )
    return ", ".join([held, *parts]) if alone or own is None else f"{held}; together {', '.join(parts)}"


def _held(documents: Sequence[Report]) -> int:
    """Bytes of slabs in use or dirty, of large blocks, and of dirty extents."""
    return sum(
        int(document["memory"][name])
        for document in documents
        for name in ("in_use", "dirty_slabs", "large_blocks", "large_dirty")
    )


def _number(value: int, noun: str) -> str:
    return plural(value, noun) if value else f"no {noun}"
