"""The counting build counts the same in every run of a workload with one thread, and counts what happens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Callable, List

import pytest
from bench_support import BENCH, BUILD, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "cli"))
for module in ("click", "rich", "elftools"):
    pytest.importorskip(module, reason="the packages of cli/requirements.txt are missing (./hakmem installs them)")

from hakmem import counts, environment  # noqa: E402
from hakmem.counts import Counted  # noqa: E402
from hakmem.workloads import Places, Workload  # noqa: E402

Count = Callable[..., Counted]
MIB = 1 << 20


@pytest.fixture(scope="session")
def counting_library() -> Path:
    subprocess.run(["cmake", "--build", str(BUILD), "--target", "hakmem_count"], check=True, capture_output=True)
    return (BUILD / "libhakmem-count.so").resolve()


@pytest.fixture
def count(programs: Path, counting_library: Path, tmp_path: Path) -> Count:
    """count(program, *arguments): one run, counted."""

    def count_one(
        program: str, *arguments: str, library: Path = counting_library, threads: int = 1, retain: str = ""
    ) -> Counted:
        workload = Workload(
            program, "micro", "", (str(programs / program), *arguments, "--seed", "1"), threads, own=True
        )
        variables, _ = environment.neutral(environment.of_caller())
        if retain:
            variables = {**variables, "HAKMEM_RETAIN": retain}
        return counts.count(workload, Places(BENCH, tmp_path, programs), library, variables, 60, lambda: None)

    return count_one


# Without blocks of more than 1 MiB: the time that they lay idle decides how many stay and are reused.
@pytest.mark.parametrize(
    "command",
    [
        ["pair", "--ops", "50000"],
        ["batch", "--ops", "50000", "--order", "random"],
        ["random_mixed", "--ops", "200000"],
        ["random_mixed", "--ops", "100000", "--most", "32768", "--sizes", "doublings", "--slots", "5000"],
        ["phases", "--ops", "200000", "--mib", "8"],
        ["calloc_fresh", "--ops", "3000"],
        ["trace", "--ops", "60000", "--file", str(BENCH / "traces" / "python.trace.gz")],
    ],
    ids=" ".join,
)
def test_two_runs_count_the_same(count: Count, command: List[str]) -> None:
    # hakmem purges by the time that memory has been idle, which differs. With this much retained it purges nothing.
    first, second = (count(*command, retain="1g") for _ in range(2))
    assert first.failure is None and first.operations > 0
    # Where the kernel puts a mapping is random: a block may grow in its place in one run and move in the other, and a
    # superslab's mapping is aligned at once or takes two more calls to map and three to unmap. Twice that is allowed.
    by_place = {name for name in first.figures if name.startswith("system_call")} | {"shared_update"}
    # A look at the memory of all shards is due once in a tick of the clock, and takes the common lock.
    by_tick = {"common_lock", "lock_take", "lock_space_take"}
    others = dict.fromkeys(by_place | by_tick)
    assert {**first.figures, **others} == {**second.figures, **others}
    of_shard = [counted.figures["lock_space_take"] - counted.figures["common_lock"] for counted in (first, second)]
    assert of_shard[0] == of_shard[1] and first.figures["purged"] == 0
    assert all(first.figures[name] == pytest.approx(second.figures[name], rel=0.05, abs=10) for name in by_place)
    assert first.figures["refill"] > 0 and first.figures["lock_take"] > 0 and first.figures["lock_wait"] == 0
    assert first.figures["remote_free"] == 0
    assert 0 < first.figures["peak_in_use"] <= first.figures["peak_held"]


def test_other_work_counts_otherwise(count: Count) -> None:
    """Twice as many operations refill more often: the figures are the workload's own."""
    less, more = (count("random_mixed", "--ops", ops) for ops in ("200000", "400000"))
    assert more.figures["malloc"] - less.figures["malloc"] == 200000
    assert more.figures["refill"] > less.figures["refill"]


def test_blocks_that_cross_threads(count: Count) -> None:
    counted = count("handoff", "--ops", "200000", "--producers", "1", "--consumers", "1", threads=2)
    assert counted.failure is None
    assert counted.figures["remote_free"] > 100000
    assert 0 < counted.figures["remote_batch"] <= counted.figures["remote_free"]
    columns = {column.title: column.value(counted) for column in counts.COLUMNS}
    assert columns["blocks a batch"] == counted.figures["remote_free"] / counted.figures["remote_batch"]
    assert columns["remote batches"] == counted.figures["remote_batch"] * 5
    assert counted.figures["shared_update"] > 0


def test_peaks_are_seen_though_they_are_short(count: Count) -> None:
    """One block of 16 MiB at a time: a look must not miss blocks that are held between two looks."""
    counted = count("big_blocks", "--ops", "5", "--slots", "1", "--least-kib", "16384", "--most-kib", "16384")
    assert 16 * MIB <= counted.figures["peak_in_use"] < 18 * MIB
    small = count("batch", "--ops", "40000", "--size", "1024", "--count", "20000")
    assert 20 * MIB * 0.95 <= small.figures["peak_in_use"] <= small.figures["peak_held"] < 24 * MIB


def test_another_library_is_no_counting_build(count: Count, hakmem: Path) -> None:
    assert "counts no costs" in str(count("pair", "--ops", "1000", library=hakmem).failure)
    assert "no report" in str(count("pair", "--ops", "1000", library=Path("/lib/x86_64-linux-gnu/libm.so.6")).failure)


def test_a_workload_that_fails_is_not_counted(count: Count) -> None:
    failed = count("pair", "--size", "7")
    assert failed.failure is not None and failed.figures == {}
    assert counts.rows([failed]) == []


def test_the_command(programs: Path, counting_library: Path, tmp_path: Path) -> None:
    if counts.find_library() is None:
        pytest.skip("libhakmem-count.so is not built")
    (tmp_path / "workloads.toml").write_text(
        '[[workload]]\nname = "one"\nprogram = "pair"\narguments = ["--ops", "50000"]\nwhat = "pairs"\n'
    )
    start = f"import sys; sys.path.insert(0, {str(REPOSITORY / 'cli')!r}); from hakmem.main import main; main()"
    words = ["bench", "--counts", "--workloads", tmp_path, "--programs", programs, "--out", "out", "--label", "x"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", start, *map(str, words)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "What hakmem does, for each million operations" in done.stdout
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert [name.partition("x")[2] for name in names] == [".json", ".md"]
    document = json.loads((tmp_path / "out" / names[0]).read_text())
    (entry,) = document["counts"]
    assert (entry["name"], entry["operations"], entry["failure"]) == ("one", 50000, None)
    declared = "".join((REPOSITORY / f"src/{name}.def").read_text() for name in ("policy/stat", "base/count"))
    counters = set(re.findall(r"^HK_(?:STAT|COUNTER|PEAK)\((\w+),", declared, re.MULTILINE))
    sums = {"lock_take", "lock_wait", "system_call"}
    assert not counters & sums and set(entry["counters"]) == counters | sums
    told = entry["counters"]
    assert told["lock_take"] == told["lock_pool_take"] + told["lock_space_take"] + told["lock_meta_take"] > 0
    assert told["system_call"] >= told["system_call_map"] + told["system_call_other"] > 0
    page = (tmp_path / "out" / names[1]).read_text()
    assert "| one | 1 | 50,000 |" in page and "Where hakmem stands" not in page
