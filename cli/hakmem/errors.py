"""What ends a command: a message and an exit code, as the shell's and env's are."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import IO, Any, Optional

import click

EXIT_PROGRAM_FAILED = 1  # compare, bench: a program failed under at least one allocator
EXIT_USAGE = 2
EXIT_CANNOT = 125  # hakmem itself cannot do what was asked
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
EXIT_SIGNAL_BASE = 128
# What stops a comparison. The programs have groups of their own: they hear nothing of it, and are killed.
STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Failure(click.ClickException):
    """Ends the command with one message on stderr."""

    def __init__(self, message: str, exit_code: int = EXIT_CANNOT) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc,unused-ignore]

    def show(self, file: Optional[IO[Any]] = None) -> None:
        """Print the message in the form of every message of ours."""
        say(self.format_message())


class Interrupted(BaseException):
    """A signal asked this process to stop. No `except Exception` may swallow it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


def say(message: str) -> None:
    """One message on stderr."""
    write_stderr(f"hakmem: {message}\n")


def write_stderr(text: str) -> None:
    """Never fails, and never goes elsewhere: a closed stderr must change neither an exit code nor the program's output."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()


def plural(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
