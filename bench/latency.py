#!/usr/bin/env python3
"""Percentiles of the time of a single malloc or free, under each allocator.

    bench/latency.py [--build build/release] [--peers build/peers | --no-peers] [NAME=LIBRARY ...] [--rounds 7]
                     [--setting plain|profile|no-purge-thread|memory-limit|load ...] [--ops 5000000] [--threads 2]
                     [--json]

The workload `latency` (bench/micro/latency.c) runs under every allocator in turns, and each figure is the median of the
rounds. There is a table for each setting. `profile`, `no-purge-thread` and `memory-limit` are options of hakmem, which
the other allocators do not have: they run as in `plain`. With `load` one process for each processor computes beside the
workload. Times of a processor that others use too are the scheduler's from some percentile on: compare columns of one
table, and nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, NoReturn, Optional, Sequence

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tools"))

from under_allocator import environment, named_allocators, run_measured  # noqa: E402

# The notes of the workload's report, and how a table names them.
FIGURES = {
    "p50_ns": "p50", "p99_ns": "p99", "p99_9_ns": "p99.9", "p99_99_ns": "p99.99", "p99_999_ns": "p99.999",
    "max_ns": "max",
}  # fmt: skip
# The limit is below the memory that the workload holds: a looser one would not be felt.
SETTINGS: Dict[str, Mapping[str, str]] = {
    "plain": {},
    "profile": {"HAKMEM_PROFILE": "1"},
    "no-purge-thread": {"HAKMEM_PURGE_THREAD": "0"},
    "memory-limit": {"HAKMEM_MEMORY_LIMIT": "64m"},
    "load": {},
}


@dataclass(frozen=True)
class Result:
    """Medians of one allocator in one setting."""

    setting: str
    allocator: str
    ns: Dict[str, float]
    wall_seconds: float
    peak_kib: int


@dataclass(frozen=True)
class Run:
    """One run of the workload."""

    ns: Dict[str, float]
    wall_seconds: float
    peak_kib: int


def fail(message: str) -> NoReturn:
    """Ends the program with a line on stderr."""
    print(f"latency: {message}", file=sys.stderr)
    sys.exit(2)


@contextlib.contextmanager
def competing(count: int) -> Iterator[None]:
    """Keeps `count` processors busy."""
    endless = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(endless, env=environment(None)) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run_once(command: Sequence[str], library: Optional[Path], setting: str) -> Run:
    """Runs the workload once."""
    usage = run_measured(command, environment(library, SETTINGS[setting]))
    if usage.exit_code != 0:
        fail(f"{' '.join(command)} ended with {usage.exit_code} under {library or 'glibc'}")
    report = json.loads(usage.stdout)
    return Run({figure: report[figure] for figure in FIGURES}, usage.wall_seconds, usage.peak_kib)


def summary(setting: str, allocator: str, runs: Sequence[Run]) -> Result:
    """The medians of an allocator's runs."""
    return Result(
        setting,
        allocator,
        {figure: statistics.median(run.ns[figure] for run in runs) for figure in FIGURES},
        statistics.median(run.wall_seconds for run in runs),
        int(statistics.median(run.peak_kib for run in runs)),
    )


def measure(
    command: Sequence[str], allocators: Mapping[str, Optional[Path]], setting: str, rounds: int
) -> List[Result]:
    """Every allocator in one setting, in turns; every second round runs in the opposite order."""
    runs: Dict[str, List[Run]] = {name: [] for name in allocators}
    names = list(allocators)
    with competing((os.cpu_count() or 1) if setting == "load" else 0):
        for number in range(rounds):
            for name in names if number % 2 == 0 else reversed(names):
                runs[name].append(run_once(command, allocators[name], setting))
    return [summary(setting, name, runs[name]) for name in names]


def print_table(results: Sequence[Result]) -> None:
    """A row for each allocator of one setting."""
    heading = "".join(f"{name:>12}" for name in FIGURES.values())
    print(f"{results[0].setting + ', ns':<22}{heading}{'wall, s':>12}{'peak, MiB':>12}")
    for result in results:
        cells = "".join(f"{result.ns[figure]:>12.0f}" for figure in FIGURES)
        print(f"{result.allocator:<22}{cells}{result.wall_seconds:>12.2f}{result.peak_kib / 1024:>12.1f}")
    print()


def peers_in(folder: Path) -> List[str]:
    """The allocators that `make peers` has built and verified, as NAME=LIBRARY."""
    try:
        listed = json.loads((folder / "peers.json").read_text(encoding="utf-8"))
    except OSError:
        print(f"no peers in {folder}: `make peers` builds them", file=sys.stderr)
        return []
    return [f"{peer['name']}={peer['library']}" for peer in listed if peer["library"] is not None]


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Percentiles of the time of a single call under each allocator.")
    parser.add_argument("libraries", nargs="*", metavar="NAME=LIBRARY", help="other allocators to measure")
    parser.add_argument(
        "--build", type=Path, default=REPOSITORY / "build" / "release", help="the folder of hakmem's libraries"
    )
    parser.add_argument(
        "--peers", type=Path, default=REPOSITORY / "build" / "peers", help="the folder of the peers' libraries"
    )
    parser.add_argument("--no-peers", action="store_true", help="hakmem, glibc and named libraries only")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each, interleaved; default 7")
    parser.add_argument(
        "--setting", action="append", choices=list(SETTINGS), help="may be given more than once; default plain"
    )
    parser.add_argument("--ops", type=int, default=5000000, help="blocks to allocate and free; default 5000000")
    parser.add_argument("--threads", type=int, default=2, help="default 2")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be 1 or more")
    return arguments


def main() -> int:
    """Measure, print."""
    arguments = parse_arguments()
    program = arguments.build / "bench" / "latency"
    if not program.exists():
        fail(f"no {program}: build it with `cmake --build {arguments.build} --target bench_programs`")
    named = arguments.libraries if arguments.no_peers else [*peers_in(arguments.peers), *arguments.libraries]
    allocators = named_allocators(arguments.build, named, with_peers=False)
    command = [str(program.resolve()), "--ops", str(arguments.ops), "--threads", str(arguments.threads)]
    results: List[Result] = []
    for setting in arguments.setting or ["plain"]:
        results.extend(measure(command, allocators, setting, arguments.rounds))
        if not arguments.json:
            print_table([result for result in results if result.setting == setting])
    if arguments.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
