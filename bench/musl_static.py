#!/usr/bin/env python3
"""Static programs of musl beside the same programs linked with libhakmem.a: time, CPU time and peak resident memory.

    bench/musl_static.py [--build build/musl] [--rounds N]

Builds workloads of bench/micro with musl-gcc, twice each, and runs the two in turn. Prints medians and ratios as a
table. `make musl` builds the archive.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import List, NamedTuple

from small_program_memory import compile_c

BENCH = Path(__file__).resolve().parent
MICRO = BENCH / "micro"
# A row's name, its program and its arguments. The work is small: musl's malloc has one lock for all threads.
WORKLOADS = (
    ("random_mixed", "random_mixed", "--least 16 --most 1024 --slots 8192 --ops 10000000"),
    ("larson, 2 threads", "larson", "--threads 2 --least 8 --most 1000 --ops 4000000"),
    ("larson, 8 threads", "larson", "--threads 8 --least 8 --most 1000 --ops 4000000"),
    ("exchange, 2 threads", "exchange", "--threads 2 --ops 1500000"),
    ("exchange, 8 threads", "exchange", "--threads 8 --ops 1500000"),
    ("mid_mt, 2 threads", "mid_mt", "--threads 2 --ops 1000000"),
    ("churn_threads", "churn_threads", "--ops 100000"),
)
# A compiler that knows malloc and free may remove a pair of calls.
FLAGS = [f"-fno-builtin-{name}" for name in ("malloc", "calloc", "realloc", "free")]
FLAGS += ["-static", "-O2", "-D_GNU_SOURCE=1"]


class Cost(NamedTuple):
    """What one run took."""

    seconds: float
    cpu_seconds: float
    peak_mib: float


def build(folder: Path, program: str, archive: List[str]) -> Path:
    """Compiles one workload, linked with the archive if there is one."""
    target = folder / f"{program}{'.hakmem' if archive else '.musl'}"
    if not target.exists():
        sources = [str(MICRO / f"{name}.c") for name in ("bench", "bench_options", program)]
        subprocess.run(["musl-gcc", *FLAGS, *sources, *archive, "-o", str(target)], check=True)
    return target


def run(launcher: Path, program: Path, arguments: str) -> Cost:
    """Runs the program once. The launcher, which is smaller than this interpreter, tells its peak."""
    report = launcher.parent / "report"
    command = [str(launcher), str(report), "-", str(program), *arguments.split()]
    before = os.times()
    begun = time.monotonic()
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    seconds = time.monotonic() - begun
    after = os.times()
    code, peak_kib = report.read_text().split()[:2]
    if code != "0":
        sys.exit(f"{program} {arguments} ended with {code}")
    cpu_seconds = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(seconds, cpu_seconds, int(peak_kib) / 1024)


def median(costs: List[Cost]) -> Cost:
    """Returns the median of each figure."""
    return Cost(*(statistics.median(figures) for figures in zip(*costs)))


def spread(costs: List[Cost]) -> float:
    """The greatest wall time over the least."""
    return max(cost.seconds for cost in costs) / min(cost.seconds for cost in costs)


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=BENCH.parent / "build" / "musl", help="where libhakmem.a is")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    archive = arguments.build / "libhakmem.a"
    if not archive.is_file():
        sys.exit(f"no {archive}: build it with `make musl`")
    print("| workload | musl s | hakmem s | wall, times | spread | CPU, times | musl MiB | hakmem MiB |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        launcher = compile_c("launch_small", Path(folder), "-static")
        for name, program, words in WORKLOADS:
            pair = [build(Path(folder), program, linked) for linked in ([], [str(archive)])]
            costs: List[List[Cost]] = [[], []]
            for round_number in range(arguments.rounds):
                for which in (0, 1) if round_number % 2 == 0 else (1, 0):
                    costs[which].append(run(launcher, pair[which], words))
            musl, ours = median(costs[0]), median(costs[1])
            ratios.append(musl.seconds / ours.seconds)
            print(
                f"| {name} | {musl.seconds:.3f} | {ours.seconds:.3f} | {ratios[-1]:.1f} | "
                f"{spread(costs[0]):.2f}, {spread(costs[1]):.2f} | {musl.cpu_seconds / ours.cpu_seconds:.1f} | "
                f"{musl.peak_mib:.1f} | {ours.peak_mib:.1f} |",
                flush=True,
            )
    print(f"\ngeometric mean of the wall times: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
