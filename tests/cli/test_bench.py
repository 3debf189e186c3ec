"""`hakmem bench` on a tiny set of fake workloads."""

from __future__ import annotations

import json
import platform
import pwd
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List

import pytest
from cli_support import ROOT, Tool
from hakmem import bench_json, bench_means, bench_report, privacy, workloads
from hakmem.allocators import Allocator, older_versions
from hakmem.commands import bench as bench_command
from hakmem.errors import Failure
from hakmem.workload_runner import prepare_inputs
from hakmem.workloads import Places, Workload, inputs_digest

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


def words_of_bench(fake_set: Path, *words: object) -> tuple[object, ...]:
    return (
        "bench", "--workloads", fake_set, "--programs", fake_set, "--out", "out", "--label", "here",
        "--allocators", "hakmem", "--seed", "5", "--rounds", "2", "--no-counts", *words,
    )  # fmt: skip


def bench(tool: Tool, fake_set: Path, *words: object):  # type: ignore[no-untyped-def]
    return tool(*words_of_bench(fake_set, *words))


def result(tool: Tool) -> Dict[str, Any]:
    """The only one."""
    (file,) = (tool.folder / "out").glob("*.json")
    document: Dict[str, Any] = json.loads(file.read_text())
    return document


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
    jsonschema = pytest.importorskip("jsonschema")
    described = json.loads((ROOT / "docs" / "cli.schema.json").read_text())["$defs"]["bench"]
    jsonschema.validate(document, described)
    rows = {row["name"]: row for row in document["workloads"]}
    assert list(rows) == ["quick", "damaged", "printer", "fickle"]
    assert rows["quick"]["figures"]["hakmem"]["ns_per_operation"] == [50000, 50000]
    assert rows["quick"]["floor"] == "floor: fake_floor"
    assert rows["quick"]["best_peer"] == "glibc" and rows["quick"]["rounds"] == 2
    assert rows["quick"]["time"]["verdict"] == "–"  # two rounds decide nothing
    assert rows["damaged"]["failures"] == {"hakmem": "round 1: its data was damaged: block 7"}
    assert "printed other output" in rows["fickle"]["failures"]["hakmem"]
    assert rows["printer"]["failures"] == {}
    assert document["settings"]["kernel"] and document["left_out"].keys() == {"absent", "missing"}
    page = (tmp_path / "out" / f"{stem}.md").read_text()
    assert "damaged: FAILED: its data was damaged" in page
    assert "## Where hakmem stands" in page and "geometric mean" in page
    assert "2 complete rounds" in page


def test_three_rounds_give_a_verdict(tool: Tool, fake_set: Path) -> None:
    assert bench(tool, fake_set, "--only", "quick", "--rounds", "3").returncode == 0
    (row,) = result(tool)["workloads"]
    assert row["time"]["verdict"] == "level"


@pytest.mark.parametrize("limits", ["", "--program-rounds 1 --minutes 18.5"])
def test_the_next_command_measures_the_same_set(tool: Tool, fake_set: Path, limits: str) -> None:
    """With the folders of its workloads, without which their names lead nowhere."""
    done = bench(tool, fake_set, "--only", "quick,printer", "--rounds", "1", *limits.split())
    (tip,) = re.findall(r"^next: hakmem ((?:.*\\\n)*.*)$", done.stdout, re.MULTILINE)
    kept = f"{limits} --allocators hakmem --seed 5 --no-counts --out out --label here"
    told = f"bench --only quick,printer --rounds 6 {kept} --workloads {fake_set} --programs {fake_set}"
    assert tip.replace("\\\n", "").split() == told.split()


def test_real_programs_have_fewer_rounds_and_the_table_says_so(tool: Tool, fake_set: Path) -> None:
    done = bench(tool, fake_set, "--only", "quick,printer", "--rounds", "5")
    assert done.returncode == 0, done.stderr
    assert {row["name"]: row["rounds"] for row in result(tool)["workloads"]} == {"quick": 5, "printer": 3}
    assert re.search(r"^quick +5 ", done.stdout, re.MULTILINE) and re.search(r"^printer +3 ", done.stdout, re.MULTILINE)
    page = next((tool.folder / "out").glob("*.md")).read_text()
    assert "| printer | 1 | 3 |" in page and "94% with 5 rounds, 75% with 3 rounds" in page


def test_the_time_is_kept_from_the_first_round_on(tool: Tool, fake_set: Path) -> None:
    done = bench(tool, fake_set, "--only", "quick,printer", "--rounds", "50", "--minutes", "0.0001")
    assert done.returncode == 0, done.stderr
    assert {row["rounds"] for row in result(tool)["workloads"]} == {1}
    assert "1 of 50 rounds are complete: more would have taken longer than 0.0001 minutes" in done.stdout


