"""A running process's heap profile with names, as Pyroscope, Parca and other scrapers fetch it from Go programs."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Optional

from hakmem.errors import Failure
from hakmem.followed import Followed
from hakmem.process_files import roots
from hakmem.profile import live
from hakmem.profile.debug_files import DEBUG_FOLDERS, Search
from hakmem.profile.model import Profile
from hakmem.profile.read import parse
from hakmem.profile.symbolize import Symbolizer
from hakmem.profile.write import to_bytes


class HeapProfile:
    """The answer to `/debug/pprof/heap`. Several threads call it at once."""

    def __init__(self, process: Followed) -> None:
        self._process = process
        self._asker = live.asker(process.pid)
        # One profile at a time: naming takes a processor, and the modules stay in memory.
        self._lock = threading.Lock()
        self._symbolizer: Optional[Symbolizer] = None

    def __enter__(self) -> HeapProfile:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._symbolizer is not None:
            self._symbolizer.__exit__(*error)

    def ask(self, request: str) -> bytes:
        """Returns the answer of that process, never of a later one with its number."""
        self._process.require_alive()
        return self._asker(request)

    def start(self, stack: contextlib.ExitStack) -> None:
        """Starts a profile, where none runs, that ends when the stack unwinds."""
        if not live.state(self.ask).running:
            stack.enter_context(live.started(self.ask, live.DEFAULT_RATE))

    def fetch(self) -> bytes:
        """Returns the running profile, gzipped, or raises a Failure: there is none, or no answer."""
        with self._lock:
            if not live.state(self.ask).running:
                raise Failure(
                    f"no heap profile runs in process {self._process.pid} ({self._process.name}): start it with "
                    "HAKMEM_PROFILE=1, or this server with --profile"
                )
            profile = parse(self.ask("profile pprof"), f"the profile of process {self._process.pid}")
            self._name(profile)
        # Its figures are sums up to this moment. With a duration Parca would take them for those of a
        # stretch of time, and add up the bytes in use.
        profile.duration_nanos = 0
        return to_bytes(profile)

    def _name(self, profile: Profile) -> None:
        if self._symbolizer is None:
            search = Search(roots(self._process.pid), DEBUG_FOLDERS, profile.began_nanos)
            self._symbolizer = Symbolizer(search)
        self._symbolizer.symbolize(profile)
