"""Processes that share a number: the first of a pid namespace, and the first of one nested in it."""

from __future__ import annotations

import json
import re
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


def test_both_have_a_file(runner: Runner, program: Callable[[str], Path], tmp_path: Path) -> None:
    """%p is 1 in both names: the one that writes later has the time in its name."""
    outcome = runner.under([program("pid_namespace"), "quiet"], env={"HAKMEM_STATS_FILE": f"{tmp_path}/%p.json"})
    if outcome.code == SKIPPED:
        pytest.skip("this user may make no pid namespace")
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, b"", b"")
    files = sorted(tmp_path.iterdir(), key=lambda file: file.name)
    assert [bool(re.fullmatch(r"1(-\d{13})?\.json", file.name)) for file in files].count(True) == 2, files
    assert sorted(json.loads(file.read_text())["pid"] for file in files)[:2] == [1, 1]
    assert len(files) == 3
