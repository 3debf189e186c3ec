"""HAKMEM_HUGE_PAGES, as the kernel tells it of a program's mappings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Callable, Dict, Tuple

import pytest
from preload_runner import Runner

pytestmark = pytest.mark.usefixtures("hakmem_only")
Program = Callable[[str], Path]
SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.fixture(scope="module")
def setting() -> str:
    """What the system does."""
    match = re.search(r"\[(\w+)\]", SETTING.read_text()) if SETTING.exists() else None
    if match is None or match.group(1) == "never":
        pytest.skip("no huge pages here")
    return match.group(1)


def mappings(
    runner: Runner, program: Program, choice: str, rounds: int, **variables: str
) -> Dict[str, Tuple[str, int]]:
    """Flag and KiB in huge pages of the mapping of a large block, made after `rounds` others, and of small ones."""
    # Freed memory goes back at once: the large block's memory is new.
    settings = {"HAKMEM_HUGE_PAGES": choice, "HAKMEM_RETAIN": "0", **variables}
    outcome = runner.under([program("huge_pages"), rounds], env=settings)
    assert (outcome.code, outcome.errors()) == (0, "")
    lines = [line.split() for line in outcome.text().splitlines()]
    assert [line[0] for line in lines] == ["large", "small"]
    return {name: (flag, int(kib)) for name, flag, kib in lines}


def test_never(runner: Runner, program: Program, setting: str) -> None:
    none = ("nh" if setting == "always" else "--", 0)
    assert mappings(runner, program, "never", 3) == {"large": none, "small": none}


def test_always(runner: Runner, program: Program, setting: str) -> None:
    """Whether there is a free huge page is the system's affair; the advice is hakmem's."""
    found = mappings(runner, program, "always", 0)
    assert {flag for flag, _ in found.values()} == {"hg"}


def test_auto_asks_for_what_was_dense(runner: Runner, program: Program, setting: str, tmp_path: Path) -> None:
    """Unless the machine took long for the first huge page, as one does that is busy or has none at hand."""
    statistics = tmp_path / "statistics.json"
    found = mappings(runner, program, "auto", 3, HAKMEM_STATS_FILE=str(statistics))
    is_dear = json.loads(statistics.read_text())["events"]["huge_dear"] > 0
    assert found["large"][0] in (("--", "nh") if is_dear else ("hg",))
    assert found["small"] == ("nh" if setting == "always" else "--", 0)


def test_auto_leaves_what_is_not_known(runner: Runner, program: Program, setting: str) -> None:
    assert mappings(runner, program, "auto", 0)["large"][0] == "--"


def test_auto_in_a_system_without(runner: Runner, program: Program) -> None:
    """Contents are right whatever the system does."""
    mappings(runner, program, "auto", 3)


@pytest.mark.parametrize("value", ["", "yes", "2M"])
def test_no_such_choice(runner: Runner, value: str) -> None:
    outcome = runner.under(["/bin/echo", "ok"], env={"HAKMEM_HUGE_PAGES": value})
    assert (outcome.code, outcome.text()) == (0, "ok\n")
    assert outcome.errors() == (
        f"hakmem: warning: HAKMEM_HUGE_PAGES={value} is not accepted: expected auto, never or always; "
        "keeping the default auto (see: hakmem help options)\n"
    )