def interrupt(tool: Tool, fake_set: Path, line: str) -> tuple[int, str]:
    """SIGINT when stderr has that line."""
    process = tool.start(*words_of_bench(fake_set, "--only", "quick,printer", "--rounds", "500"))
    assert process.stderr is not None
    text = ""
    while line not in text:
        text += process.stderr.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    return process.returncode, text + rest


def test_an_interruption_keeps_complete_rounds(tool: Tool, fake_set: Path) -> None:
    code, stderr = interrupt(tool, fake_set, "round 1 of 500 done")
    assert code == 128 + signal.SIGINT
    assert re.search(r"broken off after \d+ complete rounds?; their results were written", stderr)
    document = result(tool)
    assert 1 <= document["rounds"] < 500
    for row in document["workloads"]:
        assert all(len(figures["wall_seconds"]) == row["rounds"] for figures in row["figures"].values())
    assert not [file for file in (tool.folder / "out").iterdir() if file.name.startswith(".")]


def test_an_interruption_in_the_first_round_writes_nothing(tool: Tool, fake_set: Path) -> None:
    (fake_set / "fake").write_text(FAKE.replace("sleep 0.05", "sleep 20"))
    code, stderr = interrupt(tool, fake_set, "a round should take")
    assert code == 128 + signal.SIGINT and "nothing was written" in stderr
    assert list((tool.folder / "out").iterdir()) == []


def test_results_tell_nothing_of_the_machines_owner(tool: Tool, fake_set: Path, tmp_path: Path) -> None:
    """Failures, notes and omissions have paths in their messages."""
    secret = f"{tmp_path}/deep/secret.so"
    (fake_set / "damaged").write_text(DAMAGED.replace("block 7", f"in {secret}, see {Path.home()}/core"))
    done = bench(tool, fake_set)
    assert done.returncode == 1
    for file in (tool.folder / "out").iterdir():
        text = file.read_text()
        assert str(tmp_path) not in text and str(ROOT) not in text and str(Path.home()) + "/" not in text, file
        if file.suffix != ".svg":  # an SVG has the addresses of its standards
            assert not re.search(r"(?<![\w./<])/\w+/\w", text), file
        for name in privacy.names():
            assert not re.search(rf"\b{re.escape(name)}\b", text), file
    document = result(tool)
    assert "not built: not_built" in document["left_out"]["absent"]
    failure = next(row for row in document["workloads"] if row["name"] == "damaged")["failures"]["hakmem"]
    assert "in secret.so, see core" in failure
    assert {*document["allocators"][0]} == {"name", "version", "notes"}


def test_what_is_scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "babbage.example.org")
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd(("ada", "", 0, 0, "", "", "")))
    monkeypatch.setenv("USER", "root")
    for text, scrubbed in [
        ("cannot read /home/ada/x/file.c: denied", "cannot read file.c: denied"),
        ("'/usr/lib/libc.so.6' and (/lib/x.so)", "'libc.so.6' and (x.so)"),
        ("~/work/a.py, /tmp/", "a.py, a folder"),
        ("ada on babbage and babbage.example.org", "… on … and …"),
        ("and/or 3/4 of root's Ada, 16 KiB/s", "and/or 3/4 of root's Ada, 16 KiB/s"),
        ("block of 64 bytes at 0x7f00", "block of 64 bytes at 0x7f00"),
    ]:
        assert privacy.scrub(text) == scrubbed


def test_the_duration_is_listed(tool: Tool, fake_set: Path) -> None:
    done = bench(tool, fake_set, "--list")
    assert "quick: micro, 0.1 s, does nothing | quickly" in done.stdout
    assert re.search(r"under 2 allocators: a round should take \d+\.\d minutes", done.stderr)


def test_older_versions_of_what_is_there_anew_stay_away() -> None:
    def one(name: str, notes: str = "") -> Allocator:
        return Allocator(name, f"/{name}.so", "1", notes)

    distributed = "the distribution's; old"
    everyone = [
        one("glibc"), one("mimalloc3"), one("mimalloc2"), one("mimalloc-distro", distributed),
        one("jemalloc-distro", distributed), one("tcmalloc", distributed),
    ]  # fmt: skip
    assert older_versions(everyone) == ["mimalloc-distro"]
    assert older_versions([*everyone, one("jemalloc")]) == ["mimalloc-distro", "jemalloc-distro"]


