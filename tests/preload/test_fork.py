"""Processes that come from processes: fork beside threads, streams, handlers and signals; vfork, clone, spawn."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest
from preload_runner import SKIPPED, Outcome, Runner

Program = Callable[[str], Path]
Scaled = Callable[[int], int]

LONG = 7200.0  # the programs have alarms of their own; 100 times the usual length takes an hour


@pytest.mark.parametrize("how", ["fork", "_Fork", "clone"])
def test_fork_from_many_threads(
    runner: Runner, program: Program, how: str, scaled: Scaled, request: pytest.FixtureRequest
) -> None:
    """The child's side. Without at-fork handlers glibc's own malloc would hang: asked of hakmem alone."""
    if how != "fork":
        request.getfixturevalue("hakmem_only")
    forks = scaled(100)
    outcome = runner.under([program("fork_storm"), how, forks], timeout=LONG)
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    assert outcome == Outcome(0, f"forks {forks} hangs 0\n".encode(), b"")


def test_fork_while_streams_are_locked(runner: Runner, program: Program, scaled: Scaled) -> None:
    """The parent's side: fopen, fflush of all, popen, and allocations under the locks of streams."""
    runner.expect([program("fork_stdio"), scaled(200)], "ok\n", timeout=LONG)


@pytest.mark.parametrize("first", [True, False], ids=["handlers_before_ours", "handlers_after_ours"])
def test_fork_with_handlers_that_allocate(
    runner: Runner, program: Program, shim: Program, scaled: Scaled, first: bool
) -> None:
    """ld.so runs the constructors of preloaded libraries last one first, and they register the handlers."""
    command = [program("fork_handlers"), scaled(100)]
    runner.expect(command, "ok\n", also=[shim("at_fork")], first=first, timeout=LONG)
    command[1] = 1
    seen = runner.under(command, also=[shim("at_fork")], first=first, env={"LD_DEBUG": "files"}).errors()
    order = [seen.index(f"calling init: {file}") for file in (shim("at_fork"), runner.library)]
    assert (order[0] < order[1]) == first


@pytest.mark.parametrize("how", ["_Fork", "fork"])
def test_fork_in_signal_handler(runner: Runner, program: Program, scaled: Scaled, how: str) -> None:
    outcome = runner.under([program("fork_in_handler"), how, scaled(500)], timeout=LONG)
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    assert outcome == Outcome(0, b"ok\n", b"")


@pytest.mark.parametrize("how", ["_Fork", "clone"])
def test_fork_without_handlers_and_new_threads(runner: Runner, program: Program, how: str) -> None:
    runner.expect([program("fork_without_handlers"), how], "ok\n")


def test_children_that_share_the_memory(runner: Runner, program: Program, scaled: Scaled) -> None:
    runner.expect([program("vfork_allocates"), scaled(150)], "ok\n", timeout=LONG)


def test_spawn(runner: Runner, program: Program) -> None:
    runner.expect([program("spawn_children")], "ok\n")
