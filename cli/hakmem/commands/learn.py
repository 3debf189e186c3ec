"""`hakmem learn`: replays the library's learner for dirty memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Optional

import click
from rich import box
from rich.table import Table
from rich.text import Text

from hakmem import fitting, level_trace, plot, plot_learn, table
from hakmem.errors import EXIT_USAGE, Failure
from hakmem.learn_replay import Replay, as_json, timeout_text
from hakmem.learn_replay import replay as replay_trace
from hakmem.output import reserve
from hakmem.policy_library import MODES, PolicyLibrary

_NS_PER_MS = 1e6


@click.group()
def learn() -> None:
    """Replay the learner for dirty memory on recorded programs."""


@learn.command("replay")
@click.option("--mode", type=click.Choice(MODES), help="The price of a mode; default: balanced.")
@click.option("--price", type=int, metavar="NS", help="The price itself: ns of CPU time for a MiB-second.")
@click.option(
    "--json", "json_file", metavar="FILE", help="Write everything as JSON; - is stdout, instead of the table."
)
@click.option("--plot", "plot_file", metavar="FILE", help="Draw it: FILE.svg or FILE.png.")
@click.option("--library", metavar="FILE", help="Another libhakmem-policy.so than the checkout's.")
@click.argument("trace_name", metavar="TRACE")
def replay(
    mode: Optional[str],
    price: Optional[int],
    json_file: Optional[str],
    plot_file: Optional[str],
    library: Optional[str],
    trace_name: str,
) -> None:
    """Show what the learner, and each time-out that it can choose, would have cost in TRACE."""
    if mode is not None and price is not None:
        raise Failure("--mode and --price are two prices", EXIT_USAGE)
    if plot_file is not None:
        plot.check(plot_file)
    policy = PolicyLibrary(library)
    price = policy.price(mode, price)
    trace = level_trace.read(trace_name)
    if len(trace.times_ms) < 2:
        raise Failure(f"{trace_name} has fewer than two records: there is nothing to replay")
    with reserve(json_file, plot_file) as (json_output, plot_output):
        result = replay_trace(policy, trace, price)
        if plot_output is not None and plot_file is not None:
            plot_output.write(plot_learn.draw(result, Path(plot_file).suffix[1:].lower()))
        if json_output is not None:
            json_output.write(json.dumps(as_json(result), indent=1) + "\n")
    if json_file != "-":
        _print(result)


def _print(result: Replay) -> None:
    out = table.console()
    seconds = result.trace.duration_ms() / 1000
    out.print(Text(f"{result.trace.name}: {seconds:,.1f} s, {len(result.trace.times_ms):,} records", style="bold"))
    out.print(Text(f"{result.price:,} ns of CPU for a MiB-second", style="dim"))
    out.print()
    fitting.print_table(out, _table(result))
    out.print()
    out.print(Text("The last decisions:", style="bold"))
    for line in result.learned.decisions:
        out.print(Text(f"  {line}"))


def _table(result: Replay) -> Table:
    rows = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    rows.add_column("time-out", no_wrap=True)
    for title in ("paid, ms of CPU", "× best", "rating"):
        rows.add_column(title, justify="right", no_wrap=True)
    rows.add_column("", no_wrap=True)
    rows.add_row(*_cells(result, "learned", result.learned.cost_ns), "", f"{len(result.learned.epochs)} epochs")
    rows.add_section()
    for number, timeout_ms in enumerate(result.candidates.timeouts_ms):
        remarks = ["break-even"] if number == result.candidates.break_even else []
        remarks += ["best in hindsight"] if number == result.best else []
        cells = _cells(result, timeout_text(timeout_ms), result.fixed_ns[number])
        rows.add_row(*cells, str(result.learned.ratings[number]), ", ".join(remarks))
    return rows


def _cells(result: Replay, name: str, cost_ns: int) -> tuple[str, str, str]:
    return name, f"{cost_ns / _NS_PER_MS:,.1f}", f"{result.relative(cost_ns):.3f}"
