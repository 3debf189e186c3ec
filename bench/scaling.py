#!/usr/bin/env python3
"""Derives throughput on more cores from the counts of `hakmem bench`: a closed queueing model of locks and shared
lines.

Each core works, and now and then needs something that only one core can have at a time: a lock, or a cache line that
others write too. With N cores as N customers, a delay station (the work) and one queueing station for each such
thing, the throughput follows exactly from mean value analysis (M. Reiser, S. Lavenberg, "Mean-Value Analysis of
Closed Multichain Queuing Networks", Journal of the ACM 27, 1980). Printed is the speed-up over one core, and the
number of cores at which the busiest station is at work all the time.

    bench/scaling.py bench/results/<name>.json
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Dict, List, Sequence

# The wait of a core for a line that it has lost: between cores of one socket 40 to 70 ns, between sockets 100 to 150.
# The pessimistic figure counts for all.
LINE_TRANSFER_NS = 120.0
# The hold time of a lock: its own line, two guarded lines, and a few instructions.
LOCK_HOLD_NS = 3 * LINE_TRANSFER_NS + 20.0
CORES = (64, 256, 1024)


@dataclass(frozen=True)
class Demand:
    """The demand of one operation, in ns: the work, and the service at each station."""

    work: float
    stations: Dict[str, float]


def throughput(demand: Demand, cores: int) -> float:
    """Operations a ns with that number of cores: exact mean value analysis, one class of customers."""
    queue = dict.fromkeys(demand.stations, 0.0)
    result = 0.0
    for customers in range(1, cores + 1):
        residence = {name: service * (1 + queue[name]) for name, service in demand.stations.items()}
        result = customers / (demand.work + sum(residence.values()))
        queue = {name: result * time for name, time in residence.items()}
    return result


def saturation(demand: Demand) -> float:
    """The number of cores that the busiest station can keep at work."""
    busiest = max(demand.stations.values())
    return float("inf") if busiest == 0 else (demand.work + sum(demand.stations.values())) / busiest


def demand_of(counted: Dict[str, Any], ns_per_operation: float) -> Demand:
    """The demand with one station for all locks and one for all shared lines: the worst case of the counts."""
    operations = counted["operations"]
    locks = counted["counters"]["lock_take"] / operations * LOCK_HOLD_NS
    lines = counted["counters"]["shared_update"] / operations * LINE_TRANSFER_NS
    return Demand(work=ns_per_operation * counted["threads"], stations={"locks": locks, "shared lines": lines})


def ns_per_operation(results: Dict[str, Any], name: str) -> float:
    """The time of an operation under hakmem, of all threads together."""
    for workload in results["workloads"]:
        if workload["name"] == name:
            return median(workload["figures"]["hakmem"][workload["time_metric"]])
    raise KeyError(name)


def row(name: str, demand: Demand) -> str:
    """One line of the table."""
    alone = throughput(demand, 1)
    ups = [throughput(demand, cores) / alone for cores in CORES]
    first = max(demand.stations, key=lambda station: demand.stations[station])
    limit = saturation(demand)
    most = "–" if limit == float("inf") else f"{limit:,.0f}"
    cells = [name, *(f"{up:,.0f}" for up in ups), most, first if limit < float("inf") else "nothing"]
    return f"| {' | '.join(cells)} |"


def table(results: Dict[str, Any]) -> List[str]:
    """Markdown."""
    lines = [
        "| workload | " + " | ".join(f"{cores} cores" for cores in CORES) + " | saturated at | by |",
        "|---|" + "--:|" * (len(CORES) + 1) + "---|",
    ]
    for counted in results["counts"]:
        if counted["threads"] < 2 or counted["failure"] is not None:
            continue
        lines.append(row(counted["name"], demand_of(counted, ns_per_operation(results, counted["name"]))))
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("results", type=Path, help="results of `hakmem bench`: JSON, with counts")
    results = json.loads(parser.parse_args(arguments).results.read_text())
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
