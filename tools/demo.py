#!/usr/bin/env python3
"""The demo of `make run`: a real program of this machine does the same work under glibc's malloc and under
hakmem, in turns, and a short table shows time and memory of each.

The program is this Python interpreter (with PYTHONMALLOC=malloc, so that every object is a malloc) parsing its whole
standard library on four threads; where that library has no sources, perl counting words.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable, Dict, List, Mapping, NoReturn, Optional, Tuple

from under_allocator import REPOSITORY, LibraryMissing, Usage, environment, files_of_malloc, library_in, run_measured

ALLOCATORS = ("glibc", "hakmem")
ENOUGH_MODULES = 100  # a standard library with fewer sources is a stripped one


@dataclass(frozen=True)
class Workload:
    """A program, its arguments, and those of a short run that prints the file of its malloc."""

    description: str
    command: List[str]
    probe: List[str]
    variables: Mapping[str, str]


@dataclass(frozen=True)
class Metric:
    """One row of the table: the figure of a run, and how it is printed."""

    name: str
    read: Callable[[Usage], float]
    text: Callable[[float], str]


@dataclass(frozen=True)
class Row:
    """One metric's verdict. `decided` is false when the two ranges overlap, and after a single round: the difference of
    the medians may then be chance."""

    metric: str
    glibc: float
    hakmem: float
    ratio: Optional[float]
    decided: bool


METRICS = (
    Metric("wall time", lambda usage: usage.wall_seconds, lambda value: f"{value:.2f} s"),
    Metric("CPU time (user + system)", lambda usage: usage.cpu_seconds, lambda value: f"{value:.2f} s"),
    Metric("peak resident memory", lambda usage: usage.peak_kib, lambda value: f"{value / 1024:.1f} MiB"),
    Metric("page faults", lambda usage: usage.minor_faults + usage.major_faults, lambda value: f"{value:,.0f}"),
)


def fail(message: str) -> NoReturn:
    """Ends the program with a line on stderr."""
    print(f"demo: {message}", file=sys.stderr)
    sys.exit(2)


def python_workload() -> Optional[Workload]:
    """This interpreter and its standard library, if the sources are there."""
    import sysconfig

    modules = list(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    if len(modules) < ENOUGH_MODULES:
        return None
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Workload(
        description=f"CPython {version}, every object by malloc, parses its whole standard library on 4 threads",
        command=[sys.executable, "-B", "-s", str(REPOSITORY / "bench" / "parse_stdlib.py"), "4"],
        probe=[sys.executable, "-S", "-c", "pass"],
        variables={"PYTHONMALLOC": "malloc"},
    )


def perl_workload() -> Optional[Workload]:
    """perl, which nearly every Linux has."""
    perl = shutil.which("perl")
    if perl is None:
        return None
    return Workload(
        description="perl builds, sorts and drops tables of words",
        command=[perl, str(REPOSITORY / "bench" / "count_words.pl")],
        probe=[perl, "-e", "1"],
        variables={},
    )


def check_library(workload: Workload, library: Path) -> None:
    """The dynamic linker must bind the program's malloc and free to hakmem, and to nothing else."""
    if re.search(r"[\s:$]", str(library)):
        fail(
            f"LD_PRELOAD cannot name {library}: the path has a space, a colon or a dollar sign. Move the checkout "
            "to another folder"
        )
    bound = files_of_malloc(workload.probe, environment(library, workload.variables))
    if bound != {library}:
        where = ", ".join(str(file) for file in sorted(bound)) or "nothing (is the program static?)"
        fail(f"the program's malloc should be {library}, but it is bound to {where}")


def run_rounds(workload: Workload, library: Path, rounds: int, quiet: bool) -> Dict[str, List[Usage]]:
    """The runs of both, interleaved, the order turned round each time so that neither always runs first."""
    preload = {"glibc": None, "hakmem": library}
    runs: Dict[str, List[Usage]] = {name: [] for name in ALLOCATORS}
    for number in range(rounds):
        for name in ALLOCATORS if number % 2 == 0 else ALLOCATORS[::-1]:
            usage = run_measured(workload.command, environment(preload[name], workload.variables))
            runs[name].append(usage)
            if not quiet:
                print(f"  round {number + 1}: {name:<7} {usage.wall_seconds:6.2f} s", flush=True)
            if usage.exit_code != 0:
                fail(f"the program ended with {usage.exit_code} under {name}")
    return runs


