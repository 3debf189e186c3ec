"""`hakmem stats`: the statistics of a running program."""

from __future__ import annotations

import sys

import click

from hakmem.attach import attach


@click.command()
@click.option(
    "--text", "form", flag_value="text", default="text", help="Print text, as HAKMEM_STATS=1 does; the default."
)
@click.option("--json", "form", flag_value="json", help="Print JSON, as in the file of HAKMEM_STATS_FILE.")
@click.option("--openmetrics", "form", flag_value="openmetrics", help="OpenMetrics text.")
@click.argument("pid", type=click.IntRange(min=1), metavar="PID")
def stats(form: str, pid: int) -> None:
    """Print the statistics of the running program PID.

    The program needs no option for it. It must be your own, unless you are root.
    """
    with attach(pid) as attached:
        sys.stdout.buffer.write(attached.ask(f"stats {form}"))
