"""The purge thread: when it is there, what it is like, and that it disturbs no other thread."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import SKIPPED, Outcome, Runner

Program = Callable[[str], Path]
Scaled = Callable[[int], int]

# Dirty memory is soon due at this price: nothing here checks how soon.
LEAN = {"HAKMEM_MODE": "lean"}
TIMEOUT = 40.0  # behind the programs' own alarms, which do not end a process whose last thread blocks every signal

pytestmark = pytest.mark.usefixtures("hakmem_only")


def expect_all(runner: Runner, commands: list[list[object]], stdout: str) -> None:
    """Each program with two prices, all of them at once: most of the time is waiting."""
    runs = [(command, mode) for command in commands for mode in ("lean", "balanced")]
    with ThreadPoolExecutor() as pool:
        outcomes = pool.map(lambda run: runner.under(run[0], env={"HAKMEM_MODE": run[1]}, timeout=TIMEOUT), runs)
        assert dict(zip(map(str, runs), outcomes)) == {str(run): Outcome(0, stdout.encode(), b"") for run in runs}


def test_comes_and_goes(runner: Runner, program: Program) -> None:
    """Late, and as long as there is company."""
    expect_all(runner, [[program("purge_comes"), when] for when in ("idle", "late")], "came\nback\nwent\n")


def test_is_charged_to_no_tag(runner: Runner, program: Program) -> None:
    """The C library's memory for the thread is not the program's."""
    for _ in range(3):
        assert runner.under([program("tag_counts_alone")], timeout=TIMEOUT) == Outcome(0, b"", b"")


def test_of_a_library_loaded_late(runner: Runner, program: Program) -> None:
    """dlopen of the library itself, in a program that runs on the C library's malloc."""
    outcome = runner.plain([program("purge_comes"), runner.library], env=LEAN, timeout=TIMEOUT)
    assert outcome == Outcome(0, b"came\nback\nwent\n", b"")


def times_seen(runner: Runner, program: Path, how: str, env: dict[str, str], beats: int) -> int:
    """In how many of the beats the thread was there."""
    outcome = runner.under([program, how, beats], env={**LEAN, **env}, timeout=TIMEOUT)
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    match = re.fullmatch(r"seen (\d+)\n", outcome.text())
    assert (outcome.code, outcome.errors()) == (0, "") and match, (how, outcome)
    return int(match.group(1))


def test_stays_away(runner: Runner, program: Program, scaled: Scaled) -> None:
    """No thread for one thread, none where nothing is idle, none where it is switched off."""
    cases: list[tuple[str, dict[str, str]]] = [
        ("idle", {"HAKMEM_PURGE_THREAD": "1"}),
        ("idle", {"HAKMEM_PURGE_THREAD": "0"}),
        ("alone", {}),
        ("busy", {}),
    ]
    with ThreadPoolExecutor() as pool:
        seen = list(
            pool.map(lambda case: times_seen(runner, program("purge_stays_away"), *case, max(50, scaled(100))), cases)
        )
    assert seen[0] > 0, "the control: there it is wanted"
    assert seen[1:] == [0, 0, 0]


def test_where_no_thread_may_be_made(runner: Runner, program: Program) -> None:
    """A sandbox refuses clone: freed memory goes back at once, without a message."""
    assert times_seen(runner, program("purge_stays_away"), "refused", {}, 50) == 0


def test_disturbs_nobody(runner: Runner, program: Program) -> None:
    """Signals, stack and credentials: the programs say which."""
    expect_all(runner, [[program("purge_nature")], [program("purge_signals")]], "ok\n")


@pytest.mark.parametrize("how", [("again", 1), ("storm", 500), ("vfork", 6)], ids=lambda how: how[0])
def test_children(runner: Runner, program: Program, scaled: Scaled, how: tuple[str, int]) -> None:
    """A child of fork has no purge thread until it needs one, and no lock of it."""
    children = scaled(how[1])
    command = [program("purge_fork"), how[0], children]
    runner.expect(command, "ok\n", env=LEAN, timeout=TIMEOUT + children / 5)


@pytest.mark.parametrize("how", ["return", "exit", "pthread_exit", "exec"])
def test_end_of_the_process(runner: Runner, program: Program, scaled: Scaled, how: str) -> None:
    """While it sleeps, and while it works: twenty moments of the first half second."""
    delays = [turn * 25 % 500 for turn in range(max(4, scaled(20)))]

    def end(delay_ms: int) -> Outcome:
        return runner.under([program("purge_end"), how, delay_ms], env=LEAN, timeout=TIMEOUT)

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(end, delays))
    assert set(outcomes) == {Outcome(0, b"atexit\n", b"")}
