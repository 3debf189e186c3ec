"""A process that answers request after request, over one connection, until it ends."""

from __future__ import annotations

import time
from typing import Optional

from hakmem.attach import ANSWER_SECONDS, Attached, Refused, attach
from hakmem.errors import Failure
from hakmem.process_files import start_of

_LOOK_SECONDS = 0.2
_END_SECONDS = 0.2  # the time for a process to end after its connection has


class ProcessEnded(Failure):
    """The process has ended. Another one may have its number."""


class Followed:
    """One process, over one or more connections. One thread at a time uses it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._began = start_of(pid)
        self._attached: Optional[Attached] = attach(pid)
        self.name = self._attached.process.name
        self.require_alive()

    def ask(self, command: str, seconds: float = ANSWER_SECONDS) -> bytes:
        """Returns the answer. Raises ProcessEnded after the process's end, Failure when only this request got none."""
        # An old connection leads to the attached process, also when another process has its number now.
        if self._attached is None:
            self._attach_again()
        assert self._attached is not None
        try:
            return self._attached.ask(command, seconds)
        except Refused:
            raise
        except Failure:
            # A late answer would count as the answer to the next request.
            self.close()
            # The kernel closes a process's files a moment before its end.
            if not self.lasts(_END_SECONDS):
                raise self._ended() from None
            raise

    def has_ended(self) -> bool:
        """Whether the attached process has ended."""
        return self._began is None or start_of(self.pid) != self._began

    def require_alive(self) -> None:
        """Raises ProcessEnded after the process's end."""
        if self.has_ended():
            raise self._ended()

    def lasts(self, seconds: float) -> bool:
        """Waits for a time. Returns False, and sooner, when the process ends."""
        end = time.monotonic() + seconds
        while not self.has_ended():
            left = end - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(left, _LOOK_SECONDS))
        return False

    def close(self) -> None:
        """Ends the connection. A later request opens a new one."""
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
        # Read after the connection: a number that was reused before it is detected here.
        if self.has_ended():
            attached.close()
            raise self._ended()
        self._attached = attached
        self.name = attached.process.name

    def _ended(self) -> ProcessEnded:
        return ProcessEnded(f"process {self.pid} ({self.name}) has ended")
