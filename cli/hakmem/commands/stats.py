"""`hakmem stats`: the statistics of a running program."""

from __future__ import annotations

import sys
from typing import Optional

import click

from hakmem import next_step, stats_summary, stats_text
from hakmem.attach import attach
from hakmem.errors import escaped
from hakmem.folding import fold, known_columns
from hakmem.one_of import one_of
from hakmem.process_or_program import PID
from hakmem.top.history import figures_needed, parse

# Below the first figures, in a terminal that is too narrow for a line.
_INDENT = " " * 12


@click.command()
@one_of(
    "form",
    {
        "text": ("--all", "--text", "Print every figure, as HAKMEM_STATS=1 does."),
        "json": ("--json", "Print JSON, as in the file of HAKMEM_STATS_FILE."),
        "openmetrics": ("--openmetrics", "Print OpenMetrics text."),
    },
)
@click.argument("pid", type=PID, metavar="PID")
def stats(form: Optional[str], pid: int) -> None:
    """Print the statistics of the running program PID: ten lines, or all.

    The program needs no option for it. It must be your own, unless you are root. A signal makes its library answer: a
    wait that does not go on after a handler (poll, nanosleep, pause) returns early with EINTR in one thread.
    """
    with attach(pid) as attached:
        if form is None:
            now = parse(attached.ask("stats json")).document
            with figures_needed():
                lines = stats_summary.lines(now, pid, escaped(attached.process.name))
            click.echo("\n".join(part for line in lines for part in fold(line, known_columns(), _INDENT)))
            next_step.tell(f"hakmem explain {pid}, or hakmem stats --all {pid}")
        else:
            answer = attached.ask(f"stats {form}")
            width = known_columns() if form == "text" else None
            if width is not None:
                click.echo(stats_text.fit(answer.decode(errors="replace"), width), nl=False)
                next_step.tell(f"hakmem explain {pid}")
            else:
                sys.stdout.buffer.write(answer)
