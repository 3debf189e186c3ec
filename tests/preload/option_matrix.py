#!/usr/bin/env python3
"""The matrix of options: random operations under every pair of settings that programs seldom have.

    tests/preload/option_matrix.py --operations 1000000000 [--build build/debug] [--seed N] [--jobs N] [--only WORD]
    tests/preload/option_matrix.py --tests 0.1 ...         the model and the stress tests instead, at this scale

Runs option_matrix (option_matrix.cc) once with one thread and once with several for each combination: the defaults,
each setting alone, and each two settings of different options. A run passes when the program ends well and writes
nothing on stderr, where it reports wrong blocks and the library unknown options. Failures are shown with the command
that runs them again; the last line says how many operations there were.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import os
import random
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))
from under_allocator import environment  # noqa: E402

CHECKED, FAST = "libhakmem.so", "libhakmem-fast.so"
THREADS = (1, 4)  # the model test's part, and the stress tests'
OPERATIONS = 10_000_000  # over all combinations, at scale 1
LEAST_OPERATIONS = 20_000  # of a run
# Under a debugger's load no run is slower than this by far; what takes longer hangs.
SECONDS_AT_LEAST, OPERATIONS_A_SECOND = 300.0, 2_000

Options = Dict[str, str]


@dataclass(frozen=True)
class Setting:
    """One unusual value of an option, or another library."""

    about: str  # two settings about the same thing exclude each other
    options: Tuple[Tuple[str, str], ...]
    library: str = CHECKED

    def name(self) -> str:
        return "fast_library" if self.library == FAST else "=".join(self.options[-1])


def of(name: str, *values: str) -> List[Setting]:
    return [Setting(name, ((name, value),)) for value in values]


SETTINGS: Sequence[Setting] = (
    *(
        Setting("profile", (("profile", "1"), ("profile_file", "-"), ("profile_rate", rate)))
        for rate in ("1", "1500", "4K", "32K")
    ),
    *of("mode", "fast", "lean"),
    *of("purge_thread", "0"),
    *of("purge", "free"),
    *of("huge_pages", "never", "always"),
    *of("retain", "0", "1G"),
    *of("spare_slabs", "0", "1024"),
    *of("shards", "2", "32"),
    *of("memory_limit", "8M"),  # half of what the program has at times
    *of("learn", "off"),
    *of("guard", "1", "50"),
    *of("guard_slots", "3"),
    *of("sandbox", "on"),
    Setting("library", (), FAST),
)

Combination = Tuple[Setting, ...]


def go_together(first: Setting, second: Setting) -> bool:
    """The library without checks has no profile. Guards refuse a sandbox that was there before them, with a line."""
    apart = ({"profile", "library"}, {"guard", "sandbox"})
    return first.about != second.about and {first.about, second.about} not in apart


def combinations() -> List[Combination]:
    """The defaults, each setting, each pair."""
    pairs = [pair for pair in itertools.combinations(SETTINGS, 2) if go_together(*pair)]
    return [(), *((setting,) for setting in SETTINGS), *pairs]


def few_combinations(seed: int) -> List[Combination]:
    """Pairs that have every setting once, and so half as many as there are settings: which, the seed says."""
    draw = random.Random(seed)
    while True:
        left = list(SETTINGS)
        draw.shuffle(left)
        pairs = list(zip(left[::2], left[1::2]))
        if all(go_together(*pair) for pair in pairs):
            return [*pairs, *([(left[-1],)] if len(left) % 2 else [])]


def name_of(combination: Combination) -> str:
    return "+".join(setting.name() for setting in combination) or "defaults"


def options_of(combination: Combination) -> Options:
    """By the names of option.def."""
    return {name: value for setting in combination for name, value in setting.options}


def declared_options() -> List[str]:
    text = (REPOSITORY / "src" / "policy" / "option.def").read_text()
    return re.findall(r"^HK_(?:TEXT_)?OPTION\((\w+),", text, re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One run of a program under a combination."""

    build: Path
    combination: Combination

    def name(self) -> str:
        return name_of(self.combination)

    def command(self) -> List[str]:
        raise NotImplementedError

    def variables(self) -> Options:
        """Returns the variables of the environment."""
        return {f"HAKMEM_{name.upper()}": value for name, value in options_of(self.combination).items()}

    def expects(self, out: bytes) -> bool:
        """Whether a program that ended well has printed this."""
        return True

    def seconds(self) -> float:
        return SECONDS_AT_LEAST

    def again(self) -> str:
        """The shell's command for the same run."""
        return " ".join(
            ["env", *(f"{name}={value}" for name, value in self.variables().items()), shlex.join(self.command())]
        )

    def problem(self, more: Optional[Options] = None) -> Optional[str]:
        """What went wrong, and how to see it again; None when nothing did."""
        variables = environment(None, {**self.variables(), **(more or {})})
        limit = self.seconds()
        try:
            done = subprocess.run(self.command(), env=variables, capture_output=True, timeout=limit, check=False)
            code, out, errors = str(done.returncode), done.stdout, done.stderr
        except subprocess.TimeoutExpired as hung:
            code, out, errors = f"none: hangs after {limit:.0f} s", hung.stdout or b"", hung.stderr or b""
        if code == "0" and errors == b"" and self.expects(out):
            return None
        text = (errors + out[-4000:]).decode(errors="replace")
        return f"{self.name()}: exit code {code}\n{text}\nagain: {self.again()}"


