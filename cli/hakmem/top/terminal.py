"""The terminal of a changing picture: single keys, signals as events, and the old state restored at the end."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
import termios
import tty
from types import FrameType, TracebackType
from typing import Any, Dict, List, Optional, Set, Type

from rich.console import Console, Group
from rich.screen import Screen
from rich.text import Text

STOP = "stop"
QUIT = "quit"
RESIZED = "resized"
_SUSPENDED = "suspended"
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_KEYS_THAT_QUIT = b"qQ\x04"


class Terminal:
    """Stdout, and stdin where that is a terminal too. No signal interrupts a picture that is being drawn."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.stopped_by = 0
        self._keys: Optional[int] = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._setting: List[Any] = []
        self._handlers: Dict[int, Any] = {}
        self._events: Set[str] = set()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)

    def __enter__(self) -> Terminal:
        for number in (*_STOPPING, signal.SIGTSTP, signal.SIGWINCH):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, self._on_signal)
        self._take()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def wake(self) -> None:
        """Ends a wait; from any thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_writer, b".")

    def wait(self) -> Set[str]:
        """Waits for an event: STOP, QUIT, RESIZED, or nothing after a call of wake."""
        files = [self._wake_reader] if self._keys is None else [self._wake_reader, self._keys]
        ready = select.select(files, [], [])[0]
        if self._wake_reader in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_reader, 4096)
        events, self._events = self._events, set()
        if self._keys in ready:
            events |= self._read_keys()
        if _SUSPENDED in events:
            self._suspend()
            events.add(RESIZED)
        return events

    def draw(self, lines: List[Text]) -> None:
        """Replaces the picture."""
        self.console.print(Screen(Group(*lines)), end="")

    def _on_signal(self, number: int, _frame: Optional[FrameType]) -> None:
        if number == signal.SIGWINCH:
            self._events.add(RESIZED)
        elif number == signal.SIGTSTP:
            self._events.add(_SUSPENDED)
        else:
            self.stopped_by = number
            self._events.add(STOP)
        self.wake()

    def _read_keys(self) -> Set[str]:
        try:
            keys = os.read(self._keys or 0, 4096)
        except OSError:
            keys = b""
        if not keys:  # the terminal is gone
            return {QUIT}
        return {QUIT} if any(key in _KEYS_THAT_QUIT for key in keys) else set()

    def _suspend(self) -> None:
        self._give_back()
        # Not SIGTSTP once more: a process group without a parent in the session would ignore it.
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()

    def _take(self) -> None:
        if self._keys is not None:
            self._setting = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys, termios.TCSANOW)
        self.console.set_alt_screen(True)
        self.console.show_cursor(False)

    def _give_back(self) -> None:
        # A terminal that is gone needs nothing.
        with contextlib.suppress(OSError, termios.error):
            if self._keys is not None:
                termios.tcsetattr(self._keys, termios.TCSANOW, self._setting)
            self.console.show_cursor(True)
            self.console.set_alt_screen(False)


class Lines:
    """What the user types at a terminal that shows text below text, such as a `dumb` one. Its setting stays as it is: a
    key counts with the line that it is in."""

    def __init__(self, is_terminal: bool) -> None:
        has_keys = is_terminal and sys.stdin is not None and sys.stdin.isatty()
        self._keys: Optional[int] = sys.stdin.fileno() if has_keys else None

    def has_quit(self) -> bool:
        """Whether a line that ends the pictures is there. A process in the background reads nothing: the kernel would
        stop it."""
        try:
            if self._keys is None or not self._is_in_foreground(self._keys):
                return False
            if not select.select([self._keys], [], [], 0)[0]:
                return False
            keys = os.read(self._keys, 4096)
        except OSError:
            keys = b""
        return not keys or any(key in _KEYS_THAT_QUIT for key in keys)

    @staticmethod
    def _is_in_foreground(keys: int) -> bool:
        """A terminal that another session controls (`setsid`) is not this process's to read."""
        try:
            return os.tcgetpgrp(keys) == os.getpgrp()
        except OSError as error:
            if error.errno == errno.ENOTTY:
                return False
            raise
