"""The costs in the results of `hakmem bench`: a section of the page, and the losses."""

from __future__ import annotations

from typing import List

from hakmem.allocators import HAKMEM
from hakmem.bench_cells import marked, matrix, number_cell, ratio_cell
from hakmem.bench_results import Results
from hakmem.cost import Price
from hakmem.standing import LOSES, Standing, not_above_peers, word
from hakmem.statistics import geometric_mean


def cost_section(results: Results) -> List[str]:
    """hakmem at each price beside the peers, then all."""
    if not results.prices:
        return []
    lines = [
        "## What it cost",
        "",
        "CPU seconds + price × MiB·seconds of resident memory; hakmem in the mode of the price, the peers as they "
        "come. Ratios are to the peer that cost least.",
        "",
        *(f"- {cost_summary(results, price)}" for price in results.prices),
        "",
        *_cost_table(results),
        "",
    ]
    for price in results.prices:
        ratios = {s.workload.name: results.relative_costs(s, price) for s in results.standings}
        names = [name for name in results.names if name == price.entrant or not name.startswith(HAKMEM)]
        lines += [
            f"### {price.metric.title.capitalize()} of all, × the best peer",
            "",
            *matrix(results, ratios, names),
            "",
        ]
    return lines


def cost_summary(results: Results, price: Price) -> str:
    """The number of workloads in which hakmem cost no more than the best peer."""
    count, rows = not_above_peers(results.standings, price.mode)
    ratios = [ratio for s in results.standings if (ratio := results.relative_costs(s, price).get(price.entrant))]
    return (
        f"{price.mode} ({price.ns_per_mib_second:,} ns for a MiB·second): no more than any peer in {count} of {rows}, "
        f"geometric mean × {number_cell(geometric_mean(ratios))} of each one's best peer"
    )


def _cost_table(results: Results) -> List[str]:
    head = [f"{price.mode} × best peer | best peer | " for price in results.prices]
    lines = [f"| workload | rounds | {' | '.join(head)} |", f"|---|--:|{'--:|---|---|' * len(head)}"]
    for standing in results.standings:
        cells = [
            cell
            for cost in standing.costs
            for cell in (ratio_cell(cost.ratio), cost.best_peer or "–", marked(word(cost.ratio)))
        ]
        lines.append(f"| {standing.workload.name} | {standing.rounds} | {' | '.join(cells)} |")
    return lines


def cost_losses(standing: Standing) -> List[str]:
    """One line for each decided loss in this workload."""
    return [
        f"{standing.workload.name}: {cost.price.metric.title} × {cost.ratio.value:.2f} of {cost.best_peer}"
        for cost in standing.costs
        if cost.ratio is not None and word(cost.ratio) == LOSES
    ]