def test_inputs_are_made_anew_when_what_makes_them_changes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    places = Places(root / "bench", root / "build" / "work", tmp_path)
    places.bench.mkdir(parents=True)
    script, made = places.bench / "make.sh", places.work / "made"
    commands = (("sh", str(script), str(made)), ("test", f"--unused={script}"))

    def make(text: str, *prepare: tuple[str, ...]) -> str:
        script.write_text(text)
        prepare_inputs(Workload("w", "program", "what", ("x",), prepare=prepare or commands[:1]), places)
        return made.read_text()

    assert make('echo one >>"$1"') == "one\n"
    assert make('echo one >>"$1"') == "one\n"  # nothing has changed, the file that it made does not count
    assert make('echo two >>"$1"') == "one\ntwo\n"
    assert make('echo one >>"$1"') == "one\ntwo\none\n"  # back again: the file there came from another script
    assert make('echo one >>"$1"', commands[0], ("true",)) == "one\ntwo\none\none\n"
    script.write_text("exit 3")
    with pytest.raises(Failure, match="could not be made"):
        prepare_inputs(Workload("w", "program", "what", ("x",), prepare=commands[:1]), places)
    assert make('echo one >>"$1"', commands[0], ("true",)) == "one\ntwo\none\none\none\n"
    equals = Workload("w", "program", "what", ("x",), prepare=commands[1:])
    before = inputs_digest(equals, places)
    script.write_text("changed")
    assert inputs_digest(equals, places) != before


