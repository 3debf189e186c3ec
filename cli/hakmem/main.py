"""The command line `hakmem`."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from types import FrameType
from typing import Dict, List, NoReturn, Optional, Sequence

import click

from hakmem import __version__, examples, streams, usage
from hakmem.errors import EXIT_CANNOT, EXIT_SIGNAL_BASE, STOPPING_SIGNALS, Interrupted, say
from hakmem.usage import WholeSummaries

# click's variable for a program of this name (cli/completions).
_COMPLETE = "_HAKMEM_COMPLETE"
# By the reader's goal. The module hakmem.commands.<name> has the command of that name.
GROUPS: Dict[str, Sequence[str]] = {
    "Run and compare": ("run", "env", "compare", "doctor"),
    "Look inside": ("top", "stats", "explain", "report", "profile", "leaks", "guard", "symbolize", "diff", "metrics"),
    "Learn and measure": ("bench", "learn", "help"),
}
_COMMANDS = tuple(name for names in GROUPS.values() for name in names)
# What commands import besides click, and the packages that have it.
_PACKAGES = {
    "rich": "rich",
    "elftools": "pyelftools",
    "google": "protobuf",
    "prometheus_client": "prometheus-client",
    "tomli": "tomli",
}


class _Commands(WholeSummaries):
    """Imports a command's module on use: importing all of them would take much longer than the rest of the start."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"hakmem.commands.{cmd_name}"), cmd_name)
        examples.add_to(command, cmd_name)
        if _COMPLETE in os.environ:  # a shell completes words
            importlib.import_module("hakmem.completion").add_to(command)
        return command

    def groups(self, ctx: click.Context) -> Dict[str, Sequence[str]]:
        """By the reader's goal."""
        return GROUPS


click.Context.formatter_class = usage.Formatter


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": usage.WIDTH})
@click.version_option(__version__, prog_name="hakmem")
def cli() -> None:
    """Run programs under the hakmem memory allocator, and measure it beside others."""


examples.add_to(cli, "")


def _interrupt(number: int, _frame: Optional[FrameType]) -> NoReturn:
    raise Interrupted(number)


def main() -> None:
    """Exit codes: docs/cli.md."""
    streams.guard()
    heard = [number for number in STOPPING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    try:
        for number in heard:
            signal.signal(number, _interrupt)
        code = _run()
    except Interrupted as again:  # while the command ended
        code = EXIT_SIGNAL_BASE + again.signal_number
    # From here on a signal ends the process without a traceback.
    for number in heard:
        signal.signal(number, signal.SIG_DFL)
    sys.exit(code)


def _run() -> int:
    """Runs the command, and empties stdout's buffer. Returns the exit code."""
    code = 0
    try:
        try:
            code = _exit_code(cli.main(prog_name="hakmem", standalone_mode=False, **usage.width()))
        except SystemExit as ended:
            code = _exit_code(ended.code)
        except click.ClickException as failure:
            code = failure.exit_code
            usage.show(failure)
        except click.Abort:
            say("aborted")
            code = EXIT_CANNOT
        sys.stdout.flush()
    except streams.OutputLost as lost:
        if lost.errno == errno.EPIPE:  # the reader has all that it reads
            return code or EXIT_SIGNAL_BASE + signal.SIGPIPE
        say(lost.message)
        return code or EXIT_CANNOT
    except OSError as error:
        say(_reason(error))
        return EXIT_CANNOT
    except ModuleNotFoundError as error:
        say(_missing(error))
        return EXIT_CANNOT
    except MemoryError:
        say("there is not enough memory: is it limited, as by ulimit -v?")
        return EXIT_CANNOT
    except Interrupted as interrupted:
        return _stopped(interrupted)
    except RuntimeError as error:
        # Python 3.11 and before, at an import: the other error stands for each one that __set_name__ raises.
        if not isinstance(error.__cause__, Interrupted):
            raise
        return _stopped(error.__cause__)
    return code or (EXIT_CANNOT if streams.has_lost_result(sys.stderr) else 0)


def _stopped(interrupted: Interrupted) -> int:
    say(f"stopped by {signal.Signals(interrupted.signal_number).name}; nothing was written")
    return EXIT_SIGNAL_BASE + interrupted.signal_number


def _missing(error: ModuleNotFoundError) -> str:
    """Commands import what they need. A package of pip brings all of it, `make install` does not."""
    name = (error.name or "").partition(".")[0]
    if name not in _PACKAGES:
        raise error
    package = f"python3-{_PACKAGES[name]}"
    return f"{sys.executable} has no module {name}. On Debian and Ubuntu: sudo apt-get install {package}"


def _reason(error: OSError) -> str:
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    try:
        os.getcwd()
    except FileNotFoundError:
        return "the current folder was removed, and the command needs it"
    return str(error)


def _exit_code(value: object) -> int:
    return value if isinstance(value, int) else 0


if __name__ == "__main__":
    main()
