"""Threads that end in every way there is: nothing of them stays, and there are no more heaps than threads at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Runner

Program = Callable[[str], Path]

AT_ONCE = 4
# Beside those that end: the first thread, one that stays, and with FIRST_ENDS the one that takes the first's place.
OTHERS = 3
# Such threads leave their heaps to whichever thread needs one where there are eight or more.
LAST_ROUND = "last_round"
LEFT_MAX = 16
WAYS = [
    "joined",
    "detached",
    "exited",
    "exited_detached",
    "cancelled",
    "cancelled_detached",
    "local",
    "local_detached",
    "nothing",
    "nothing_detached",
    "keys",
    "keys_detached",
    LAST_ROUND,
    f"{LAST_ROUND}_detached",
    "clone",
]
FIRST_ENDS = "first-ends"


def heaps_of(stats: str) -> int:
    found = re.search(r"^  heaps +(\d+) ", stats, re.MULTILINE)
    assert found is not None, stats
    return int(found[1])


@pytest.mark.parametrize("more", [[], [FIRST_ENDS]], ids=["", "first_ends"])
@pytest.mark.parametrize("way", WAYS)
def test_threads_leave_nothing(
    runner: Runner, program: Program, scaled: Callable[[int], int], hakmem_only: None, way: str, more: list[str]
) -> None:
    """The program itself compares the resident bytes after a quarter of its threads with those in the end."""
    if way == "clone" and more:
        pytest.skip("its threads need no other kind of thread to go on")
    command = [program("thread_ends"), way, str(max(400, scaled(1000)) // AT_ONCE * AT_ONCE), str(AT_ONCE), *more]
    environment, most = {"HAKMEM_STATS": "1"}, AT_ONCE + OTHERS + 2
    if way.startswith(LAST_ROUND):
        most += LEFT_MAX
        environment["HAKMEM_PURGE_THREAD"] = "off"  # the program waits until it has as many threads as before
    outcome = runner.under(command, env=environment)
    if outcome.code == 77:
        pytest.skip("this machine's threads are not made by hand")
    assert outcome.code == 0, outcome.errors()
    assert heaps_of(outcome.errors()) <= most
    assert re.fullmatch(r"quarter \d+ end \d+\n", outcome.text())


def test_threads_end_beside_examiners(runner: Runner, program: Program, scaled: Callable[[int], int]) -> None:
    runner.expect([program("ends_beside_trim"), str(max(1600, scaled(8000)))], "ok\n")
