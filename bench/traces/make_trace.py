#!/usr/bin/env python3
"""Records a program's allocations as a trace that bench/micro/trace.c replays.

    bench/traces/make_trace.py [--most-kib N] [--skip CALLS] OUTPUT -- PROGRAM [ARGUMENT...]

The format is in README.md beside this file; an OUTPUT that ends in .gz is packed by gzip. What the program prints
goes where it always goes. The program must be a dynamic one on glibc. The trace has the calls of all threads in one
order, without the thread of each call.
"""

from __future__ import annotations

import argparse
import gzip
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List, NoReturn, Tuple

RECORDER = Path(__file__).with_name("record_calls.c")
RECORD = struct.Struct("<QQQ")
KIND_SHIFT = 56
MALLOC, CALLOC, REALLOC, FREE = 1, 2, 3, 4
LARGEST = (1 << 31) - 1  # of a block in a trace

Call = Tuple[int, int, int, int]  # kind, address before, address after, size


def fail(message: str, code: int = 1) -> NoReturn:
    """Ends the program with a line on stderr."""
    print(f"make_trace: {message}", file=sys.stderr)
    sys.exit(code)


def record(command: List[str]) -> List[Call]:
    """Runs the program with the recorder preloaded."""
    with tempfile.TemporaryDirectory() as name:
        library, calls = Path(name) / "record_calls.so", Path(name) / "calls"
        flags = ["-O2", "-D_GNU_SOURCE", "-fno-builtin", "-fPIC", "-shared", "-pthread"]
        try:
            subprocess.run(["cc", *flags, "-o", str(library), str(RECORDER)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            fail(f"the recorder cannot be compiled: {error}")
        env = dict(os.environ, LD_PRELOAD=str(library), RECORD_CALLS_FILE=str(calls))
        try:
            code = subprocess.run(command, env=env, check=False).returncode
        except OSError as error:
            fail(f"{command[0]}: {error.strerror}", 127)
        if code != 0:
            fail(f"{command[0]} ended with {code}: no trace of that")
        if not calls.exists():
            fail(f"{command[0]} did not load the recorder: is it static, or does it run with raised rights?")
        return [decode(words) for words in RECORD.iter_unpack(calls.read_bytes())]


def decode(words: Tuple[int, int, int]) -> Call:
    """A record's fields."""
    before, after, size_and_kind = words
    return size_and_kind >> KIND_SHIFT, before, after, size_and_kind & ((1 << KIND_SHIFT) - 1)


def trace_lines(calls: List[Call], skip: int) -> Iterator[str]:
    """Addresses become slots: a new block takes the one that became free last. Blocks from before the record, or before
    `skip`, are not in the trace, nor is what happens to them."""
    slots: Dict[int, int] = {}
    free_slots: List[int] = []
    slot_count = 0
    for kind, before, after, size in calls[skip:]:
        if size > LARGEST:
            fail(f"a block of {size} bytes does not fit into a trace")
        if kind in (MALLOC, CALLOC):
            if after in slots:
                fail("an address was handed out twice: the record is damaged")
            if not free_slots:
                free_slots.append(slot_count)
                slot_count += 1
            slots[after] = free_slots.pop()
            yield f"{'+' if kind == MALLOC else '0'}{size}"
        elif before in slots:
            slot = slots.pop(before)
            if kind == FREE:
                free_slots.append(slot)
                yield f"-{slot}"
            else:
                slots[after] = slot
                yield f"={slot} {size}"


def write_trace(lines: List[str], output: Path) -> None:
    """Write the whole file or none."""
    temporary = output.with_name(output.name + ".tmp")
    content = ("\n".join(lines) + "\n").encode()
    if output.suffix == ".gz":
        content = gzip.compress(content, mtime=0)  # the same trace is packed to the same bytes
    try:
        temporary.write_bytes(content)
        os.replace(temporary, output)
    except OSError as error:
        fail(f"{output}: {error.strerror}")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Record a program's allocations as a trace.")
    parser.add_argument(
        "--most-kib",
        type=int,
        metavar="N",
        default=0,
        help="end the trace before its text exceeds N KiB (default: no limit)",
    )
    parser.add_argument("--skip", type=int, default=0, help="leave out this number of calls at the start")
    parser.add_argument("output", type=Path)
    parser.add_argument("command", nargs="+", metavar="PROGRAM [ARGUMENT...]")
    arguments = parser.parse_args()
    if arguments.most_kib < 0 or arguments.skip < 0:
        parser.error("--most-kib and --skip must not be negative")
    return arguments


def main() -> int:
    """Record, translate, cut, write."""
    arguments = parse_arguments()
    calls = record(arguments.command)
    name = Path(arguments.command[0]).name
    lines = [f"# {name}, recorded by bench/traces/make_trace.py"]
    room = arguments.most_kib * 1024 - len(lines[0]) - 1
    for line in trace_lines(calls, arguments.skip):
        room -= len(line) + 1
        if arguments.most_kib and room < 0:
            break
        lines.append(line)
    if len(lines) == 1:
        fail(f"{name} asked for nothing")
    write_trace(lines, arguments.output)
    print(f"make_trace: {len(lines) - 1} of {len(calls)} calls in {arguments.output}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
