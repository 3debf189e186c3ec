"""The command line `hakmem`."""

from __future__ import annotations

import importlib
import signal
import sys
from types import FrameType
from typing import List, NoReturn, Optional

import click

from hakmem import __version__, examples
from hakmem.errors import EXIT_SIGNAL_BASE, STOPPING_SIGNALS, Interrupted, say

# The module hakmem.commands.<name> has the command of that name.
_COMMANDS = (
    "bench",
    "compare",
    "diff",
    "doctor",
    "env",
    "explain",
    "leaks",
    "learn",
    "metrics",
    "profile",
    "report",
    "run",
    "stats",
    "top",
)


class _Commands(click.Group):
    """Imports a command's module on use: importing all of them would take much longer than the rest of the start."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f"hakmem.commands.{cmd_name}"), cmd_name)
        examples.add_to(command, cmd_name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="hakmem")
def cli() -> None:
    """Run programs under the hakmem memory allocator, and measure it beside others."""


examples.add_to(cli, "")


def _interrupt(number: int, _frame: Optional[FrameType]) -> NoReturn:
    raise Interrupted(number)


def main() -> None:
    """Exit codes: docs/cli.md."""
    for number in STOPPING_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        cli(prog_name="hakmem")
    except Interrupted as interrupted:
        say(f"stopped by {signal.Signals(interrupted.signal_number).name}; nothing was written")
        sys.exit(EXIT_SIGNAL_BASE + interrupted.signal_number)


if __name__ == "__main__":
    main()
