"""`hakmem learn`: replays the library's learner for dirty memory, and merges what runs have learned."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import fitting, learn_merge, learn_record, level_trace, next_step, plot, plot_learn
from hakmem.errors import EXIT_USAGE, Failure, cannot_read, escaped, plural, say
from hakmem.folding import columns_of_stderr
from hakmem.learn_record import Record
from hakmem.learn_replay import Replay, as_json, timeout_text
from hakmem.learn_replay import replay as replay_trace
from hakmem.output import end_with, reserve, write_each
from hakmem.policy_library import MODES, PolicyLibrary
from hakmem.schemas import SCHEMAS
from hakmem.usage import WholeSummaries

_NS_PER_MS = 1e6
_WIDTH_OF_FILES = 110


@click.group(cls=WholeSummaries)
def learn() -> None:
    """Replay the learner for dirty memory on recorded programs, or merge what runs have learned."""


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
    kept = next_step.options({"--mode": mode, "--price": price, "--library": library})
    price = policy.price(mode, price)
    trace = level_trace.read(trace_name)
    if len(trace.times_ms) < 2:
        raise Failure(f"{trace_name} has fewer than two records: there is nothing to replay")
    with reserve(json_file, plot_file) as (json_output, plot_output):
        result = replay_trace(policy, trace, price)
        failures = write_each(
            [
                (plot_output, lambda: plot_learn.draw(result, Path(plot_file or "").suffix[1:].lower())),
                (json_output, lambda: json.dumps(as_json(result), indent=1) + "\n"),
            ]
        )
    if json_file != "-":
        _print(result)
        if plot_file is None:
            words = next_step.words(["--plot", "learned.svg", *kept, next_step.file(trace_name)])
            next_step.tell(f"hakmem learn replay {words}")
    end_with(failures)


@learn.command("merge")
@click.option(
    "--output", "-o", "output_name", default="-", metavar="FILE", help="The merged file; - is stdout, and the default."
)
@click.option("--json", "json_file", metavar="FILE", help="Write the summary as JSON; - is stdout.")
@click.option("--quiet", "-q", is_flag=True, help="Print no summary.")
@click.argument("names", nargs=-1, required=True, metavar="FILE...")
def merge(output_name: str, json_file: Optional[str], quiet: bool, names: Tuple[str, ...]) -> None:
    """Merge what many runs of one program have learned into one file to ship with it.

    The files are those of HAKMEM_LEARN_FILE. A run counts by the stakes of its epochs. Files of other versions or
    prices are refused.
    """
    if output_name == "-" and json_file == "-":
        raise Failure("the merged file and the summary cannot both be stdout: name one of them", EXIT_USAGE)
    if output_name == "-" and sys.stdout.isatty():
        raise Failure("the merged file is no text for a terminal: name it with -o", EXIT_USAGE)
    once = _without_copies(names)
    records = [learn_record.read(name) for name in once]
    learn_merge.check(once, records)
    merged = learn_merge.merge(records)
    with reserve(output_name, json_file) as (output, json_output):
        failures = write_each(
            [
                (json_output, lambda: json.dumps(_merged_as_json(once, records, merged), indent=1) + "\n"),
                (output, merged.record.to_bytes),
            ]
        )
        is_written = output is not None and output.is_written
    if not quiet:
        _print_merged(once, records, merged)
        if is_written and output_name != "-":
            setting = next_step.words([f"learn_file={os.path.abspath(output_name)}"])
            next_step.tell(f"hakmem run --set {setting} -- PROGRAM", on_stderr=True)
    end_with(failures)


def _without_copies(names: Sequence[str]) -> List[str]:
    """A file that is named twice is one run."""
    seen: Dict[Tuple[int, int], str] = {}
    kept = []
    for name in names:
        try:
            status = os.stat(name)
        except OSError as error:
            raise cannot_read(name, error) from None
        earlier = seen.setdefault((status.st_dev, status.st_ino), name)
        if earlier != name or name in kept:
            say(f"{name} is the same file as {earlier}: it counts once")
            continue
        kept.append(name)
    return kept


def _merged_as_json(names: Sequence[str], records: Sequence[Record], merged: learn_merge.Merged) -> Dict[str, object]:
    runs = [
        {**_record_as_json(record), "file": name, "share": share}
        for name, record, share in zip(names, records, merged.shares)
    ]
    return {
        "schema": SCHEMAS["learn merge"],
        "price_ns_per_mib_second": records[0].price,
        "merged": _record_as_json(merged.record),
        "runs": runs,
    }


def _record_as_json(record: Record) -> Dict[str, object]:
    return {
        "timeout_ms": learn_record.timeout_ms(record.price, record.leader),
        "state": record.state.name.lower(),
        "epochs": record.epoch,
        "staked_kib_ms": record.staked,
        "owed_kib_ms": list(record.owed),
    }


def _print_merged(names: Sequence[str], records: Sequence[Record], merged: learn_merge.Merged) -> None:
    """On stderr: stdout may be the merged file."""
    rows = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    rows.add_column("file", overflow="fold")
    for title in ("share", "epochs", "time-out"):
        rows.add_column(title, justify="right", no_wrap=True)
    rows.add_column("state", no_wrap=True)
    for name, record, share in zip(names, records, merged.shares):
        rows.add_row(Text(escaped(name)), f"{share:.1%}", *_merged_cells(record))
    rows.add_section()
    rows.add_row(plural(len(records), "run"), "", *_merged_cells(merged.record))
    out = Console(stderr=True, highlight=False, width=columns_of_stderr() or _WIDTH_OF_FILES)
    fitting.print_table(out, rows)


def _merged_cells(record: Record) -> Tuple[str, str, str]:
    return f"{record.epoch:,}", learn_merge.told_timeout(record), record.state.name.lower()


def _print(result: Replay) -> None:
    out = fitting.console()
    seconds = result.trace.duration_ms() / 1000
    records = f"{len(result.trace.times_ms):,} records"
    fitting.print_words(out, f"{result.trace.name}: {seconds:,.1f} s, {records}", "bold")
    out.print(Text(f"{result.price:,} ns of CPU for a MiB-second", style="dim"))
    out.print()
    fitting.print_table(out, _table(result))
    out.print()
    out.print(Text("The last decisions:", style="bold"))
    for line in result.learned.decisions:
        fitting.print_words(out, f"  {line}", indent="    ")


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
