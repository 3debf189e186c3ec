"""How much of the caller's stack malloc and its kin take: threads and coroutines may have little."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Runner

MOST_BYTES = 1536
MOST_WITH_PROFILE_BYTES = 2560


def most_bytes(runner: Runner, program: Path, options: dict[str, str]) -> int:
    """Returns the maximum of all calls, sizes and threads. Symbols are bound at the start: binding takes more stack."""
    outcome = runner.under([program], env={"LD_BIND_NOW": "1", **options})
    assert outcome.code == 0, outcome.errors()
    return max(int(bytes_used) for bytes_used in re.findall(r"^(\d+) bytes", outcome.text(), re.MULTILINE))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"HAKMEM_MODE": "lean"},
        {"HAKMEM_MODE": "fast"},
        {"HAKMEM_MEMORY_LIMIT": "64M"},
        {"HAKMEM_HUGE_PAGES": "always"},
        {"HAKMEM_PURGE": "free"},
        {"HAKMEM_PURGE_THREAD": "0"},
        {"HAKMEM_CRASH_REPORT": "1"},
    ],
    ids=lambda options: "-".join(options.values()) or "default",
)
@pytest.mark.usefixtures("hakmem_only")
def test_stack_of_each_call(runner: Runner, program: Callable[[str], Path], options: dict[str, str]) -> None:
    """Files are parsed, and stacks walked, elsewhere."""
    assert most_bytes(runner, program("stack_use"), options) <= MOST_BYTES


@pytest.mark.parametrize("rate", ["524288", "4096", "1"])
@pytest.mark.usefixtures("hakmem_only", "checks_only")
def test_stack_while_a_profile_runs(runner: Runner, program: Callable[[str], Path], rate: str) -> None:
    """A sampled block's stack is walked with room that is not on it."""
    options = {"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_RATE": rate, "HAKMEM_PROFILE_FILE": "-"}
    assert most_bytes(runner, program("stack_use"), options) <= MOST_WITH_PROFILE_BYTES


@pytest.mark.parametrize(
    "options",
    [{}, {"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_RATE": "1", "HAKMEM_PROFILE_FILE": "-"}, {"HAKMEM_GUARD": "1"}],
    ids=["plain", "profile", "guard"],
)
@pytest.mark.usefixtures("hakmem_only", "checks_only")
def test_describe_on_alternate_stack(runner: Runner, program: Callable[[str], Path], options: dict[str, str]) -> None:
    """Any signal handler may call hakmem_describe, and many have an alternate stack of 8 KiB."""
    outcome = runner.under([program("describe_in_handler")], env={"LD_BIND_NOW": "1", **options})
    assert (outcome.code, outcome.errors()) == (0, "")
