"""Watches a running process for a while: snapshots, its map, and a profile meanwhile."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from hakmem.attach import Attached, Refused, attach
from hakmem.errors import Failure, say
from hakmem.explain import gather, sites
from hakmem.explain.explanation import Evidence
from hakmem.explain.snapshot import Snapshot, decode, parse
from hakmem.page.course import Course
from hakmem.process_files import start_of
from hakmem.profile import live

_MOST_POINTS = 240
_SHORTEST_PAUSE = 0.1
# The watched process spends no more than this part of its time on answers.
_DUTY = 0.02
_SHOWN = "its last moment before is shown"


def watch(pid: int, seconds: float, profile: Optional[str]) -> Course:
    """Watches the process for a time. When its program ends earlier, returns the course up to there."""
    with attach(pid) as attached:
        title = f"{attached.process.name} (process {pid})"
        notes: List[str] = []
        with profile_on(attached, profile is None):
            snapshots = _poll(attached, seconds, notes)
            end = _end_of(attached)
            if end:
                return _ended(title, snapshots, profile, end, notes)
            try:
                evidence = gather.with_sites(attached, snapshots[-1], profile)
                drawn, no_map = take_map(attached)
            except Failure:
                end = _end_of(attached)
                if not end:
                    raise
                return _ended(title, snapshots, profile, end, notes)
    return Course(title, snapshots, evidence, drawn, no_map, notes)


def _poll(attached: Attached, seconds: float, notes: List[str]) -> List[Snapshot]:
    start = time.monotonic()
    snapshots: List[Snapshot] = []
    while True:
        asked = time.monotonic()
        try:
            snapshots.append(take(attached))
        except Failure:
            end = _end_of(attached)
            if not snapshots or not end:
                raise
            notes.append(f"the process {end} after {asked - start:.1f} of {seconds:g} seconds: {_SHOWN}")
            return snapshots
        now = time.monotonic()
        if now - start >= seconds:
            return snapshots
        time.sleep(min(pause(seconds, now - asked), max(0.0, start + seconds - now)))


def pause(seconds: float, answer_seconds: float) -> float:
    """The time between two requests."""
    return max(seconds / _MOST_POINTS, _SHORTEST_PAUSE, answer_seconds / _DUTY)


def _end_of(attached: Attached) -> str:
    """What the process did to end the program that is watched; empty while that runs."""
    if not attached.process.is_alive():
        return "ended"
    return "replaced its program by another (exec)" if attached.process.runs_another_program() else ""


def _ended(title: str, snapshots: List[Snapshot], profile: Optional[str], end: str, notes: List[str]) -> Course:
    if not any(_SHOWN in note for note in notes):
        notes.append(f"the process has {end} meanwhile: {_SHOWN}")
    found = sites.of_file(profile) if profile is not None else None
    gone = f"the process had {end} before it could answer"
    return Course(title, snapshots, Evidence(snapshots[-1], found, gone), None, gone, notes)


def take(attached: Attached) -> Snapshot:
    """One snapshot."""
    return parse(attached.ask("stats json"), f"the answer of process {attached.pid}")


def take_map(attached: Attached) -> Tuple[Optional[Dict[str, Any]], str]:
    """Returns the map, or the reason why there is none."""
    try:
        document = decode(attached.ask("map"), f"the map of process {attached.pid}")
    except Refused:
        return None, "the process's library draws none"
    return (document, "") if is_map(document) else (None, "the process's map is of another version")


def is_map(document: Any) -> bool:
    """Whether this is an answer to `map` of a known version."""
    if not isinstance(document, dict) or document.get("schema") != 1:
        return False
    lists = document.get("superslabs"), document.get("big")
    return all(isinstance(rows, list) and all(isinstance(row, dict) for row in rows) for rows in lists)


@contextlib.contextmanager
def profile_on(attached: Attached, wanted: bool) -> Iterator[None]:
    """Runs a profile while the body runs, where none ran before."""
    with contextlib.ExitStack() as stack:
        if wanted:
            _start_profile(attached, stack)
        yield


def _start_profile(attached: Attached, stack: contextlib.ExitStack) -> None:
    try:
        if not live.state(attached.ask).running:
            stack.enter_context(live.started(attached.ask, live.DEFAULT_RATE))
    except Refused as refused:
        if "unknown command" not in refused.message:
            say(f"note: {refused.message}")


class Onlooker(threading.Thread):
    """Watches a program that was started here, in a thread, until it ends. Keeps the evidence of the peak."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._over = threading.Event()
        self.snapshots: List[Snapshot] = []
        self.highest: Optional[Snapshot] = None
        self.map: Optional[Dict[str, Any]] = None
        self.trouble = ""

    @classmethod
    def begin(cls, pid: int) -> Onlooker:
        """Starts one. The caller has blocked the signals, which are not for this thread."""
        onlooker = cls(pid)
        onlooker.start()
        return onlooker

    def finish(self) -> None:
        """The program has ended."""
        self._over.set()
        self.join()

    def run(self) -> None:
        """Watches until the end; repeats the request while the process cannot answer yet."""
        while not self._over.wait(_SHORTEST_PAUSE):
            if start_of(self._pid) is None:
                continue
            try:
                with attach(self._pid, 1.0) as attached:
                    self._follow(attached)
            except Failure as failure:
                self.trouble = failure.message
            except OSError as error:
                self.trouble = str(error)

    def _follow(self, attached: Attached) -> None:
        start = time.monotonic()
        while True:
            asked = time.monotonic()
            self.see(attached)
            now = time.monotonic()
            # The run's length is unknown: the longer it runs, the rarer the looks.
            if self._over.wait(pause(now - start, now - asked)):
                return

    def see(self, attached: Attached) -> None:
        """Adds one moment. Keeps the map of the peak."""
        snapshot = take(attached)
        self.snapshots.append(snapshot)
        if self.highest is None or snapshot.number("memory", "resident") >= self.highest.number("memory", "resident"):
            self.highest = snapshot
            self.map, _ = take_map(attached)
