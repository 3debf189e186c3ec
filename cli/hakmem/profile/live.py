"""A heap profile of a process that runs already. What somebody else has started there is left running."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from typing import Callable, Iterator, List, Optional

from hakmem.attach import attach
from hakmem.errors import Failure
from hakmem.metrics import size
from hakmem.profile.model import Profile
from hakmem.profile.read import parse

DEFAULT_RATE = 512 << 10
DEFAULT_SECONDS = 10.0

Ask = Callable[[str], bytes]


@dataclass(frozen=True)
class State:
    """What the process says of its profile."""

    running: bool
    rate: Optional[int] = None


def asker(pid: int) -> Ask:
    """A way to ask the process. Each request has a connection of its own: nobody else is kept out while the profile runs."""

    def ask(request: str) -> bytes:
        with attach(pid) as attached:
            return attached.ask(request)

    return ask


def take(ask: Ask, pid: int, seconds: Optional[float], rate: Optional[int], notes: List[str]) -> Profile:
    """The profile after that many seconds, with the process left as it was found."""
    return parse(take_answer(ask, "profile pprof", pid, seconds, rate, notes), f"the profile of process {pid}")


def take_sites(ask: Ask, pid: int, seconds: Optional[float], rate: Optional[int], notes: List[str]) -> bytes:
    """The same as `profile sites` tells it."""
    answer = take_answer(ask, "profile sites", pid, seconds, rate, notes)
    if not notes:
        notes.append(
            "nothing is known of blocks from before the profile, nor of lives longer than it: a process with HAKMEM_PROFILE=1 "
            "tells of all its time"
        )
    return answer


def take_answer(
    ask: Ask, request: str, pid: int, seconds: Optional[float], rate: Optional[int], notes: List[str]
) -> bytes:
    """What the process answers to that request, after that many seconds."""
    found = state(ask)
    if found.running:
        told = f" (a sample every {size(found.rate)})" if found.rate else ""
        notes.append(f"a profile runs in process {pid} already{told}: it is read, and left running")
        if rate is not None and rate != found.rate:
            notes.append("--rate has no effect on a profile that runs already")
        return _after(ask, request, seconds or 0.0)
    with started(ask, rate or DEFAULT_RATE):
        return _after(ask, request, DEFAULT_SECONDS if seconds is None else seconds)


@contextlib.contextmanager
def started(ask: Ask, rate: int) -> Iterator[None]:
    """With a profile that is ours, where none runs."""
    ask(f"profile start {rate}")
    try:
        yield
    finally:
        # It may have ended meanwhile; then that is what the caller hears of.
        with contextlib.suppress(Failure, OSError):
            ask("profile stop")


def _after(ask: Ask, request: str, seconds: float) -> bytes:
    if seconds:
        time.sleep(seconds)
    return ask(request)


def state(ask: Ask) -> State:
    """What the process says of its profile now."""
    answer = ask("profile state")
    try:
        document = json.loads(answer)
    except ValueError:
        raise Failure(
            f"the process answered {answer[:60]!r} when asked whether a profile runs: another version?"
        ) from None
    if not isinstance(document, dict) or not isinstance(document.get("running"), bool):
        raise Failure("the process did not say whether a profile runs: another version?")
    rate = document.get("rate")
    return State(document["running"], rate if isinstance(rate, int) else None)