@dataclass(frozen=True)
class Operations(Run):
    """Random operations, by option_matrix."""

    seed: int
    operations: int
    threads: int

    def name(self) -> str:
        return f"{super().name()}, {self.threads} threads"

    def command(self) -> List[str]:
        program = self.build / "tests" / "preload" / "option_matrix"
        return [str(program), hex(self.seed), str(self.operations), str(self.threads)]

    def library(self) -> Path:
        return self.build / (FAST if is_fast(self.combination) else CHECKED)

    def variables(self) -> Options:
        return {**super().variables(), "LD_PRELOAD": str(self.library())}

    def expects(self, out: bytes) -> bool:
        return out.startswith(f"operations {self.operations} ".encode())

    def seconds(self) -> float:
        return SECONDS_AT_LEAST + self.operations / OPERATIONS_A_SECOND


@dataclass(frozen=True)
class Tests(Run):
    """The model test or the stress tests, which are linked with the library."""

    tier: str
    seed: int
    scale: float

    def name(self) -> str:
        return f"{super().name()}, {self.tier} tests"

    def command(self) -> List[str]:
        # The limits on memory hold for the default options. Where an option starts the profile, no test can.
        left_out = ["*Asymmetry*", "*TenThousandThreads*"]
        if "profile" in options_of(self.combination):
            left_out.append("ProfileSwitch.*")
        return [str(self.build / "tests" / self.tier), "--gtest_brief=1", f"--gtest_filter=-{':'.join(left_out)}"]

    def variables(self) -> Options:
        return {**super().variables(), "HAKMEM_TEST_SCALE": str(self.scale), "HAKMEM_TEST_SEED": hex(self.seed)}


def is_fast(combination: Combination) -> bool:
    return any(setting.library == FAST for setting in combination)


def tests_of(build: Path, combination: Combination, seed: int, scale: float) -> Iterator[Run]:
    """The model and the stress tests, which there are for the library with checks alone."""
    if not is_fast(combination):
        yield from (Tests(build, combination, tier, seed, scale) for tier in ("model", "stress"))


def operations_of(build: Path, combination: Combination, seed: int, operations: int) -> Iterator[Operations]:
    """Returns about `operations` operations. Each run has a seed of its own, which its name and `seed` say."""
    for threads in THREADS:
        own = random.Random(f"{seed} {name_of(combination)} {threads}").getrandbits(64)
        yield Operations(build, combination, own, max(operations // len(THREADS), LEAST_OPERATIONS), threads)


def main() -> int:
    parser = argparse.ArgumentParser(description="Random operations under every pair of unusual options.")
    parser.add_argument("--build", type=Path, default=REPOSITORY / "build" / "release")
    parser.add_argument("--operations", type=int, default=OPERATIONS, help="of all combinations together")
    parser.add_argument(
        "--tests", type=float, metavar="SCALE", help="instead, the model and the stress tests at this scale"
    )
    parser.add_argument("--seed", type=lambda text: int(text, 0), help="repeats a run; a fresh one by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="the combinations that have this in their names")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().getrandbits(64)
    wanted = [combination for combination in combinations() if arguments.only in name_of(combination)]
    if not wanted:
        parser.error(f"no combination has {arguments.only} in its name")
    print(f"seed: --seed {seed:#x} repeats this", flush=True)
    begun, done, failed = time.monotonic(), 0, 0
    build, runs = arguments.build.resolve(), []  # type: Path, List[Run]
    for combination in wanted:
        if arguments.tests is not None:
            runs += tests_of(build, combination, seed, arguments.tests)
        else:
            runs += operations_of(build, combination, seed, arguments.operations // len(wanted))
    random.Random(seed).shuffle(runs)  # a matrix that is stopped has seen some of each setting
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        waiting = {pool.submit(run.problem): run for run in runs}
        for count, future in enumerate(concurrent.futures.as_completed(waiting), 1):
            problem, run = future.result(), waiting[future]
            done += run.operations if isinstance(run, Operations) else 0
            failed += problem is not None
            print(f"[{count}/{len(runs)}] {problem or f'{run.name()}: ok'}", flush=True)
    seconds = time.monotonic() - begun
    print(f"{len(runs)} runs, {failed} failed, {done} operations in {seconds:.0f} s, {done / seconds:.0f} a second")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
