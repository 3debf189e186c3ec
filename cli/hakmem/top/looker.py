"""Looks at a process at intervals, in a thread of its own, so that keys work while an answer is due."""

from __future__ import annotations

import queue
import threading
from typing import Callable, Union

from hakmem.errors import Failure
from hakmem.followed import Followed, ProcessEnded
from hakmem.top.history import Look, parse

COMMAND = "stats json"


class Looker(threading.Thread):
    """Puts each look, or the Failure instead of it, into `found`, and calls `tell`. A ProcessEnded is the last."""

    def __init__(self, process: Followed, interval: float, tell: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.found: queue.SimpleQueue[Union[Look, Failure]] = queue.SimpleQueue()
        self._process = process
        self._interval = interval
        self._tell = tell

    def run(self) -> None:
        """The thread."""
        found: Union[Look, Failure]
        while True:
            try:
                found = parse(self._process.ask(COMMAND))
            except Failure as failure:
                found = failure
            self.found.put(found)
            self._tell()
            if isinstance(found, ProcessEnded):
                return
            self._process.lasts(self._interval)
