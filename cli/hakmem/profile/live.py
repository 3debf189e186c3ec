"""A heap profile of a running process. A profile that another client has started is left running."""

from __future__ import annotations

import contextlib
import enum
import time
from dataclasses import dataclass
from typing import Callable, Iterator, List, Optional

import click

from hakmem.attach import Attached, attach
from hakmem.errors import Failure
from hakmem.followed import ProcessEnded
from hakmem.json_text import decode, is_figure
from hakmem.metrics import size
from hakmem.process_files import start_of
from hakmem.profile.model import Profile
from hakmem.profile.read import parse
from hakmem.watched import Watched

DEFAULT_RATE = 512 << 10
RATES = click.IntRange(1, 4 << 30)  # of profile_rate in src/policy/option.def
DEFAULT_SECONDS = 10.0
_LOOK_SECONDS = 1.0  # between looks whether the process has ended

Ask = Callable[[str], bytes]


class End(enum.Enum):
    """Whether the profile goes on after it was read."""

    AS_BEFORE = "one that was started here is stopped, another one goes on"
    STAY = "it goes on"
    STOP = "it is stopped, whatever started it"


@dataclass(frozen=True)
class State:
    """The process's answer about its profile."""

    running: bool
    rate: Optional[int] = None
    duration_ms: int = 0


START, STOP, STAY = "profile start", "profile stop", "stay"


class _Asker:
    """Opens a connection for each request. Keeps the connection of a profile's start until the stop: the profile ends
    with it, also when this tool is killed."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._kept: Optional[Attached] = None
        self._first: Optional[Watched] = None

    def __call__(self, request: str) -> bytes:
        try:
            return self._ask(request)
        except Failure as failure:
            raise self._change() or failure from None

    def _change(self) -> Optional[Failure]:
        """What has become of the process since the first request, where that is why a later one fails."""
        if self._first is None:
            return None
        told = f"process {self._pid} ({self._first.name})"
        if not self._first.is_alive():
            return ProcessEnded(f"{told} has ended")
        if self._first.runs_another_program():
            return Failure(f"{told} has replaced its program by another (exec): the profile ended with the first")
        return None

    def _ask(self, request: str) -> bytes:
        if request.startswith(START) and not request.endswith(STAY):
            return self._start(request)
        if request == STOP and self._kept is not None:
            kept, self._kept = self._kept, None
            with kept:
                return kept.ask(request)
        with self._attach() as attached:
            return attached.ask(request)

    def _attach(self) -> Attached:
        attached = attach(self._pid)
        self._first = self._first or attached.process
        return attached

    def _start(self, request: str) -> bytes:
        attached = self._attach()
        try:
            answer = attached.ask(request)
        except BaseException:
            attached.close()
            raise
        self._kept = attached
        return answer


def asker(pid: int) -> Ask:
    """Returns a function that sends a request to the process, and returns its answer."""
    return _Asker(pid)


def take(
    ask: Ask, pid: int, seconds: Optional[float], rate: Optional[int], notes: List[str], end: End = End.AS_BEFORE
) -> Profile:
    """The profile after that many seconds."""
    return parse(take_answer(ask, "profile pprof", pid, seconds, rate, notes, end), f"the profile of process {pid}")


def take_sites(
    ask: Ask, pid: int, seconds: Optional[float], rate: Optional[int], notes: List[str], end: End = End.AS_BEFORE
) -> bytes:
    """The profile as the answer to `profile sites`."""
    answer = take_answer(ask, "profile sites", pid, seconds, rate, notes, end)
    if not notes:
        notes.append(
            "blocks from before the profile, and longer lifetimes, are unknown: a process with HAKMEM_PROFILE=1 "
            "covers its whole time"
        )
    return answer


def take_answer(
    ask: Ask, request: str, pid: int, seconds: Optional[float], rate: Optional[int], notes: List[str], end: End
) -> bytes:
    """Returns the process's answer to that request, after that many seconds."""
    found = state(ask)
    if end is End.STOP:
        return _take_last(ask, request, pid, found, seconds)
    if found.running:
        told = f" (a sample every {size(found.rate)})" if found.rate else ""
        notes.append(f"a profile runs in process {pid} already{told}: it is read, and left running")
        if rate is not None and rate != found.rate:
            notes.append("--rate has no effect on a profile that runs already")
        return _after(ask, request, pid, seconds or 0.0)
    seconds = DEFAULT_SECONDS if seconds is None else seconds
    if end is End.STAY:
        ask(f"{START} {rate or DEFAULT_RATE} {STAY}")
        notes.append(f"the profile goes on; `hakmem profile --stop {pid}` stops it")
        return _after(ask, request, pid, seconds)
    with started(ask, rate or DEFAULT_RATE):
        return _after(ask, request, pid, seconds)


def _take_last(ask: Ask, request: str, pid: int, found: State, seconds: Optional[float]) -> bytes:
    """Stops the profile also where it cannot be read."""
    if not found.running:
        raise Failure(f"no profile runs in process {pid}")
    try:
        return _after(ask, request, pid, seconds or 0.0)
    finally:
        ask(STOP)


@contextlib.contextmanager
def started(ask: Ask, rate: int) -> Iterator[None]:
    """Runs a profile of this tool's own, where none runs."""
    ask(f"{START} {rate}")
    try:
        yield
    finally:
        # The process may have ended meanwhile: then the caller gets that Failure.
        with contextlib.suppress(Failure, OSError):
            ask(STOP)


def _after(ask: Ask, request: str, pid: int, seconds: float) -> bytes:
    """The answer after that time, sooner when the process ends: then the caller gets that Failure."""
    began = start_of(pid)
    while seconds > 0 and start_of(pid) == began:
        time.sleep(min(seconds, _LOOK_SECONDS))
        seconds -= _LOOK_SECONDS
    return ask(request)


def state(ask: Ask) -> State:
    """The current answer of the process about its profile."""
    answer = ask("profile state")
    try:
        document = decode(answer)
    except ValueError:
        raise Failure(f"the process answered {answer[:60]!r} to `profile state`: another version?") from None
    if not isinstance(document, dict) or not isinstance(document.get("running"), bool):
        raise Failure("the process did not say whether a profile runs: another version?")
    rate, duration = document.get("rate"), document.get("duration_ms")
    return State(document["running"], rate if isinstance(rate, int) else None, duration if is_figure(duration) else 0)
