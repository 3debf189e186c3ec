"""A thread with the smallest stack ends the process: the reports at the end need no more of it."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Runner

Program = Callable[[str], Path]


@pytest.mark.parametrize("in_use", [0, 2000])
@pytest.mark.parametrize("leaks", ["scan", "on"])
def test_leaks_are_told(
    runner: Runner, program: Program, hakmem_only: None, checks_only: None, leaks: str, in_use: int
) -> None:
    """Every block is sampled, so that there is something to tell."""
    env = {"HAKMEM_LEAKS": leaks, "HAKMEM_PROFILE_RATE": "1"}
    outcome = runner.under([program("small_stack_exit"), in_use], env=env)
    assert (outcome.code, outcome.stdout) == (0, b"")
    assert "hakmem: leaks: " in outcome.errors()


@pytest.mark.parametrize(
    "variable", ["HAKMEM_STATS", "HAKMEM_STATS_FILE", "HAKMEM_PROFILE_FILE", "HAKMEM_LEARN_FILE", "HAKMEM_TRACE"]
)
def test_other_last_words(runner: Runner, program: Program, hakmem_only: None, tmp_path: Path, variable: str) -> None:
    """Each thing that is written at the end."""
    value = "1" if variable == "HAKMEM_STATS" else str(tmp_path / "file")
    env = {variable: value, "HAKMEM_PROFILE": "1" if "PROFILE" in variable else "0"}
    outcome = runner.under([program("small_stack_exit")], env=env)
    assert (outcome.code, outcome.stdout) == (0, b"")
    if variable == "HAKMEM_STATS":
        assert outcome.errors()
    elif variable != "HAKMEM_LEARN_FILE":  # where nothing was learned, nothing is written
        assert (tmp_path / "file").stat().st_size > 0
