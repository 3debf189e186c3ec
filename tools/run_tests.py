"""Runs the tests: builds their programs, shows the progress, and closes with tiers, counts and minutes.

    tools/run_tests.py quick               the stages of `make test`
    tools/run_tests.py ci                  the further stages of .ci/run: the other presets, short, and each artefact
    tools/run_tests.py rest                the further stages of `make test-all`: every preset, full lengths
    tools/run_tests.py tier unit [--only PATTERN]      one tier of the release build
    tools/run_tests.py only PATTERN        the tests whose source or name matches, of every tier

The output of each stage goes to build/test-logs/<stage>.log. Failures are shown, with the command that runs them again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time

from stages import (
    LOGS,
    PRESETS,
    PYTHON_TIERS,
    REPOSITORY,
    SHORT,
    TIERS,
    WHOLE_RUNS,
    Lanes,
    Stage,
    build,
    ctest,
    untested,
)

SECONDS = LOGS / "seconds.json"  # how long each stage took the last time
# Builds of the same sources in different folders share ccache's objects. A stage whose builds have sources of their own
# also sets CCACHE_BASEDIR: below that folder, those in the same place relative to the build are the same.
CACHE = {"CCACHE_NOHASHDIR": "1"}


class Run:
    """Runs the stages of the lanes, which run beside each other, each stage as soon as what it needs is built."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.stages = [stage for lane in lanes for stage in lane]
        self.begun = time.monotonic()
        self.changed = threading.Condition()
        LOGS.mkdir(parents=True, exist_ok=True)
        known = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
        for stage in self.stages:
            stage.guess = known.get(stage.name, stage.guess)

    def outcome_of(self, name: str) -> str:
        return next((stage.outcome for stage in self.stages if stage.name == name), "ok")

    def run_lane(self, lane: list[Stage]) -> None:
        for stage in lane:
            with self.changed:
                while stage.needs and self.outcome_of(stage.needs) in ("waits", "runs"):
                    self.changed.wait()
                if stage.needs and self.outcome_of(stage.needs) != "ok":
                    stage.outcome = "left out"
                    self.changed.notify_all()
                    continue
                stage.outcome, stage.begun = "runs", time.monotonic()
            succeeded = self.run_stage(stage)
            with self.changed:
                stage.seconds = time.monotonic() - stage.begun
                stage.outcome = "ok" if succeeded else "FAILED"
                self.changed.notify_all()

    def run_stage(self, stage: Stage) -> bool:
        with stage.log.open("wb") as log:
            for command in stage.commands:
                done = subprocess.run(
                    command, cwd=REPOSITORY, env={**os.environ, **CACHE, **stage.environment}, stdin=subprocess.DEVNULL,
                    stdout=log, stderr=subprocess.STDOUT, check=False,
                )  # fmt: skip
                if done.returncode != 0:
                    return False
        return True

    def seconds_left(self) -> float:
        def left(lane: list[Stage]) -> float:
            total = 0.0
            for stage in lane:
                if stage.outcome == "waits":
                    total += stage.guess
                elif stage.outcome == "runs":
                    total += max(stage.guess - (time.monotonic() - stage.begun), 3.0)
            return total

        return max(left(lane) for lane in self.lanes)

    def progress(self) -> str:
        ended = sum(stage.outcome not in ("waits", "runs") for stage in self.stages)
        running = [f"{stage.name}{how_far(stage)}" for stage in self.stages if stage.outcome == "runs"]
        times = f"{minutes(time.monotonic() - self.begun)} so far, about {minutes(self.seconds_left())} left"
        return f"[{ended}/{len(self.stages)}] {', '.join(running)}; {times}"

    def run(self) -> bool:
        threads = [threading.Thread(target=self.run_lane, args=(lane,), daemon=True) for lane in self.lanes]
        for thread in threads:
            thread.start()
        told: set[str] = set()
        said = 0.0
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.25)
            for stage in self.stages:
                if stage.outcome not in ("waits", "runs") and stage.name not in told:
                    told.add(stage.name)
                    clear_line()
                    tell_end(stage)
            if sys.stdout.isatty():
                width = shutil.get_terminal_size().columns - 1
                print(f"\r\x1b[K{self.progress()[:width]}", end="", flush=True)
            elif time.monotonic() - said > 20:
                said = time.monotonic()
                print(self.progress(), flush=True)
        clear_line()
        for stage in self.stages:
            if stage.name not in told:
                tell_end(stage)
        return self.close()

    def close(self) -> bool:
        known = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
        known.update({stage.name: round(stage.seconds, 1) for stage in self.stages if stage.outcome == "ok"})
        SECONDS.write_text(json.dumps(known, indent=1) + "\n")
        print(f"\n{'stage':<16}{'outcome':<10}{'minutes':>8}   tests")
        for stage in self.stages:
            print(f"{stage.name:<16}{stage.outcome:<10}{stage.seconds / 60:>8.1f}   {counts(stage)}")
        print(f"\n{'the ten slowest tests':<64}{'seconds':>8}")
        for seconds, name in slowest(self.stages, 10):
            print(f"{name:<64}{seconds:>8.1f}")
        print()
        failed = [stage for stage in self.stages if stage.outcome == "FAILED"]
        passed_count, failed_count = totals(self.stages)
        print(f"{'all':<16}{'FAILED' if failed else 'ok':<10}{(time.monotonic() - self.begun) / 60:>8.1f}")
        has_ctests = any(command[0] == "ctest" for stage in self.stages for command in stage.commands)
        if has_ctests:
            print(f"{passed_count} passed, {failed_count} failed", flush=True)
        return not failed and (passed_count > 0 or not has_ctests)


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60:02} s" if seconds >= 60 else f"{int(seconds)} s"


