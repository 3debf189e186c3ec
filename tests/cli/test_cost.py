"""--cost: the cost of a run at a price, hakmem in three modes beside the others, and the note if it has no modes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence

import pytest
from cli_support import ROOT, Compile, Tool
from hakmem import bench_report, cost, cost_report, fitting, paths, table
from hakmem.allocators import Allocator, choose, with_modes
from hakmem.bench_results import Results
from hakmem.contest import Contest
from hakmem.cost import Price
from hakmem.errors import Failure
from hakmem.measure import Run
from hakmem.metrics import CPU, MEAN, WALL
from hakmem.policy_library import LIBRARY, MODES
from hakmem.preload_plan import Prepared, plan
from hakmem.program import resolve
from hakmem.standing import LEVEL, LOSES, WINS, not_above_peers, stand, word
from hakmem.workloads import Workload, select

MIB = 1 << 20
CHEAP, DEAR = Price("fast", 1_000_000), Price("lean", 1_000_000_000)
ROUNDS = 6


@pytest.fixture
def prices(library: Path) -> List[Price]:
    if paths.find_library(LIBRARY) is None:
        pytest.skip(f"{LIBRARY} is not built")
    return cost.prices()


def contest(figures: Mapping[str, Sequence[float]]) -> Contest:
    """Each entrant has its CPU seconds and its MiB in all rounds, of a second each."""

    def run(prepared: Prepared, number: int) -> Run:
        cpu, mib = figures[prepared.allocator.name]
        return Run(prepared.allocator.name, number, {CPU.key: cpu, MEAN.key: mib * MIB, WALL.key: 1.0}, exit_code=0)

    entrants = [Prepared(Allocator(name, None), {}, None) for name in figures]
    made = Contest(entrants, next(iter(figures)), run, ROUNDS, prices=[CHEAP, DEAR])
    for number in range(1, ROUNDS + 1):
        made.play(number)
    return made


def test_the_prices_are_the_librarys(prices: List[Price]) -> None:
    header = (ROOT / "src/policy/price.h").read_text()
    defined = dict(re.findall(r"#define HK_PRICE_(FAST|BALANCED|LEAN) UINT64_C\((\d+)\)", header))
    assert {price.mode: price.ns_per_mib_second for price in prices} == {
        mode: int(defined[mode.upper()]) for mode in MODES
    }
    for file in (ROOT / "cli/hakmem").rglob("*.py"):
        assert not any(number in file.read_text().replace(",", "").replace("_", "") for number in defined.values()), (
            file
        )


@pytest.mark.parametrize(
    ("cpu", "mib", "wall", "expected"),
    [(2.0, 100.0, 10.0, 2.0 + 0.001 * 1000), (0.5, 0.0, 3.0, 0.5), (1.0, None, 1.0, None), (None, 1.0, 1.0, None),
     (1.0, 1.0, None, None)],
)  # fmt: skip
def test_the_cost_of_a_run(
    cpu: Optional[float], mib: Optional[float], wall: Optional[float], expected: Optional[float]
) -> None:
    figures = {CPU.key: cpu, MEAN.key: None if mib is None else mib * MIB, WALL.key: wall}
    found = CHEAP.cost(figures)
    assert found == (None if expected is None else pytest.approx(expected))


def test_ours_is_judged_in_the_mode_of_the_price() -> None:
    """At each price there is another best peer, and hakmem in another mode."""
    made = contest(
        {
            "glibc": [3.0, 9.0], "hakmem": [9.0, 9.0], "quick": [1.0, 50.0], "small": [2.0, 1.0],
            "hakmem@fast": [1.0, 51.0], "hakmem@lean": [2.4, 0.2],
        }
    )  # fmt: skip
    standing = stand(Workload("w", "idle", "what", ("x",)), made)
    fast, lean = standing.costs
    assert (fast.price, fast.best_peer, word(fast.ratio)) == (CHEAP, "quick", LOSES)
    assert (lean.price, lean.best_peer, word(lean.ratio)) == (DEAR, "small", WINS)
    assert fast.ratio is not None and fast.ratio.value == pytest.approx(1.051 / 1.05)
    assert lean.ratio is not None and lean.ratio.value == pytest.approx(2.6 / 3.0)
    assert not_above_peers([standing], "fast") == (0, 1) and not_above_peers([standing], "lean") == (1, 1)
    results = Results(
        {}, [one.allocator for one in made.prepared], ROUNDS, 1, [standing], {"w": made}, {}, [], (), made.prices
    )
    assert set(results.relative_costs(standing, DEAR)) == {"glibc", "quick", "small", "hakmem@lean"}
    assert "lean (1,000,000,000 ns for a MiB·second): no more than any peer in 1 of 1" in cost_report.cost_summary(
        results, DEAR
    )
    assert "w: cost at the fast price × 1.00 of quick" in bench_report.losses(results)


def test_as_much_as_the_best_peer_is_not_above_it() -> None:
    made = contest({"glibc": [1.0, 1.0], "hakmem": [1.0, 1.0], "hakmem@fast": [1.0, 1.0], "hakmem@lean": [1.0, 1.0]})
    standing = stand(Workload("w", "idle", "what", ("x",)), made)
    assert [word(one.ratio) for one in standing.costs] == [LEVEL, LEVEL]
    assert not_above_peers([standing], "fast") == (1, 1)


def test_without_prices_nothing_costs() -> None:
    made = contest({"glibc": [1.0, 1.0], "hakmem": [1.0, 1.0]})
    made.prices = ()
    assert stand(Workload("w", "idle", "what", ("x",)), made).costs == [] and made.cost_rows() == []


def test_hakmem_takes_part_in_each_mode(library: Path) -> None:
    chosen = with_modes(choose("hakmem", "glibc"), MODES)
    assert [one.name for one in chosen] == ["glibc", "hakmem", "hakmem@fast", "hakmem@balanced", "hakmem@lean"]
    program = resolve(["true"], {"PATH": "/usr/bin:/bin"})
    made = plan(program, chosen, {"PATH": "/usr/bin:/bin"}, {"HAKMEM_RETAIN": "1M"}, force=False)
    told = {one.allocator.name: one.environment for one in made.prepared}
    assert {name: variables.get("HAKMEM_MODE") for name, variables in told.items()} == {
        "glibc": None, "hakmem": None, "hakmem@fast": "fast", "hakmem@balanced": "balanced", "hakmem@lean": "lean",
    }  # fmt: skip
    for name, variables in told.items():
        ours = name != "glibc"
        assert variables.get("HAKMEM_RETAIN") == ("1M" if ours else None)
        assert variables.get("LD_PRELOAD") == (str(library) if ours else None)
    with pytest.raises(Failure, match="--cost needs hakmem"):
        with_modes(choose("glibc,glibc", "hakmem")[1:], MODES)


@pytest.mark.parametrize(
    ("said", "is_noted"),
    [
        ("hakmem: warning: HAKMEM_MODE is no option (see: hakmem help options)\\n", True),
        ("", False),
        ("something else\\n", False),
    ],
)
def test_a_library_without_modes_is_noted(compile_c: Compile, said: str, is_noted: bool) -> None:
    source = f"""
    #include <stdlib.h>
    #include <unistd.h>
    __attribute__((constructor)) static void say(void) {{
      if (getenv("HAKMEM_MODE")) (void)!write(2, "{said}", sizeof "{said}" - 1);
    }}
    """
    library = compile_c(f"says{abs(hash(said))}.so", source, "-shared", "-fPIC")
    allocators = with_modes([Allocator("glibc", None), Allocator("hakmem", str(library))], MODES)
    assert (cost.unknown_mode(allocators, {}) is not None) == is_noted


def test_compare(tool: Tool, tmp_path: Path, busy: Path, prices: List[Price]) -> None:
    done = tool(
        "compare", "--allocators", "hakmem", "--rounds", "1", "--cost", "--json", "j", "--csv", "c",
        "--", busy, "20", "100",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "cost: CPU time + price × MiB·seconds of resident memory" in done.stdout
    assert re.search(r"^hakmem in that mode +\S+ ", done.stdout, re.MULTILINE)
    document = json.loads((tmp_path / "j").read_text())
    assert document["prices"] == {price.mode: price.ns_per_mib_second for price in prices}
    assert {run["allocator"] for run in document["runs"]} == {"glibc", "hakmem", *(f"hakmem@{mode}" for mode in MODES)}
    for run in document["runs"]:
        for price in prices:
            memory = run["mean_bytes"] / MIB * run["wall_seconds"] * price.ns_per_mib_second / 1e9
            assert run[f"cost_{price.mode}_seconds"] == pytest.approx(run["cpu_seconds"] + memory)
    assert {entry["metric"] for entry in document["summary"]} >= {price.metric.key for price in prices}
    assert "cost_lean_seconds" in (tmp_path / "c").read_text().splitlines()[0]


def test_compare_without_it(tool: Tool) -> None:
    done = tool("compare", "--allocators", "hakmem", "--rounds", "1", "--json", "-", "--", "true")
    document = json.loads(done.stdout)
    assert document["prices"] == {} and not any(key.startswith("cost") for key in document["runs"][0])


def test_too_short_for_a_cost(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a mean there is no cost; a dash says so, and the others' are told."""

    def run(prepared: Prepared, number: int) -> Run:
        figures: Dict[str, Optional[float]] = {CPU.key: 1.0, WALL.key: 1.0}
        figures[MEAN.key] = None if prepared.allocator.name == "hakmem@fast" else float(MIB)
        return Run(prepared.allocator.name, number, figures, exit_code=0)

    names = ("glibc", "hakmem", "hakmem@fast", "hakmem@lean")
    made = Contest([Prepared(Allocator(name, None), {}, None) for name in names], "glibc", run, 1, prices=[CHEAP, DEAR])
    made.play(1)
    fitting.console().print(table.costs_table(made))
    shown = capsys.readouterr().out
    assert re.search(r"^hakmem in that mode +– +2\.00 s +1\.000", shown, re.MULTILINE)
    assert re.search(r"^glibc +1\.00 s +2\.00 s", shown, re.MULTILINE)


