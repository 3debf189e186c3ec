#!/usr/bin/env python3
"""Measures what sampled guards cost: CPU time and peak memory with HAKMEM_GUARD, beside the same without.

    bench/guard_cost.py [--build build/release] [--rate 100000] [--rounds 7] [--only NAME]...

Each round runs each program once without and once with guards, in turn. The table has the medians, their difference,
and the spread of the runs without guards: a difference below it is none. CPU time is user and system time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

REPOSITORY = Path(__file__).resolve().parent.parent

JSON = (
    "import json; x = [{'a': i, 'b': [str(i)] * 5} for i in range(3000)]\nfor _ in range(60): json.loads(json.dumps(x))"
)
MICRO = {
    "pair": ["--ops", "100000000"],
    "batch": ["--ops", "100000000"],
    "random_mixed": ["--ops", "20000000"],
    "larson": ["--threads", "1", "--ops", "15000000"],
    "mid_mt": ["--threads", "1", "--ops", "15000000"],
    "realloc_grow": ["--ops", "300000"],
    "calloc_fresh": ["--ops", "60000"],
    "phases": ["--ops", "12000000"],
}
REDIS_REQUESTS = "200000"


@dataclass
class Run:
    """One run of a program."""

    cpu_s: float
    peak_kib: int


@dataclass
class Pair:
    """All runs of a program, without and with guards."""

    without: List[Run] = field(default_factory=list)
    guarded: List[Run] = field(default_factory=list)


class Launched:
    """A program that the tool's launcher starts: its peak has no part of this process's memory."""

    def __init__(self, build: Path, command: Sequence[str], env: Dict[str, str]) -> None:
        path = shutil.which(command[0])
        if path is None:
            sys.exit(f"guard_cost: no program {command[0]}")
        self._command = command
        self._report, to_report = os.pipe()
        begin = [str(build / "hakmem-launch"), str(to_report), "0", str(os.getpid()), "0"]
        launcher = [*begin, str(build / "libhakmem.so"), path]
        self._process = subprocess.Popen(
            [*launcher, *command], env=env, stdout=subprocess.DEVNULL, pass_fds=[to_report]
        )  # fmt: skip
        os.close(to_report)

    def finish(self) -> Run:
        """Waits for its end."""
        with open(self._report, encoding="ascii") as report:
            ends = [line.split() for line in report if line.startswith("end ")]
        self._process.wait()
        if not ends or ends[0][1] != "0":
            sys.exit(f"guard_cost: {self._command!r} failed")
        return Run((int(ends[0][3]) + int(ends[0][4])) / 1e6, int(ends[0][5]))


def run_redis(build: Path, env: Dict[str, str]) -> Run:
    """The server alone is measured."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    with tempfile.TemporaryDirectory() as work:
        server = Launched(
            build, ["redis-server", "--port", port, "--save", "", "--appendonly", "no", "--dir", work, "--loglevel",
                    "warning", "--jemalloc-bg-thread", "no"], env,
        )  # fmt: skip
        for _ in range(200):
            if subprocess.run(["redis-cli", "-p", port, "ping"], capture_output=True, check=False).returncode == 0:
                break
            time.sleep(0.02)
        subprocess.run(
            ["redis-benchmark", "-p", port, "-q", "-n", REDIS_REQUESTS, "-P", "16", "-r", "100000", "-d", "100", "-t",
             "set,get,lpush,lpop"], stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        subprocess.run(["redis-cli", "-p", port, "shutdown", "nosave"], capture_output=True, check=False)
        return server.finish()


def run(name: str, build: Path, env: Dict[str, str]) -> Run:
    """One run of the named program."""
    if name == "redis":
        return run_redis(build, env)
    if name == "CPython":
        return Launched(build, ["python3", "-I", "-c", JSON], {**env, "PYTHONMALLOC": "malloc"}).finish()
    return Launched(build, [str(build / "bench" / name), *MICRO[name]], env).finish()


def row(name: str, pair: Pair) -> str:
    """The table's line of a program."""

    def medians(pick: str) -> Tuple[float, float]:
        return (statistics.median(getattr(one, pick) for one in pair.without),
                statistics.median(getattr(one, pick) for one in pair.guarded))  # fmt: skip

    (cpu, cpu_guarded), (peak, peak_guarded) = medians("cpu_s"), medians("peak_kib")
    times = [one.cpu_s for one in pair.without]
    spread = (max(times) - min(times)) / cpu
    return (f"| {name} | {cpu:.3f} s | {cpu_guarded / cpu - 1:+.1%} | {spread:.1%} | {peak / 1024:.1f} MiB | "
            f"{(peak_guarded - peak) / 1024:+.1f} MiB, {peak_guarded / peak - 1:+.1%} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build" / "release")
    parser.add_argument("--rate", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", action="append", choices=["redis", "CPython", *MICRO])
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    env = dict(os.environ)
    names = arguments.only or ["redis", "CPython", *MICRO]
    pairs = {name: Pair() for name in names}
    for _ in range(arguments.rounds):
        for name, pair in pairs.items():
            pair.without.append(run(name, build, {**env, "HAKMEM_GUARD": "0"}))
            pair.guarded.append(run(name, build, {**env, "HAKMEM_GUARD": str(arguments.rate)}))
    print("| program | CPU time | with guards | spread without | peak memory | with guards |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, pair in pairs.items():
        print(row(name, pair))


if __name__ == "__main__":
    main()
