"""The progress of a measurement: a bar on stderr where that is a terminal, else a line for each round."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Optional, Type

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hakmem.errors import escaped, say

# The bar is drawn from the measuring loop, not by a thread, and seldom: it takes time from the measured program.
_REDRAW_SECONDS = 0.5


class ProgressBar:
    """A context manager; `advance` after every run, `tick` as often as one likes."""

    def __init__(self, total: int, quiet: bool) -> None:
        self._bar: Optional[Progress] = None
        self.is_plain = not quiet and not sys.stderr.isatty()
        self._last_draw = 0.0
        if not quiet and sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True), auto_refresh=False,
                transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> ProgressBar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def describe(self, text: str) -> None:
        """Names the current run."""
        if self._bar is not None:
            self._bar.update(self._task, description=text)
            self._draw()

    def advance(self, steps: int = 1) -> None:
        """Counts runs that are done, or will not be done."""
        if self._bar is not None:
            self._bar.advance(self._task, steps)
            self._draw()

    def tick(self) -> None:
        """Time passed."""
        if self._bar is not None and time.monotonic() - self._last_draw > _REDRAW_SECONDS:
            self._draw()

    def line(self, text: str) -> None:
        """Prints a line that stays: above the bar, or on stderr, where nothing else is printed with --quiet."""
        if self._bar is not None:
            self._bar.console.print(f"hakmem: {escaped(text)}", markup=False, highlight=False)
        else:
            say(text)

    def _draw(self) -> None:
        if self._bar is not None:
            self._last_draw = time.monotonic()
            self._bar.refresh()
