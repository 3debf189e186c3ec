"""Writes docs/tested-programs.md from the results of tools/real_programs.py."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from program_rows import WANTED_RUNS, Program, Verdict


def mib(kib: int) -> str:
    return f"{kib / 1024:.1f}"


def line_of(program: Program, verdict: Verdict) -> str:
    ratio = verdict.ours_kib / verdict.plain_kib if verdict.plain_kib else 0
    return (
        f"| {program.name} | {verdict.version} | {program.what} | {verdict.matched} of {verdict.runs} | "
        f"{mib(verdict.plain_kib)} | {mib(verdict.ours_kib)} | {ratio:.2f} |"
    )


HEADER = """# Tested programs

These programs of Debian and others were run under glibc's malloc and under hakmem. A run is the same when its exit
status and its output are those under glibc. Resident memory is the peak of the row's largest process (ru_maxrss), in
MiB: the median of the runs.

ld.so reports for each row that `malloc` and `free` are bound to hakmem. `make programs` runs the rows, names the
packages that are missing (`make programs INSTALL=1` installs them), and writes this file.
`tests/programs/programs.toml` has the commands.

"""

NOT_REACHED = """
## Programs that a preloaded malloc does not reach

These programs run as without the preload. So do setuid programs and those with file capabilities, where ld.so ignores
the preload, and Go programs without cgo, which have an allocator and system calls of their own.

"""


def write(file: Path, programs: list[Program], results: dict[str, Verdict]) -> None:
    served = [(one, results[one.name]) for one in programs if one.name in results and not one.own_malloc]
    if not served:
        sys.exit("real_programs: there are no results to write")
    lines = [HEADER]
    for place in sorted({verdict.machine for _, verdict in served}):
        lines.append(f"- Machine: {place}.\n")
    dates = sorted({verdict.date for _, verdict in served})
    lines.append(f"- Date: {dates[0]}{' to ' + dates[-1] if len(dates) > 1 else ''}.\n")
    good = [verdict for _, verdict in served if verdict.is_good()]
    ratios = [verdict.ours_kib / verdict.plain_kib for _, verdict in served if verdict.plain_kib]
    lines.append(
        f"- {len(good)} of {len(served)} programs gave the same result in every run, "
        f"{sum(one.runs >= WANTED_RUNS for one in good)} of them in {WANTED_RUNS} runs or more.\n"
        f"- Memory is {statistics.geometric_mean(ratios):.2f} times glibc's in the geometric mean, "
        f"{max(ratios):.2f} at the most.\n"
    )
    for group in dict.fromkeys(one.group for one, _ in served):
        lines.append(f"\n## {group}\n\n| program | version | what | same | glibc | hakmem | times |\n")
        lines.append("| --- | --- | --- | --- | --- | --- | --- |\n")
        lines += [line_of(one, verdict) + "\n" for one, verdict in served if one.group == group]
    others = [(one, results[one.name]) for one in programs if one.name in results and one.own_malloc]
    if others:
        lines.append(NOT_REACHED)
        lines.append("| program | version | why | same |\n| --- | --- | --- | --- |\n")
        for one, verdict in others:
            lines.append(f"| {one.name} | {verdict.version} | {one.what} | {verdict.matched} of {verdict.runs} |\n")
    file.write_text("".join(lines), encoding="utf-8")