CATALOGUE = """
[[workload]]
name = "always"
program = "sleeper"
group = "micro"
for_cost = true
what = "is part of both sets"

[[workload]]
name = "asked_for"
program = "sleeper"
group = "idle"
on_request = true
for_cost = true
what = "is for costs alone"

[[workload]]
name = "other"
program = "sleeper"
group = "micro"
what = "has nothing to do with costs"
"""
SLEEPER = """#!/bin/sh
sleep 0.1
echo '{"ops": 1000, "seconds": 0.1, "checked": true}'
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "workloads.toml").write_text(CATALOGUE)
    (folder / "sleeper").write_text(SLEEPER)
    (folder / "sleeper").chmod(0o755)
    return folder


def bench(tool: Tool, catalogue: Path, *words: object):  # type: ignore[no-untyped-def]
    return tool(
        "bench", "--workloads", catalogue, "--programs", catalogue, "--out", "out", "--label", "here",
        "--allocators", "hakmem", "--rounds", "1", "--no-counts", *words,
    )  # fmt: skip


def test_bench(tool: Tool, catalogue: Path, prices: List[Price]) -> None:
    done = bench(tool, catalogue, "--cost")
    assert done.returncode == 0, done.stderr
    assert "Cost: CPU time + price × MiB·seconds" in done.stdout
    assert re.search(
        r"^lean \([\d,]+ ns for a MiB·second\): no more than any peer in \d of 2", done.stdout, re.MULTILINE
    )
    (file,) = (tool.folder / "out").glob("*.json")
    document = json.loads(file.read_text())
    assert document["prices"] == {price.mode: price.ns_per_mib_second for price in prices}
    assert [row["name"] for row in document["workloads"]] == ["always", "asked_for"]
    for row in document["workloads"]:
        assert set(row["cost"]) == set(MODES)
        assert all(at["best_peer"] == "glibc" and at["to_best_peer"]["ratio"] > 0 for at in row["cost"].values())
        figures = row["figures"]["hakmem@lean"]
        assert figures["cost_lean_seconds"][0] > figures["cost_fast_seconds"][0] > figures["cpu_seconds"][0] > 0
    page = next((tool.folder / "out").glob("*.md")).read_text()
    assert "## What it cost" in page and "### Cost at the lean price of all, × the best peer" in page
    assert re.search(r"^\| workload \| hakmem@lean \| glibc \|$", page, re.MULTILINE)


def test_bench_without_it(tool: Tool, catalogue: Path) -> None:
    assert bench(tool, catalogue, "-q").returncode == 0
    (file,) = (tool.folder / "out").glob("*.json")
    document = json.loads(file.read_text())
    assert [row["name"] for row in document["workloads"]] == ["always", "other"]
    assert document["prices"] == {} and document["workloads"][0]["cost"] == {}
    assert "What it cost" not in next((tool.folder / "out").glob("*.md")).read_text()


def test_which_workloads_run(tool: Tool, catalogue: Path) -> None:
    def one(name: str, **more: bool) -> Workload:
        return Workload(name, "idle", "what", ("x",), **more)  # type: ignore[arg-type]

    both, asked, other = one("a", for_cost=True), one("b", for_cost=True, on_request=True), one("c")
    everything = [both, asked, other]
    assert select(everything, None) == [both, other]
    assert select(everything, None, for_cost=True) == [both, asked]
    assert select(everything, "c", for_cost=True) == [other]
    assert select(everything, "idle") == everything
    listed = bench(tool, catalogue, "--list")
    assert "asked_for: idle, 1 s, is for costs alone (only when named, or by --cost)" in listed.stdout
    assert "2 workloads under 2 allocators" in listed.stderr


def test_cost_and_counts_alone(tool: Tool, catalogue: Path) -> None:
    done = tool("bench", "--workloads", catalogue, "--programs", catalogue, "--cost", "--counts")
    assert done.returncode == 2 and "--counts measures none" in done.stderr
