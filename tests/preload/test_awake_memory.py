"""The resident memory of a program that computes: what it freed goes back though its thread never sleeps."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Runner

Program = Callable[[str], Path]

KIB = 1024
MIB = 1024 * KIB
TAKEN = 128 * MIB
BOUND = 24 * MIB

pytestmark = pytest.mark.usefixtures("hakmem_only")


@pytest.mark.parametrize("size", [1000, 20 * KIB, 200 * KIB, 3 * MIB])
def test_what_was_freed_goes_back(runner: Runner, program: Program, size: int) -> None:
    outcome = runner.under([program("compute_on"), str(size), str(TAKEN), str(BOUND)])
    assert (outcome.code, outcome.errors()) == (0, "")
    match = re.fullmatch(r"peak (\d+) beats \d+ resident (\d+)\n", outcome.text())
    assert match, outcome.text()
    peak, resident = (int(number) for number in match.groups())
    assert peak > 0.95 * TAKEN
    assert resident <= BOUND
