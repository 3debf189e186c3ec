"""The tables of the benchmarks agree with what they name; inputs are made the same every time."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest
from bench_support import BENCH, Run, read_toml

GROUPS = {"micro", "thread", "memory", "idle"}
# The number of rows on which `hakmem bench --cost` compares.
COST_ROWS = 11


def filled_in(words: List[str], **places: object) -> List[str]:
    return [word.format_map({key: str(value) for key, value in places.items()}) for word in words]


def workloads() -> List[Dict[str, Any]]:
    table: List[Dict[str, Any]] = read_toml(BENCH / "workloads.toml")["workload"]
    return table


def test_workloads_are_complete(programs: Path) -> None:
    table = workloads()
    assert len({entry["name"] for entry in table}) == len(table)
    for entry in table:
        assert entry["group"] in GROUPS and entry["what"] and entry["threads"] >= 1
        assert 0 < entry["expected_seconds"] <= (6 if entry.get("on_request") else 2)
        for program in (entry["program"], *entry["floors"]):
            assert (programs / program).is_file(), f"{entry['name']}: no program {program}"
        assert all(floor.startswith(f"{entry['program']}_") for floor in entry["floors"])


def test_each_program_stands_in_the_readme() -> None:
    """By the name that starts it."""
    section = (BENCH / "README.md").read_text().partition("## The workloads")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted({entry["program"] for entry in workloads()})


def test_workload_arguments_are_right(run: Run) -> None:
    """With next to no work: the last --ops counts."""
    for entry in workloads():
        done = run(entry["program"], *filled_in(entry["arguments"], bench=BENCH), "--ops", "4")
        assert done.returncode == 0, f"{entry['name']}: {done.stderr}"
        assert json.loads(done.stdout)["threads"] == entry["threads"], entry["name"]


def test_rows_of_the_cost_comparison() -> None:
    """Workloads of which it matters what stays resident: phases, big blocks, servers that pause, and redis."""
    tables = [*workloads(), *read_toml(BENCH / "programs.toml")["program"]]
    names = [entry["name"] for entry in tables if entry.get("for_cost")]
    assert len(names) == COST_ROWS
    assert {name.split("_")[0] for name in names} == {"phases", "big", "idle", "redis"}


def test_programs_are_complete(tmp_path: Path) -> None:
    table = read_toml(BENCH / "programs.toml")["program"]
    assert len({entry["name"] for entry in table}) == len(table)
    for entry in table:
        assert entry["needs"] and entry["package"] and entry["what"] and entry["output"] in ("same", "any")
        server = entry.get("server", {})
        words = [
            *entry["command"],
            *server.get("load", []),
            *(word for command in entry["prepare"] for word in command),
        ]
        for word in filled_in(words, bench=BENCH, work=tmp_path, python=sys.executable, port=server.get("port", "")):
            for part in word.split():
                assert not part.startswith(f"{BENCH}/") or Path(part).is_file(), f"{entry['name']}: no {part}"


@pytest.mark.parametrize("name", ["cpython", "sqlite", "ruby", "ghostscript", "z3"])
def test_program_prints_the_same(name: str, hakmem: Path, tmp_path: Path) -> None:
    entry = next(entry for entry in read_toml(BENCH / "programs.toml")["program"] if entry["name"] == name)
    for tool in entry["needs"]:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    from under_allocator import environment

    places = {"bench": BENCH, "work": tmp_path, "python": sys.executable}
    for command in entry["prepare"]:
        subprocess.run(filled_in(command, **places), check=True)
    outputs = [
        subprocess.run(
            filled_in(entry["command"], **places), env=environment(library, entry["environment"]), cwd=tmp_path,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=300, check=True,
        ).stdout
        for library in (None, hakmem)
    ]  # fmt: skip
    assert outputs[0] == outputs[1] != b""


def test_who_serves_redis(hakmem: Path) -> None:
    """Distributions link it with jemalloc: the preloaded library must serve all that it allocates."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    from under_allocator import environment, files_of_malloc

    names = ("malloc", "calloc", "realloc", "free", "malloc_usable_size")
    bindings = {"LD_BIND_NOW": "1", "LD_DEBUG": "bindings"}
    c_library = next(
        Path(line.split()[-1]).resolve() for line in _maps_of_self() if line.split()[-1].endswith("libc.so.6")
    )
    for library in (hakmem, c_library):
        assert files_of_malloc(["redis-server", "--version"], environment(library)) == {library}
        done = subprocess.run(
            ["redis-server", "--version"],
            env=environment(library, bindings),
            capture_output=True,
            text=True,
            check=True,
        )
        for name in names:
            found = re.findall(rf"binding file redis-server \[0\] to (\S+) \[0\]: normal symbol `{name}'", done.stderr)
            assert {Path(file).resolve() for file in found} == {library}, name


def _maps_of_self() -> List[str]:
    return Path("/proc/self/maps").read_text().splitlines()


def test_smt2_is_the_same_every_time(tmp_path: Path) -> None:
    script = str(BENCH / "programs" / "make_smt2.py")
    for name in ("one", "two"):
        subprocess.run([sys.executable, script, str(tmp_path / "new" / name)], check=True)
    assert (tmp_path / "new" / "one").read_bytes() == (tmp_path / "new" / "two").read_bytes()
    refused = subprocess.run([sys.executable, script, "/proc/none/file"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and refused.stderr.startswith("make_smt2: ")


def test_committed_trace_is_small() -> None:
    assert sum(trace.stat().st_size for trace in (BENCH / "traces").glob("*.trace*")) < 100_000


def test_trace_of_a_program(run: Run, tmp_path: Path) -> None:
    """Record, then replay: as many blocks as the program asked for."""
    source, program, trace = tmp_path / "asks.c", tmp_path / "asks", tmp_path / "asks.trace"
    source.write_text(
        "#include <stdlib.h>\n"
        "int main(void) { void *kept = calloc(3, 7); for (int i = 1; i <= 50; ++i) { void *b = malloc(i * 10);\n"
        "  b = realloc(b, i * 20); free(b); } free(kept); return 0; }\n"
    )
    subprocess.run(["cc", "-O0", "-fno-builtin", "-o", str(program), str(source)], check=True)
    make_trace = [sys.executable, str(BENCH / "traces" / "make_trace.py")]
    subprocess.run([*make_trace, str(trace), "--", str(program)], check=True)
    lines = trace.read_text().splitlines()
    assert "021" in lines and "+500" in lines
    assert sum(line.startswith("=") for line in lines) == 50
    assert sum(line[0] in "+0" for line in lines) == sum(line[0] == "-" for line in lines) == 51
    done = run("trace", "--ops", str(len(lines) - 1), "--file", str(trace))
    assert json.loads(done.stdout)["checked"] is True
    subprocess.run([*make_trace, "--most-kib", "1", str(trace), "--", str(program)], check=True)
    assert trace.stat().st_size <= 1024
    packed = tmp_path / "asks.trace.gz"
    subprocess.run([*make_trace, str(packed), "--", str(program)], check=True)
    assert gzip.decompress(packed.read_bytes()).decode().splitlines() == lines


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [(["/nonexistent/program"], 127, "No such file"), (["false"], 1, "ended with 1")],
)
def test_no_trace_of_a_failure(tmp_path: Path, command: List[str], code: int, said: str) -> None:
    script = str(BENCH / "traces" / "make_trace.py")
    done = subprocess.run(
        [sys.executable, script, str(tmp_path / "t"), "--", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == code and said in done.stderr and done.stderr.startswith("make_trace: ")
    assert list(tmp_path.iterdir()) == []
