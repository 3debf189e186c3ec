"""`hakmem diff`: what grew between two profiles, or two statistics snapshots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
from cli_support import Tool
from hakmem.errors import Failure
from hakmem.explain.snapshot import PARTS
from hakmem.profile.changes import load
from profile_support import named

BEFORE = {
    ("append", "grow", "main"): (10, 6000, 4, 3000),
    ("append", "load", "main"): (5, 2000, 1, 500),
    ("parse", "main"): (1, 100, 1, 100),
}
AFTER = {
    ("append", "grow", "main"): (20, 9000, 9, 8000),
    ("cache", "main"): (1, 2000, 1, 2000),
    ("append", "load", "main"): (5, 2000, 0, 0),
    ("parse", "main"): (1, 100, 1, 100),
}
ONE: Dict[str, Any] = {
    "schema": 2, "version": "0.2.0", "pid": 7, "time_ms": 1000,
    "memory": {"resident": 1000000, "in_use": 5}, "events": {"refill": 10, "misuse": 0},
    "parts": {**dict.fromkeys(PARTS, 0), "live": 600000, "dirty_slabs": 400000},
    "bands": {"tiny": {"live_bytes": 100, "resident": 4096}},
    "classes": [{"bytes": 64, "band": "tiny", "live_bytes": 100, "resident": 4096}],
}  # fmt: skip
TWO: Dict[str, Any] = {
    **ONE, "time_ms": 2000, "memory": {"resident": 1500000, "in_use": 5}, "events": {"refill": 30, "misuse": 0},
    "parts": {**dict.fromkeys(PARTS, 0), "live": 1250000, "dirty_slabs": 250000},
    "bands": {"tiny": {"live_bytes": 9000, "resident": 12288}},
    "classes": [
        {"bytes": 64, "band": "tiny", "live_bytes": 100, "resident": 4096},
        {"bytes": 80, "band": "tiny", "live_bytes": 8900, "resident": 8192},
    ],
}  # fmt: skip
Pair = Tuple[Path, Path]


@pytest.fixture
def profiles(tmp_path: Path) -> Pair:
    first, second = tmp_path / "a.pb.gz", tmp_path / "b.pb.gz"
    first.write_bytes(named(BEFORE, time_nanos=1))
    second.write_bytes(named(AFTER, time_nanos=2))
    return first, second


@pytest.fixture
def snapshots(tmp_path: Path) -> Pair:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text(json.dumps(ONE))
    second.write_text(json.dumps(TWO))
    return first, second


def changes(section: Dict[str, Any]) -> List[Tuple[str, int]]:
    return [(row["name"], row["change"]) for row in section["rows"]]


def test_profiles(tool: Tool, profiles: Pair) -> None:
    done = tool("diff", *profiles)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "inuse_space: 4 KiB → 10 KiB, +6 KiB"
    assert lines[1].split() == ["+5", "KiB", "3", "KiB", "8", "KiB", "append", "←", "grow", "←", "main"]
    assert lines[2].endswith("cache ← main") and lines[3].split()[0] == "-500"
    assert "parse" not in done.stdout


def test_profiles_as_json(tool: Tool, profiles: Pair) -> None:
    document = json.loads(tool("diff", "--json", "-", "--group", "function", *profiles).stdout)
    (section,) = document["sections"]
    assert (document["kind"], section["before"], section["after"]) == ("profile", 3600, 10100)
    assert changes(section) == [("append", 4500), ("cache", 2000)]
    assert section["rows"][0]["objects_before"] == 5 and section["rows"][0]["objects_after"] == 9
    document = json.loads(tool("diff", "--json", "-", "--by", "alloc", *profiles).stdout)
    assert changes(document["sections"][0]) == [("append ← grow ← main", 3000), ("cache ← main", 2000)]
    assert document["sections"][0]["rows"][0]["stack"] == ["append", "grow", "main"]


def test_few_rows(tool: Tool, profiles: Pair) -> None:
    next_line = tool("diff", "--by", "alloc", *profiles).stdout.splitlines()[-1]
    assert next_line == f"next: hakmem profile --input {profiles[1]} --by alloc --flame heap.svg"
    lines = tool("diff", "--rows", "1", *profiles).stdout.splitlines()
    assert len(lines) == 5 and lines[2] == "  and 2 rows that changed less"
    assert lines[4].startswith("next: hakmem profile --input ")


def test_snapshots(tool: Tool, snapshots: Pair) -> None:
    done = tool("diff", *snapshots)
    assert (done.returncode, done.stderr) == (0, "")
    assert "parts: 977 KiB → 1.43 MiB, +488 KiB" in done.stdout
    document = json.loads(tool("diff", "--json", "-", *snapshots).stdout)
    sections = {section["name"]: changes(section) for section in document["sections"]}
    assert sections == {
        "parts": [("live", 650000), ("dirty_slabs", -150000)],
        "memory": [("resident", 500000)],
        "bands: resident": [("tiny", 8192)],
        "bands: live_bytes": [("tiny", 8900)],
        "classes: resident": [("80 B", 8192)],
        "classes: live_bytes": [("80 B", 8900)],
        "events": [("refill", 20)],
    }


def test_an_older_snapshot(tool: Tool, snapshots: Pair) -> None:
    """Compared by what both have, and said."""
    old = {"schema": 1, "pid": 7, "memory": {"resident": 900000}, "events": {"refill": 1}}
    snapshots[0].write_text(json.dumps(old))
    done = tool("diff", *snapshots)
    assert done.returncode == 0 and "older version" in done.stderr
    assert "resident" in done.stdout and "classes" not in done.stdout and "parts" not in done.stdout


def test_what_makes_it_doubtful_is_said(tool: Tool, snapshots: Pair) -> None:
    assert "the second is older" in tool("diff", *reversed(snapshots)).stderr
    snapshots[1].write_text(json.dumps({**TWO, "pid": 8}))
    assert "different processes" in tool("diff", *snapshots).stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": 2, "memory": {', "is cut off"),
        ("null", "is JSON, but no statistics snapshot"),
        (" 12 ", "is JSON, but no statistics snapshot"),
        ("[1, 2]", "no statistics snapshot"),
        ('{"schema": 3, "memory": {}}', "has schema 3, and this tool knows up to 2"),
        ("", "is empty"),
        ("words", "no pprof profile"),
    ],
)
def test_damaged_input(tool: Tool, snapshots: Pair, content: str, message: str) -> None:
    snapshots[0].write_text(content)
    done = tool("diff", *snapshots)
    assert (done.returncode, done.stdout) == (125, "")
    assert message in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("section", "name"), [("memory", "resident"), ("memory", "in_use"), ("parts", "live"), ("events", "refill")]
)
@pytest.mark.parametrize("value", [-1, "many", 1e99, 1.5, None])
def test_damaged_figures(snapshots: Pair, section: str, name: str, value: Any) -> None:
    snapshots[1].write_text(json.dumps({**TWO, section: {**TWO[section], name: value}}))
    with pytest.raises(Failure, match=f"is damaged: {section}.{name} is ") as refused:
        load(str(snapshots[1]))
    assert refused.value.exit_code == 125


def test_damaged_tables(snapshots: Pair) -> None:
    for name, value in (("bands", {"tiny": {"resident": -5}}), ("classes", [{"bytes": 64, "resident": 1e99}])):
        snapshots[1].write_text(json.dumps({**TWO, name: value}))
        with pytest.raises(Failure, match=f"is damaged: {name}"):
            load(str(snapshots[1]))
    unknown = {"tiny": {"resident": 5, "requested_estimate": None}}
    snapshots[1].write_text(json.dumps({**TWO, "bands": unknown}))
    assert load(str(snapshots[1]))["bands"] == unknown


def test_old_names_are_compared_with_new_ones(tool: Tool, snapshots: Pair) -> None:
    snapshots[0].write_text(json.dumps({**ONE, "events": {"given_back": 5}}))
    snapshots[1].write_text(json.dumps({**TWO, "events": {"purged": 7}}))
    document = json.loads(tool("diff", "--json", "-", *snapshots).stdout)
    assert changes(document["sections"][-1]) == [("purged", 2)]


def test_two_of_a_kind(tool: Tool, snapshots: Pair, profiles: Pair) -> None:
    done = tool("diff", snapshots[0], profiles[1])
    assert done.returncode == 2 and "two of a kind" in done.stderr
    assert tool("diff", "/no/such", profiles[1]).returncode == 125
    assert tool("diff", "--json", "/dev/full", *profiles).returncode == 125


def test_nothing_changed(tool: Tool, snapshots: Pair) -> None:
    done = tool("diff", snapshots[0], snapshots[0])
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "parts: 977 KiB → 977 KiB, +0 B")
