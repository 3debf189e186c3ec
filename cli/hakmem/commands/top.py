"""`hakmem top`: the live picture of a running program's memory."""

from __future__ import annotations

import errno
import signal
import sys
import time
from typing import Optional

import click
from rich.console import Console
from rich.text import Text

from hakmem import fitting
from hakmem.attach import Replaced
from hakmem.errors import EXIT_SIGNAL_BASE, EXIT_USAGE, Failure, Interrupted, say
from hakmem.followed import Followed, ProcessEnded
from hakmem.process_or_program import PID
from hakmem.seconds import Time
from hakmem.streams import OutputLost
from hakmem.top.history import History, Look, figures_needed, parse
from hakmem.top.looker import COMMAND, Looker
from hakmem.top.picture import Frame, draw, waiting
from hakmem.top.terminal import QUIT, STOP, Lines, Terminal

_WIDTH_OF_FILES = 110
_ROWS_OF_ONCE = 20
_LOOK_SECONDS = 0.2  # between looks for a line that the user types
# A signal is the usual end.
_GOOD_ENDS = (signal.SIGINT, signal.SIGTERM)
# The reader of a pipe has ended, or a terminal was closed.
_READER_IS_GONE = (errno.EPIPE, errno.EIO)


@click.command()
@click.option("--once", is_flag=True, help="Print one look as text, in twenty lines, and end.")
@click.option("--all", "is_whole", is_flag=True, help="With --once: print every line of it.")
@click.option("--json", "is_json", is_flag=True, help="Print a line of JSON for each look, instead of the picture.")
@click.option("--interval", type=Time(0.1), default=2.0, metavar="SECONDS", help="Seconds between looks; default 2.")
@click.argument("pid", type=PID, metavar="PID")
def top(once: bool, is_whole: bool, is_json: bool, interval: float, pid: int) -> None:
    """Watch the memory of the running program PID: totals, size classes, trends, the learner's decisions.

    The program needs no option for it. It must be your own, unless you are root. q and Ctrl-C end the picture.
    """
    if is_whole and not once:
        raise Failure("--all is for --once", EXIT_USAGE)
    process = Followed(pid)
    console = Console(highlight=False)
    try:
        if once or is_json or not console.is_terminal or console.is_dumb_terminal:
            lines = Lines(console.is_terminal and not once)
            _print_all(process, once, is_json, interval, _ROWS_OF_ONCE if once and not is_whole else None, lines)
        else:
            _watch(process, console, interval)
    except ProcessEnded as ended:
        if once:
            raise
        say(ended.message)
    except OutputLost as lost:
        if once or lost.errno not in _READER_IS_GONE:
            raise
    except Interrupted as interrupted:
        if interrupted.signal_number not in _GOOD_ENDS:
            raise
    finally:
        process.close()


def _print_all(
    process: Followed, once: bool, is_json: bool, interval: float, rows: Optional[int], lines: Lines
) -> None:
    """Prints one picture below the other, for files, pipes, and dumb terminals."""
    history = History()
    while True:
        try:
            answer = process.ask(COMMAND)
            if is_json:
                _print_json(answer)
            else:
                _print_text(process, history, answer, None if once else interval, rows)
        except ProcessEnded:
            raise
        except Failure as failure:
            if once:
                raise
            if not isinstance(failure, Replaced):  # the next look begins anew
                say(failure.message)
        if once:
            return
        if _has_quit(process, interval, lines):
            return


def _has_quit(process: Followed, interval: float, lines: Lines) -> bool:
    """Waits for a time, less where the process ends. Returns whether the user ends the pictures meanwhile."""
    end = time.monotonic() + interval
    while (left := end - time.monotonic()) > 0 and process.lasts(min(left, _LOOK_SECONDS)):
        if lines.has_quit():
            return True
    return False


def _print_json(answer: bytes) -> None:
    out = sys.stdout.buffer
    out.write(answer.rstrip(b"\n") + b"\n")
    out.flush()


def _print_text(
    process: Followed, history: History, answer: bytes, interval: Optional[float], rows: Optional[int]
) -> None:
    console = Console(highlight=False, soft_wrap=True)
    width = fitting.columns(_WIDTH_OF_FILES)
    frame = Frame(process.pid, process.name, interval, width=width, is_ascii=_is_ascii(console))
    look = parse(answer)
    with figures_needed():
        history.add(look)
        lines = draw(history, frame)
    if rows is not None and len(lines) > rows:
        lines = [*lines[: rows - 1], Text(f"next: hakmem top --once --all {process.pid}", style="dim")]
    for line in lines:
        line.rstrip()
        console.print(line)
    if interval is not None:
        console.print()
    sys.stdout.flush()


def _is_ascii(console: Console) -> bool:
    return not console.encoding.startswith("utf")


def _watch(process: Followed, console: Console, interval: float) -> None:
    """Shows the picture until the user quits or the process ends."""
    history = History()
    trouble = ""
    with Terminal(console) as terminal:
        looker = Looker(process, interval, terminal.wake)
        looker.start()
        events = terminal.wait()
        while STOP not in events and QUIT not in events:
            while not looker.found.empty():
                found = looker.found.get()
                trouble = "" if isinstance(found, Look) else found.message
                if isinstance(found, ProcessEnded):
                    raise found
                if isinstance(found, Look):
                    with figures_needed():
                        history.add(found)
            width, height = console.size
            frame = Frame(process.pid, process.name, interval, trouble, width, height, _is_ascii(console))
            with figures_needed():
                lines = draw(history, frame) if history.looks else waiting(frame)
            terminal.draw(lines)
            events = terminal.wait()
    sys.stdout.flush()
    if terminal.stopped_by and terminal.stopped_by not in _GOOD_ENDS:
        sys.exit(EXIT_SIGNAL_BASE + terminal.stopped_by)
