#!/usr/bin/env python3
"""Compares named heaps with mimalloc's heaps and jemalloc's arenas, in one interleaved run.

Prints medians: one heap with a million blocks (create, allocate, destroy, resident memory), the same blocks by malloc
and free, 10,000 heaps with one block each, and threads that share a heap or have one each. With --count, hakmem's
counting build tells how often threads that share a heap meet: at locks, and at lines that others write too.

    bench/heaps.py --library build/release/libhakmem.so --peers build/peers --rounds 11
    cmake --build build/release --target hakmem_count
    bench/heaps.py --count build/release/libhakmem-count.so
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CASES = ("blocks", "plain", "many", "apart", "shared")
# A heap of mimalloc 2 is for the thread that made it.
NOT_SHARED = ("mimalloc2",)
THREADS = (1, 2, 4, 8, 16)


def build(folder: Path) -> Path:
    program = folder / "heaps"
    source = ROOT / "bench/heaps.c"
    subprocess.run(["cc", "-O2", "-std=c17", "-D_GNU_SOURCE", "-pthread", "-o", program, source, "-ldl"], check=True)
    return program


def run(program: Path, kind: str, library: Path, case: str, *more: str, **variables: str) -> dict[str, int] | None:
    """The figures of one run; None when the allocator cannot do it."""
    environment = {**os.environ, "LD_PRELOAD": str(library), **variables}
    command = [program, kind, case, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    if done.returncode != 0:
        return None
    words = done.stdout.split()
    return {name: int(value) for name, value in zip(words[::2], words[1::2])}


def show(name: str, value: float) -> str:
    if name in ("resident", "unused"):
        return f"{value / 2**20:.2f} MiB"
    if name == "pair":
        return f"{value:.0f} ns"
    if name == "switches":
        return f"{value:.0f}"
    return f"{value / 1e6:.3f} ms"


def count(library: Path) -> None:
    """Prints what threads do to each other in a million pairs of malloc and free of each."""
    print("\n| threads | heap | updates of shared lines | locks | waits for locks |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        program, report = build(Path(folder)), Path(folder) / "counts.json"
        for threads in THREADS:
            for case in ("apart", "shared"):
                report.unlink(missing_ok=True)
                if run(program, "hakmem", library, case, str(threads), HAKMEM_STATS_FILE=str(report)) is None:
                    raise SystemExit(f"heaps: {library} fails")
                told = json.loads(report.read_text())
                locks, waits = (
                    sum(told["events"][f"lock_{lock}_{what}"] for lock in ("pool", "space", "meta"))
                    for what in ("take", "wait")
                )
                print(f"| {threads} | {case} | {told['costs']['shared_update']} | {locks} | {waits} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, default=ROOT / "build/release/libhakmem.so")
    parser.add_argument("--peers", type=Path, default=ROOT / "build/peers")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--count", type=Path, metavar="LIBRARY")
    arguments = parser.parse_args()
    if arguments.count is not None:
        count(arguments.count.resolve())
        return 0
    allocators = {"hakmem": ("hakmem", arguments.library.resolve())}
    for name, kind in (("mimalloc2", "mimalloc"), ("mimalloc3", "mimalloc"), ("jemalloc", "jemalloc")):
        if (arguments.peers / f"{name}.so").exists():
            allocators[name] = (kind, (arguments.peers / f"{name}.so").resolve())
    found: dict[tuple[str, str], list[dict[str, int] | None]] = {}
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for _ in range(arguments.rounds):
            for case in CASES:
                for name, (kind, library) in allocators.items():
                    if case == "shared" and name in NOT_SHARED:
                        found.setdefault((case, name), []).append(None)
                        continue
                    found.setdefault((case, name), []).append(run(program, kind, library, case))
    for case in CASES:
        rows = [(name, [each for each in found[case, name] if each is not None]) for name in allocators]
        columns = next((list(each[0]) for _, each in rows if each), [])
        print(f"\n{case}\n\n| allocator | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
        for name, figures in rows:
            values = [show(key, statistics.median(one[key] for one in figures)) for key in columns] if figures else []
            print(f"| {name} | " + (" | ".join(values) if values else "fails |" * len(columns)) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
