"""`hakmem bench` on a tiny set of fake workloads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import ROOT, Tool
from hakmem import workloads
from hakmem.errors import Failure
from hakmem.workloads import Places

pytestmark = pytest.mark.usefixtures("library")

WORKLOADS = """
[[workload]]
name = "quick"
program = "fake"
arguments = ["--file", "{bench}/input"]
threads = 1
group = "micro"
floors = ["fake_floor"]
expected_seconds = 0.1
what = "does nothing | quickly"

[[workload]]
name = "damaged"
program = "damaged"
group = "thread"
threads = 2
what = "finds its data damaged under hakmem"

[[workload]]
name = "absent"
program = "not_built"
what = "was not built"
"""
PROGRAMS = """
[[program]]
name = "printer"
needs = ["cat"]
package = "coreutils"
prepare = [["{python}", "-c", "open('{work}/text', 'w').write('made')"]]
command = ["cat", "{work}/text"]
environment = { A = "b" }
output = "same"
what = "prints a file that was made for it"

[[program]]
name = "fickle"
needs = ["sh"]
prepare = []
command = ["sh", "-c", 'echo "$LD_PRELOAD"']
output = "same"
what = "prints something else under each"

[[program]]
name = "missing"
needs = ["no-such-program"]
package = "no-such-package"
prepare = []
command = ["no-such-program"]
what = "is not there"
"""
FAKE = """#!/bin/sh
# ARGUMENTS are checked, then a result is made up.
[ "$1" = --file ] && [ -f "$2" ] && [ "$3" = --seed ] && [ "$4" = 5 ] || exit 9
sleep 0.05
echo '{"program": "fake", "ops": 1000, "seconds": 0.05, "ops_per_second": 20000.0, "checked": true}'
"""
DAMAGED = """#!/bin/sh
case "$LD_PRELOAD" in *libhakmem*) checked=false ;; *) checked=true ;; esac
echo "{\\"ops\\": 1, \\"seconds\\": 0.01, \\"checked\\": $checked, \\"error\\": \\"block 7\\"}"
"""


@pytest.fixture
def fake_set(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "input").touch()
    (folder / "workloads.toml").write_text(WORKLOADS)
    (folder / "programs.toml").write_text(PROGRAMS)
    for name, text in (("fake", FAKE), ("fake_floor", FAKE), ("damaged", DAMAGED)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def bench(tool: Tool, fake_set: Path, *words: object):  # type: ignore[no-untyped-def]
    return tool(
        "bench", "--workloads", fake_set, "--programs", fake_set, "--out", "out", "--label", "here",
        "--allocators", "hakmem", "--seed", "5", "--rounds", "2", *words,
    )  # fmt: skip


def test_the_whole_set(tool: Tool, fake_set: Path, tmp_path: Path) -> None:
    done = bench(tool, fake_set)
    assert done.returncode == 1, done.stderr  # two fail under hakmem
    assert "left out: absent: not built" in done.stderr
    assert "left out: missing: not installed: no-such-program (package no-such-package)" in done.stderr
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    stem = names[0][: -len(".json")] if names[0].endswith(".json") else names[0].rsplit("-", 1)[0]
    assert stem.endswith("-here")
    assert {f"{stem}.json", f"{stem}.md"} <= set(names)
    document = json.loads((tmp_path / "out" / f"{stem}.json").read_text())
    rows = {row["name"]: row for row in document["workloads"]}
    assert list(rows) == ["quick", "damaged", "printer", "fickle"]
    assert rows["quick"]["figures"]["hakmem"]["ns_per_operation"] == [50000, 50000]
    assert rows["quick"]["floor"] == "floor: fake_floor"
    assert rows["quick"]["best_peer"] == "glibc" and rows["quick"]["time"]["verdict"] == "level"
    assert rows["damaged"]["failures"] == {"hakmem": "round 1: its data was damaged: block 7"}
    assert "something else" in rows["fickle"]["failures"]["hakmem"]
    assert rows["printer"]["failures"] == {}
    assert document["settings"]["kernel"] and document["left_out"].keys() == {"absent", "missing"}
    page = (tmp_path / "out" / f"{stem}.md").read_text()
    assert "damaged: FAILED: its data was damaged" in page
    assert "## Where hakmem stands" in page and "geometric mean" in page


def test_results_are_never_overwritten(tool: Tool, fake_set: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert bench(tool, fake_set, "--only", "printer", "-q").returncode == 0
    assert len(list((tmp_path / "out").glob("*.json"))) == 2


def test_only(tool: Tool, fake_set: Path) -> None:
    listed = bench(tool, fake_set, "--only", "micro,fick*", "--list")
    assert [line.split(":")[0] for line in listed.stdout.splitlines()] == ["quick", "absent", "fickle"]
    wrong = bench(tool, fake_set, "--only", "nothing")
    assert wrong.returncode == 2
    assert "no workload or group 'nothing'" in wrong.stderr and "quick" in wrong.stderr


def test_nothing_left(tool: Tool, fake_set: Path) -> None:
    assert bench(tool, fake_set, "--only", "absent").returncode == 125


@pytest.mark.parametrize(
    "text", ["[[workload]]\nname = ", "[[workload]]\nprogram = 'x'\n", "[[workload]]\nname = 'x'\n", "workload = 3\n"]
)
def test_a_damaged_catalogue(tmp_path: Path, text: str) -> None:
    (tmp_path / "workloads.toml").write_text(text)
    with pytest.raises(Failure, match=r"workloads\.toml"):
        workloads.load(Places(tmp_path, tmp_path, tmp_path), 1)


def test_names_are_unique(tmp_path: Path) -> None:
    (tmp_path / "workloads.toml").write_text("[[workload]]\nname = 'x'\nprogram = 'y'\n" * 2)
    with pytest.raises(Failure, match="twice: x"):
        workloads.load(Places(tmp_path, tmp_path, tmp_path), 1)


def test_the_real_catalogue_is_understood(tmp_path: Path) -> None:
    found = workloads.load(Places(ROOT / "bench", tmp_path, tmp_path), 1)
    if not found:
        pytest.skip("bench/workloads.toml is not there")
    assert all(workload.what and workload.group for workload in found)
