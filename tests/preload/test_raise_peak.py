"""hakmem purges dirty memory as the process's resident memory rises above its highest so far, by mmap too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Callable, NamedTuple

import pytest
from preload_runner import Runner

Program = Callable[[str], Path]

MIB = 1024 * 1024

pytestmark = pytest.mark.usefixtures("hakmem_only")


class Course(NamedTuple):
    """The bytes by which the peak rose, those that hakmem purged meanwhile, and those that it soon faulted in again."""

    rise: int
    purged: int
    refaulted: int


def run(runner: Runner, program: Program, file: Path, mode: str) -> Course:
    """Run the program in one mode."""
    outcome = runner.under([program("raise_peak")], env={"HAKMEM_MODE": mode, "HAKMEM_STATS_FILE": str(file)})
    assert (outcome.code, outcome.errors()) == (0, "")
    word, kib = outcome.text().split()
    assert word == "peak"
    events = json.loads(file.read_text())["events"]
    assert events["purged"] >= events["purged_at_peak"]
    return Course(int(kib) * 1024, events["purged_at_peak"], events["refaulted"])


def test_dirty_memory_makes_room_for_what_raises_the_peak(runner: Runner, program: Program, tmp_path: Path) -> None:
    """The program's own 64 MiB take the place of dirty memory, which stays beside them where memory is cheap."""
    kept = run(runner, program, tmp_path / "fast.json", "fast")
    made_room = run(runner, program, tmp_path / "balanced.json", "balanced")
    assert kept.purged == 0
    # Now and then the program's own blocks take purged memory, which is dirty once they are freed, and purged again.
    assert 2 * MIB <= made_room.purged - made_room.refaulted <= 8 * MIB  # HAKMEM_RETAIN
    assert made_room.purged <= made_room.rise
    assert made_room.rise < 37 * MIB  # 38.7 without
