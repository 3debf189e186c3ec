"""The tables of `hakmem bench` on stdout: a line for each workload."""

from __future__ import annotations

from typing import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from hakmem import fitting
from hakmem.bench_cells import ratio_cell, short_cell
from hakmem.counts import COLUMNS, Counted, rows
from hakmem.standing import LOSES, MEMORY, WINS, Standing, word
from hakmem.table import confidence_title

_WIDTH_OF_STANDINGS = 130
_WIDTH_OF_COUNTS = 200
_STYLES = {LOSES: "red", WINS: "green"}


def print_standings(standings: Sequence[Standing]) -> None:
    """A line for each workload: hakmem beside the peers."""
    fitting.print_table(fitting.console(_WIDTH_OF_STANDINGS), _standing_table(standings))


def _standing_table(standings: Sequence[Standing]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    title = confidence_title(*(standing.rounds for standing in standings))
    table.add_column("workload", no_wrap=True)
    table.add_column("rounds", justify="right", no_wrap=True)
    table.add_column(Text(f"time × best peer\n[{title}]"), justify="right", no_wrap=True)
    table.add_column("best peer", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("peak ×\nmedian peer", justify="right", no_wrap=True)
    table.add_column("mean ×\nmedian peer", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("time ×\nfloor", justify="right", no_wrap=True)
    for standing in standings:
        memory = [standing.memory_ratios[metric.key] for metric in MEMORY]
        table.add_row(
            Text(standing.workload.name),
            Text(str(standing.rounds)),
            Text(ratio_cell(standing.time_ratio)),
            Text(standing.best_peer or ""),
            Text(standing.time_word, style=_STYLES.get(standing.time_word, "")),
            *(Text(short_cell(ratio)) for ratio in memory),
            Text(standing.memory_word, style=_STYLES.get(standing.memory_word, "")),
            Text(short_cell(standing.floor_ratio)),
        )
    return table


def print_costs(standings: Sequence[Standing]) -> None:
    """A line for each workload: the cost of hakmem at each price beside the best peer."""
    out = fitting.console(_WIDTH_OF_STANDINGS)
    fitting.print_words(out, "Cost: CPU time + price × MiB·seconds, hakmem in the mode of the price", "bold")
    fitting.print_table(out, _standing_costs(standings))


def _standing_costs(standings: Sequence[Standing]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("workload", no_wrap=True)
    for cost in standings[0].costs:
        table.add_column(f"{cost.price.mode} × best peer", justify="right", no_wrap=True)
        table.add_column("best peer", no_wrap=True)
        table.add_column("", no_wrap=True)
    for standing in standings:
        cells = [Text(standing.workload.name)]
        for cost in standing.costs:
            verdict = word(cost.ratio)
            cells += [
                Text(ratio_cell(cost.ratio)),
                Text(cost.best_peer or ""),
                Text(verdict, style=_STYLES.get(verdict, "")),
            ]
        table.add_row(*cells)
    return table


def print_counts(counted: Sequence[Counted]) -> None:
    """A line for each workload: the counts of hakmem in it."""
    out = fitting.console(_WIDTH_OF_COUNTS)
    out.print(Text("What hakmem does, for each million operations", style="bold"))
    fitting.print_table(out, _counts_table(counted))


def _counts_table(counted: Sequence[Counted]) -> Table:
    """Each column is as wide as its figures and the words of its title, which wraps."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    cells = [[*one] for one in rows(counted)]
    table.add_column("workload", no_wrap=True)
    for number, title in enumerate(("threads", *(column.title for column in COLUMNS)), 1):
        longest = max(len(word) for word in (*title.split(), *(row[number] for row in cells)))
        table.add_column(title, justify="right", width=longest)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    return table
