"""`hakmem stats`: what the allocator of a running program counts, now."""

from __future__ import annotations

import sys

import click

from hakmem.attach import attach


@click.command()
@click.option(
    "--text", "form", flag_value="text", default="text", help="For people, as HAKMEM_STATS=1 prints it; the default."
)
@click.option("--json", "form", flag_value="json", help="As the file of HAKMEM_STATS_FILE: for programs.")
@click.option("--openmetrics", "form", flag_value="openmetrics", help="OpenMetrics text.")
@click.argument("pid", type=click.IntRange(min=1), metavar="PID")
def stats(form: str, pid: int) -> None:
    """What the allocator of the running program PID counts, now.

    The program needs no option for it. It is yours, or you are root.
    """
    with attach(pid) as attached:
        sys.stdout.buffer.write(attached.ask(f"stats {form}"))
