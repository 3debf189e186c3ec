"""All processes on hakmem of a host, behind one server. Processes come and go while it runs."""

from __future__ import annotations

import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from hakmem.attach import Refused
from hakmem.errors import Failure, say
from hakmem.followed import Followed
from hakmem.process_files import start_of, status
from hakmem.processes import Finder
from hakmem.scrape.families import Source, up_family
from hakmem.scrape.heap_profile import HeapProfile

_AT_ONCE = 16  # processes that are attached to, or read, at the same time


class Member:
    """One process, with or without a connection to it."""

    def __init__(self, pid: int, began: str) -> None:
        self.pid, self.began = pid, began
        self.name = status(pid)["Name"]
        self.source: Optional[Source] = None
        self.heap: Optional[HeapProfile] = None
        self._stack = contextlib.ExitStack()

    def attach(self, with_profile: bool) -> None:
        """Connects to the process. Raises a Failure when it does not answer; a later call tries again."""
        with contextlib.ExitStack() as stack:
            process = Followed(self.pid)
            stack.callback(process.close)
            heap = stack.enter_context(HeapProfile(process))
            if with_profile:
                _start_profile(heap, stack)
            self.name = process.name
            self.source, self.heap = Source(process), heap
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Ends the connection, and a profile that was started with it."""
        self._stack.close()

    def labels(self) -> Dict[str, str]:
        """As each of its samples has them."""
        return {"pid": str(self.pid), "program": self.name}

    def collect(self) -> Iterator[Metric]:
        """Its metrics, or only `hakmem_up` 0, for prometheus_client."""
        if self.source is None:
            yield up_family(0, self.labels())
        else:
            yield from self.source.collect()


class Host:
    """The members. One thread looks for them, and any number of threads read them."""

    def __init__(self, with_profile: bool, on_change: Callable[[List[Member]], None]) -> None:
        self._with_profile = with_profile
        self._on_change = on_change
        self._finder = Finder()
        self._lock = threading.Lock()
        self._members: Dict[Tuple[int, str], Member] = {}
        self._told: Optional[List[Dict[str, str]]] = None
        self._pool = ThreadPoolExecutor(_AT_ONCE)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()
        for member in self.members():
            member.close()

    def members(self) -> List[Member]:
        """In the order of their numbers."""
        with self._lock:
            return sorted(self._members.values(), key=lambda member: member.pid)

    def look(self) -> None:
        """Attaches to new processes, and to those that did not answer before; drops those that have ended."""
        found = {(pid, began) for pid, began in self._finder.look().items() if pid != os.getpid() and _is_ours(pid)}
        new = [member for member in (_member(*key) for key in found if key not in self._members) if member is not None]
        with self._lock:
            gone = [self._members.pop(key) for key in set(self._members) - found]
            self._members.update({(member.pid, member.began): member for member in new})
        for member in gone:
            member.close()
        list(self._pool.map(self._attach, [member for member in self.members() if member.source is None]))
        told = [member.labels() for member in self.members()]
        if told != self._told:
            self._on_change(self.members())
            self._told = told

    def one(self, pid: int) -> Optional[Member]:
        """The member of that number."""
        return next((member for member in self.members() if member.pid == pid and start_of(pid) == member.began), None)

    def collect(self) -> Iterator[Metric]:
        """The metrics of all members, family by family, for prometheus_client."""
        members = [member for member in self.members() if start_of(member.pid) == member.began]
        count = GaugeMetricFamily("hakmem_exporter_processes", "Processes on hakmem that the exporter has found.")
        count.add_metric([], len(members))
        yield count
        yield from joined(self._pool.map(lambda member: list(member.collect()), members))

    def _attach(self, member: Member) -> None:
        with contextlib.suppress(Failure, OSError):
            member.attach(self._with_profile)


def joined(answers: Iterable[List[Metric]]) -> List[Metric]:
    """One family of each name. Of a name that two versions of the library use for two kinds, the first stays."""
    families: Dict[str, Metric] = {}
    for answer in answers:
        for family in answer:
            known = families.setdefault(family.name, family)
            if known is not family and known.type == family.type:
                known.samples.extend(family.samples)
    return list(families.values())


def _start_profile(heap: HeapProfile, stack: contextlib.ExitStack) -> None:
    """Starts a profile. A process that refuses it, as one on the fast library does, is served without."""
    try:
        heap.start(stack)
    except Refused as refusal:
        say(f"no profile was started: {refusal}")


def _member(pid: int, began: str) -> Optional[Member]:
    """None when it has ended meanwhile."""
    with contextlib.suppress(Failure):
        return Member(pid, began)
    return None


def _is_ours(pid: int) -> bool:
    """Whether this user gets an answer from the process."""
    with contextlib.suppress(Failure):
        return os.geteuid() in (0, int(status(pid)["Uid"].split()[1]))
    return False
