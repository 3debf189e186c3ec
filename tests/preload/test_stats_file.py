"""HAKMEM_STATS_FILE: what the allocator counted, for programs, apart from the program's own streams."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from preload_runner import Outcome, Runner, with_limit

pytestmark = pytest.mark.usefixtures("hakmem_only")
Program = Callable[[str], Path]
REPOSITORY = Path(__file__).resolve().parents[2]

MEMORY = [
    "resident", "peak", "in_use", "dirty_slabs", "superslabs", "large_blocks", "large_cached", "large_dirty", "limit",
    "records", "mappings", "heaps", "heaps_idle", "heaps_lost", "cached", "dirty", "purged",
    "lazy",
]  # fmt: skip


# Each refill ends at one of them.
STAGES = ["refill_remote", "refill_used", "refill_carve", "slab_move", "slab_acquire", "refill_failed"]


def declared(path: str) -> List[str]:
    """The names in a .def file, in order."""
    text = (REPOSITORY / path).read_text()
    return re.findall(r"^HK_(?:STAT|COUNTER|PEAK)\((\w+),", text, re.MULTILINE)


def with_earlier_names(section: str, names: List[str]) -> List[str]:
    """Each name is followed by its earlier one."""
    text = (REPOSITORY / "src/policy/old_figure.def").read_text()
    old = {
        new: earlier for earlier, new in re.findall(rf"^HK_OLD_FIGURE\({section}, (\w+), (\w+)\)", text, re.MULTILINE)
    }
    assert old and old.keys() <= set(names)
    return [one for name in names for one in (name, old.get(name)) if one is not None]


def read(path: Path) -> Dict[str, Any]:
    text = path.read_text()
    assert text.endswith("}\n") and text.count("\n") == 1
    document: Dict[str, Any] = json.loads(text)
    return document


def test_everything_is_in_it(runner: Runner, tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    command = ["/bin/ls", "/"]
    assert runner.under(command, env={"HAKMEM_STATS_FILE": str(file)}) == runner.plain(command)
    document = read(file)
    assert list(document) == [
        "schema", "version", "pid", "time_ms", "uptime_ms", "page_bytes", "memory", "events", "learning", "parts",
        "live", "huge", "guard", "purge_thread", "options", "bands", "classes", "heaps",
    ]  # fmt: skip
    assert document["schema"] == 2 and re.fullmatch(r"\d+\.\d+\.\d+", document["version"])
    assert list(document["memory"]) == with_earlier_names("memory", MEMORY)
    assert list(document["events"]) == with_earlier_names("events", declared("src/policy/stat.def"))
    events, memory = document["events"], document["memory"]
    assert events["refill"] > 0 < memory["in_use"]
    assert events["refill"] == sum(events[stage] for stage in STAGES)
    # Its own records, and slabs; what it told itself about the program and the machine.
    assert 2 <= events["system_call_map"] < 20 and 5 <= events["system_call_other"] < 300
    assert events["lock_space_take"] > 0 < events["lock_meta_take"]
    assert events["lock_pool_wait"] == events["lock_space_wait"] == events["lock_meta_wait"] == 0, "it has one thread"
    assert memory["dirty"] + memory["purged"] <= memory["cached"] <= memory["superslabs"] + memory["large_cached"]
    assert 10 < document["memory"]["mappings"] < 1000
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("mode", "price", "break_even", "dearness"),
    [
        ("fast", 25000, 18000, 0),
        ("249999", 249999, 1800, 0),
        ("balanced", 250000, 1800, 1),
        ("800000", 800000, 562, 3),
        ("lean", 2500000, 180, 10),
    ],
)
def test_what_was_learned(
    runner: Runner, tmp_path: Path, mode: str, price: int, break_even: int, dearness: int
) -> None:
    file = tmp_path / "stats.json"
    assert runner.under(["/bin/ls", "/"], env={"HAKMEM_STATS_FILE": str(file), "HAKMEM_MODE": mode}).errors() == ""
    learning = read(file)["learning"]
    assert (learning["price"], learning["break_even_ms"], learning["dearness"]) == (price, break_even, dearness)
    assert learning["state"] == "learning" and learning["timeout_ms"] <= 4 * break_even
    assert learning["decisions"][0].startswith("epoch 0: ")


def test_nothing_is_learned_where_nothing_shall_be(runner: Runner, tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    runner.under(["/bin/ls", "/"], env={"HAKMEM_STATS_FILE": str(file), "HAKMEM_LEARN": "off"})
    assert read(file)["learning"]["state"] == "fixed"


def test_both_forms_say_the_same(runner: Runner, program: Program, tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    outcome = runner.under([program("early_and_late")], env={"HAKMEM_STATS": "1", "HAKMEM_STATS_FILE": str(file)})
    document = read(file)
    lines = re.findall(r"^  (\w[\w ]*?)  +(\d+)  +\S", outcome.errors(), re.MULTILINE)
    told = {name: int(value) for name, value in lines}
    # The looks themselves take a lock and make system calls.
    costs = {name for name in document["events"] if name.startswith(("lock_", "system_call_"))}
    assert len(costs) == 12 and costs <= told.keys()
    # The summary has bytes in their units, rounded.
    counts = re.findall(r"^HK_STAT\((\w+), COUNT,", (REPOSITORY / "src/policy/stat.def").read_text(), re.MULTILINE)
    assert len(counts) > 30
    assert {name: told[name] for name in counts if name not in costs}.items() <= document["events"].items()
    assert told["heaps"] == document["memory"]["heaps"]


def test_the_counting_build_tells_its_costs(library: Path, program: Program, tmp_path: Path) -> None:
    build = library.parent
    subprocess.run(["cmake", "--build", str(build), "--target", "hakmem_count"], check=True, capture_output=True)
    counting, file = Runner(build / "libhakmem-count.so", 1), tmp_path / "stats.json"
    assert counting.under([program("count_in_child")], env={"HAKMEM_STATS_FILE": f"{file}.%p"}).code == 7
    documents = {document["pid"]: document for document in map(read, tmp_path.iterdir())}
    parent, child = (documents[pid] for pid in sorted(documents))
    assert list(parent["costs"]) == declared("src/base/count.def")
    costs = parent["costs"]
    assert costs["malloc"] >= 3 and costs["bytes_requested"] >= 12 << 20 and costs["shared_update"] > 0
    # One large block at a time, and the slabs of the other requests.
    assert 4 << 20 <= costs["peak_in_use"] <= costs["peak_held"] < 8 << 20
    assert 1 <= child["costs"]["malloc"] < costs["malloc"] + 3 and child["events"]["large_alloc"] == 1


def test_a_child_of_fork_has_its_own_file_and_counts_from_its_fork(
    runner: Runner, program: Program, tmp_path: Path
) -> None:
    outcome = runner.under([program("count_in_child")], env={"HAKMEM_STATS_FILE": str(tmp_path / "a%%b-%p")})
    assert (outcome.code, outcome.errors()) == (7, "")
    parent, child = outcome.text().split()
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([f"a%b-{parent}", f"a%b-{child}"])
    told = {pid: read(tmp_path / f"a%b-{pid}") for pid in (parent, child)}
    assert [told[pid]["pid"] for pid in (parent, child)] == [int(parent), int(child)]
    assert [told[pid]["events"]["large_alloc"] for pid in (parent, child)] == [3, 1]
    for name in ("lock_space_take", "system_call_map", "system_call_advise", "system_call_other"):
        of_parent, of_child = (told[pid]["events"][name] for pid in (parent, child))
        assert of_child < of_parent, name


def test_a_last_warning_goes_to_stderr_and_not_to_a_file_that_has_its_number(runner: Runner, tmp_path: Path) -> None:
    """The folder is there at the start and gone at the end; the program has a file of its own where stderr was."""
    folder, own = tmp_path / "folder", tmp_path / "own"
    folder.mkdir()
    script = (
        f"import os; os.rmdir({str(folder)!r}); os.close(2); assert os.open({str(own)!r}, os.O_RDWR | os.O_CREAT) == 2"
    )
    outcome = runner.under([sys.executable, "-c", script], env={"HAKMEM_STATS_FILE": str(folder / "stats.json")})
    assert outcome.code == 0 and own.read_bytes() == b""
    assert "HAKMEM_STATS_FILE=" in outcome.errors() and "its folder does not exist" in outcome.errors()


@pytest.mark.parametrize("script", ["kill -TERM $$", "kill -SEGV $$"])
def test_who_is_killed_writes_nothing(runner: Runner, script: str, tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", script]
    under = runner.under(command, env={"HAKMEM_STATS_FILE": str(tmp_path / "file")})
    assert under == runner.plain(command)
    assert list(tmp_path.iterdir()) == []


# ---- What cannot be written.


def one_warning(outcome: Outcome, reason: str) -> None:
    assert (outcome.code, len(outcome.text().split())) == (7, 2)
    lines = outcome.errors().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("hakmem: warning: HAKMEM_STATS_FILE=") and reason in lines[0]


def test_a_folder_that_is_missing(runner: Runner, program: Program, tmp_path: Path) -> None:
    file = tmp_path / "none" / "file"
    one_warning(runner.under([program("count_in_child")], env={"HAKMEM_STATS_FILE": str(file)}), "does not exist")
    quietly = runner.under([program("count_in_child")], env={"HAKMEM_STATS_FILE": f"-{file}"})
    assert (quietly.code, quietly.errors()) == (7, "")


def test_a_minus_is_no_part_of_the_path(runner: Runner, program: Program, tmp_path: Path) -> None:
    runner.under(["/bin/ls", "/"], env={"HAKMEM_STATS_FILE": f"-{tmp_path}/file"})
    assert read(tmp_path / "file")["pid"] > 0


def test_what_exists_stays(runner: Runner, program: Program, tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("mine")
    one_warning(runner.under([program("count_in_child")], env={"HAKMEM_STATS_FILE": str(file)}), "exists already")
    link.symlink_to(tmp_path / "target")
    outcome = runner.under(["/bin/true"], env={"HAKMEM_STATS_FILE": str(link)})
    assert (outcome.code, outcome.errors().count("\n")) == (0, 1)
    assert file.read_text() == "mine" and not (tmp_path / "target").exists()


def test_a_folder_without_rights(runner: Runner, program: Program, tmp_path: Path) -> None:
    folder = Path("/proc/self") if os.geteuid() == 0 else tmp_path
    if folder == tmp_path:
        folder.chmod(0o555)
    outcome = runner.under([program("count_in_child")], env={"HAKMEM_STATS_FILE": str(folder / "no-such-file")})
    assert outcome.code == 7
    assert len([line for line in outcome.errors().splitlines() if "cannot be written" in line]) >= 1


def test_a_limit_on_files_costs_the_report_and_not_the_program(
    runner: Runner, program: Program, tmp_path: Path
) -> None:
    command = with_limit("-f", 0, [program("early_and_late")])
    outcome = runner.under(command, env={"HAKMEM_STATS_FILE": str(tmp_path / "file")})
    assert outcome.code == 0 and "no space is left, or allowed" in outcome.errors()
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_too_long(runner: Runner, program: Program) -> None:
    for length, said in ((5000, "expected a path of less than 4096 characters"), (3000, "its name is too long")):
        one_warning(runner.under([program("count_in_child")], env={"HAKMEM_STATS_FILE": "/tmp/" + "x" * length}), said)


def test_an_empty_path_is_none(runner: Runner, program: Program) -> None:
    outcome = runner.under([program("count_in_child")], env={"HAKMEM_STATS_FILE": ""})
    assert (outcome.code, outcome.errors()) == (7, "")
