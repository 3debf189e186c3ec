"""`hakmem report` as a command: what it makes of processes, programs and files, and what it says when it cannot."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest
from cli_support import Tool
from click.testing import CliRunner
from hakmem.attach import Attached
from hakmem.explain.snapshot import Snapshot, check
from hakmem.main import cli
from hakmem.page import watch
from hakmem.page.course import points
from hakmem.page.watch import pause
from profile_support import named
from report_support import HOSTILE, KIB, MIB, heap, save, sites, snapshot, superslab_map
from test_explain import adds_up, holding
from watched_support import plain


def embedded(page: str, name: str) -> Any:
    match = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)
    assert match is not None
    return json.loads(match[1])


def shown_equation(page: str) -> str:
    match = re.search(r'id="equation">(.*?)</p>', page)
    assert match is not None
    return html.unescape(match[1])


def test_from_files(tool: Tool, tmp_path: Path) -> None:
    """In any order: each file is what it says it is, and the last moment is explained."""
    first, last = snapshot(1_000_000, 100 * MIB), snapshot(1_004_500)
    files = [save(tmp_path, "b.json", last), save(tmp_path, "map.json", superslab_map()),
             save(tmp_path, "sites.json", sites()), save(tmp_path, "a.json", first)]  # fmt: skip
    done = tool("report", "-o", "page.html", "--from", *files)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert embedded(page, "snapshot") == last
    assert [(one["seconds"], one["live"]) for one in embedded(page, "course")] == [
        (0, first["parts"]["live"]), (4.5, last["parts"]["live"]),
    ]  # fmt: skip
    assert adds_up(shown_equation(page))
    assert "inside blocks" in shown_equation(page)
    assert page.count('class="tile') == 2 + 1


def test_nothing_from_outside_is_markup(tool: Tool, tmp_path: Path) -> None:
    """File names, symbols' places, options, decisions, states."""
    name = "<img src=x onerror=alert(1)>.json"
    files = [
        save(tmp_path, name, snapshot()),
        save(tmp_path, "map.json", superslab_map()),
        save(tmp_path, "sites.json", sites()),
    ]
    assert tool("report", "-o", "page.html", "--from", *files).returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert "<img" not in page
    assert page.count("<script") == page.count("</script>") == 4
    assert html.escape(HOSTILE, quote=True) in page
    assert embedded(page, "snapshot")["options"]["learn_file"] == HOSTILE


def test_the_page_names_no_other_place(tool: Tool, tmp_path: Path) -> None:
    assert tool("report", "-o", "page.html", "--from", save(tmp_path, "s.json", snapshot())).returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert "default-src 'none'; script-src 'sha256-" in page
    assert not re.search(r"https?://|@import|url\(|<link|<iframe", page)
    assert re.search(r'name="viewport" content="width=device-width', page)


@pytest.mark.parametrize("has_profile", [False, True])
def test_without_sites_the_page_says_how_to_get_them(tool: Tool, tmp_path: Path, has_profile: bool) -> None:
    """A pprof file has neither lifetimes nor pinned memory."""
    (tmp_path / "heap.pb.gz").write_bytes(named({("append", "main"): (3, 3000, 3, 3000)}))
    files = ["heap.pb.gz"] if has_profile else []
    done = tool("report", "-o", "page.html", "--from", save(tmp_path, "s.json", snapshot()), *files)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert ('data-name="append"' in page) is has_profile
    for name in ("lifetimes", "pinned"):
        part = page.split(f'<section id="{name}"')[1].split("</section>")[0]
        assert ("a pprof file" if has_profile else "no profile is among the files") in part
        assert "HAKMEM_PROFILE=1" in part and "hakmem report -o page.html PID" in part and "<table" not in part


