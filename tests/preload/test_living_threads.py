"""Threads that live and do nothing keep little: what their heaps keep goes back, and near a limit on memory at once.
Where they are many, they share heaps."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Runner

Program = Callable[[str], Path]
Report = Callable[[str, object], None]

THREADS = 200
# Each has a stack of its own; glibc has 60 KiB a thread in the same program.
BOUND_KIB = THREADS * 100
# Without the limit each thread keeps 1.1 MiB until it is quiet for long enough.
LIMIT_MIB = 64
PEAK_NEAR_LIMIT_KIB = 160 << 10

pytestmark = pytest.mark.usefixtures("hakmem_only")


def peak_kib(runner: Runner, program: Program, **environment: str) -> int:
    """Highest resident memory of living_threads, which ends when its threads keep at most the bound."""
    outcome = runner.under([program("living_threads"), str(THREADS), str(BOUND_KIB)], env=environment)
    assert (outcome.code, outcome.errors()) == (0, "")
    return int(outcome.text())


@pytest.mark.parametrize(
    "environment", [{}, {"HAKMEM_RETAIN": "0"}, {"HAKMEM_MODE": "lean"}], ids=["default", "retain_0", "lean"]
)
def test_quiet_threads_keep_little(runner: Runner, program: Program, environment: dict[str, str]) -> None:
    peak_kib(runner, program, **environment)


def test_a_limit_on_memory_reaches_them(runner: Runner, program: Program, record_property: Report) -> None:
    peak = peak_kib(runner, program, HAKMEM_MEMORY_LIMIT=f"{LIMIT_MIB}M")
    record_property("peak_kib", peak)
    assert peak <= PEAK_NEAR_LIMIT_KIB


@pytest.mark.parametrize("environment", [{}, {"HAKMEM_MEMORY_LIMIT": "1M"}], ids=["default", "limit"])
def test_handlers_that_sleep(
    runner: Runner, program: Program, scaled: Callable[[int], int], environment: dict[str, str]
) -> None:
    """A thread that sleeps in a signal handler, inside malloc, keeps its heap: each block keeps its contents."""
    runner.expect([program("sleep_in_handlers"), str(scaled(8000))], "ok\n", env=environment)


# A thread's stack and the C library's record of it, in KiB.
STACK_KIB = 16


# Where threads run at once, the machine's load decides how many have a heap of their own: 3.3 was the most of 300 runs.
@pytest.mark.parametrize("order, most", [("in-turn", 1.3), ("at-once", 5.0)])
def test_many_threads_share_heaps(runner: Runner, program: Program, order: str, most: float) -> None:
    """Threads that keep 64 KiB of small blocks, in the heaps of those that sleep: they find their blocks unchanged."""
    outcome = runner.under([program("threads_with_blocks"), str(THREADS), order])
    assert (outcome.code, outcome.errors()) == (0, "")
    kept, resident = map(int, outcome.text().split())
    assert kept > THREADS * 56
    assert resident <= most * kept + THREADS * STACK_KIB + 4096, outcome.text()
