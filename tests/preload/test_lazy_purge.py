"""HAKMEM_PURGE=free: memory that the system may take when it is short of it, and that counts as resident until then."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Callable, Dict, NamedTuple

import pytest
from preload_runner import Runner

Program = Callable[[str], Path]

KIB = 1024
MIB = 1024 * KIB
TOTAL = 64 * MIB
# Tiny, mid, runs.
SIZES = [1024, 12000, 32 * KIB, 60 * KIB, 300 * KIB]
LAZY = {"HAKMEM_PURGE": "free", "HAKMEM_RETAIN": "0"}

pytestmark = pytest.mark.usefixtures("hakmem_only")


class Course(NamedTuple):
    """What lazy_purge printed."""

    peak: int
    freed: int
    lazy: int
    end: int


def run(runner: Runner, program: Program, size: int, how: str, env: Dict[str, str]) -> Course:
    outcome = runner.under([program("lazy_purge"), size, how], env=env)
    assert (outcome.code, outcome.errors()) == (0, "")
    match = re.fullmatch(r"peak (\d+) freed (\d+) lazy (\d+) end (\d+)\n", outcome.text())
    assert match, outcome.text()
    course = Course(*(int(number) for number in match.groups()))
    assert course.peak > 0.98 * TOTAL
    return course


@pytest.mark.parametrize("size", SIZES)
def test_what_is_freed_is_the_systems_to_take(runner: Runner, program: Program, tmp_path: Path, size: int) -> None:
    """It stays resident while there is memory enough, and is told as such."""
    file = tmp_path / "stats.json"
    course = run(runner, program, size, "stay", {**LAZY, "HAKMEM_STATS_FILE": str(file)})
    assert course.lazy > 0.75 * TOTAL  # a superslab that none of what stays is in is unmapped
    assert course.lazy < course.freed < course.lazy + 8 * MIB
    stats = json.loads(file.read_text())
    memory, parts = stats["memory"], stats["parts"]
    assert memory["lazy"] >= parts["lazy"]
    assert abs(parts["lazy"] - course.lazy) < 4 * MIB
    assert sum(parts.values()) == pytest.approx(memory["resident"], abs=MIB)
    assert parts["not_malloc"] < 8 * MIB
    assert memory["dirty"] == parts["kept_by_heaps"] + parts["dirty_slabs"] + parts["large_dirty"] < 8 * MIB
    assert memory["purged"] + memory["dirty"] + parts["lazy"] <= memory["cached"]
    assert stats["events"]["purged_lazily"] >= memory["lazy"]
    assert stats["options"]["purge"] == "free"


def test_by_default_it_goes_at_once(runner: Runner, program: Program, tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    course = run(runner, program, 60 * KIB, "stay", {"HAKMEM_RETAIN": "0", "HAKMEM_STATS_FILE": str(file)})
    assert course.lazy == 0
    assert course.freed < TOTAL // 4
    stats = json.loads(file.read_text())
    assert (stats["memory"]["lazy"], stats["parts"]["lazy"], stats["events"]["purged_lazily"]) == (0, 0, 0)


@pytest.mark.parametrize("size", [1024, 60 * KIB])
def test_who_asks_gets_it_back_at_once(runner: Runner, program: Program, size: int) -> None:
    course = run(runner, program, size, "trim", LAZY)
    assert course.lazy > 0.9 * TOTAL
    assert course.end < course.freed - 0.9 * TOTAL


@pytest.mark.parametrize("size", [*SIZES, 3 * MIB, 32 * MIB])
def test_calloc_finds_nothing_of_it(runner: Runner, program: Program, size: int) -> None:
    run(runner, program, size, "again", LAZY)


def test_near_a_limit_it_goes_at_once(runner: Runner, program: Program) -> None:
    course = run(runner, program, 60 * KIB, "stay", {**LAZY, "HAKMEM_MEMORY_LIMIT": "16M"})
    assert course.lazy < 16 * MIB
    assert course.freed < 24 * MIB


def test_what_is_no_way_to_purge(runner: Runner) -> None:
    outcome = runner.under(["/bin/true"], env={"HAKMEM_PURGE": "later"})
    assert outcome.code == 0
    assert outcome.errors() == (
        "hakmem: warning: HAKMEM_PURGE=later is not accepted: expected dontneed or free; keeping the default dontneed "
        "(see: hakmem help options)\n"
    )
