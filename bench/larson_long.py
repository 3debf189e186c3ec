#!/usr/bin/env python3
"""The server of Larson and Krishnan for a minute: does memory, the number of superslabs or the speed drift as it ages?

    bench/larson_long.py [--build build/release] [--seconds 60] [--json]

Four threads with 1,024 blocks of 8 to 128 bytes each leave them to their successors. An allocator that loses sight
of what threads leave behind takes ever more memory here. The script checks resident memory during the run, the most
superslabs that there can have been, the library's own counts (HAKMEM_STATS_FILE), and the throughput of the last two
seconds beside the first two. Exit code 1 when a limit is broken, 2 when the measurement failed.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, NoReturn, Tuple

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tools"))

from under_allocator import LibraryMissing, environment, library_in  # noqa: E402

THREADS = 4
WORK = ["--least", "8", "--most", "128", "--slots", "1024", "--threads", str(THREADS)]
WINDOW_SECONDS = 2.0
MIB = 1 << 20
SUPERSLAB_BYTES = 2 * MIB
# Stacks are writable memory as superslabs are: small ones keep the bound on the number of superslabs close.
STACK_BYTES = 256 << 10
SAMPLE_SECONDS = 0.05
# After its time the program only frees its blocks.
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Result:
    """One run. `most_superslabs`: the writable memory had room for these; there were no more."""

    seconds: float
    ops_per_second: float
    last_to_first: float
    peak_resident_mib: float
    most_superslabs: int
    superslabs_at_end: int
    in_use_at_end_mib: float
    slabs_acquired: int
    slabs_released: int


@dataclass(frozen=True)
class Limits:
    """The limits of a run. At the end every block is freed and every thread but one has ended."""

    resident_mib: float = 40.0
    superslabs: int = 32
    in_use_at_end_mib: float = 8.0
    last_to_first: float = 0.8
    slabs_released: int = 1


def broken(result: Result, limits: Limits) -> List[str]:
    """The broken limits, in words."""
    complaints = [
        (
            result.peak_resident_mib >= limits.resident_mib,
            f"{result.peak_resident_mib:.1f} MiB were resident, not below {limits.resident_mib:g}",
        ),
        (
            result.most_superslabs > limits.superslabs,
            f"up to {result.most_superslabs} superslabs, more than {limits.superslabs}",
        ),
        (
            result.slabs_released < limits.slabs_released,
            f"{result.slabs_released} spans of slabs were given up, fewer than {limits.slabs_released}",
        ),
        (
            result.in_use_at_end_mib > limits.in_use_at_end_mib,
            f"{result.in_use_at_end_mib:.1f} MiB of slabs in use at the end, more than {limits.in_use_at_end_mib:g}",
        ),
        (
            result.last_to_first < limits.last_to_first,
            f"throughput fell to {result.last_to_first:.2f} of what it was, below {limits.last_to_first:g}",
        ),
    ]
    return [text for is_broken, text in complaints if is_broken]


def fail(message: str) -> NoReturn:
    """Ends the program with a line on stderr."""
    print(f"larson_long: {message}", file=sys.stderr)
    sys.exit(2)


def watch(process: subprocess.Popen[bytes], patience: float) -> Tuple[int, int]:
    """Watches until the process ends: its most resident memory, and its most writable memory, in bytes."""
    deadline = time.monotonic() + patience
    resident = writable = 0
    while process.poll() is None:
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            fail(f"it did not end within {patience:g} s")
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii", errors="replace")
        sizes = {
            name: int(kib) * 1024 for name, kib in re.findall(r"^(VmHWM|VmData):\s+(\d+) kB", status, re.MULTILINE)
        }
        resident, writable = max(resident, sizes.get("VmHWM", 0)), max(writable, sizes.get("VmData", 0))
        time.sleep(SAMPLE_SECONDS)
    return resident, writable


def run(program: Path, library: Path, seconds: float, window: float) -> Result:
    """One run under a library of ours."""
    command = [str(program), *WORK, "--seconds", f"{seconds:g}", "--window-ms", f"{window * 1000:.0f}"]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        report = Path(folder) / "report"
        process = subprocess.Popen(
            command, env=environment(library, {"HAKMEM_STATS_FILE": str(report)}), stdin=subprocess.DEVNULL,
            stdout=output, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, STACK_BYTES)),
        )  # fmt: skip
        resident, writable = watch(process, seconds + PATIENCE_SECONDS)
        output.seek(0)
        if process.returncode != 0:
            fail(f"{program.name} ended with {process.returncode}: {output.read(300).decode(errors='replace').strip()}")
        if not report.is_file():
            fail(f"{library.name} wrote no report of itself")
        return result_of(json.loads(output.read()), json.loads(report.read_text()), resident, writable)


def result_of(line: Dict[str, Any], report: Dict[str, Any], resident: int, writable: int) -> Result:
    """The figures of the program, the library and the kernel."""
    memory, events = report["memory"], report["events"]
    return Result(
        seconds=line["seconds"],
        ops_per_second=line["ops_per_second"],
        last_to_first=line["last_window_ops"] / max(1, line["first_window_ops"]),
        peak_resident_mib=max(resident, memory["peak"]) / MIB,
        most_superslabs=max(writable, memory["superslabs"]) // SUPERSLAB_BYTES,
        superslabs_at_end=memory["superslabs"] // SUPERSLAB_BYTES,
        in_use_at_end_mib=memory["in_use"] / MIB,
        slabs_acquired=events["slab_acquire"],
        slabs_released=events["slab_release"],
    )


def as_text(result: Result, window: float) -> str:
    """For people."""
    return (
        f"{THREADS} threads, {result.seconds:.0f} s: {result.ops_per_second / 1e6:.1f} million operations a second, "
        "the last "
        f"{window:g} s × {result.last_to_first:.3f} of the first\n"
        f"resident {result.peak_resident_mib:.1f} MiB at the most; superslabs {result.most_superslabs} at the most, "
        f"{result.superslabs_at_end} at the end\n"
        f"slabs: {result.slabs_acquired:,} acquired, {result.slabs_released:,} released, "
        f"{result.in_use_at_end_mib:.1f} MiB in use at the end"
    )


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Larson's server for a minute: does hakmem drift as it ages?")
    parser.add_argument(
        "--build", type=Path, default=REPOSITORY / "build" / "release", help="the folder of hakmem's library"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long; default 60")
    parser.add_argument(
        "--least-ratio",
        type=float,
        default=Limits.last_to_first,
        help="of the last throughput to the first; default 0.8",
    )
    parser.add_argument(
        "--least-released",
        type=int,
        default=Limits.slabs_released,
        metavar="N",
        help="spans of slabs that must have been given up; default 1, which a run of a few seconds need not reach",
    )
    parser.add_argument(
        "--most-superslabs",
        type=int,
        default=Limits.superslabs,
        metavar="N",
        help="that there may be; default 32. Where others are at work, more threads than usual are there at once",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    arguments = parser.parse_args()
    if arguments.seconds < 1:
        parser.error("--seconds must be 1 or more")
    return arguments


def main() -> int:
    """Run, print, judge."""
    arguments = parse_arguments()
    program = arguments.build / "bench" / "larson"
    if not program.is_file():
        fail(f"no {program}: build the target bench_programs")
    try:
        library = library_in(arguments.build)
    except LibraryMissing as missing:
        fail(str(missing))
    window = min(WINDOW_SECONDS, arguments.seconds / 3)
    result = run(program, library, arguments.seconds, window)
    print(json.dumps(asdict(result), indent=2) if arguments.json else as_text(result, window))
    limits = Limits(
        superslabs=arguments.most_superslabs,
        last_to_first=arguments.least_ratio,
        slabs_released=arguments.least_released,
    )
    complaints = broken(result, limits)
    for complaint in complaints:
        print(f"larson_long: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
