#!/usr/bin/env python3
"""Compares hakmem-alloc with other global allocators of Rust: on ripgrep, fd, and a program that uses serde_json, regex
and rayon. Builds each program with each allocator into build/rust-bench, then runs them in turn.

    bench/rust/compare.py [--rounds N] [--only PATTERN] [--build-only] [--output FILE]

ripgrep and fd come from crates.io in the versions below; the one change of their source is the global allocator. Prints
a table of medians: wall time, CPU time and peak resident memory, each divided by that of the system's allocator. The
raw data go to build/rust-bench/runs.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
WORK = ROOT / "build/rust-bench"
PROGRAMS = {"ripgrep": ("15.2.0", "rg", "crates/core/main.rs"), "fd-find": ("10.5.0", "fd", "src/main.rs")}
ALLOCATORS = ("system", "hakmem", "hakmem-fast", "mimalloc", "jemalloc")
MEASURES = ("wall", "cpu", "rss")
CORPUS = WORK / "vendor"
# Workload: program and arguments.
WORKLOADS = {
    "rg, a word": ("rg", ["--no-ignore", "-c", "allocation", str(CORPUS)]),
    "rg, a pattern, JSON": ("rg", ["--no-ignore", "--json", r"\w+(alloc|free)\w*", str(CORPUS)]),
    "fd, all files": ("fd", ["--unrestricted", ".", str(CORPUS)]),
    "fd, a pattern": ("fd", ["--no-ignore", r"^[a-m].*\.(rs|toml)$", str(CORPUS)]),
    "serde_json": ("rust-bench", ["json"]),
    "regex": ("rust-bench", ["words"]),
    "rayon": ("rust-bench", ["parallel"]),
}


def run(*command: str | Path, cwd: Path) -> None:
    print(f"$ {' '.join(map(str, command))}", file=sys.stderr, flush=True)
    subprocess.run(command, cwd=cwd, check=True)


def fetch() -> None:
    """Unpacks ripgrep and fd with all that they depend on: sources of programs, and text to search."""
    if (CORPUS / ".complete").exists():
        return
    shutil.rmtree(WORK / "fetch", ignore_errors=True)
    (WORK / "fetch/src").mkdir(parents=True)
    (WORK / "fetch/src/lib.rs").touch()
    lines = [f'{name} = "={version}"' for name, (version, _, _) in PROGRAMS.items()]
    head = '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n[dependencies]\n'
    (WORK / "fetch/Cargo.toml").write_text(head + "\n".join(lines) + "\n")
    run("cargo", "vendor", "--quiet", CORPUS, cwd=WORK / "fetch")
    (CORPUS / ".complete").touch()


def patched(name: str) -> Path:
    """A copy of the program's source in which the global allocator is that of bench-allocator."""
    _, _, main = PROGRAMS[name]
    copy = WORK / name
    if not copy.exists():
        shutil.copytree(CORPUS / name, copy)
        text = (copy / main).read_text()
        text, count = re.subn(
            r"#\[cfg\((?:[^\[\]]|\[[^\]]*\])*\)\]\n#\[global_allocator\]\nstatic ALLOC: .*;\n",
            "use bench_allocator as _;\n",
            text,
        )
        if count != 1:
            sys.exit(f"compare: {copy / main} has {count} global allocators")
        (copy / main).write_text(text)
        description = copy / "Cargo.toml"
        dependency = f'[dependencies.bench-allocator]\npath = "{HERE / "allocator"}"\n\n[workspace]\n'
        description.write_text(f"{description.read_text()}\n{dependency}")
    return copy


def build(programs: set[str]) -> None:
    """Builds the programs with every allocator, into WORK/bin/<program>-<allocator>."""
    fetch()
    (WORK / "bin").mkdir(parents=True, exist_ok=True)
    run("cc", "-O2", "-o", WORK / "launch", ROOT / "cli/launcher/launch.c", cwd=ROOT)
    sources = {"rust-bench": HERE, **{program: patched(name) for name, (_, program, _) in PROGRAMS.items()}}
    for program in sorted(programs):
        source = sources[program]
        for allocator in ALLOCATORS:
            copy = WORK / "bin" / f"{program}-{allocator}"
            if copy.exists():
                continue
            features = [] if allocator == "system" else ["--features", f"bench-allocator/{allocator}"]
            words = ["--quiet", "--release", "--bin", program, "--target-dir", WORK / "target", *features]
            run("cargo", "build", *words, cwd=source)
            shutil.copy(WORK / "target/release" / program, copy)


