"""`hakmem top` in a terminal: it draws, hears, and leaves the terminal as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from typing import Any, Callable, Iterator, List, Optional, Tuple

import pytest
from cli_support import Tool
from watched_support import DEADLINE_SECONDS, Watched, wait_until

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"
ECHO_AND_LINES = termios.ECHO | termios.ICANON


class Terminal:
    """A pseudo-terminal of this size, and the tool in it."""

    def __init__(
        self,
        words: List[str],
        kind: str = "xterm-256color",
        rows: int = 24,
        columns: int = 100,
        ignored: Optional[signal.Signals] = None,
        controls: bool = True,
    ) -> None:
        self.ours, self.theirs = pty.openpty()
        self.resize(rows, columns)
        self.setting = termios.tcgetattr(self.theirs)
        self.shown = b""
        self.ignored = ignored
        self.controls = controls
        environment = {**os.environ, "TERM": kind, "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}
        for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            words, stdin=self.theirs, stdout=self.theirs, stderr=self.theirs, env=environment,
            preexec_fn=self._own_session,
        )  # fmt: skip

    def _own_session(self) -> None:
        os.setsid()
        if self.ignored is not None:
            signal.signal(self.ignored, signal.SIG_IGN)
        if self.controls:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def until(self, condition: Callable[[bytes], Any]) -> None:
        """Reads until that is so of all that was shown."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not condition(self.shown):
            assert time.monotonic() < end, self.shown[-3000:]
            if select.select([self.ours], [], [], 0.1)[0]:
                self.shown += os.read(self.ours, 65536)

    def until_shown(self, text: bytes) -> None:
        """From here on."""
        self.shown = b""
        self.until(lambda shown: text in shown)

    def ends(self) -> int:
        """Its exit code, after all it has shown."""
        self.until(lambda _: self.process.poll() is not None)
        while select.select([self.ours], [], [], 0)[0]:
            self.shown += os.read(self.ours, 65536)
        return self.process.returncode

    def is_as_before(self) -> bool:
        """Screen, cursor and setting."""
        return (
            self.shown.rfind(LEAVE) > self.shown.rfind(ENTER)
            and self.shown.rfind(SHOW) > self.shown.rfind(HIDE)
            and termios.tcgetattr(self.theirs) == self.setting
        )


@pytest.fixture
def terminal(tool: Tool, watched: Watched) -> Iterator[Callable[..., Terminal]]:
    """Starts it."""
    made: List[Terminal] = []

    def start(**how: Any) -> Terminal:
        made.append(Terminal(tool.words("top", "--interval", "0.1", watched.pid), **how))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        one.process.wait()
        os.close(one.ours)
        os.close(one.theirs)


def draws(one: Terminal, watched: Watched) -> None:
    one.until(lambda shown: b"resident memory is" in shown)
    assert ENTER in one.shown and HIDE in one.shown and f"holder ({watched.pid})".encode() in one.shown
    assert termios.tcgetattr(one.theirs)[3] & ECHO_AND_LINES == 0


@pytest.mark.parametrize("keys", [b"q", b"\x03", b"\x04"])
def test_it_draws_and_leaves(terminal: Callable[..., Terminal], watched: Watched, keys: bytes) -> None:
    one = terminal()
    draws(one, watched)
    one.until_shown(b"over the last")  # again
    one.type(b"x\x1b[A")  # a letter and an arrow mean nothing
    one.until_shown(b"over the last")
    one.type(keys)
    assert one.ends() == 0
    assert one.is_as_before()
    assert b"Traceback" not in one.shown
    watched.end()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 128 + signal.SIGHUP)])
def test_signals(terminal: Callable[..., Terminal], watched: Watched, number: signal.Signals, code: int) -> None:
    one = terminal()
    draws(one, watched)
    one.process.send_signal(number)
    assert one.ends() == code
    assert one.is_as_before()


def test_the_program_ends(terminal: Callable[..., Terminal], watched: Watched) -> None:
    """The message about it stands on the screen from before."""
    one = terminal()
    draws(one, watched)
    watched.end()
    assert one.ends() == 0
    assert one.is_as_before()
    assert re.search(rb"hakmem: process \d+ \(holder\) has ended\r\n$", one.shown.partition(LEAVE)[2])


def test_it_is_suspended(terminal: Callable[..., Terminal], watched: Watched) -> None:
    """Ctrl-Z: the shell has its terminal; later the picture is back."""
    one = terminal()
    draws(one, watched)
    one.type(b"\x1a")
    wait_until(lambda: os.waitid(os.P_PID, one.process.pid, os.WSTOPPED | os.WNOWAIT | os.WNOHANG) is not None)
    one.until(lambda shown: one.is_as_before())
    one.process.send_signal(signal.SIGCONT)
    one.until_shown(b"resident memory is")
    assert termios.tcgetattr(one.theirs)[3] & ECHO_AND_LINES == 0
    one.type(b"q")
    assert one.ends() == 0 and one.is_as_before()


def test_it_is_resized(terminal: Callable[..., Terminal], watched: Watched) -> None:
    """Down to nothing: no line wraps, none is below the last."""
    one = terminal(columns=100)
    draws(one, watched)
    for rows, columns in ((10, 30), (3, 5), (1, 1), (24, 100)):
        one.resize(rows, columns)
        one.until_shown("…".encode() if columns < 100 else b"over the last")
    one.type(b"q")
    assert one.ends() == 0 and one.is_as_before()
    assert b"Traceback" not in one.shown


@pytest.mark.parametrize(("ignored", "codes"), [(None, (0, 128 + signal.SIGHUP)), (signal.SIGHUP, (0,))])
def test_the_terminal_goes_away(
    tool: Tool, watched: Watched, ignored: Optional[signal.Signals], codes: Tuple[int, ...]
) -> None:
    """With a signal, or, under nohup, without one."""
    one = Terminal(tool.words("top", "--interval", "0.1", watched.pid), ignored=ignored)
    try:
        draws(one, watched)
        os.close(one.theirs)
        os.close(one.ours)
        assert one.process.wait(DEADLINE_SECONDS) in codes
    finally:
        one.process.kill()
    watched.end()


@pytest.mark.parametrize("keys", [b"\x03", b"q\n", b"\x04"])
def test_a_terminal_that_can_do_little(terminal: Callable[..., Terminal], watched: Watched, keys: bytes) -> None:
    """One picture below the other."""
    one = terminal(kind="dumb")
    one.until(lambda shown: shown.count(b"resident memory is") >= 2)
    assert b"\x1b[?" not in one.shown and b"q quits" not in one.shown
    one.type(b"x\n")  # a line that means nothing
    one.until_shown(b"resident memory is")
    one.type(keys)
    assert one.ends() == 0 and b"Traceback" not in one.shown
    assert termios.tcgetattr(one.theirs) == one.setting


def test_a_terminal_of_another_session(terminal: Callable[..., Terminal], watched: Watched) -> None:
    """The input there is for that session."""
    one = terminal(kind="dumb", controls=False)
    one.type(b"q\n")
    one.until(lambda shown: shown.count(b"resident memory is") >= 3)
    assert one.process.poll() is None
    watched.end()
    assert one.ends() == 0 and b"has ended" in one.shown