def test_what_could_not_be_counted(tool: Tool, tmp_path: Path) -> None:
    document = sites("/no/file")
    document["sites"][2]["pinned"] = None
    files = [save(tmp_path, "s.json", snapshot()), save(tmp_path, "sites.json", document)]
    assert tool("report", "-o", "page.html", "--from", *files).returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert "it is unknown which sites hold free memory" in page and 'id="pinned-table"' not in page
    assert 'id="lifetimes-table"' in page


def test_many_sites(tool: Tool, tmp_path: Path) -> None:
    document = sites("/no/file")
    first = document["sites"][0]
    document["sites"] = [{**first, "frames": [hex(0x1011 + i)]} for i in range(130)]
    files = [save(tmp_path, "s.json", snapshot()), save(tmp_path, "sites.json", document)]
    assert tool("report", "-o", "page.html", "--from", *files).returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert page.count('class="bars"') == 100 and page.count("<p>and 30 more</p>") == 2


def test_options_behind_files_and_processes(tool: Tool, tmp_path: Path) -> None:
    """Behind a program's name all words are its own."""
    save(tmp_path, "a.json", snapshot())
    done = tool("report", "--from", "a.json", save(tmp_path, "map.json", superslab_map()), "-o", "page.html")
    assert (done.returncode, (tmp_path / "page.html").exists()) == (0, True), done.stderr
    assert "0 is no PID" in tool("report", "0", "-o", "page.html").stderr
    done = tool("report", "-o", "page.html", "no-such-program", "--seconds", "5")
    assert (done.returncode, "no-such-program: not found" in done.stderr) == (127, True)


def test_many_heaps(tool: Tool, tmp_path: Path) -> None:
    """Those that have most in use, by the place where the snapshot has them."""
    document = snapshot()
    document["heaps"] = [heap(5000 - i, (i * 7 % 5000) * KIB) for i in range(5000)]
    done = tool("report", "--from", save(tmp_path, "a.json", document), "-o", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert "and 4,800 more, which have less in use" in page
    shown = [
        (int(i), int(value))
        for i, value in re.findall(r'data-path="heaps\.(\d+)\.live_bytes" data-value="(\d+)"', page)
    ]
    assert [value for _, value in shown] == [one * KIB for one in range(4999, 4799, -1)]
    assert all(document["heaps"][i]["live_bytes"] == value for i, value in shown)


def test_heaps_of_an_older_version(tool: Tool, tmp_path: Path) -> None:
    document = snapshot()
    document["heaps"] = [{"state": "attached", "node": 0, "slabs": 9, "spare_slabs": 1} for _ in range(300)]
    done = tool("report", "--from", save(tmp_path, "a.json", document), "-o", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert 'data-path="heaps.0.slabs"' in page and "heaps.0.live_bytes" not in page


def test_an_older_snapshot(tool: Tool, tmp_path: Path) -> None:
    older = {"schema": 1, "version": "0.1.0", "pid": 7, "memory": {"resident": 100 * MIB, "dirty_slabs": MIB}}
    done = tool("report", "-o", "-", "--from", save(tmp_path, "s.json", older))
    assert done.returncode == 0, done.stderr
    assert adds_up(shown_equation(done.stdout))
    assert "There is one moment only" in done.stdout


def test_files_without_a_snapshot(tool: Tool, tmp_path: Path) -> None:
    done = tool("report", "-o", "page.html", "--from", save(tmp_path, "map.json", superslab_map()))
    assert (done.returncode, "none of the files is a statistics snapshot" in done.stderr) == (2, True)
    newer = save(tmp_path, "map.json", {**superslab_map(), "schema": 9})
    done = tool("report", "-o", "page.html", "--from", newer, save(tmp_path, "s.json", snapshot()))
    assert (done.returncode, "is a map of another version" in done.stderr) == (125, True)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--from snapshot.json a.pb.gz b.pb.gz", "a.pb.gz and b.pb.gz are two profiles"),
        ("--from sites.json snapshot.json other.json", "sites.json and other.json are two profiles"),
        ("--from sites.json a.pb.gz snapshot.json", "sites.json and a.pb.gz are two profiles"),
        ("--profile a.pb.gz --from snapshot.json sites.json", "a.pb.gz and sites.json are two profiles"),
        ("--from map.json map.json snapshot.json", "map.json and map.json are two maps"),
    ],
)
def test_two_files_of_a_kind(tool: Tool, tmp_path: Path, words: str, message: str) -> None:
    for name in ("a.pb.gz", "b.pb.gz"):
        (tmp_path / name).write_bytes(named({}))
    for name, document in (("snapshot", snapshot()), ("sites", sites()), ("other", sites()), ("map", superslab_map())):
        save(tmp_path, f"{name}.json", document)
    done = tool("report", "-o", "page.html", *words.split())
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seconds", "1", "--", "true"], "--seconds is for a PID"),
        (["--set", "mode=lean", "1"], "are for a PROGRAM"),
        (["--profile", "x", "--", "true"], "--profile is for a PID"),
        (["-o", "-", "--", "true"], "stdout is the program's: name a file for -o"),
        (["--json", "-", "--", "true"], "stdout is the program's: name a file for --json"),
    ],
)
def test_wrong_usage(tool: Tool, words: List[str], message: str) -> None:
    done = tool("report", "-o", "page.html", *words)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("target", "message"), [("no/page.html", "No such file"), ("/dev/full", "No space left on device")]
)
def test_what_cannot_be_written(tool: Tool, tmp_path: Path, target: str, message: str) -> None:
    done = tool("report", "-o", target, "--from", save(tmp_path, "s.json", snapshot()))
    assert (done.returncode, done.stderr) == (
        125,
        f"hakmem: cannot write {target}: {message}" + (" or directory\n" if "file" in message else "\n"),
    )


