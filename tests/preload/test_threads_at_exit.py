"""A process that ends while its detached threads go on: nothing they do may crash it, or keep it from ending."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Runner

Program = Callable[[str], Path]

STATIONS = "main\natexit\ndestructor\nstreams\n"


@pytest.mark.parametrize("how", ["return", "exit"])
def test_detached_threads_at_exit(runner: Runner, program: Program, scaled: Callable[[int], int], how: str) -> None:
    """100 ends of each kind. The threads get on meanwhile: exit handlers, destructors and streams wait for them to."""
    for _ in range(scaled(100)):
        runner.expect([program("detached_exit"), how], STATIONS)


@pytest.mark.usefixtures("hakmem_only")
def test_detached_threads_while_stats_are_written(
    runner: Runner, program: Program, scaled: Callable[[int], int]
) -> None:
    """The sums are taken at the end, of heaps whose threads are still at work."""
    for _ in range(scaled(20)):
        outcome = runner.under([program("detached_exit"), "return"], env={"HAKMEM_STATS": "1"})
        assert (outcome.code, outcome.text()) == (0, STATIONS)
        assert all(line.startswith(("hakmem: ", "  ")) for line in outcome.errors().splitlines())
