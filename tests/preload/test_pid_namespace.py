"""Processes that share a number: the first of a pid namespace, and the first of one nested in it."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Runner

pytestmark = pytest.mark.usefixtures("hakmem_only")
SKIPPED = 77


def test_both_have_a_serve_thread(runner: Runner, program: Callable[[str], Path], tmp_path: Path) -> None:
    """The first process of each namespace has the number 1; that its parent has one concerns the nested one nothing."""
    variables = {"HAKMEM_STATS_FILE": str(tmp_path / "stats.%p.json"), "HAKMEM_STATS_INTERVAL": "1"}
    outcome = runner.under([program("pid_namespace")], env=variables)
    if outcome.code == SKIPPED:
        pytest.skip("this user may make no pid namespace")
    assert outcome.code == 0
    assert outcome.stdout == b"first 1 serves\nnested 1 serves\n"