# Processes and programs.


def test_a_running_process(tool: Tool, library: Path, tmp_path: Path) -> None:
    with holding(library) as process:
        done = tool("report", "-o", "page.html", "--seconds", "0.5", process.pid)
        assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    taken = embedded(page, "snapshot")
    assert taken["pid"] == process.pid
    assert len(embedded(page, "course")) >= 2
    assert adds_up(shown_equation(page))
    assert "programs and libraries" in page
    assert "0 B allocated; about 0 blocks freed, from a sample every 512 KiB" in page, "a profile ran meanwhile"
    assert page.count('class="tile') > 1


@pytest.mark.parametrize("answers", [3, 0])
def test_it_ends_meanwhile(library: Path, tmp_path: Path, answers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows the snapshots until then, and the tool says so."""
    page = tmp_path / "page.html"
    with holding(library) as process:
        taken: List[Snapshot] = []

        def take(attached: Attached) -> Snapshot:
            if len(taken) == answers:
                process.kill()
                process.wait()
            taken.append(real(attached))
            return taken[-1]

        real = watch.take
        monkeypatch.setattr(watch, "take", take)
        done = CliRunner().invoke(cli, ["report", "-o", str(page), "--seconds", "1000", str(process.pid)])
    if answers == 0:
        assert (done.exit_code, done.output) == (125, f"hakmem: process {process.pid} has ended\n")
        assert not page.exists()
        return
    assert done.exit_code == 0, done.output
    assert "the process ended after" in done.output and "the process ended after" in page.read_text()
    assert embedded(page.read_text(), "snapshot") == taken[-1].document
    assert len(embedded(page.read_text(), "course")) == answers


@pytest.mark.parametrize("preload", ["", "LD_PRELOAD= "])
def test_it_becomes_another_program_meanwhile(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preload: str
) -> None:
    """On hakmem or not: the page shows the snapshots of the first."""
    pipe = subprocess.PIPE
    script = f"echo; read line; {preload}exec cat"
    with subprocess.Popen(["/bin/sh", "-c", script], env=plain(library), stdin=pipe, stdout=pipe) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == b"\n"
        real = watch.take
        taken: List[Snapshot] = []

        def take(attached: Attached) -> Snapshot:
            assert other.stdin is not None and other.stdout is not None
            if len(taken) == 2:
                other.stdin.write(b"go\nhere\n")
                other.stdin.flush()
                assert other.stdout.readline() == b"here\n"  # by cat
            taken.append(real(attached))
            return taken[-1]

        monkeypatch.setattr(watch, "take", take)
        page = tmp_path / "page.html"
        done = CliRunner().invoke(cli, ["report", "-o", str(page), "--seconds", "1000", str(other.pid)])
        other.stdin.close()
    assert done.exit_code == 0, done.output
    assert "the process replaced its program by another (exec) after" in done.output
    assert embedded(page.read_text(), "snapshot") == taken[-1].document
    assert len(embedded(page.read_text(), "course")) == 2


PROGRAM = (
    "import time; a = [bytes(900) for _ in range(50000)]; time.sleep({seconds}); print('done'); raise SystemExit(7)"
)


def test_a_program(tool: Tool, library: Path, tmp_path: Path) -> None:
    """Its output and its exit code are its own; the moment at which most was resident is explained."""
    code = PROGRAM.format(seconds=1)
    environment = {**os.environ, "PYTHONMALLOC": "malloc"}
    done = tool("report", "-o", "page.html", "--", sys.executable, "-c", code, environment=environment)
    assert (done.returncode, done.stdout) == (7, "done\n"), done.stderr
    page = (tmp_path / "page.html").read_text()
    taken, course = embedded(page, "snapshot"), embedded(page, "course")
    assert taken["memory"]["resident"] == max(one["resident"] for one in course)
    assert adds_up(shown_equation(page))


def test_a_program_that_is_too_short(tool: Tool, library: Path, tmp_path: Path) -> None:
    for program, code in (("true", 125), ("false", 1)):
        done = tool("report", "-o", "page.html", "--", program)
        assert (done.returncode, "ended before it could answer" in done.stderr) == (code, True), done
    assert tool("report", "-o", "page.html", "--", "no-such-program").returncode == 127
    assert list(tmp_path.glob("*")) == []


def test_interrupted(tool: Tool, library: Path, tmp_path: Path) -> None:
    with holding(library) as process:
        report = tool.start("report", "-o", "page.html", "--seconds", "1000", process.pid)
        while len(list(Path(f"/proc/{process.pid}/task").iterdir())) < 2:
            assert report.poll() is None
        report.send_signal(signal.SIGTERM)
        assert report.wait(60) == 128 + signal.SIGTERM
        assert process.poll() is None
    assert list(tmp_path.glob("*")) == []


# Parts.


def test_pauses_spare_the_process() -> None:
    assert pause(10, 0.0001) == pytest.approx(0.1)
    assert pause(240, 0.001) == pytest.approx(1)
    assert pause(1, 0.2) == pytest.approx(10)


def test_the_highest_moment_of_a_program_stays_with_its_map(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([check(snapshot(time_ms=i, live=live * MIB), "x") for i, live in enumerate((100, 300, 200), 1)])
    maps = iter([{"map": i} for i in range(3)])
    monkeypatch.setattr(watch, "take", lambda _: next(seen))
    monkeypatch.setattr(watch, "take_map", lambda _: (next(maps), ""))
    onlooker = watch.Onlooker(1)
    for _ in range(3):
        onlooker.see(None)  # type: ignore[arg-type]
    assert onlooker.highest is onlooker.snapshots[1]
    assert onlooker.map == {"map": 1}


def test_points_of_snapshots_without_a_time() -> None:
    older: Dict[str, Any] = {"schema": 1, "memory": {"resident": 5, "dirty_slabs": 3, "large_dirty": 1}}
    (only,) = points([check(older, "a"), check(older, "b")])
    assert (only.resident, only.live, only.cached) == (5, None, 4)