def clear_line() -> None:
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")


def text_of(stage: Stage) -> str:
    return stage.log.read_text(errors="replace") if stage.begun and stage.log.exists() else ""


def how_far(stage: Stage) -> str:
    """The last count in a stage's log: ninja's `[n/m]`, or ctest's `n/m Test`."""
    found = re.findall(r"^\[(\d+/\d+)\]|^ *(\d+/\d+) Test", text_of(stage)[-4000:], re.MULTILINE)
    return f" {''.join(found[-1])}" if found else ""


def ctest_counts(stage: Stage) -> tuple[int, int] | None:
    """The numbers of ctests that passed and failed, where the stage ran any."""
    found = re.findall(r"^\d+% tests passed, (\d+) tests failed out of (\d+)", text_of(stage), re.MULTILINE)
    return (int(found[-1][1]) - int(found[-1][0]), int(found[-1][0])) if found else None


def counts(stage: Stage) -> str:
    """ctest's own closing line, and pytest's."""
    lines = re.findall(r"^\d+% tests passed, .*", text_of(stage), re.MULTILINE)
    lines += re.findall(r"^(?:\d+: )?=+ (\d+ (?:passed|failed)[^=]*?) in [^=]*=+$", text_of(stage), re.MULTILINE)
    return "; ".join(lines)


def totals(stages: list[Stage]) -> tuple[int, int]:
    found = [pair for pair in map(ctest_counts, stages) if pair]
    return sum(pair[0] for pair in found), sum(pair[1] for pair in found)


def slowest(stages: list[Stage], count: int) -> list[tuple[float, str]]:
    """The slowest ctests and pytests."""
    found = []
    for stage in stages:
        text = text_of(stage)
        for seconds, name in re.findall(r"^(?:\d+: )?([\d.]+)s call +(\S+)", text, re.MULTILINE):
            found.append((float(seconds), name.removeprefix("tests/")))
        for name, seconds in re.findall(r" Test +#\d+: (\S+) .* ([\d.]+) sec", text):
            if name not in PYTHON_TIERS:
                found.append((float(seconds), f"{stage.name.split()[0]} {name}"))
    return sorted(found, reverse=True)[:count]


# A googletest check up to the next line of googletest's own, and the lines of a pytest report that say what failed.
FAILED_CHECK = re.compile(r"^\S.*: Failure\n(?:(?!to repeat it|\[).+\n)*|^E {2,}\S.*\n(?:E .*\n)*", re.MULTILINE)


def failed_checks(text: str) -> list[str]:
    """The first checks that failed, each once and with its values. ctest shows what pytest wrote twice."""
    found = dict.fromkeys(FAILED_CHECK.findall(re.sub(r"^\d+: ", "", text, flags=re.MULTILINE)))
    return ["\n    ".join(line[:240] for line in check.splitlines()[:6]) for check in list(found)[:10]]


def tell_end(stage: Stage) -> None:
    print(f"{stage.name}: {stage.outcome}, {minutes(stage.seconds)}  {counts(stage)}", flush=True)
    if stage.outcome != "FAILED":
        return
    text = text_of(stage)
    print(f"{text[-6000:]}\n{stage.name}: whole output in {stage.log.relative_to(REPOSITORY)}")
    for check in failed_checks(text):
        print(f"  {check}")
    preset = next((word for command in stage.commands for word in command if word in PRESETS), "release")
    settings = " ".join(f"{name}={value}" for name, value in stage.environment.items())
    for name in re.findall(
        r"^\s*\d+ - (\S+) \((?:Failed|Timeout|.*SEGFAULT|.*Exception|.*aborted)", text, re.MULTILINE
    ):
        if name not in PYTHON_TIERS:
            print(f"  again: {settings} ctest --preset {preset} -R '^{name}$'".replace(":  ", ": "))
    for name in re.findall(r"^(?:\d+: )?(?:FAILED|ERROR) (tests/\S+)", text, re.MULTILINE):
        print(f"  again: {settings} HAKMEM_TEST_BUILD_DIR=build/release build/venv/bin/python -m pytest '{name}'")
    sys.stdout.flush()


