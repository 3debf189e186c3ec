#!/usr/bin/env python3
"""Peak resident memory and page faults of small programs, under each present allocator.

    bench/small_program_memory.py [--build build/release] [--no-peers] [NAME=LIBRARY ...] [--rounds 9] [--json]

Each program is started by bench/launch_small.c, which is smaller than any of them (its comment says why that
matters), in turns, and medians are given. The kernel adds resident pages up by processor and in batches, so a single
peak may be off by some 100 KiB either way; the minor faults are exact, and for programs as small as these say nearly
the same.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, List, NoReturn, Optional

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tools"))

from under_allocator import environment, named_allocators  # noqa: E402


@dataclass(frozen=True)
class Result:
    """Medians of one program under one allocator.

    `at_most`: the launcher is as large, so the program may be smaller.
    """

    program: str
    allocator: str
    peak_kib: int
    minor_faults: int
    at_most: bool


@dataclass(frozen=True)
class Run:
    """The launcher's report."""

    exit_code: int
    peak_kib: int
    minor_faults: int
    major_faults: int
    launcher_kib: int


def fail(message: str) -> NoReturn:
    """Ends the program with a line on stderr."""
    print(f"small_program_memory: {message}", file=sys.stderr)
    sys.exit(2)


def compile_c(name: str, folder: Path, *flags: str) -> Path:
    """A program of this folder, compiled."""
    program = folder / name
    source = str(REPOSITORY / "bench" / f"{name}.c")
    subprocess.run(["cc", "-O2", *flags, "-o", str(program), source], check=True)
    return program


def small_programs(folder: Path) -> Dict[str, List[str]]:
    """The programs of this machine, by their names in the table."""
    lines = folder / "lines"
    lines.write_text("".join(f"{number * 7919 % 1000:03} some text\n" for number in range(100)))
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    candidates = {
        "true": ["true"],
        "sh -c :": ["sh", "-c", ":"],
        "ls /": ["ls", "/"],
        "few_blocks": [str(compile_c("few_blocks", folder, "-fno-builtin"))],
        "sort 100 lines": ["sort", str(lines)],
        "perl -e 1": ["perl", "-e", "1"],
        "python -c pass": [python, "-c", "pass"],
    }
    return {name: command for name, command in candidates.items() if shutil.which(command[0])}


def run_once(launcher: Path, command: List[str], library: Optional[Path]) -> Run:
    """One start of a program."""
    report = launcher.parent / "report"
    subprocess.run(
        [str(launcher), str(report), str(library or "-"), *command],
        env=environment(None),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    run = Run(*(int(word) for word in report.read_text().split()))
    if run.exit_code != 0:
        fail(f"{' '.join(command)} ended with {run.exit_code} under {library or 'glibc'}")
    return run


def measure(folder: Path, allocators: Dict[str, Optional[Path]], rounds: int) -> List[Result]:
    """Every program under every allocator, the allocators in turns."""
    launcher = compile_c("launch_small", folder, "-static")
    results: List[Result] = []
    for program, command in small_programs(folder).items():
        runs: Dict[str, List[Run]] = {name: [] for name in allocators}
        for _ in range(rounds):
            for name, library in allocators.items():
                runs[name].append(run_once(launcher, command, library))
        results.extend(summary(program, name, runs[name]) for name in allocators)
    return results


def summary(program: str, allocator: str, runs: List[Run]) -> Result:
    """The medians of a program's runs."""
    peak = int(statistics.median(run.peak_kib for run in runs))
    faults = int(statistics.median(run.minor_faults for run in runs))
    return Result(program, allocator, peak, faults, peak <= max(run.launcher_kib for run in runs))


def print_tables(results: List[Result], allocators: List[str]) -> None:
    """Peaks, then faults: a row per program, a column per allocator."""
    rows: Dict[str, Dict[str, Result]] = {}
    for result in results:
        rows.setdefault(result.program, {})[result.allocator] = result
    heading = "".join(f"{name:>13}" for name in allocators)
    print(f"{'peak resident, KiB':<20}{heading}")
    for program, row in rows.items():
        cells = (f"{'<= ' if row[name].at_most else ''}{row[name].peak_kib}" for name in allocators)
        print(f"{program:<20}" + "".join(f"{cell:>13}" for cell in cells))
    print(f"\n{'minor page faults':<20}{heading}")
    for program, row in rows.items():
        print(f"{program:<20}" + "".join(f"{row[name].minor_faults:>13}" for name in allocators))


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Peak memory and page faults of small programs under each allocator.")
    parser.add_argument("libraries", nargs="*", metavar="NAME=LIBRARY", help="other allocators to measure")
    parser.add_argument(
        "--build", type=Path, default=REPOSITORY / "build" / "release", help="the folder of hakmem's libraries"
    )
    parser.add_argument("--no-peers", action="store_true", help="leave out the allocators installed on this machine")
    parser.add_argument("--rounds", type=int, default=9, help="starts of each, interleaved; default 9")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be 1 or more")
    return arguments


def main() -> int:
    """Compile, measure, print."""
    arguments = parse_arguments()
    if shutil.which("cc") is None:
        fail("cc is not installed")
    allocators = named_allocators(arguments.build, arguments.libraries, not arguments.no_peers)
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder), allocators, arguments.rounds)
    if arguments.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        print_tables(results, list(allocators))
    return 0


if __name__ == "__main__":
    sys.exit(main())
