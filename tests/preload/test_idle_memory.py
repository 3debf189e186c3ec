"""The resident memory of an idle program: freed memory goes back to the system, whichever thread freed it."""

from __future__ import annotations

import json
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import SKIPPED, Runner

Program = Callable[[str], Path]
Report = Callable[[str, object], None]

KIB = 1024
MIB = 1024 * KIB
SIZES = [4 * KIB, 64 * KIB, 4 * MIB]
BEATS_A_SECOND = 50  # idle_memory.h
# Two seconds are promised. The machine that runs the tests may be busy: it gets another half. Where the process
# measured that purges and faults cost more than expected, memory stays dirty for longer in proportion.
MOST_BEATS = 5 * BEATS_A_SECOND // 2
EXPECTED_BREAK_EVEN_MS = 1800
FREED = 1024 * MIB
LIVE = 256 * MIB
ALL_FREED_BOUND = 16 * MIB

pytestmark = pytest.mark.usefixtures("hakmem_only")


@pytest.fixture(scope="session")
def room() -> int:
    """How much each of the programs that run at once may take of this machine: half of what there is, together."""
    match = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.M)
    available = int(match.group(1)) * KIB if match else 0
    if available < 2048 * MIB:
        pytest.skip(f"only {available // MIB} MiB are available")
    return available // 2 // len(SIZES)


def bound_for(live: int) -> int:
    """An idle program is back within 10% of its live bytes + 8 MiB."""
    return live + live // 10 + 8 * MIB


@dataclass(frozen=True)
class Plan:
    """What one run of idle_return does. It is to have no more resident than the bound."""

    how: str
    size: int
    taken: int
    live: int
    bound: int
    bursts: int = 1
    pause_ms: int = 0

    def run(self, runner: Runner, program: Path) -> Result:
        arguments = [self.how, self.size, self.taken, self.live, self.bound, self.bursts, self.pause_ms]
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "stats.json"
            outcome = runner.under([program, *arguments], env={"HAKMEM_STATS_FILE": str(report)})
            assert (outcome.code, outcome.errors()) == (0, ""), self
            break_even_ms = json.loads(report.read_text())["learning"]["break_even_ms"]
        match = re.fullmatch(r"peak (\d+) beats (\d+) resident (\d+)\n", outcome.text())
        assert match, outcome.text()
        peak, beats, resident = (int(number) for number in match.groups())
        assert peak > 0.95 * self.taken, f"{self}: only {peak} bytes were ever resident"
        return Result(self, beats, resident, break_even_ms)


@dataclass(frozen=True)
class Result:
    """The beats that a plan took, and the bytes resident then."""

    plan: Plan
    beats: int
    resident: int
    break_even_ms: int

    @property
    def is_late(self) -> bool:
        return self.beats > MOST_BEATS * max(1, self.break_even_ms / EXPECTED_BREAK_EVEN_MS)


def run_at_once(runner: Runner, program: Path, plans: list[Plan], record: Report) -> None:
    """Most of the time is waiting, so the programs wait together."""
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda plan: plan.run(runner, program), plans))
    record("size, beats, resident", [(one.plan.size, one.beats, one.resident) for one in results])
    late = [one for one in results if one.is_late]
    assert not late, "\n".join(str(one) for one in late)


@pytest.mark.parametrize("how", ["alone", "each", "handed", "joined"])
def test_all_that_was_freed_goes_back(
    runner: Runner, program: Program, room: int, how: str, record_property: Report
) -> None:
    """1 GiB in blocks of one size is freed: less than 16 MiB are resident two seconds later."""
    taken = min(FREED, room)
    plans = [Plan(how, size, taken, 0, ALL_FREED_BOUND - 1) for size in SIZES]
    run_at_once(runner, program("idle_return"), plans, record_property)


@pytest.mark.parametrize("how", ["each", "handed", "joined"])
def test_what_is_live_stays(runner: Runner, program: Program, room: int, how: str, record_property: Report) -> None:
    """A quarter of it is live: ten parts in a hundred more than that, and 8 MiB, are resident two seconds later."""
    live = min(LIVE, room // 4)
    plans = [Plan(how, size, 4 * live, live, bound_for(live)) for size in SIZES]
    run_at_once(runner, program("idle_return"), plans, record_property)


def test_silence_after_bursts(runner: Runner, program: Program, room: int, record_property: Report) -> None:
    """All is wanted again 300 ms after its free, eight times, so keeping it is right. Then nothing is wanted."""
    live = min(LIVE, room // 4) // 4
    plans = [Plan("each", size, 4 * live, live, bound_for(live), bursts=8, pause_ms=300) for size in SIZES]
    run_at_once(runner, program("idle_return"), plans, record_property)


def test_one_thread_with_long_pauses(runner: Runner, program: Program, room: int, record_property: Report) -> None:
    """No other thread purges for a single thread. A refault after the break-even time is no error. The pauses are long
    enough for twice the expected costs."""
    taken = min(FREED, room) // 4
    plans = [Plan("alone", size, taken, 0, ALL_FREED_BOUND - 1, bursts=3, pause_ms=4000) for size in SIZES]
    run_at_once(runner, program("idle_return"), plans, record_property)


def test_one_thread_that_falls_deeper(runner: Runner, program: Program, room: int, record_property: Report) -> None:
    """A part is wanted again at once, five times, so it stays; then all is freed for the first time, for good."""
    taken = min(FREED, room) // 4
    plans = [Plan("falls", size, taken, taken // 2, ALL_FREED_BOUND - 1, bursts=5) for size in SIZES]
    run_at_once(runner, program("idle_return"), plans, record_property)


@pytest.mark.parametrize("call", ["none", "munmap", "madvise"])
def test_giving_back_is_refused(runner: Runner, program: Program, call: str) -> None:
    """Where munmap is refused the memory can still be purged. Where madvise is, it stays, and serves the next requests.

    The program's filter refuses and does not kill, which is said, for otherwise there is no purge thread."""
    variables = {"HAKMEM_MODE": "lean", "HAKMEM_SANDBOX": "off"}
    outcome = runner.under([program("return_refused"), call], env=variables)
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    assert (outcome.code, outcome.errors()) == (0, "")
    match = re.fullmatch(r"resident (\d+)\n", outcome.text())
    assert match, outcome.text()
    assert (int(match.group(1)) > ALL_FREED_BOUND) == (call == "madvise")
