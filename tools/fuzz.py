#!/usr/bin/env python3
"""Runs every fuzz target for a time, and prints its executions.

With clang and its libFuzzer the targets are the programs of the preset `fuzz`, which keep inputs that reach new code in
build/fuzz-corpus. Without them they are those of the preset `asan`, changed at random by tests/fuzz/run_corpus.cc. Both
begin with tests/fuzz/corpus.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ROOT / "tests" / "fuzz"
FOUND = ROOT / "build" / "fuzz-corpus"
LOGS = ROOT / "build" / "fuzz-logs"
# The most bytes of an input. Targets reject longer ones, or longer ones reach no new code.
MOST_BYTES = 4096
MOST_SECONDS = 30
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}


@dataclass(frozen=True)
class Outcome:
    """Of one target."""

    name: str
    executions: int
    failed: bool


def targets(only: str | None) -> list[str]:
    names = sorted(file.name.split("_fuzzer.")[0] for file in TARGETS.glob("*_fuzzer.c*"))
    return [name for name in names if only is None or re.search(only, name)]


def have_libfuzzer() -> bool:
    """Whether clang can link a program of libFuzzer's."""
    clang = shutil.which("clang++")
    if clang is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.cc")
        source.write_text('extern "C" int LLVMFuzzerTestOneInput(const char *, unsigned long) { return 0; }\n')
        command = [clang, "-fsanitize=fuzzer,address,undefined", str(source), "-o", str(Path(folder, "empty"))]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0


def build(preset: str, target: str, jobs: int) -> None:
    subprocess.run(["cmake", "--preset", preset, "-DHK_TESTS=ON"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", preset, "--target", target, "-j", str(jobs)], cwd=ROOT, check=True)


def command_of(name: str, seconds: int, is_guided: bool) -> list[str]:
    seeds = str(TARGETS / "corpus" / name)
    if not is_guided:
        return [str(ROOT / "build/asan/tests/fuzz_corpus"), f"--target={name}", f"--seconds={seconds}", seeds]
    found = FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    return [
        str(ROOT / "build/fuzz/tests" / f"fuzz_{name}"),
        f"-max_total_time={seconds}",
        f"-max_len={MOST_BYTES}",
        f"-timeout={MOST_SECONDS}",
        "-detect_leaks=0",
        "-print_final_stats=1",
        f"-artifact_prefix={LOGS}/{name}-",
        str(found),
        seeds,
    ]


def executions(log: str) -> int:
    found = re.findall(r"number_of_executed_units: (\d+)|(\d+) executions$|^#(\d+)\t", log, re.MULTILINE)
    return int("".join(found[-1])) if found else 0


def run(name: str, seconds: int, is_guided: bool) -> Outcome:
    path = LOGS / f"{name}.log"
    with path.open("wb") as log:
        done = subprocess.run(
            command_of(name, seconds, is_guided), cwd=LOGS, env={**os.environ, **ENVIRONMENT}, stdin=subprocess.DEVNULL,
            stdout=log, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    text = path.read_text(errors="replace")
    outcome = Outcome(name, executions(text), done.returncode != 0)
    print(f"{name:<16} {outcome.executions:>12,} executions{'  FAILED' if outcome.failed else ''}", flush=True)
    if outcome.failed:
        print(f"{text[-4000:]}\nwhole output in {path.relative_to(ROOT)}; an input that fails belongs to the corpus")
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="of the build")
    parser.add_argument("--only", help="the targets whose name matches")
    parser.add_argument("--unguided", action="store_true", help="as without libFuzzer")
    arguments = parser.parse_args()
    names = targets(arguments.only)
    if not names:
        parser.error(f"no target matches {arguments.only}")
    LOGS.mkdir(parents=True, exist_ok=True)
    is_guided = not arguments.unguided and have_libfuzzer()
    if not is_guided and not arguments.unguided:
        print("no clang with libFuzzer here: inputs are changed at random")
    build(*(("fuzz", "fuzzers") if is_guided else ("asan", "fuzz_corpus")), arguments.jobs)
    outcomes = [run(name, arguments.seconds, is_guided) for name in names]
    print(f"{'all':<16} {sum(outcome.executions for outcome in outcomes):>12,} executions")
    return 1 if any(outcome.failed for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
