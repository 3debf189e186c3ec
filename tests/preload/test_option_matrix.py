"""Random operations under pairs of unusual options: option_matrix.py, which runs all of them for as long as wanted.

At scale 1 every combination, 10^7 operations in all; below, few pairs that have every setting once.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import option_matrix
import pytest
from option_matrix import Combination, Operations, Setting
from preload_runner import Outcome, Runner

SCALE = float(os.environ.get("HAKMEM_TEST_SCALE") or 1)
SEED = int(os.environ.get("HAKMEM_TEST_SEED") or "1", 0)
COMBINATIONS = option_matrix.combinations() if SCALE >= 1 else option_matrix.few_combinations(SEED)
BAND_COUNTERS = ("run_alloc", "run_reuse", "large_alloc", "large_reuse")
HEAP_COUNTERS = ("slab_acquire", "slab_release", "slab_move", "remote_free", "remote_drain", "realloc_in_place")

pytestmark = pytest.mark.usefixtures("hakmem_only", "checks_only")


@pytest.mark.parametrize("combination", COMBINATIONS, ids=option_matrix.name_of)
def test_the_contract_holds(library: Path, combination: Combination) -> None:
    operations = int(option_matrix.OPERATIONS * SCALE) // len(COMBINATIONS)
    for run in option_matrix.operations_of(library.parent, combination, SEED, operations):
        problem = run.problem()
        assert problem is None, problem


@pytest.mark.parametrize("setting", option_matrix.SETTINGS, ids=Setting.name)
def test_each_setting_is_in_force(runner: Runner, library: Path, tmp_path: Path, setting: Setting) -> None:
    """A renamed option fails here, and a value that is the default."""
    wanted = dict(setting.options)
    assert set(wanted) <= set(option_matrix.declared_options())
    run = Operations(library.parent, (setting,), SEED, 1, 1)
    file = tmp_path / "stats.json"
    outcome = runner.plain(["/bin/true"], env={**run.variables(), "HAKMEM_STATS_FILE": str(file)})
    if wanted == {"sandbox": "on"}:  # no file is opened then
        assert outcome.code == 0 and "cannot be written: a system call filter may kill for it" in outcome.errors()
        return
    assert outcome == Outcome(0, b"", b"")
    assert json.loads(file.read_text())["options"] == {**wanted, "stats_file": str(file)}


def test_an_unknown_option_fails(library: Path) -> None:
    run = Operations(library.parent, (Setting("no_such", (("no_such", "1"),)),), SEED, 1000, 1)
    problem = run.problem()
    assert problem is not None and "HAKMEM_NO_SUCH" in problem


def test_operations_reach_what_they_are_for(library: Path, tmp_path: Path) -> None:
    """Steals, remote frees, all bands, purged memory: a run under the defaults has them all."""
    file = tmp_path / "stats.json"
    run = Operations(library.parent, (), SEED, 100_000, 4)
    assert run.problem({"HAKMEM_STATS_FILE": str(file)}) is None
    events = json.loads(file.read_text())["events"]
    missing = [name for name in (*BAND_COUNTERS, *HEAP_COUNTERS, "purged") if events[name] == 0]
    assert missing == []
