#!/usr/bin/env python3
"""Derives throughput on more cores from the counts of `hakmem bench`: a closed queueing model of locks and shared
lines.

Each core works, and now and then needs something that only one core can have at a time: a lock, or a cache line that
others write too. With N cores as N customers, a delay station (the work) and one queueing station for each such
thing, the throughput follows exactly from mean value analysis (M. Reiser, S. Lavenberg, "Mean-Value Analysis of
Closed Multichain Queuing Networks", Journal of the ACM 27, 1980). Printed is the speed-up over one core, and the
number of cores from which on the busiest station is at work all the time.

Some things grow with the machine: a lock and the pool's slots for each shard, one for each core up to 32, and one
line of remote frees for each owner, which as many cores share as the counted run has threads.

Arrivals there are spread by chance. A second table bunches them: it simulates cores that all begin at the same moment,
make their visits in bursts without a pause, and wait for each other after each round.

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
from typing import Any, Callable, Dict, List, Sequence

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
# As src/os/shard.h and shard.c.
SHARDS_MAX = 32
# Beyond it, a number of cores is not looked for.
CORES_MAX = 1 << 20
SHARD_LOCK, SLOTS, OWNER = "shard locks", "pool slots", "owners' lines"
COMMON_LOCK, POOL_LOCK, META_LOCK, OTHER = "common lock", "pool lock", "meta lock", "other lines"
LOCKS = (SHARD_LOCK, COMMON_LOCK, POOL_LOCK, META_LOCK)


@dataclass(frozen=True)
class Demand:
    """The demand of one operation, in ns: the work, and the service at all stations of each kind together.

    `group` cores share one owner's line."""

    work: float
    stations: Dict[str, float]
    group: int = 1

    def copies(self, kind: str, cores: int) -> int:
        """How many stations of a kind a machine has. Its cores use them evenly."""
        if kind in (SHARD_LOCK, SLOTS):
            return min(SHARDS_MAX, cores)
        return max(1, cores // self.group) if kind == OWNER else 1

    def station(self, kind: str, core: int) -> int:
        """Which one of them a core uses."""
        if kind in (SHARD_LOCK, SLOTS):
            return core % SHARDS_MAX
        return core // self.group if kind == OWNER else 0


def throughput(demand: Demand, cores: int) -> float:
    """Operations a ns with that number of cores: exact mean value analysis, one class of customers."""
    copies = {kind: demand.copies(kind, cores) for kind in demand.stations}
    queue = dict.fromkeys(demand.stations, 0.0)  # at one station of the kind
    result = 0.0
    for customers in range(1, cores + 1):
        residence = {kind: service * (1 + queue[kind]) for kind, service in demand.stations.items()}
        result = customers / (demand.work + sum(residence.values()))
        queue = {kind: result * time / copies[kind] for kind, time in residence.items()}
    return result


def busiest(demand: Demand, cores: int) -> str:
    """The kind of station that is at work for the longest part of the time."""
    return max(demand.stations, key=lambda kind: demand.stations[kind] / demand.copies(kind, cores))


def saturation(demand: Demand) -> float:
    """The number of cores that keeps the busiest station at work."""
    whole = demand.work + sum(demand.stations.values())

    def is_saturated(cores: int) -> bool:
        kind = busiest(demand, cores)
        return cores * demand.stations[kind] / demand.copies(kind, cores) >= whole

    few, many = 0, 1
    while not is_saturated(many):
        few, many = many, 2 * many
        if many > CORES_MAX:
            return float("inf")
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_saturated(middle) else (middle, many)
    return many


def demand_of(counted: Dict[str, Any], ns_per_operation: float) -> Demand:
    """The demand that a run's counts show. A batch updates the owner's line twice: where it is pushed, and where the
    owner takes it."""
    operations, counters = counted["operations"], counted["counters"]
    common = counters["common_lock"]
    incoming = min(2 * counters["remote_batch"], counters["shared_update"] - counters["slot_update"])
    visits = {
        SHARD_LOCK: counters["lock_space_take"] - common,
        COMMON_LOCK: common,
        POOL_LOCK: counters["lock_pool_take"],
        META_LOCK: counters["lock_meta_take"],
        SLOTS: counters["slot_update"],
        OWNER: incoming,
        OTHER: counters["shared_update"] - counters["slot_update"] - incoming,
    }
    stations = {kind: count / operations * service_ns(kind) for kind, count in visits.items()}
    return Demand(ns_per_operation * counted["threads"], stations, counted["threads"])


def service_ns(kind: str) -> float:
    """What one visit takes when no other core is there."""
    return LOCK_HOLD_NS if kind in LOCKS else LINE_TRANSFER_NS


class Bunched:
    """Cores that make their visits in bursts and wait for each other after each round. Each station serves them in the
    order in which they come."""

    def __init__(self, demand: Demand, cores: int) -> None:
        self._demand, self._cores = demand, cores
        rates = {kind: need / service_ns(kind) for kind, need in demand.stations.items() if need > 0}
        self._kinds, self._weights = list(rates), list(rates.values())
        self._work_ns = demand.work / sum(self._weights) * BURST_VISITS
        self._free_at: Dict[object, float] = {}
        self._random = random.Random(cores)

    def _serve(self, core: int, now: float) -> float:
        kind = self._random.choices(self._kinds, self._weights)[0]
        station = (kind, self._demand.station(kind, core))
        end = max(now, self._free_at.get(station, 0.0)) + service_ns(kind)
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


def spread_speed_up(demand: Demand, cores: int) -> float:
    """The speed-up over one core with arrivals that are spread by chance."""
    return throughput(demand, cores) / throughput(demand, 1)


def bunched_speed_up(demand: Demand, cores: int) -> float:
    """The speed-up over one core with bunched arrivals."""
    if not any(demand.stations.values()):
        return float(cores)
    return cores * Bunched(demand, 1).run() / Bunched(demand, cores).run()


def ns_per_operation(results: Dict[str, Any], name: str) -> float:
    """The time of an operation under hakmem, of all threads together."""
    for workload in results["workloads"]:
        if workload["name"] == name:
            return median(workload["figures"]["hakmem"][workload["time_metric"]])
    raise KeyError(name)


def row(name: str, demand: Demand, speed_up: Callable[[Demand, int], float]) -> str:
    """One line of a table."""
    limit = saturation(demand)
    is_limited = limit < float("inf")
    most = f"{limit:,.0f}" if is_limited else "–"
    first = busiest(demand, int(limit)) if is_limited else "nothing"
    return f"| {' | '.join([name, *(f'{speed_up(demand, cores):,.0f}' for cores in CORES), most, first])} |"


def table(results: Dict[str, Any], speed_up: Callable[[Demand, int], float], suffix: str) -> List[str]:
    """Markdown."""
    lines = [
        "| workload | " + " | ".join(f"{cores} cores{suffix}" for cores in CORES) + " | saturated at | by |",
        "|---|" + "--:|" * (len(CORES) + 1) + "---|",
    ]
    for counted in results["counts"]:
        if counted["threads"] < 2 or counted["failure"] is not None:
            continue
        demand = demand_of(counted, ns_per_operation(results, counted["name"]))
        lines.append(row(counted["name"], demand, speed_up))
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("results", type=Path, help="results of `hakmem bench`: JSON, with counts")
    results = json.loads(parser.parse_args(arguments).results.read_text())
    print("\n".join([*table(results, spread_speed_up, ""), "", *table(results, bunched_speed_up, ", bunched")]))


if __name__ == "__main__":
    main()
