"""Every workload runs a little, under glibc, under hakmem and as floors, and detects a broken allocator."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

import pytest
from bench_support import BENCH, Run

TRACE = str(BENCH / "traces" / "python.trace.gz")
# A tiny amount of work for each.
TINY: Dict[str, List[str]] = {
    "pair": ["--ops", "5000"],
    "batch": ["--ops", "5000", "--count", "300"],
    "random_mixed": ["--ops", "20000", "--slots", "1000"],
    "cold_frees": ["--ops", "20000", "--slots", "1000", "--burst", "300"],
    "mid_mt": ["--ops", "3000"],
    "larson": ["--ops", "20000", "--life", "1500"],
    "handoff": ["--ops", "20000"],
    "exchange": ["--ops", "20000"],
    "phases": ["--ops", "60000", "--mib", "1"],
    "churn_threads": ["--ops", "5000"],
    "latency": ["--ops", "5000", "--slots", "500"],
    "false_sharing": ["--ops", "500"],
    "big_blocks": ["--ops", "6", "--most-kib", "4096"],
    "partial_arrays": ["--ops", "12", "--full-kib", "1000", "--most-kib", "8192"],
    "realloc_grow": ["--ops", "3000"],
    "calloc_fresh": ["--ops", "1000"],
    "trace": ["--ops", "60000", "--file", TRACE],
    "many_threads": ["--ops", "20000", "--alive", "40", "--idle-ms", "5"],
    "idle_server": ["--ops", "8000", "--slots", "400", "--burst", "500", "--every-ms", "5"],
}
VARIANTS: List[List[str]] = [
    ["batch", "--order", "newest"],
    ["batch", "--order", "random"],
    ["random_mixed", "--least", "8", "--most", "128"],
    ["random_mixed", "--sizes", "doublings", "--most", "32768"],
    ["cold_frees", "--burst", "1"],
    ["cold_frees", "--slots", "10", "--ops", "500"],
    ["larson", "--least", "1024", "--most", "8192", "--threads", "1"],
    ["mid_mt", "--threads", "8"],
    ["handoff", "--producers", "1", "--consumers", "3"],
    ["handoff", "--producers", "3", "--consumers", "1"],
    ["handoff", "--producers", "2", "--consumers", "2", "--batch", "700", "--queue", "2"],
    ["many_threads", "--ops", "20000", "--alive", "1"],
    ["phases", "--threads", "2"],
    ["idle_server", "--threads", "1", "--keep", "0"],
    ["idle_server", "--least", "32768", "--most", "1048576", "--slots", "20", "--ops", "400", "--burst", "40"],
    ["false_sharing", "--mode", "passive"],
    ["big_blocks", "--sizes", "random"],
    ["realloc_grow", "--percent", "0", "--step", "48", "--to", "8192"],
    ["pair", "--size", "8", "--threads", "2"],
]
# Blocks that broken_malloc.c makes wrong.
BROKEN: List[List[str]] = [
    ["batch", "--size", "5000"],
    ["random_mixed", "--least", "5000", "--most", "9000"],
    ["cold_frees", "--least", "5000", "--most", "9000"],
    ["mid_mt", "--least", "5000", "--most", "9000"],
    ["larson", "--least", "5000", "--most", "9000"],
    ["handoff", "--least", "5000", "--most", "9000"],
    ["exchange", "--least", "5000", "--most", "9000"],
    ["churn_threads", "--least", "5000", "--most", "9000"],
    ["latency"],
    ["phases"],
    ["many_threads", "--least", "5000", "--most", "9000", "--alive", "20", "--ops", "20000"],
    ["idle_server", "--least", "5000", "--most", "9000"],
    ["big_blocks", "--least-kib", "5", "--most-kib", "8", "--ops", "100", "--slots", "20"],
    ["partial_arrays", "--full-kib", "5", "--least-kib", "5", "--most-kib", "8", "--ops", "60"],
    ["realloc_grow", "--from", "4000", "--to", "8000"],
    ["calloc_fresh", "--least", "5000", "--most", "9000"],
    ["trace"],
]
WRONG: List[List[str]] = [
    ["pair", "--size"],
    ["pair", "--size", "7"],
    ["pair", "--size", "large"],
    ["pair", "--size", "-1"],
    ["pair", "--size", "99999999999999999999"],
    ["pair", "--ops", "0"],
    ["pair", "--threads", "0"],
    ["pair", "--seconds", "0"],
    ["pair", "--seconds", "soon"],
    ["pair", "--seed", ""],
    ["pair", "--colour", "red"],
    ["pair", "64"],
    ["batch", "--order", "sideways"],
    ["handoff", "--threads", "2"],
    ["handoff", "--producers", "0"],
    ["handoff", "--batch", "0"],
    ["many_threads", "--threads", "2"],
    ["many_threads", "--alive", "0"],
    ["random_mixed", "--least", "100", "--most", "50"],
    ["cold_frees", "--least", "100", "--most", "50"],
    ["big_blocks", "--least-kib", "100", "--most-kib", "50"],
    ["partial_arrays", "--least-kib", "200", "--most-kib", "100"],
    ["idle_server", "--least", "100", "--most", "50"],
    ["larson", "--window-ms", "100"],
    ["larson", "--window-ms", "100", "--seconds", "0.1"],
    ["trace"],
    ["trace", "--file", "/nonexistent/trace"],
    ["trace", "--file", "/"],
]


def result_of(done: Any) -> Dict[str, Any]:
    """The one line, with what each must have."""
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    line: Dict[str, Any] = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert line["checked"] is True
    assert line["ops"] > 0 and line["seconds"] > 0 and line["bytes"] > 0
    assert line["ops_per_second"] == pytest.approx(line["ops"] / line["seconds"], rel=0.1)
    return line


def with_tiny_work(arguments: Sequence[str]) -> List[str]:
    program, *rest = arguments
    return [program, *TINY[program], *rest]


def test_every_source_is_tested() -> None:
    sources = {source.stem for source in (BENCH / "micro").glob("*.c")} - {"bench", "bench_options"}
    assert sources == set(TINY)


@pytest.mark.parametrize("arguments", [*([name] for name in TINY), *VARIANTS], ids=" ".join)
def test_glibc_and_hakmem(run: Run, hakmem: Path, arguments: List[str]) -> None:
    program, *rest = with_tiny_work(arguments)
    lines = [result_of(run(program, *rest, library=library)) for library in (None, hakmem)]
    assert lines[0]["workload"] == lines[0]["program"] == program
    # The work follows from the arguments and the seed, not from the allocator.
    for key in ("ops", "bytes", "threads", "seed", "options"):
        assert lines[0][key] == lines[1][key]


def test_floors(run: Run, programs: Path) -> None:
    floors = [*programs.glob("*_floor"), *programs.glob("*_bump")]
    assert {"pair_floor", "pair_bump", "larson_floor", "false_sharing_bump"} <= {floor.name for floor in floors}
    for floor in floors:
        name = floor.name.rpartition("_")[0]
        line, with_malloc = (result_of(run(program, *TINY[name])) for program in (floor.name, name))
        assert (line["workload"], line["program"]) == (name, floor.name)
        assert (line["ops"], line["bytes"]) == (with_malloc["ops"], with_malloc["bytes"])


@pytest.mark.parametrize("program", sorted({"pair", "random_mixed", "larson", "handoff", "churn_threads"}))
def test_seconds_end_it(run: Run, program: str) -> None:
    assert 0.05 <= result_of(run(program, "--seconds", "0.05"))["seconds"] < 5


def test_latency_has_percentiles_of_all_calls(run: Run) -> None:
    done = run("latency", "--ops", "30000", "--slots", "500", "--histogram", "yes")
    line = json.loads(done.stdout)
    rows = [[int(word) for word in row.split()] for row in done.stderr.splitlines()]
    counts = [count for _, count in rows]
    assert line["calls"] == sum(counts) and 30000 < line["calls"] < 60000  # each slot's first block replaces none
    shares = ("p50_ns", "p99_ns", "p99_9_ns", "p99_99_ns", "p99_999_ns", "max_ns")
    times = [line[share] for share in shares]
    assert times == sorted(times) and times[0] < times[-1] < line["seconds"] * 1e9
    assert [ns for ns, _ in rows] == sorted(ns for ns, _ in rows)
    slower = sum(count for ns, count in rows if ns > line["p99_ns"])
    assert slower <= line["calls"] / 100


def test_latency_table(programs: Path, hakmem: Path) -> None:
    command = [sys.executable, str(BENCH / "latency.py"), "--build", str(programs.parent), "--no-peers"]
    quick = ["--rounds", "1", "--ops", "20000", "--setting", "profile", "--setting", "memory-limit"]
    done = subprocess.run([*command, *quick, f"again={hakmem}"], capture_output=True, text=True, check=True)
    tables = [table.splitlines() for table in done.stdout.strip().split("\n\n")]
    assert [table[0].split(",")[0] for table in tables] == ["profile", "memory-limit"]
    for table in tables:
        assert {"hakmem", "glibc", "again"} <= {row.split()[0] for row in table[1:]}
        assert all(len(row.split()) == 9 for row in table[1:])


def test_seed_decides(run: Run) -> None:
    work = ["random_mixed", "--ops", "5000"]
    first, same, other = (result_of(run(*work, "--seed", seed))["bytes"] for seed in ("1", "1", "2"))
    assert first == same != other


def test_phases_report_memory(run: Run) -> None:
    line = result_of(run("phases", "--mib", "4", "--ops", "300000"))
    assert line["live_built_kib"] >= 4096 > line["live_freed_kib"] > 0
    assert line["resident_built_kib"] >= line["live_built_kib"] * 0.95


def test_idle_servers_pause(run: Run) -> None:
    """Bursts come by the clock; in a pause only kept blocks live, and the report has the memory of both times."""
    line = result_of(
        run("idle_server", "--threads", "2", "--ops", "20000", "--slots", "2000", "--burst", "2500", "--every-ms", "40")
    )
    assert line["seconds"] >= 3 * 0.04  # four bursts, a pause before each but the first
    assert 0 < line["live_idle_kib"] < line["live_busy_kib"] / 5
    assert line["resident_busy_kib"] > 0 and line["resident_idle_kib"] > 0
    nothing = result_of(run("idle_server", "--threads", "1", "--ops", "4000", "--burst", "2000", "--keep", "0"))
    assert nothing["live_idle_kib"] == 0 < nothing["live_busy_kib"]


@pytest.fixture(scope="module")
def broken(compile_c: Callable[[Path, Sequence[str]], Path]) -> Path:
    return compile_c(Path(__file__).with_name("broken_malloc.c"), ["-fno-builtin", "-fPIC", "-shared", "-w"])


@pytest.mark.parametrize("arguments", BROKEN, ids=" ".join)
def test_broken_allocator_is_noticed(run: Run, broken: Path, tmp_path: Path, arguments: List[str]) -> None:
    (tmp_path / "broken.trace").write_text("+6000\n" * 8 + "".join(f"-{slot}\n" for slot in range(8)))
    program, *rest = with_tiny_work(arguments)
    rest = [str(tmp_path / "broken.trace") if word == TRACE else word for word in rest]
    done = run(program, *rest, library=broken)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert done.stderr.startswith(f"{program}: ")
    line = json.loads(done.stdout)
    assert line["checked"] is False and line["error"]


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_options(run: Run, arguments: List[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"{arguments[0]}: ") and done.stderr.count("\n") == 1
    assert "--help" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "without a single block"),
        ("# nothing\n\n", "without a single block"),
        ("+16\n-1\n", "line 2: a number is missing or too large"),
        ("+16\n-0\n-0\n", "line 3: no block lives in that slot"),
        ("+16\n=0\n", "line 2: a slot and a size"),
        ("+16 7\n", "line 1: something follows"),
        ("+\n", "line 1: a number is missing"),
        ("+99999999999\n", "line 1: a number is missing or too large"),
        ("+16\n?16\n", "line 2: it begins with none of"),
    ],
)
def test_wrong_traces(run: Run, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "wrong.trace"
    file.write_text(text)
    done = run("trace", "--file", str(file))
    assert done.returncode == 2
    assert said in done.stderr


def test_trace_of_every_kind(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "small.trace"
    file.write_text("# all kinds\n+0\n0100\n=1 5000\n-0\n+1\n\n=1 16\n-1")
    line = result_of(run("trace", "--ops", "7", "--file", str(file)))
    assert (line["events"], line["slots"], line["ops"], line["bytes"]) == (7, 2, 7, 5117)


@pytest.mark.parametrize("level", [0, 1, 9])
@pytest.mark.parametrize("count", [1, 30, 20000])
def test_packed_trace_is_read_like_the_text(run: Run, tmp_path: Path, level: int, count: int) -> None:
    """Level 0 stores, a short text has the fixed code and a long one a code of its own."""
    sizes = random.Random(count)
    text = "".join(f"+{sizes.randrange(5000)}\n" for _ in range(count)) + "-0\n" * (count % 2)
    plain, packed = tmp_path / "plain.trace", tmp_path / "packed.trace.gz"
    plain.write_text(text)
    with packed.open("wb") as file, gzip.GzipFile("a name in it", "wb", level, file) as archive:
        archive.write(text.encode())
    ops = str(text.count("\n"))
    lines = [result_of(run("trace", "--ops", ops, "--file", str(file))) for file in (plain, packed)]
    assert all(lines[0][key] == lines[1][key] for key in ("events", "slots", "ops", "bytes"))


def test_damaged_packed_traces(run: Run, tmp_path: Path) -> None:
    """Each damage is an error, in a line; none is a crash."""
    whole = gzip.compress("".join(f"+{size}\n" for size in range(1, 900)).encode(), mtime=0)
    damaged = [whole[:length] for length in range(2, len(whole), 97)]
    for at in range(2, len(whole), 41):
        if at not in (*range(4, 10), len(whole) - 9):  # the time and the system, which are not read; bits after the end
            damaged.append(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :])
    file = tmp_path / "damaged.trace.gz"
    for content in [*damaged, whole + b"x"]:
        file.write_bytes(content)
        done = run("trace", "--ops", "10", "--file", str(file))
        assert (done.returncode, done.stdout) == (2, ""), (content, done.stderr)
        assert "the gzip file is damaged" in done.stderr


def test_help(run: Run) -> None:
    for program in TINY:
        done = run(program, "--help")
        assert done.returncode == 0
        assert f"{program}: " in done.stderr and "--seed" in done.stderr
