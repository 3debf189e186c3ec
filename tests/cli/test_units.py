"""Each figure has its unit, and no size is rounded down to nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cli_support import ROOT, Tool
from hakmem import guards
from hakmem.metrics import size
from hakmem.top.figures import duration
from hakmem.units import unit_of
from report_support import save, snapshot
from watched_support import Watched

POLICY = ROOT / "src" / "policy"


def test_units_are_those_of_the_library() -> None:
    events = re.findall(r"^HK_STAT\((\w+), (BYTES|COUNT),", (POLICY / "stat.def").read_text(), re.M)
    figures = re.findall(r"^HK_FIGURE\(memory, (\w+), (BYTES|COUNT),", (POLICY / "figure.def").read_text(), re.M)
    assert len(events) > 30 and len(figures) > 10
    assert [(name, unit_of("events", name, "count").upper()) for name, _ in events] == events
    assert [(name, unit_of("memory", name, "bytes").upper()) for name, _ in figures] == figures
    assert unit_of("events", "given_back", "count") == "bytes"  # an old name


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (1, "1 B"), (1023, "1023 B"), (1024, "1 KiB")])
def test_small_sizes(value: int, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (59.99, "59.99 s"), (59.996, "1 min 0 s"), (119.7, "2 min 0 s"), (3599.6, "1 h 0 min"),
        (86399.4, "23 h 59 min"), (86399.6, "1 d 0 h"),
    ],
)  # fmt: skip
def test_durations_round_to_the_next_unit(value: float, text: str) -> None:
    """No picture shows 60.00 s."""
    assert duration(value) == text


@pytest.mark.parametrize("protected", [0, 1])
def test_guards_have_an_oldest_block_or_none(protected: int) -> None:
    figures = dict.fromkeys(guards.State.__dataclass_fields__, 0)
    told = guards.lines(guards.State(**{**figures, "slots": 100, "protected": protected, "age_ms": 1500}), 1, "it")
    assert ("protection  the oldest freed block has been protected for 1.5 s" in told) is bool(protected)


def test_diff_of_snapshots(tool: Tool, tmp_path: Path) -> None:
    for name, grown in (("a.json", 0), ("b.json", 9)):
        memory = {"resident": 4096 * grown, "mappings": 30 + grown}
        events = {"large_alloc": 1000 + 100 * grown, "purged": (1 << 20) * grown, "given_back": (1 << 20) * grown}
        (tmp_path / name).write_text(json.dumps({"schema": 1, "pid": 1, "memory": memory, "events": events}))
    lines = tool("diff", "a.json", "b.json").stdout.splitlines()
    found = {line.split()[-1]: line.split()[0:2] for line in lines if line.startswith("  ")}
    assert found["mappings"][0] == "+9" and found["mappings"][1] == "30"
    assert found["resident"] == ["+36", "KiB"]
    assert found["purged"] == ["+9.00", "MiB"]
    assert found["large_alloc"][0] == "+900"
    assert "given_back" not in found  # the old name of purged


def test_statistics_have_units(tool: Tool, watched: Watched) -> None:
    watched.do("grow 100")
    text = tool("stats", "--all", watched.pid).stdout
    row = re.search(r"^  huge_asked +(\S+ \S+)  ", text, re.M)
    assert row is not None and re.match(r"[0-9.]+ (B|KiB|MiB)$", row.group(1))
    assert re.search(r"^  blocks freed remotely +\d+ ", text, re.M)


def test_figures_of_a_page_have_units(tool: Tool, tmp_path: Path) -> None:
    """All that the library counts."""
    names = re.findall(r"^HK_STAT\((\w+), (BYTES|COUNT),", (POLICY / "stat.def").read_text(), re.M)
    save(tmp_path, "a.json", {**snapshot(), "events": {name: 1 << 20 for name, _ in names}})
    assert tool("report", "-o", "page.html", "--from", "a.json").returncode == 0
    page = (tmp_path / "page.html").read_text()
    for name, unit in names:
        assert f'data-path="events.{name}" data-value="1048576" data-unit="{unit.lower()}"' in page, name
    assert 'data-path="memory.mappings" data-value="99" data-unit="count"' in page
