"""More kinds of programs, for tests alone: no trace of them is stored. The learner's constants were chosen by the
traces of this folder and by CHOSEN_BY. HELD_OUT are other kinds, not other seeds, and no constant was chosen by them.

docs/experiments/2026-11-24-learn-large-stakes.md has the figures.
"""

from __future__ import annotations

import math
from typing import Callable, Dict

from make_traces import Program


def _around(program: Program, median: float, spread: float) -> float:
    return math.exp(program.draw.gauss(math.log(median), spread))


# ---- The constants were chosen by these.


def frozen_long(seed: int) -> Program:
    """Thousands of small gaps, then one of gigabytes that lasts a minute or three."""
    program = Program(seed, 40)
    gap = program.draw.choice((20, 60, 200))
    for number in range(4800):
        if number == 4500:
            program.burst(program.draw.uniform(1500, 6000), 500, program.draw.choice((60_000, 200_000)))
        program.burst(program.draw.uniform(4, 24), 5, program.draw.uniform(0.5, 1.5) * gap)
    return program


def first_long(seed: int) -> Program:
    """The first gap is large and long, all others small and short."""
    program = Program(seed, 40)
    program.rest(1000)
    program.burst(program.draw.uniform(200, 800), 300, program.draw.choice((30_000, 90_000)))
    for _ in range(800):
        program.burst(program.draw.uniform(10, 60), 20, program.draw.expovariate(1 / 120))
    return program


def lognormal_tail(seed: int) -> Program:
    """Gaps and sizes without a typical length."""
    program = Program(seed, 50)
    for _ in range(1200):
        gap = min(_around(program, 60, 2.2), 900_000)
        program.burst(_around(program, 15, 1.2), program.draw.expovariate(1 / 30), gap)
    return program


def slow_jobs(seed: int) -> Program:
    """Eight to twenty gaps in all, of some seconds."""
    program = Program(seed, 30)
    for _ in range(program.draw.randrange(8, 20)):
        program.burst(program.draw.uniform(40, 200), program.draw.uniform(500, 4000), _around(program, 9000, 0.9))
    return program


def cron(seed: int) -> Program:
    """A job of many requests twice a minute."""
    program = Program(seed, 25)
    for _ in range(40):
        for _ in range(program.draw.randrange(20, 60)):
            program.burst(program.draw.uniform(20, 90), program.draw.uniform(10, 60), program.draw.uniform(5, 80))
        program.rest(program.draw.uniform(20_000, 40_000))
    return program


def collector(seed: int) -> Program:
    """A heap that grows to twice what is alive, and falls back."""
    program = Program(seed, 64)
    alive, heap = 64.0, 64.0
    for _ in range(250):
        while heap < alive * 2:
            step = program.draw.uniform(4, 16)
            program.take(step)
            heap += step
            program.rest(program.draw.expovariate(1 / program.draw.choice((30, 120))))
        alive = min(400, max(40, alive * program.draw.uniform(0.8, 1.25)))
        program.take(min(heap, alive) - heap)
        heap = min(heap, alive)
        if program.draw.random() < 0.03:
            program.rest(program.draw.uniform(5000, 60_000))
    return program


def rare_large_long(seed: int) -> Program:
    """Small gaps, and from the middle on now and then a large one that lasts."""
    program = Program(seed, 40)
    for number in range(6000):
        program.burst(program.draw.uniform(4, 24), 5, program.draw.uniform(20, 90))
        if number > 3000 and number % 700 == 0:
            program.burst(program.draw.uniform(500, 2000), 300, program.draw.uniform(5000, 60_000))
    return program


def rare_large_short(seed: int) -> Program:
    """Small gaps, and now and then large ones in a row that are short."""
    program = Program(seed, 40)
    for _ in range(3000):
        program.burst(program.draw.uniform(0.5, 6), 5, program.draw.expovariate(1 / 40))
        if program.draw.random() < 0.01:
            for _ in range(program.draw.randrange(2, 5)):
                gap = program.draw.uniform(0.5, 1.5) * program.draw.choice((60, 600))
                program.burst(program.draw.uniform(200, 400), 200, gap)
    return program


def growing_gaps(seed: int) -> Program:
    """Each gap is a hundredth longer than the one before."""
    program, gap = Program(seed, 40), 10.0
    for _ in range(900):
        program.burst(program.draw.uniform(10, 60), 10, program.draw.uniform(0.7, 1.3) * gap)
        gap *= 1.009
    return program


# ---- Held out.