def split_output(usage: Usage) -> Tuple[str, str]:
    """A workload prints its result, then a line `malloc: FILE`."""
    *result, malloc = usage.stdout.decode(errors="replace").splitlines() or [""]
    return "\n".join(result), malloc[len("malloc: ") :] if malloc.startswith("malloc: ") else "unknown"


def check_outputs(runs: Mapping[str, List[Usage]], library: Path) -> Tuple[str, str]:
    """Requires the same result of every run, and hakmem's file of those under hakmem.

    Returns the result and glibc's file.
    """
    expected, glibc_file = split_output(runs["glibc"][0])
    for name in ALLOCATORS:
        for usage in runs[name]:
            result, file = split_output(usage)
            if result != expected:
                fail(f"different results: {expected!r} under glibc, {result!r} under {name}")
            is_hakmem = file != "unknown" and Path(file).resolve() == library
            if file != "unknown" and is_hakmem != (name == "hakmem"):
                fail(f"a run under {name} had its malloc in {file}")
    return expected, glibc_file


def verdict(metric: Metric, runs: Mapping[str, List[Usage]]) -> Row:
    """Medians of both, their ratio, and whether the ranges of the runs are apart."""
    glibc = [metric.read(usage) for usage in runs["glibc"]]
    hakmem = [metric.read(usage) for usage in runs["hakmem"]]
    decided = len(glibc) > 1 and (max(hakmem) < min(glibc) or max(glibc) < min(hakmem))
    glibc_median, hakmem_median = statistics.median(glibc), statistics.median(hakmem)
    ratio = hakmem_median / glibc_median if glibc_median else None
    return Row(metric.name, glibc_median, hakmem_median, ratio, decided)


def comparison(row: Row, rounds: int) -> str:
    """The row's last column."""
    if row.ratio is None:
        return ""
    if not row.decided:
        return f"x {row.ratio:.2f}   " + ("within the spread of the runs" if rounds > 1 else "one run: spread unknown")
    return f"x {row.ratio:.2f}   {abs(row.ratio - 1) * 100:.1f}% {'less' if row.ratio < 1 else 'more'}"


def print_table(rows: List[Row], rounds: int) -> None:
    """The short verdict."""
    print(f"\n{f'median of {rounds}':<26}{'glibc':>12}{'hakmem':>12}   hakmem / glibc")
    for metric, row in zip(METRICS, rows):
        print(f"{row.metric:<26}{metric.text(row.glibc):>12}{metric.text(row.hakmem):>12}   {comparison(row, rounds)}")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Run a real program under glibc's malloc and under hakmem, and compare."
    )
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build" / "release", help="the build folder")
    parser.add_argument(
        "--library", default="libhakmem.so", help="which of its libraries: libhakmem.so, libhakmem-fast.so"
    )
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, interleaved (default 3)")
    parser.add_argument("--json", action="store_true", help="print the runs and medians as JSON instead")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be 1 or more")
    return arguments


def main() -> int:
    """Find the library and a program, check, run, compare."""
    arguments = parse_arguments()
    try:
        library = library_in(arguments.build, arguments.library)
    except LibraryMissing as missing:
        fail(str(missing))
    workload = python_workload() or perl_workload()
    if workload is None:
        fail("neither a Python with the sources of its standard library nor perl is on this machine")
    check_library(workload, library)
    if not arguments.json:
        print(f"{workload.description}.")
        print(f"The same work under glibc's malloc and under {library.name}, {arguments.rounds} times each:")
    runs = run_rounds(workload, library, arguments.rounds, quiet=arguments.json)
    result, glibc_file = check_outputs(runs, library)
    rows = [verdict(metric, runs) for metric in METRICS]
    if arguments.json:
        print(json.dumps(report(workload, library, runs, rows, result), indent=2))
        return 0
    print_table(rows, arguments.rounds)
    print(f"\nResult, the same every time: {result}")
    print(f"malloc was {library} in the runs under hakmem, {glibc_file} in the others.")
    return 0


def report(
    workload: Workload, library: Path, runs: Mapping[str, List[Usage]], rows: List[Row], result: str
) -> Dict[str, object]:
    """The output of --json."""
    measured = {
        name: [{key: value for key, value in asdict(usage).items() if key != "stdout"} for usage in runs[name]]
        for name in ALLOCATORS
    }
    return {
        "workload": workload.description,
        "command": workload.command,
        "library": str(library),
        "result": result,
        "rows": [asdict(row) for row in rows],
        "runs": measured,
    }


if __name__ == "__main__":
    sys.exit(main())
