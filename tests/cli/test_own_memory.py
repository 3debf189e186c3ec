"""A process in another root without /proc, which cannot read its own resident memory: the tool does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Iterator

import pytest
from cli_support import Compile, Tool
from hakmem import own_memory
from test_metrics import serving, value
from watched_support import SOURCE, Watched

IN_ANOTHER_ROOT = SOURCE.replace("alarm(900);", 'if (chroot("/usr") != 0 || chdir("/") != 0) return 3; alarm(900);')
MIB = 1 << 20


@pytest.fixture
def rooted(as_root: None, compile_c: Compile, library: Path) -> Iterator[Watched]:
    found = Watched(compile_c("rooted", IN_ANOTHER_ROOT), library)
    with found.process:
        try:
            found.do("grow 100")
            yield found
        finally:
            found.process.kill()


def test_explain_adds_up(tool: Tool, rooted: Watched) -> None:
    done = tool("explain", "--json", "-", rooted.pid)
    told = json.loads(done.stdout)
    assert told["resident"] > 4 * MIB and sum(part["bytes"] for part in told["parts"]) == told["resident"]
    assert all(part["bytes"] >= 0 for part in told["parts"])
    assert "not accounted for" not in tool("explain", rooted.pid).stdout


def test_statistics_have_it(tool: Tool, rooted: Watched) -> None:
    told = json.loads(tool("stats", "--json", rooted.pid).stdout)
    assert told["memory"]["peak"] >= told["memory"]["resident"] > 4 * MIB and told["parts"]["not_malloc"] > 0
    assert "resident           0 B" not in tool("stats", rooted.pid).stdout
    assert "resident 0 B" not in tool("top", "--once", rooted.pid).stdout


def test_its_own_report_says_that_zero_is_unknown(tool: Tool, rooted: Watched) -> None:
    """`--all` prints what the library writes."""
    lines = [" ".join(line.split()) for line in tool("stats", "--all", rooted.pid).stdout.splitlines()]
    for figure in ("resident", "peak"):
        assert any(line.startswith(f"{figure} 0 B ") and "0: unknown" in line for line in lines), lines


def test_metrics_have_it(tool: Tool, rooted: Watched) -> None:
    with serving(tool, rooted.pid) as served:
        families = served.families()
    names = [
        sample.name
        for family in families.values()
        for sample in family.samples
        if sample.name.startswith("hakmem_parts_") and "idle" not in sample.name  # an earlier name
    ]
    resident = value(families, "hakmem_memory_resident_bytes")
    assert value(families, "hakmem_memory_peak_bytes") >= resident > 4 * MIB
    assert sum(value(families, name) for name in names) == resident


def test_answers_that_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_memory, "of_process", lambda _pid: (10 * MIB, 11 * MIB))
    for answer in (b'{"memory": {"resident": 5, "peak": 6}}', b'{"memory": {"resident": 0, "peak": 0}', b""):
        assert own_memory.completed(answer, 1) == answer
    whole = b'{"memory": {"resident": 0, "peak": 0}, "parts": {"live": 1, "dirty_slabs": 2, "idle": 2}}'
    told = json.loads(own_memory.completed(whole, 1))
    assert told["memory"] == {"resident": 10 * MIB, "peak": 11 * MIB}
    assert told["parts"]["not_malloc"] == 10 * MIB - 3
    monkeypatch.setattr(own_memory, "of_process", lambda _pid: None)
    assert own_memory.completed(whole, 1) == whole