def test_results_are_never_overwritten(tool: Tool, fake_set: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert bench(tool, fake_set, "--only", "printer", "-q").returncode == 0
    assert len(list((tmp_path / "out").glob("*.json"))) == 2


def test_a_part_of_a_result_is_not_overwritten(tmp_path: Path) -> None:
    """One of the files of an earlier run may not have been written."""
    first = Path(bench_command._stem(tmp_path, "x"))
    for ending in (".json", ".md", "-means.svg", "-memory.svg"):
        file = first.with_name(first.name + ending)
        file.touch()
        assert bench_command._stem(tmp_path, "x") == f"{first}-2"
        file.unlink()


def test_the_page_links_pictures_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(picture: str, _results: object) -> bytes:
        if picture == "time":
            raise Failure("cannot write it")
        return b"drawn"

    def as_markdown(_results: object, pictures: List[str]) -> str:
        return " ".join(pictures)

    monkeypatch.setattr(bench_command, "_pictures", lambda _: ["means", "time", "memory"])
    monkeypatch.setattr(bench_command, "_draw", draw)
    monkeypatch.setattr(bench_command, "_print", lambda *_: None)
    monkeypatch.setattr(bench_json, "as_json", lambda _: "{}")
    monkeypatch.setattr(bench_report, "as_markdown", as_markdown)
    session: Any = SimpleNamespace(allocators=[], workloads=[], run_count=lambda: 1, measure=lambda _: None)
    with pytest.raises(Failure, match="cannot write it"):
        bench_command._measure_and_write(session, str(tmp_path / "x"), True, None)
    assert (tmp_path / "x.md").read_text() == "x-means.svg x-memory.svg"
    assert {file.name for file in tmp_path.iterdir()} == {"x.json", "x.md", "x-means.svg", "x-memory.svg"}


def test_only(tool: Tool, fake_set: Path) -> None:
    listed = bench(tool, fake_set, "--only", "micro,fick*", "--list")
    assert [line.split(":")[0] for line in listed.stdout.splitlines()] == ["quick", "absent", "fickle"]
    for group in ("program", "programs"):
        listed = bench(tool, fake_set, "--only", group, "--list")
        assert [line.split(":")[0] for line in listed.stdout.splitlines()] == ["printer", "fickle", "missing"]
    wrong = bench(tool, fake_set, "--only", "nothing")
    assert wrong.returncode == 2
    assert "no workload or group 'nothing'" in wrong.stderr and "quick" in wrong.stderr


def stored(rows: Dict[str, Dict[str, tuple[float, float]]], when: str = "2026-01-02", **more: Any) -> str:
    """Results as JSON: a time and a peak for each allocator in each workload."""
    workloads_ = [
        {
            "name": name, "time_metric": "wall_seconds", "best_peer": "glibc", "failures": {},
            "figures": {who: {"wall_seconds": [t], "peak_bytes": [peak]} for who, (t, peak) in figures.items()},
        }
        for name, figures in rows.items()
    ]  # fmt: skip
    allocators = [{"name": name} for name in ("glibc", "hakmem", "other")]
    return json.dumps({"settings": {"time_utc": when}, "allocators": allocators, "workloads": workloads_, **more})


ROWS = {
    "one": {"glibc": (1.0, 4.0), "hakmem": (0.5, 2.0), "other": (2.0, 4.0), "floor: one_floor": (0.1, 1.0)},
    "two": {"glibc": (1.0, 8.0), "hakmem": (2.0, 2.0), "other": (2.0, 24.0)},
    "not by all": {"glibc": (1.0, 1.0), "hakmem": (9.0, 9.0)},
}


def test_means_are_those_of_the_tables() -> None:
    """Over the workloads that all ended: time to the best peer's, memory to the median of the peers'."""
    found = bench_means.means(json.loads(stored(ROWS)))
    assert found is not None and found.workload_count == 2
    assert found.places["glibc"] == pytest.approx((1.0, (1.0 * 0.5) ** 0.5))
    assert found.places["hakmem"] == pytest.approx((1.0, (0.5 * 0.125) ** 0.5))
    assert found.places["other"] == pytest.approx((2.0, (1.0 * 1.5) ** 0.5))


def test_stored_results_are_drawn(tool: Tool, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need it")
    (tmp_path / "old.json").write_text(stored({"one": ROWS["one"]}))
    (tmp_path / "new.json").write_text(stored(ROWS, "2026-01-03"))
    (tmp_path / "cost.json").write_text(stored(ROWS, "2026-01-04", prices={"lean": 1}))
    assert tool("bench", "--draw", tmp_path, "a.svg").stdout == "written: a.svg\n"
    picture = (tmp_path / "a.svg").read_text()
    assert all(f">{name}</text>" in picture for name in ("glibc", "hakmem", "other"))
    assert "geometric means over 2 workloads" in picture and "2026-01-03" in picture
    assert tool("bench", "--draw", "new.json", "b.svg").returncode == 0
    assert (tmp_path / "b.svg").read_text() == picture  # the same results are drawn to the same bytes


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("new.json", "a.png"), 2, ".svg"), (("absent.json", "a.svg"), 125, "cannot read absent.json: No such file"),
        (("", "a.svg"), 125, "cannot read '': No such file"), (("new.json", ""), 2, "--draw '': expected a name"),
        (("not.json", "a.svg"), 125, "no results of hakmem bench"), (("empty", "a.svg"), 125, "no results"),
        (("none.json", "a.svg"), 125, "no workload that every allocator ended"),
        (("lacks.json", "a.svg"), 125, "lacks.json is damaged: KeyError"),
        (("odd.json", "a.svg"), 125, "odd.json is damaged: TypeError"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn(tool: Tool, tmp_path: Path, words: tuple[str, str], code: int, said: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "not.json").write_text("[]")
    (tmp_path / "new.json").write_text(stored(ROWS))
    (tmp_path / "none.json").write_text(stored({}))
    lacks = {"settings": {"time_utc": "2026"}, "workloads": [1]}
    (tmp_path / "lacks.json").write_text(json.dumps(lacks))
    (tmp_path / "odd.json").write_text(json.dumps({**lacks, "allocators": [{"name": "glibc"}]}))
    done = tool("bench", "--draw", *words)
    assert (done.returncode, done.stdout) == (code, "") and said in done.stderr
    assert not (tmp_path / "a.svg").exists()


def test_the_picture_of_the_checkout_is_that_of_its_results(tool: Tool, tmp_path: Path) -> None:
    """`make bench` draws it. Another matplotlib draws other lines: the words and the places' names are compared."""
    pytest.importorskip("matplotlib", reason="pictures need it")
    results = ROOT / "bench" / "results"
    assert tool("bench", "--draw", results, "now.svg").returncode == 0
    words = [
        re.findall(r">([^<>]+)</text>", file.read_text())
        for file in (tmp_path / "now.svg", ROOT / "docs" / "time_beside_memory.svg")
    ]
    assert words[0] == words[1] and "hakmem" in words[0]


def test_the_repository_has_the_latest_results_only() -> None:
    words = ["git", "-C", str(ROOT), "ls-files", "bench/results/*.json"]
    listed = subprocess.run(words, capture_output=True, text=True, check=False) if shutil.which("git") else None
    if listed is None or listed.returncode != 0:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in listed.stdout.splitlines()]
    standard = [file for file in files if file.exists() and not json.loads(file.read_text()).get("prices")]
    assert len(standard) <= 1 and len(files) <= 2, "bench/results: the latest run of each kind"


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
