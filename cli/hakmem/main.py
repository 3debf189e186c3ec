"""The command line `hakmem`."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn, Optional

import click

from hakmem import __version__
from hakmem.commands.bench import bench
from hakmem.commands.compare import compare
from hakmem.commands.diff import diff
from hakmem.commands.doctor import doctor
from hakmem.commands.explain import explain
from hakmem.commands.leaks import leaks
from hakmem.commands.learn import learn
from hakmem.commands.metrics import metrics
from hakmem.commands.profile import profile
from hakmem.commands.report import report
from hakmem.commands.run import run
from hakmem.commands.stats import stats
from hakmem.commands.top import top
from hakmem.errors import EXIT_SIGNAL_BASE, Interrupted, say
from hakmem.measure import STOPPING_SIGNALS


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="hakmem")
def cli() -> None:
    """Run programs under the hakmem memory allocator, and measure it beside others."""


cli.add_command(run)
cli.add_command(compare)
cli.add_command(bench)
cli.add_command(learn)
cli.add_command(doctor)
cli.add_command(stats)
cli.add_command(top)
cli.add_command(metrics)
cli.add_command(profile)
cli.add_command(diff)
cli.add_command(explain)
cli.add_command(report)
cli.add_command(leaks)


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