def model_checks() -> list[str]:
    """The ctests of the model checker, as CMake names them: each file of scenarios, its variants, and the mutants."""
    names = [source.name.split("_scenarios.")[0] for source in REPOSITORY.glob("tests/model_check/*_scenarios.c")]
    rules = (REPOSITORY / "cmake/HakmemModelCheck.cmake").read_text()
    names += re.findall(r"^(?:add_test\(NAME model_check\.|hk_add_model_check\()(\w+)", rules, re.MULTILINE)
    mutants = (REPOSITORY / "tests/model_check/mutants.cmake").read_text()
    names += [f"mutant_{name}" for name in re.findall(r"^hk_add_model_mutant\((\w+)", mutants, re.MULTILINE)]
    return sorted({f"model_check.{name}" for name in names})


def matching_sources(pattern: str) -> tuple[list[str], list[str]]:
    """ctests and pytest files whose source, or a test in it, has a name that matches."""
    wanted = re.compile(pattern)
    native, python = [], []
    for source in sorted(REPOSITORY.glob("tests/*/*_test.cc")):
        name = f"{source.parent.name}.{source.stem}"
        tests = re.findall(r"^(?:HK_\w*TEST|TEST(?:_[FP])?)\((\w+), (\w+)", source.read_text(), re.MULTILINE)
        if wanted.search(name) or any(wanted.search(".".join(test)) for test in tests):
            native.append(name)
    for source in sorted(REPOSITORY.glob("tests/fuzz/*_fuzzer.c*")):
        name = f"fuzz.{source.name.split('_fuzzer.')[0]}"
        if wanted.search(name):
            native.append(name)
    native += [name for name in model_checks() if wanted.search(name)]
    for source in sorted(REPOSITORY.glob("tests/*/test_*.py")):
        functions = re.findall(r"^def (test_\w+)", source.read_text(), re.MULTILINE)
        python += [
            f"{source.relative_to(REPOSITORY)}::{name}" for name in functions if wanted.search(f"{source.stem}::{name}")
        ]
    return native, python


def target_of(tier: str) -> str:
    """The target that builds a tier of ctests."""
    return "model_check_programs" if tier == "model_check" else f"tests_{tier}"


def run_only(pattern: str, tier: str | None, werror: str, jobs: int) -> bool:
    native, python = matching_sources(pattern)
    if tier:
        native = [name for name in native if name.startswith(f"{tier}.")]
        python = [name for name in python if name.startswith(f"tests/{tier}/")]
    if not native and not python:
        print(f"no test matches {pattern}", file=sys.stderr)
        return False
    targets = [] if python else sorted({target_of(name.split(".")[0]) for name in native})
    stages = [Stage("release build", build("release", werror, *targets), 110 if python else 60)]
    if native:
        names = "|".join(re.escape(name) for name in native)
        stages.append(Stage("matching tests", ctest("release", jobs, "-R", f"^({names})$"), 10, "release build"))
    succeeded = Run([stages]).run()
    if python and succeeded:
        environment = {**os.environ, "HAKMEM_TEST_BUILD_DIR": str(REPOSITORY / "build" / "release")}
        command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *python]
        succeeded = subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode == 0
    return succeeded


def run_tier(tier: str, werror: str, jobs: int) -> bool:
    target = [] if tier in PYTHON_TIERS else [target_of(tier)]
    stages = [
        Stage("release build", build("release", werror, *target), 60),
        Stage(
            tier,
            ctest("release", 1 if tier == "stress" else jobs, "-L", f"^{tier}$"),
            20,
            "release build",
            {} if tier == "stress" or "HAKMEM_TEST_SCALE" in os.environ else SHORT,
        ),
    ]
    return Run([stages]).run()


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the tests (see the Makefile's targets).")
    parser.add_argument("what", choices=(*WHOLE_RUNS, "tier", "only"))
    parser.add_argument("name", nargs="?", help="a tier, or a pattern")
    parser.add_argument("--only", help="of a tier: the tests whose source or name matches")
    parser.add_argument("--werror", default="OFF", choices=("ON", "OFF"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.what in ("tier", "only") and not arguments.name:
        parser.error(f"{arguments.what} of what?")
    pattern = arguments.only or (arguments.name if arguments.what == "only" else "")
    try:
        re.compile(pattern)
    except re.error as error:
        parser.error(f"{pattern} is no regular expression: {error}")
    if arguments.what == "tier" and arguments.name not in TIERS:
        parser.error(f"no tier {arguments.name}: one of {', '.join(TIERS)}")
    if arguments.what in WHOLE_RUNS:
        for part, reason in untested(arguments.what).items():
            print(f"{part}: NOT tested, {reason}")
        lanes = WHOLE_RUNS[arguments.what](arguments.werror, arguments.jobs)
        return 0 if Run(lanes).run() else 1
    if arguments.what == "only" or arguments.only:
        tier = arguments.name if arguments.what == "tier" else None
        return 0 if run_only(arguments.only or arguments.name, tier, arguments.werror, arguments.jobs) else 1
    return 0 if run_tier(arguments.name, arguments.werror, arguments.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
