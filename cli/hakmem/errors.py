"""Failures that end a command: a message and an exit code like those of a shell and of env."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import IO, Any, Optional, Sequence

import click

from hakmem import streams
from hakmem.folding import columns_of_stderr, fold, terminal_columns

_NAME = "hakmem: "
EXIT_PROGRAM_FAILED = 1  # compare, bench: a program failed under at least one allocator
EXIT_USAGE = 2
EXIT_CANNOT = 125  # hakmem itself cannot do its part
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
EXIT_SIGNAL_BASE = 128
# Signals that stop a comparison. The programs have process groups of their own, get none of them, and are killed.
STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Failure(click.ClickException):
    """Ends the command with one message on stderr."""

    def __init__(self, message: str, exit_code: int = EXIT_CANNOT, below: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.below = below  # further lines
        self.exit_code = exit_code  # type: ignore[misc,unused-ignore]
        # The command that is used wrongly, for usage.show.
        self.ctx = click.get_current_context(silent=True) if exit_code == EXIT_USAGE else None

    def show(self, file: Optional[IO[Any]] = None) -> None:
        """Prints the message in the common form."""
        say(self.format_message(), self.below)


class Interrupted(BaseException):
    """A signal stopped this process. No `except Exception` may swallow it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


def say(message: str, below: Sequence[str] = ()) -> None:
    """One message on stderr: one line, which a terminal gets folded, and the lines below it."""
    for line in (f"{_NAME}{message}", *(f"  {one}" for one in below)):
        _write_line(line, terminal_columns(sys.stderr), "  ", breaks_words=False)


def say_result(text: str, indent: str = " " * len(_NAME)) -> None:
    """A line of a result on stderr, folded where the width is known, as tables are."""
    _write_line(f"{_NAME}{text}", columns_of_stderr(), indent, breaks_words=True)


def _write_line(line: str, width: Optional[int], indent: str, breaks_words: bool) -> None:
    folded = fold(escaped(line), width, indent, breaks_words=breaks_words)
    write_stderr("".join(f"{one}\n" for one in folded))


def escaped(text: str) -> str:
    """Names come from outside: control characters and line breaks in them are escaped. Bytes that are no UTF-8 stay
    (streams.py)."""
    return "".join(
        one if one.isprintable() or "\ud800" <= one <= "\udfff" else one.encode("unicode_escape").decode()
        for one in text
    )


def printable(text: str) -> str:
    """The text with `?` for each control character, so that columns keep their width."""
    return "".join(one if one.isprintable() else "?" for one in text)


def shown(name: str) -> str:
    """A name for a message: an empty one is visible too."""
    return name or "''"


def cannot_read(name: str, error: OSError) -> Failure:
    """The Failure of a file that the user names."""
    return Failure(f"cannot read {shown(name)}: {error.strerror}")


def write_stderr(text: str) -> None:
    """Writes to stderr only, and never fails: a closed stderr changes neither exit code nor the program's output."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()


def write_result(text: str) -> None:
    """A whole result on stderr, where stdout is the program's. A command whose result is lost ends with 125, unless
    it ends with another failure."""
    streams.mark_result(sys.stderr)
    write_stderr(text)


def plural(number: int, noun: str) -> str:
    """`1 run`, `2,000 runs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
