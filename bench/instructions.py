#!/usr/bin/env python3
"""Counts the instructions of one malloc and one free, under each allocator.

    bench/instructions.py [--build build/release] [--peers] [NAME=LIBRARY ...] [--sizes 64,2000] [--live 1,8] [--json]

How: bench/pair_loop.c runs under callgrind twice, with FEW and with MANY pairs; the difference of the two counts has
no start-up and no warm-up in it, and divided by the difference in pairs it is the price of a pair in its loop. The
same is done with the loop's calls going to a function of one instruction. Subtracting that takes the loop off; the
calls go through pointers, so there are no linker stubs to take off. The two instructions of the empty functions are
added back:

    pair = (malloc MANY - malloc FEW) / (MANY - FEW) - (nothing MANY - nothing FEW) / (MANY - FEW) + 2

`--live` is how many blocks the loop holds before it frees them: with 1 the same block goes out and in, with more
than an allocator's shortest list is long other paths are seen too. The loop does not touch the blocks. System calls
count as one instruction each, whatever the kernel does in them.

That the count is of the allocator that was meant is checked in callgrind's own record: the instructions that grow with
the number of pairs must lie in that library's file.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, List, NoReturn, Optional

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tools"))

from under_allocator import environment, named_allocators  # noqa: E402

FEW, MANY = 9_600, 57_600  # multiples of every usual --live
EMPTY_INSTRUCTIONS = 2  # the `ret` in place of malloc and the `ret` in place of free
DEFAULT_SIZES = "16,64,256,1000,2000,16000,32000,100000"
# The least share of a pair's instructions in the allocator's own file. The rest may be the C library's memset.
OWN_INSTRUCTIONS = 8


@dataclass(frozen=True)
class Result:
    """Instructions of one pair."""

    allocator: str
    size: int
    live: int
    instructions: float


def fail(message: str) -> NoReturn:
    """Ends the program with a line on stderr."""
    print(f"instructions: {message}", file=sys.stderr)
    sys.exit(2)


def build_loop(folder: Path) -> Path:
    """The compiled loop."""
    program = folder / "pair_loop"
    subprocess.run(["cc", "-O2", "-o", str(program), str(REPOSITORY / "bench" / "pair_loop.c")], check=True)
    return program


class Counting:
    """Runs the loop under callgrind."""

    def __init__(self, loop: Path, folder: Path) -> None:
        self._loop = loop
        self._record = folder / "callgrind.out"
        self._empty: Dict[int, float] = {}

    def pair(self, library: Optional[Path], size: int, live: int) -> float:
        """A pair's instructions without the loop's."""
        growth = self._growth(library, size, live, "malloc")
        own = sum(count for file, count in growth.items() if is_file_of(library, file))
        total = sum(growth.values()) / (MANY - FEW) - self._loop_alone(live) + EMPTY_INSTRUCTIONS
        if own < OWN_INSTRUCTIONS * (MANY - FEW):
            fail(f"malloc is not {library or 'the C library'}: the instructions are in {dict(growth)}")
        return total

    def _loop_alone(self, live: int) -> float:
        if live not in self._empty:
            self._empty[live] = sum(self._growth(None, 64, live, "nothing").values()) / (MANY - FEW)
        return self._empty[live]

    def _growth(self, library: Optional[Path], size: int, live: int, calls: str) -> Counter[str]:
        growth = self._count(library, size, MANY, live, calls)
        growth.subtract(self._count(library, size, FEW, live, calls))
        return growth

    def _count(self, library: Optional[Path], size: int, pairs: int, live: int, calls: str) -> Counter[str]:
        """Instructions by object file."""
        callgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self._record}"]
        plain_record = ["--compress-strings=no", "--compress-pos=no"]
        loop = [str(self._loop), str(size), str(pairs), str(live), calls]
        # Bound at start: the dynamic linker's look-ups must not fall into the loop.
        env = environment(library, {"LD_BIND_NOW": "1"})
        run = subprocess.run(callgrind + plain_record + loop, env=env, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            fail(f"{' '.join(loop)} under {library or 'glibc'} failed:\n{run.stderr}")
        with self._record.open() as record:
            return instructions_by_file(record)


def is_file_of(library: Optional[Path], file: str) -> bool:
    """Whether callgrind's name for an object file may be the allocator's. It knows no name for code outside `.text`,
    which gperftools has; the C library and the loop have none such."""
    return "/libc." in file if library is None else file in (str(library), "???")


def instructions_by_file(record: Iterator[str]) -> Counter[str]:
    """Sums a callgrind record's own costs by object file; the line after `calls=` is the callee's, and counted
    there."""
    counts: Counter[str] = Counter()
    file, is_call = "", False
    for line in record:
        if line.startswith("ob="):
            file = line[3:].strip()
        elif line[:1].isdigit():
            if not is_call:
                counts[file] += int(line.split()[1])
            is_call = False
        elif line.startswith("calls="):
            is_call = True
    return counts


def print_table(results: Sequence[Result], allocators: Sequence[str], live: int) -> None:
    """One table for one number of live blocks: a row per size, a column per allocator."""
    held = "1 block live at a time" if live == 1 else f"{live} blocks live"
    print(f"\nInstructions of a malloc and a free, {held}")
    print(f"{'bytes':>8}" + "".join(f"{name:>14}" for name in allocators))
    by_size: Dict[int, Dict[str, float]] = {}
    for result in results:
        if result.live == live:
            by_size.setdefault(result.size, {})[result.allocator] = result.instructions
    for size, row in by_size.items():
        print(f"{size:>8}" + "".join(f"{row[name]:>14.1f}" for name in allocators))


def numbers(text: str) -> List[int]:
    """A list of positive numbers from the command line."""
    values = [int(part) for part in text.split(",")]
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError("numbers of 1 or more, separated by commas")
    return values


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Count the instructions of a malloc and free pair with callgrind.")
    parser.add_argument("libraries", nargs="*", metavar="NAME=LIBRARY", help="other allocators to count")
    parser.add_argument(
        "--build", type=Path, default=REPOSITORY / "build" / "release", help="the folder of hakmem's libraries"
    )
    parser.add_argument("--peers", action="store_true", help="the allocators that are installed on this machine too")
    parser.add_argument("--sizes", type=numbers, default=numbers(DEFAULT_SIZES), help=f"default {DEFAULT_SIZES}")
    parser.add_argument("--live", type=numbers, default=[1, 8], help="blocks that the loop holds at once; default 1,8")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    arguments = parser.parse_args()
    if any((MANY - FEW) % live or FEW % live or live > 4096 for live in arguments.live):
        parser.error(f"--live must divide {FEW} and {MANY - FEW}, and be 4096 at most")
    return arguments


def main() -> int:
    """Build the loop, count, print."""
    arguments = parse_arguments()
    for tool in ("cc", "valgrind"):
        if shutil.which(tool) is None:
            fail(f"{tool} is not installed")
    allocators = named_allocators(arguments.build, arguments.libraries, arguments.peers)
    with tempfile.TemporaryDirectory() as name:
        counting = Counting(build_loop(Path(name)), Path(name))
        results = [
            Result(allocator, size, live, counting.pair(library, size, live))
            for live in arguments.live
            for size in arguments.sizes
            for allocator, library in allocators.items()
        ]
    if arguments.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
        return 0
    for live in arguments.live:
        print_table(results, list(allocators), live)
    return 0


if __name__ == "__main__":
    sys.exit(main())
