"""Signals in the middle of everything, and threads that are cancelled."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Runner

Program = Callable[[str], Path]
Scaled = Callable[[int], int]


@pytest.mark.parametrize(("how", "count", "at_least_a_second"), [("timer", 6000, 100), ("pthread_kill", 10000, 1000)])
def test_signals(
    runner: Runner, program: Program, scaled: Scaled, how: str, count: int, at_least_a_second: int
) -> None:
    """6,000 of the timer's signals are six seconds, and 600,000 ten minutes. What hangs is ended by the timeout."""
    signals = scaled(count)
    runner.expect([program("signal_storm"), how, signals], "ok\n", timeout=120 + signals / at_least_a_second)


def test_cancelled_threads(runner: Runner, program: Program, scaled: Scaled) -> None:
    """The program itself fails if memory grows by more than 16 MiB after the first quarter."""
    threads = scaled(2000)
    runner.expect([program("cancel_storm"), threads], "ok\n", timeout=120 + threads / 10)
