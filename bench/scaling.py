#!/usr/bin/env python3
"""Derives throughput on more cores from the counts of `hakmem bench`: a closed queueing model of locks and shared
lines.

Each core works, and now and then needs something that only one core can have at a time: a lock, or a cache line that
others write too. With N cores as N customers, a delay station (the work) and one queueing station for each such
thing, the throughput follows exactly from mean value analysis (M. Reiser, S. Lavenberg, "Mean-Value Analysis of
Closed Multichain Queuing Networks", Journal of the ACM 27, 1980). Printed is the speed-up over one core, and the
number of cores at which the busiest station is at work all the time.

Arrivals there are spread by chance. A second table bunches them: it simulates cores that all begin at the same moment,
make their visits in bursts without a pause, and wait for each other after each round. There each lock is a station of
its own, and so is each owner's line of remote frees: as many cores as the counted run has threads share one.

    bench/scaling.py bench/results/<name>.json
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
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
# Of the simulation: visits without a pause; bursts until all cores wait for each other; and how often they do.
BURST_VISITS = 8
ROUND_BURSTS = 8
ROUNDS = 4
TITLES = {"lock_pool_take": "pool lock", "lock_space_take": "space lock", "lock_meta_take": "meta lock"}
LOCKS = tuple(TITLES)
INCOMING = "incoming"


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


def split_demand_of(counted: Dict[str, Any], ns_per_operation: float) -> Demand:
    """The demand with a station for each lock, one for an owner's line of remote frees, and one for all other lines.

    A batch updates the owner's line twice: where it is pushed, and where the owner takes it.
    """
    operations, counters = counted["operations"], counted["counters"]
    takes = counters if any(name in counters for name in LOCKS) else {"lock_space_take": counters["lock_take"]}
    stations = {name: takes.get(name, 0) / operations * LOCK_HOLD_NS for name in LOCKS}
    incoming = min(2 * counters.get("remote_batch", 0), counters["shared_update"])
    stations[INCOMING] = incoming / operations * LINE_TRANSFER_NS
    stations["other lines"] = (counters["shared_update"] - incoming) / operations * LINE_TRANSFER_NS
    return Demand(work=ns_per_operation * counted["threads"], stations=stations)


def service_ns(station: str) -> float:
    """What one visit takes when no other core is there."""
    return LOCK_HOLD_NS if station in LOCKS else LINE_TRANSFER_NS


class Bunched:
    """Cores that make their visits in bursts and wait for each other after each round. Each station serves them in the
    order in which they come."""

    def __init__(self, demand: Demand, cores: int, group: int) -> None:
        self._cores, self._group = cores, group
        rates = {name: need / service_ns(name) for name, need in demand.stations.items() if need > 0}
        self._names, self._weights = list(rates), list(rates.values())
        self._work_ns = demand.work / sum(self._weights) * BURST_VISITS
        self._free_at: Dict[object, float] = {}
        self._random = random.Random(cores)

    def _serve(self, core: int, now: float) -> float:
        name = self._random.choices(self._names, self._weights)[0]
        station = (name, core // self._group) if name == INCOMING else name
        end = max(now, self._free_at.get(station, 0.0)) + service_ns(name)
        self._free_at[station] = end
        return end

    def _round(self, start: float) -> float:
        """Returns when the last core is through."""
        waiting = [(start + self._work_ns, core, 0) for core in range(self._cores)]
        last = start
        while waiting:
            now, core, visits = heapq.heappop(waiting)
            now, visits = self._serve(core, now), visits + 1
            last = max(last, now)
            if visits < BURST_VISITS * ROUND_BURSTS:
                pause = self._work_ns if visits % BURST_VISITS == 0 else 0.0
                heapq.heappush(waiting, (now + pause, core, visits))
        return last

    def run(self) -> float:
        """Returns the time of all rounds, in ns."""
        now = 0.0
        for _ in range(ROUNDS):
            now = self._round(now)
        return now


def bunched_speed_up(demand: Demand, cores: int, group: int) -> float:
    """The speed-up over one core with bunched arrivals; `group` cores share one owner's line."""
    if not any(demand.stations.values()):
        return float(cores)
    return cores * Bunched(demand, 1, group).run() / Bunched(demand, cores, group).run()


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


def bunched_row(counted: Dict[str, Any], demand: Demand) -> str:
    """One line of the simulation's table."""
    ups = [bunched_speed_up(demand, cores, counted["threads"]) for cores in CORES]
    shared = {name: need for name, need in demand.stations.items() if name != INCOMING}
    limit = saturation(Demand(demand.work, shared))
    busiest = max(shared, key=lambda name: shared[name])
    most = "–" if limit == float("inf") else f"{limit:,.0f}"
    cells = [counted["name"], *(f"{up:,.0f}" for up in ups), most, TITLES.get(busiest, busiest)]
    return f"| {' | '.join(cells)} |"


def bunched_table(results: Dict[str, Any]) -> List[str]:
    """Markdown."""
    lines = [
        "| workload | " + " | ".join(f"{cores} cores, bunched" for cores in CORES) + " | saturated at | by |",
        "|---|" + "--:|" * (len(CORES) + 1) + "---|",
    ]
    for counted in results["counts"]:
        if counted["threads"] < 2 or counted["failure"] is not None:
            continue
        time_ns = ns_per_operation(results, counted["name"])
        lines.append(bunched_row(counted, split_demand_of(counted, time_ns)))
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("results", type=Path, help="results of `hakmem bench`: JSON, with counts")
    results = json.loads(parser.parse_args(arguments).results.read_text())
    print("\n".join([*table(results), "", *bunched_table(results)]))


if __name__ == "__main__":
    main()