def measure(command: list[str]) -> dict[str, float]:
    """Starts the program from the command line tool's launcher: its peak would begin at Python's size otherwise."""
    reader, writer = os.pipe()
    words = [str(WORK / "launch"), str(writer), "0", "0", "-", command[0], *command]
    launched = subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[writer], check=False
    )
    os.close(writer)
    with os.fdopen(reader) as report:
        found = re.search(r"^end (\d+) (\d+) (\d+) (\d+) (\d+) ", report.read(), re.MULTILINE)
    if found is None or launched.returncode != 0 or found[1] != "0":
        sys.exit(f"compare: {' '.join(command)} failed")
    return {
        "wall": int(found[2]) / 1e9,
        "cpu": (int(found[3]) + int(found[4])) / 1e6,
        "rss": int(found[5]),
    }


Runs = dict[str, dict[str, list[dict[str, float]]]]


def measure_all(workloads: list[str], rounds: int) -> Runs:
    """Each round runs every workload once under each allocator, beginning with another allocator each time."""
    runs: Runs = {workload: {allocator: [] for allocator in ALLOCATORS} for workload in workloads}
    for turn in range(rounds + 1):
        order = [ALLOCATORS[(turn + i) % len(ALLOCATORS)] for i in range(len(ALLOCATORS))]
        for workload in workloads:
            program, arguments = WORKLOADS[workload]
            for allocator in order:
                result = measure([str(WORK / "bin" / f"{program}-{allocator}"), *arguments])
                if turn > 0:  # the first round fills the page cache
                    runs[workload][allocator].append(result)
        (WORK / "runs.json").write_text(json.dumps(runs, indent=1) + "\n")
        print(f"round {turn} of {rounds}", file=sys.stderr, flush=True)
    return runs


def ratio(runs: Runs, workload: str, allocator: str, measured: str) -> tuple[float, float]:
    """The median of the rounds' ratios to the system's allocator, and half the distance of their quartiles."""
    pairs = zip(runs[workload][allocator], runs[workload]["system"])
    ratios = [one[measured] / system[measured] for one, system in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return middle, (high - low) / 2


def table(runs: Runs) -> str:
    titles = {"wall": "Wall time", "cpu": "CPU time", "rss": "Peak resident memory"}
    lines = []
    for measured in MEASURES:
        lines += [f"{titles[measured]}:", "", f"| workload | {' | '.join(ALLOCATORS[1:])} |", "|---" + "|--:" * 4 + "|"]
        logs: dict[str, list[float]] = {allocator: [] for allocator in ALLOCATORS[1:]}
        for workload in runs:
            cells = []
            for allocator in ALLOCATORS[1:]:
                middle, spread = ratio(runs, workload, allocator, measured)
                logs[allocator].append(math.log(middle))
                cells.append(f"{middle:.2f} ± {spread:.2f}")
            lines.append(f"| {workload} | {' | '.join(cells)} |")
        means = [f"**{math.exp(statistics.mean(logs[allocator])):.2f}**" for allocator in ALLOCATORS[1:]]
        lines += [f"| geometric mean | {' | '.join(means)} |", ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", default="", help="the workloads whose name matches")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--output", type=Path, help="write the table here too")
    arguments = parser.parse_args()
    workloads = [workload for workload in WORKLOADS if re.search(arguments.only, workload)]
    if not workloads:
        parser.error(f"no workload matches {arguments.only}: one of {', '.join(WORKLOADS)}")
    build({WORKLOADS[workload][0] for workload in workloads})
    if arguments.build_only:
        return 0
    text = table(measure_all(workloads, arguments.rounds))
    print(text)
    if arguments.output:
        arguments.output.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