def frozen_then_large(seed: int) -> Program:
    """Thousands of small gaps, one a hundred times as large, short or long, and the end."""
    program = Program(seed, 60)
    count, size = program.draw.randrange(3500, 6000), program.draw.uniform(2, 10)
    for _ in range(count):
        program.burst(size * program.draw.uniform(0.5, 1.5), 8, program.draw.expovariate(1 / 100))
    program.burst(program.draw.uniform(100, 400) * size, 800, program.draw.choice((400, 20_000, 100_000, 300_000)))
    program.burst(2 * size, 100, 100)
    return program


def day_and_night(seed: int) -> Program:
    """Requests whose rate rises and falls in ten minutes."""
    program = Program(seed, 100)
    for _ in range(4000):
        gap = 5 + 400 * (1 + 0.98 * math.sin(2 * math.pi * program.now / 600_000))
        gap *= 1 + 4 * (program.draw.random() < 0.05)
        program.burst(_around(program, 12, 0.7), program.draw.expovariate(1 / 20), program.draw.expovariate(1 / gap))
    return program


def on_and_off(seed: int) -> Program:
    """Bursts of requests, with Pareto pauses between them."""
    program = Program(seed, 50)
    for _ in range(120):
        for _ in range(program.draw.randrange(5, 60)):
            program.burst(_around(program, 20, 0.8), 10, program.draw.expovariate(1 / 40))
        program.rest(min(300_000, 500 * program.draw.paretovariate(0.8)))
    return program


def pareto(seed: int) -> Program:
    program = Program(seed, 50)
    for _ in range(600):
        gap = min(150 * program.draw.paretovariate(1.1), 900_000)
        program.burst(_around(program, 30, 1.0), program.draw.expovariate(1 / 50), gap)
    return program


def pipeline(seed: int) -> Program:
    """Stages that take memory in parts and free it fast or slowly."""
    program = Program(seed, 20)
    for _ in range(60):
        size, parts = program.draw.uniform(50, 600), program.draw.randrange(2, 12)
        for _ in range(parts):
            program.take(size / parts)
            program.rest(program.draw.expovariate(1 / 400))
        step = 50 if program.draw.random() < 0.5 else 600
        for _ in range(parts):
            program.take(-size / parts)
            program.rest(program.draw.expovariate(1 / step))
        program.rest(program.draw.choice((100, 1000, 8000)) * program.draw.uniform(0.5, 1.5))
    return program


def cache(seed: int) -> Program:
    """A cache that fills slowly and is flushed."""
    program = Program(seed, 30)
    for _ in range(30):
        filled = 0.0
        for _ in range(120):
            size = program.draw.uniform(0.5, 6)
            filled += size
            program.take(size)
            program.rest(program.draw.expovariate(1 / 60))
            program.burst(program.draw.uniform(1, 8), 5, 0)
        kept = program.draw.choice((0, 0.5))
        program.take(-filled * (1 - kept))
        program.rest(program.draw.choice((50, 3000)))
        if kept:
            program.take(-filled * kept)
    return program


def few_gaps(seed: int) -> Program:
    """Three to eight gaps in all."""
    program = Program(seed, 30)
    for _ in range(program.draw.randrange(3, 9)):
        gap = program.draw.choice((500, 4000, 30_000)) * program.draw.uniform(0.5, 1.5)
        program.burst(program.draw.uniform(20, 300), program.draw.uniform(1000, 10_000), gap)
    program.burst(program.draw.uniform(20, 300), 1000, 500)
    return program


def recursion(seed: int) -> Program:
    """Calls within calls: the higher the level, the shorter its gaps."""
    program = Program(seed, 20)

    def call(depth: int) -> None:
        size = program.draw.uniform(1, 12)
        program.take(size)
        program.rest(program.draw.expovariate(1 / 8))
        for _ in range(program.draw.randrange(1, 4) if depth > 0 else 0):
            call(depth - 1)
        program.take(-size)
        program.rest(program.draw.expovariate(1 / 8))

    for _ in range(30):
        call(5)
        program.rest(program.draw.expovariate(1 / 2500))
    return program


def interactive(seed: int) -> Program:
    """A person thinks for three seconds between two commands."""
    program = Program(seed, 120)
    for _ in range(300):
        program.burst(_around(program, 40, 1.0), program.draw.expovariate(1 / 300), _around(program, 3000, 1.0))
    return program


Kinds = Dict[str, Callable[[int], Program]]
_CHOSEN_BY = (
    frozen_long, first_long, lognormal_tail, slow_jobs, cron, collector, rare_large_long, rare_large_short, growing_gaps,
)  # fmt: skip
_HELD_OUT = (
    frozen_then_large, day_and_night, on_and_off, pareto, pipeline, cache, few_gaps, recursion, interactive,
)  # fmt: skip
CHOSEN_BY: Kinds = {kind.__name__: kind for kind in _CHOSEN_BY}
HELD_OUT: Kinds = {kind.__name__: kind for kind in _HELD_OUT}
