"""The readable result of `hakmem compare`, on stdout."""

from __future__ import annotations

from typing import List, Mapping, Optional, Sequence, Tuple

from rich import box
from rich.table import Table
from rich.text import Text

from hakmem import fitting
from hakmem.allocators import HAKMEM
from hakmem.contest import Contest, Row
from hakmem.cost import Price
from hakmem.errors import plural
from hakmem.metrics import HEADLINE, Metric
from hakmem.settings import Settings, busy_machine, one_line
from hakmem.statistics import CONFIDENCE, ENOUGH_ROUNDS, FEW_ROUNDS, FEWEST_TO_DECIDE, coverage

# Columns of a comparison that a narrow terminal does without: the range, then the interval.
_SELDOM_MISSED = (2, 4)
NOISE = "inside the noise"
_OURS_IN_MODES = Text("hakmem in that mode", style="bold")


def difference(row: Row) -> str:
    """The comparison of the row with the base, in words."""
    if row.ratio is None:
        return ""
    if not row.ratio.decided:
        return NOISE if row.ratio.rounds > 1 else "one round: the noise is unknown"
    word = row.metric.less if row.ratio.value < 1 else row.metric.more
    if row.ratio.value >= 2:
        return f"{row.ratio.value:.1f} times as {'many' if row.metric.less == 'fewer' else 'much'}"
    return f"{abs(row.ratio.value - 1) * 100:.1f}% {word}"


def _style(row: Row) -> str:
    if row.ratio is None or not row.ratio.decided:
        return "dim"
    return "green" if row.ratio.value < 1 else "red"


def confidence_title(*rounds: int) -> str:
    """The name of the intervals of these numbers of rounds; for several numbers of rounds, from the lowest confidence
    on."""
    sure = sorted({f"{coverage(number) * 100:.0f}" for number in rounds if number > 1}, key=int)
    if not sure:
        return "no interval"
    return f"{' to '.join(sure[:1] + sure[1:][-1:])}% interval"


def comparison_table(contest: Contest, rounds: int) -> Table:
    """A block for each metric, a line for each allocator."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("median", justify="right", no_wrap=True)
    table.add_column("min – max", justify="right", no_wrap=True)
    table.add_column(f"× {contest.base}", justify="right", no_wrap=True)
    table.add_column(confidence_title(rounds), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    metric: Optional[Metric] = None
    for row in contest.rows():
        if row.metric is not metric:
            if metric is not None:
                table.add_section()
            metric = row.metric
            table.add_row(Text(metric.title, style="bold"))
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> List[Text]:
    text = row.metric.text
    ratio = Text(f"{row.ratio.value:.3f}") if row.ratio else Text("")
    interval = Text(f"{row.ratio.low:.3f} – {row.ratio.high:.3f}") if row.ratio and row.ratio.rounds > 1 else Text("")
    return [
        Text(f"  {row.allocator}", style="bold" if row.allocator.startswith("hakmem") else ""),
        Text(text(row.spread.median)),
        Text(f"{text(row.spread.low)} – {text(row.spread.high)}", style="dim"),
        ratio,
        interval,
        Text(difference(row), style=_style(row)),
    ]


def costs_table(contest: Contest) -> Table:
    """A line for each allocator, the base first, a column for each price.

    Each column has hakmem in the mode of its price.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    for price in contest.prices:
        table.add_column(price.mode, justify="right", no_wrap=True)
        table.add_column(f"× {contest.base}", justify="right", no_wrap=True)
    rows = {(row.allocator, row.metric.key): row for row in contest.cost_rows()}
    table.add_row(_OURS_IN_MODES, *_cost_cells(rows, [(price, price.entrant) for price in contest.prices]))
    for name in contest.names:
        if not name.startswith(HAKMEM) and name not in contest.failed:
            table.add_row(Text(name), *_cost_cells(rows, [(price, name) for price in contest.prices]))
    return table


def _cost_cells(rows: Mapping[Tuple[str, str], Row], entries: Sequence[Tuple[Price, str]]) -> List[Text]:
    cells: List[Text] = []
    for price, name in entries:
        row = rows.get((name, price.metric.key))
        cells.append(Text(price.metric.text(row.spread.median) if row else "–"))
        cells.append(Text(f"{row.ratio.value:.3f}", style=_style(row)) if row and row.ratio else Text(""))
    return cells


def _print_costs(contest: Contest) -> None:
    out = fitting.console()
    rates = ", ".join(f"{price.mode} {price.ns_per_mib_second:,}" for price in contest.prices)
    out.print(Text("cost: CPU time + price × MiB·seconds of resident memory", style="bold"))
    fitting.print_words(out, f"price, in ns of CPU for a MiB·second: {rates}", "dim")
    fitting.print_table(out, costs_table(contest))
    out.print()


def verdicts(contest: Contest) -> List[str]:
    """A sentence for each allocator: its comparison with the base, where that has more than one round."""
    sentences: List[str] = []
    rows = {(row.allocator, row.metric.key): row for metric in HEADLINE for row in contest.rows_of(metric)}
    for name in contest.names:
        if name == contest.base or name in contest.failed:
            continue
        parts = [
            f"{metric.title} {difference(row)}"
            for metric in HEADLINE
            if (row := rows.get((name, metric.key))) and row.ratio and row.ratio.rounds > 1
        ]
        if parts:
            sentences.append(f"{name} against {contest.base}: " + ", ".join(parts) + ".")
    return sentences


def failure_lines(contest: Contest) -> List[str]:
    """The failures: allocator, round and reason."""
    lines: List[str] = []
    for name, run in contest.failed.items():
        when = f"in round {run.round}" if run.round else "in the warm-up"
        lines.append(f"{name}: FAILED {when}: {run.failure}")
        lines += [f"    {line.expandtabs()}" for line in run.detail.splitlines() if line.strip()]
    return lines


def remarks(contest: Contest, rounds: int, facts: Settings) -> List[str]:
    """Notes about the figures."""
    lines: List[str] = [busy] if (busy := busy_machine(facts)) else []
    if contest.all_failed:
        return lines
    if rounds < FEWEST_TO_DECIDE:
        lines.append(
            f"{plural(rounds, 'round')}: too few to name any difference; --rounds {ENOUGH_ROUNDS} or more gives "
            f"intervals of {CONFIDENCE * 100:.0f}%."
        )
    elif rounds < FEW_ROUNDS:
        lines.append(
            f"{plural(rounds, 'round')}: an interval can be sure to {coverage(rounds) * 100:.0f}% at the most, so a "
            f"difference is named only where the ranges are apart too; --rounds {ENOUGH_ROUNDS} or more gives "
            f"{CONFIDENCE * 100:.0f}%."
        )
    if contest.expected_exit:
        lines.append(f"The program ended with exit code {contest.expected_exit}, under all allocators alike.")
    for name in sorted(contest.unverified()):
        lines.append(f"The library of {name} was not seen in the running program: its figures may be the C library's.")
    return lines


def print_comparison(contest: Contest, title: str, facts: Settings, rounds: int) -> None:
    """All of it."""
    out = fitting.console()
    fitting.print_words(out, title, "bold")
    fitting.print_words(out, one_line(facts), "dim")
    out.print()
    if not contest.all_failed:
        fitting.print_table(out, comparison_table(contest, rounds), _SELDOM_MISSED)
        out.print()
        if contest.prices:
            _print_costs(contest)
    for line in verdicts(contest):
        fitting.print_words(out, line, indent="  ")
    for line in failure_lines(contest):
        fitting.print_words(out, line, "red", "  ")
    for line in remarks(contest, rounds, facts):
        fitting.print_words(out, line, "dim")
