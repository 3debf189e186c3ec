#!/usr/bin/env python3
"""Makes the synthetic traces of this folder: bytes in use over time, each from a seed of its own. README.md has a list.

python3 make_traces.py            writes all of them beside this script
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path
from typing import Callable, Dict, List, Tuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cli"))

from hakmem import level_trace  # noqa: E402

MIB = 1 << 20
SLAB = level_trace.UNIT_BYTES


class Program:
    """A program that allocates and frees memory. Time is in ms."""

    def __init__(self, seed: int, base_mib: float = 0) -> None:
        self.draw = random.Random(seed)
        self.now = 0
        self.in_use = 0
        self.records: List[Tuple[int, int]] = []
        self.take(base_mib)

    def take(self, mib: float) -> None:
        """More in use, or less; whole slabs."""
        self.in_use = max(0, self.in_use + round(mib * MIB / SLAB) * SLAB)
        if not self.records or self.records[-1][1] != self.in_use:
            self.records.append((self.now, self.in_use))

    def rest(self, ms: float) -> None:
        """Time passes."""
        self.now += max(0, round(ms))

    def burst(self, mib: float, ms: float, rest_ms: float) -> None:
        """Takes memory, works, frees it, rests."""
        self.take(mib)
        self.rest(ms)
        self.take(-mib)
        self.rest(rest_ms)

    def end(self) -> List[Tuple[int, int]]:
        """The trace ends when the program does: its last record says when."""
        self.records.append((self.now, self.in_use))
        return self.records


def steady_server() -> Program:
    program = Program(1, 150)
    for _ in range(1500):
        program.burst(program.draw.uniform(1, 12), program.draw.expovariate(1 / 30), program.draw.expovariate(1 / 50))
    return program


def bursts(seed: int, count: int, period_ms: float, mib: float) -> Program:
    """Each burst takes a tenth of the period; sizes and periods vary by a fifth."""
    program = Program(seed, 60)
    for _ in range(count):
        size, period = (program.draw.uniform(0.8, 1.2) * value for value in (mib, period_ms))
        program.burst(size, period / 10, period * 9 / 10)
    return program


def build_and_teardown() -> Program:
    program = Program(5, 20)
    for _ in range(8):
        steps = [program.draw.uniform(1, 9) for _ in range(80)]
        for size in steps:
            program.take(size)
            program.rest(program.draw.expovariate(1 / 150))
            program.burst(size / 2, program.draw.expovariate(1 / 20), 0)
        for size in reversed(steps):
            program.take(-size)
            program.rest(program.draw.expovariate(1 / 30))
        program.rest(program.draw.uniform(20_000, 60_000))
    return program


def two_phase() -> Program:
    """A program that answers small requests, and then makes reports."""
    program = Program(6, 40)
    for _ in range(500):
        program.burst(program.draw.uniform(20, 40), 60, program.draw.uniform(150, 450))
    for _ in range(60):
        program.burst(program.draw.uniform(150, 250), 2000, program.draw.uniform(15_000, 45_000))
    return program


def random_big() -> Program:
    """Eight buffers of 1 to 64 MiB, replaced at random, and now and then all dropped."""
    program = Program(7, 10)
    live: List[float] = []
    for _ in range(1200):
        if len(live) == 8 or (live and program.draw.random() < 0.4):
            program.take(-live.pop(program.draw.randrange(len(live))))
        else:
            live.append(math.exp(program.draw.uniform(0, math.log(64))))
            program.take(live[-1])
        if program.draw.random() < 0.01:
            program.take(-sum(live))
            live = []
            program.rest(program.draw.uniform(3000, 30_000))
        program.rest(program.draw.expovariate(1 / 80))
    return program


def switching(seed: int, every: int, count: int) -> Program:
    """Short gaps, then long ones, then short ones: each lesson is wrong as soon as it is learned."""
    program = Program(seed, 30)
    for number in range(count):
        short = number // every % 2 == 0
        program.burst(32, 20, program.draw.uniform(30, 60) if short else program.draw.uniform(8000, 12_000))
    return program


def heavy_tail() -> Program:
    """Gaps without a typical length: Pareto with the exponent 0.9."""
    program = Program(10, 50)
    for _ in range(1500):
        gap = min(20 * program.draw.paretovariate(0.9), 600_000)
        program.burst(program.draw.lognormvariate(2.5, 1), program.draw.expovariate(1 / 30), gap)
    return program


def bimodal() -> Program:
    """Nine gaps of ten are a few ms, the tenth some seconds."""
    program = Program(11, 80)
    for _ in range(1500):
        short = program.draw.random() < 0.9
        gap = program.draw.uniform(2, 12) if short else program.draw.uniform(6000, 14_000)
        program.burst(program.draw.uniform(16, 48), program.draw.expovariate(1 / 20), gap)
    return program


def tide() -> Program:
    """Small fast churn on top of a slow tide."""
    program = Program(12, 50)
    level = 0.0
    for _ in range(3000):
        want = 150 * (1 - math.cos(2 * math.pi * program.now / 150_000))
        program.take(want - level)
        level = want
        program.burst(program.draw.uniform(0.5, 6), program.draw.expovariate(1 / 60), program.draw.expovariate(1 / 140))
    return program


TRACES: Dict[str, Callable[[], Program]] = {
    "steady_server": steady_server,
    "bursts_100ms": lambda: bursts(2, 800, 100, 25),
    "bursts_1s": lambda: bursts(3, 300, 1000, 40),
    "bursts_60s": lambda: bursts(4, 60, 60_000, 120),
    "build_and_teardown": build_and_teardown,
    "two_phase": two_phase,
    "random_big": random_big,
    "switching_fast": lambda: switching(8, 40, 800),
    "switching_slow": lambda: switching(9, 400, 2400),
    "heavy_tail": heavy_tail,
    "bimodal": bimodal,
    "tide": tide,
}


def main() -> None:
    for name, make in TRACES.items():
        level_trace.write(Path(__file__).resolve().parent / f"{name}.level", make().end())


if __name__ == "__main__":
    main()
