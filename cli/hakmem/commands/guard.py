"""`hakmem guard`: sampled guards in a running process."""

from __future__ import annotations

import json
from typing import Optional

import click

from hakmem import guards, next_step
from hakmem.attach import attach
from hakmem.errors import EXIT_USAGE, Failure, printable
from hakmem.folding import fold, known_columns
from hakmem.guard_rates import RECOMMENDED_RATE
from hakmem.process_or_program import PID


@click.command()
@click.option("--rate", metavar="N", help=f"Guard one allocation in N; {RECOMMENDED_RATE} is recommended.")
@click.option("--off", is_flag=True, help="Guard no more allocations.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@click.argument("pid", type=PID, metavar="PID")
def guard(rate: Optional[str], off: bool, is_json: bool, pid: int) -> None:
    """Switch sampled guards of the process PID on or off, or show what they do.

    A guarded block lies between pages that no access may touch, and is inaccessible after its free.
    """
    if rate is not None and off:
        raise Failure("--rate or --off: one of them", EXIT_USAGE)
    request = "guard state" if rate is None else f"guard start {guards.rate_of(rate)}"
    with attach(pid) as attached:
        state = guards.parse(attached.ask("guard stop" if off else request))
        name = attached.process.name
    if is_json:
        click.echo(json.dumps(guards.document(state, pid), indent=1))
        return
    for line in guards.lines(state, pid, name):
        for part in fold(printable(line), known_columns(), " " * 12):
            click.echo(part)
    next_step.tell(f"hakmem guard --off {pid}" if state.rate else f"hakmem guard --rate {state.recommended} {pid}")
