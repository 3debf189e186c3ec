"""HAKMEM_TRACE: the bytes in use over time, recorded from real programs, and read by `hakmem learn replay`."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Callable, List

import pytest
from preload_runner import Outcome, Runner, with_limit

pytestmark = pytest.mark.usefixtures("hakmem_only")
Program = Callable[[str], Path]
CLI = Path(__file__).resolve().parents[2] / "cli"
sys.path.insert(0, str(CLI))

from hakmem import level_trace  # noqa: E402

UNIT = level_trace.UNIT_BYTES
MIB = 1 << 20
# What `levels` does, in slabs.
LEVELS = [change * MIB // UNIT for change in (8, 16, -16, 16, -16, 16, -16, -8)]


def steps(path: Path) -> List[int]:
    """The changes of more than 6 MiB, in slabs; below that is what programs do besides."""
    in_use = level_trace.read(str(path)).in_use_bytes
    changes = [(after - before) // UNIT for before, after in zip([0, *in_use], in_use)]
    return [change for change in changes if abs(change) > 6 * MIB // UNIT]


def one_warning(outcome: Outcome, reason: str) -> None:
    assert outcome.code == 7
    lines = outcome.errors().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("hakmem: warning: HAKMEM_TRACE=") and reason in lines[0]


def test_what_a_program_did_is_in_it(runner: Runner, program: Program, tmp_path: Path) -> None:
    file = tmp_path / "trace"
    assert runner.under([program("levels")], env={"HAKMEM_TRACE": str(file)}) == Outcome(7, b"", b"")
    assert steps(file) == LEVELS
    trace = level_trace.read(str(file))
    assert min(trace.in_use_bytes) >= 0 and max(trace.in_use_bytes) < 30 * MIB
    assert trace.times_ms[-1] >= 9 * 20 - 10
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_it_knows_the_price(runner: Runner, program: Program, tmp_path: Path) -> None:
    file = tmp_path / "trace"
    runner.under([program("levels")], env={"HAKMEM_TRACE": str(file), "HAKMEM_MODE": "12345"})
    assert level_trace.read(str(file)).price == 12345


def test_the_tool_replays_it(runner: Runner, program: Program, library: Path, tmp_path: Path) -> None:
    pytest.importorskip("click")
    pytest.importorskip("rich")
    subprocess.run(
        ["cmake", "--build", str(library.parent), "--target", "hakmem_policy"], check=True, capture_output=True
    )
    file = tmp_path / "trace"
    runner.under([program("levels")], env={"HAKMEM_TRACE": str(file)})
    start = f"import sys; sys.path.insert(0, {str(CLI)!r}); from hakmem.main import main; main()"
    words = ["learn", "replay", "--json", "-", "--library", library.parent / "libhakmem-policy.so", file]
    done = subprocess.run(
        [sys.executable, "-I", "-c", start, *map(str, words)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["learner"]["cost_ns"] > 0


def test_a_child_with_a_path_of_its_own_records_from_its_start(
    runner: Runner, program: Program, tmp_path: Path
) -> None:
    outcome = runner.under([program("levels"), "fork"], env={"HAKMEM_TRACE": str(tmp_path / "a%%b-%p")})
    assert (outcome.code, outcome.errors()) == (7, "")
    parent, child = outcome.text().split()
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([f"a%b-{parent}", f"a%b-{child}"])
    assert steps(tmp_path / f"a%b-{parent}") == steps(tmp_path / f"a%b-{child}") == LEVELS


def test_a_child_without_records_nothing(runner: Runner, program: Program, tmp_path: Path) -> None:
    file = tmp_path / "trace"
    outcome = runner.under([program("levels"), "fork"], env={"HAKMEM_TRACE": str(file)})
    assert (outcome.code, outcome.errors()) == (7, "")
    assert steps(file) == LEVELS and list(tmp_path.iterdir()) == [file]


def test_exec_leaves_the_name_to_the_next_program(runner: Runner, program: Program, tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", 'exec "$0"', program("levels")]
    assert runner.under(command, env={"HAKMEM_TRACE": str(tmp_path / "%p")}) == Outcome(7, b"", b"")
    (file,) = tmp_path.iterdir()
    assert steps(file) == LEVELS


def test_who_is_killed_has_recorded_until_then(runner: Runner, program: Program, tmp_path: Path) -> None:
    file = tmp_path / "trace"
    assert runner.under([program("levels"), "kill"], env={"HAKMEM_TRACE": str(file)}).code == -9
    assert steps(file)[: len(LEVELS)] == LEVELS


@pytest.mark.parametrize("name", ["trace", "-trace"])
def test_a_program_that_closes_all_is_left_in_peace(
    runner: Runner, program: Program, tmp_path: Path, name: str
) -> None:
    """A "-" belongs to the path: it silences no message, as it does in HAKMEM_STATS_FILE."""
    file, own = tmp_path / name, tmp_path / "own"
    outcome = runner.under([program("levels"), "close", own], env={"HAKMEM_TRACE": name}, cwd=tmp_path)
    assert outcome == Outcome(7, b"", b""), "its stderr is closed: there is no stream to write to"
    assert own.read_bytes() == b""
    assert steps(file)[: len(LEVELS)] == LEVELS


# ---- What cannot be written.


def test_what_exists_stays(runner: Runner, program: Program, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for path in (file, Path("/dev/full")):
        one_warning(runner.under([program("levels")], env={"HAKMEM_TRACE": str(path)}), "exists already")
    assert file.read_text() == "mine"


def test_a_folder_that_is_missing(runner: Runner, program: Program, tmp_path: Path) -> None:
    env = {"HAKMEM_TRACE": str(tmp_path / "none" / "trace")}
    one_warning(runner.under([program("levels")], env=env), "cannot be written: its folder does not exist")


def test_a_limit_on_files_costs_the_trace_and_not_the_program(runner: Runner, program: Program, tmp_path: Path) -> None:
    command = with_limit("-f", 0, [program("levels")])
    outcome = runner.under(command, env={"HAKMEM_TRACE": str(tmp_path / "%p")})
    one_warning(outcome, "is not recorded to the end: no space is left, or allowed")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_path_is_none(runner: Runner, program: Program) -> None:
    assert runner.under([program("levels")], env={"HAKMEM_TRACE": ""}) == Outcome(7, b"", b"")
