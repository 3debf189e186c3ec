"""A process that is asked again and again, over one connection, until it ends."""

from __future__ import annotations

import time
from typing import Optional

from hakmem.attach import ANSWER_SECONDS, Attached, Refused, attach
from hakmem.errors import Failure
from hakmem.process_files import start_of

_LOOK_SECONDS = 0.2
_END_SECONDS = 0.2  # for a process whose connection has ended to end itself


class Ended(Failure):
    """The process is no more; somebody else may have its number."""


class Followed:
    """One process, whatever becomes of the connection. Used by one thread at a time."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._began = start_of(pid)
        self._attached: Optional[Attached] = attach(pid)
        self.name = self._attached.process.name
        if self.has_ended():
            raise self._ended()

    def ask(self, command: str, seconds: float = ANSWER_SECONDS) -> bytes:
        """The answer. An Ended when there will be none any more; a Failure when there is none now: the next may succeed."""
        # What answers over an old connection is the process that was attached to, whatever its number means by now.
        if self._attached is None:
            self._attach_again()
        assert self._attached is not None
        try:
            return self._attached.ask(command, seconds)
        except Refused:
            raise
        except Failure:
            # An answer that comes late would be taken for the next one's.
            self.close()
            # The kernel closes what a process has open a moment before its end.
            if not self.lasts(_END_SECONDS):
                raise self._ended() from None
            raise

    def has_ended(self) -> bool:
        """Whether the process that was attached to is no more."""
        return self._began is None or start_of(self.pid) != self._began

    def lasts(self, seconds: float) -> bool:
        """Waits so long. False, and sooner, when it ends."""
        end = time.monotonic() + seconds
        while not self.has_ended():
            left = end - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(left, _LOOK_SECONDS))
        return False

    def close(self) -> None:
        """Leaves the process alone. It can still be asked, over a new connection."""
        attached, self._attached = self._attached, None
        if attached is not None:
            attached.close()

    def _attach_again(self) -> None:
        try:
            attached = attach(self.pid)
        except Failure:
            if self.has_ended():
                raise self._ended() from None
            raise
        # Looked at behind the connection: a number that was given anew before is seen here.
        if self.has_ended():
            attached.close()
            raise self._ended()
        self._attached = attached
        self.name = attached.process.name

    def _ended(self) -> Ended:
        return Ended(f"process {self.pid} ({self.name}) has ended")
