#!/usr/bin/env python3
"""Writes a puzzle for an SMT solver: make_smt2.py OUTPUT [--size N] [--seed N]. The same bytes every time.

Three parts, each for another part of a solver: a Latin square with gaps (integers, distinct), a mixing function that
must be undone (bit vectors), and a chain of array updates whose end is claimed (arrays, quantifier-free).
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Iterator

SQUARES = 4
MIXING_ROUNDS = 3
STORES = 60


def latin_square(size: int, draw: random.Random) -> Iterator[str]:
    """A shuffled square of which a third is told."""
    rows, columns, symbols = (draw.sample(range(size), size) for _ in range(3))
    cell = [[symbols[(rows[r] + columns[c]) % size] for c in range(size)] for r in range(size)]
    for r in range(size):
        for c in range(size):
            yield f"(declare-const c_{r}_{c} Int)"
            yield f"(assert (and (<= 0 c_{r}_{c}) (< c_{r}_{c} {size})))"
            if draw.random() < 1 / 3:
                yield f"(assert (= c_{r}_{c} {cell[r][c]}))"
    for a in range(size):
        yield f"(assert (distinct {' '.join(f'c_{a}_{b}' for b in range(size))}))"
        yield f"(assert (distinct {' '.join(f'c_{b}_{a}' for b in range(size))}))"


def mixing(rounds: int, draw: random.Random) -> Iterator[str]:
    """Find what a few rounds of shifting, adding and multiplying made of a number."""
    width = 32
    mask = (1 << width) - 1
    value = draw.getrandbits(width)
    yield f"(declare-const x_0 (_ BitVec {width}))"
    for i in range(rounds):
        add, odd, shift = draw.getrandbits(width), draw.getrandbits(width) | 1, draw.randrange(3, 13)
        value = (((value ^ (value >> shift)) * odd) + add) & mask
        shifted = f"(bvxor x_{i} (bvlshr x_{i} (_ bv{shift} {width})))"
        mixed = f"(bvadd (bvmul {shifted} (_ bv{odd} {width})) (_ bv{add} {width}))"
        yield f"(define-fun x_{i + 1} () (_ BitVec {width}) {mixed})"
    yield f"(assert (= x_{rounds} (_ bv{value} {width})))"


def array_chain(length: int, draw: random.Random) -> Iterator[str]:
    """Stores at unknown places: those that may not meet, and what must be read at the end."""
    yield "(declare-const a_0 (Array Int Int))"
    for i in range(length):
        yield f"(declare-const i_{i} Int)"
        stored = f"(+ (select a_{i} i_{i}) {draw.randrange(1, 9)})"
        yield f"(define-fun a_{i + 1} () (Array Int Int) (store a_{i} i_{i} {stored}))"
        if i > 0:
            yield f"(assert (distinct i_{i} i_{draw.randrange(i)}))"
    total = " ".join(f"(select a_{length} i_{i})" for i in range(length))
    start = " ".join(f"(select a_0 i_{i})" for i in range(length))
    yield f"(assert (> (+ {total}) (+ {start} {length})))"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write a puzzle for an SMT solver.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--size", type=int, default=9, help="of the Latin squares, cells a row (default 9)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.size < 2:
        parser.error("--size must be 2 or more")
    draw = random.Random(arguments.seed)
    squares = [latin_square(arguments.size, draw) for _ in range(SQUARES)]
    parts = [*squares, mixing(MIXING_ROUNDS, draw), array_chain(STORES, draw)]
    lines = ["; made by bench/programs/make_smt2.py"]
    for part in parts:
        lines += [*part, "(check-sat)", "(reset)"]
    try:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text("\n".join(lines) + "\n")
    except OSError as error:
        print(f"make_smt2: {arguments.output}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
