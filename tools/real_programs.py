#!/usr/bin/env python3
"""Runs real programs under glibc's malloc and under hakmem, and compares their results and peaks of memory.

    tools/real_programs.py [--runs 20] [--jobs 1] [NAME ...]    runs the rows of tests/programs/programs.toml
    tools/real_programs.py --resume                             those with fewer runs than that under this library
    tools/real_programs.py --missing                            prints the missing packages, and runs nothing
    tools/real_programs.py --install [NAME ...]                 installs them first (apt-get; pip for wheels)
    tools/real_programs.py --no-runs --write FILE               writes the table of all stored results

A row's result is its exit status and what it prints. The row runs three times under glibc, where all results must be
equal, and --runs times under the library. A peak is ru_maxrss of the row's largest process, the median of the runs.
ld.so reports whose malloc the program is bound to. Results are kept in build/real-programs/results.json, the
outputs of a run that differed in build/real-programs/differences.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import hashlib
import json
import os
import platform
import pwd
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional

from program_rows import WANTED_RUNS, WHEELS, WORK, Program, Verdict, has_wheel, load
from programs_document import mib
from programs_document import write as write_document
from under_allocator import REPOSITORY, LibraryMissing, files_of_malloc, library_in

MATERIAL = REPOSITORY / "tests" / "preload" / "material"
RESULTS = WORK / "results.json"
DIFFERENCES = WORK / "differences"
PLAIN_RUNS = 3
TIMEOUT_SECONDS = 300

PRELUDE = """
set -eu
until_ok() {
  tries=0
  until "$@" >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || { echo "no answer: $*"; exit 1; }
    sleep 0.05
  done
}
"""


@dataclass(frozen=True)
class Outcome:
    """One run: its result and the peak of its largest process."""

    code: int
    stdout: bytes
    stderr: bytes
    peak_kib: int

    def result(self) -> str:
        return f"{self.code} {hashlib.sha256(self.stdout).hexdigest()}"


def free_port() -> int:
    """Returns another port each time, so that the remains of a server on its port delay no other run."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Runner:
    """Runs rows under one library."""

    def __init__(self, library: Path, work: Path = WORK) -> None:
        self.library = library
        self.library_sum = hashlib.sha256(library.read_bytes()).hexdigest()[:16]
        self.work = work
        work.mkdir(parents=True, exist_ok=True)
        self.launcher = work / "launch_small"
        source = REPOSITORY / "bench" / "launch_small.c"
        if not self.launcher.exists() or self.launcher.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(["cc", "-O2", "-static", "-o", self.launcher, source], check=True)

    def prepared(self, program: Program) -> Path:
        """The folder with the row's input. A change of the script changes the folder."""
        digest = hashlib.sha256(program.prepare.encode()).hexdigest()[:12]
        folder = self.work / "input" / f"{program.index}-{digest}"
        if not folder.exists():
            making = folder.with_name(f"{folder.name}.{os.getpid()}")
            making.mkdir(parents=True)
            subprocess.run(
                ["sh", "-c", PRELUDE + program.prepare], cwd=making, env=self.variables(making),
                stdin=subprocess.DEVNULL, check=True,
            )  # fmt: skip
            making.rename(folder)
        return folder

    def variables(self, folder: Path) -> dict[str, str]:
        """A small environment, the same wherever the row runs."""
        values = {
            "MATERIAL": str(MATERIAL),
            "INPUT": str(folder),
            "PORT": str(free_port()),
            "WHEELS": str(WHEELS),
            "LC_ALL": "C",
            "TZ": "UTC",
            "PATH": os.environ["PATH"] + ":/usr/local/sbin:/usr/sbin:/sbin",
        }
        kept = ("HOME", "USER", "LANG", "JAVA_HOME")
        return {**{name: os.environ[name] for name in kept if name in os.environ}, **values}

    def command(self, program: Program, script: str) -> list[str]:
        as_user: list[str] = []
        if program.user and os.geteuid() == 0:
            entry = pwd.getpwnam(program.user)
            as_user = ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
        return [*as_user, "sh", "-c", PRELUDE + script]

    def run(self, program: Program, preload: Optional[str]) -> Outcome:
        folder = self.prepared(program)
        with tempfile.TemporaryDirectory(prefix="row-", dir="/tmp") as name:
            own = Path(name)
            place = own / "w"
            place.mkdir()
            for path in (own, place):
                path.chmod(0o777)
            report = own / "report"
            launched = [str(self.launcher), str(report), preload or "-", *self.command(program, program.run)]
            with (own / "stdout").open("w+b") as stdout, (own / "stderr").open("w+b") as stderr:
                # A process that the row leaves behind must not hold this program's pipe.
                process = subprocess.Popen(
                    launched, cwd=place, env=self.variables(folder), stdin=subprocess.DEVNULL,
                    stdout=stdout, stderr=stderr, start_new_session=True,
                )  # fmt: skip
                try:
                    process.wait(TIMEOUT_SECONDS)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, 9)
                    process.wait()
                    return Outcome(-9, b"", b"timeout", 0)
                stdout.seek(0)
                stderr.seek(0)
                code, peak_kib, *_ = (int(word) for word in report.read_text().split())
                return Outcome(code, stdout.read(), stderr.read(), peak_kib)

    def malloc_of(self, program: Program) -> str:
        """The malloc that the row calls."""
        folder = self.prepared(program)
        with tempfile.TemporaryDirectory(prefix="row-", dir="/tmp") as name:
            Path(name).chmod(0o777)
            variables = {**self.variables(folder), "LD_PRELOAD": str(self.library)}
            if program.own_malloc:
                bound = files_of_malloc(shlex.split(program.check), variables, Path(name))
                return "own" if self.library not in bound else "hakmem after all"
            bound = files_of_malloc(self.command(program, program.check or program.run), variables, Path(name))
        others = sorted(str(file) for file in bound if file != self.library)
        if self.library not in bound:
            return "not hakmem"
        return "hakmem" if not others else f"also {', '.join(others)}"


def judge(runner: Runner, program: Program, runs: int) -> Verdict:
    """Runs a row in turns: glibc and the library, until each has its runs."""
    plain: list[Outcome] = []
    ours: list[Outcome] = []
    for turn in range(max(runs, PLAIN_RUNS)):
        if turn < PLAIN_RUNS:
            plain.append(runner.run(program, program.plain or None))
        if turn < runs:
            ours.append(runner.run(program, str(runner.library)))
    expected = plain[0].result()
    is_steady = plain[0].code == 0 and plain[0].stdout != b"" and all(one.result() == expected for one in plain)
    good = [one for one in ours if one.result() == expected and b"hakmem:" not in one.stderr]
    bad = [one for one in (*plain, *ours) if one.result() != expected or b"hakmem:" in one.stderr]
    if bad or not is_steady:
        keep_difference(program, plain[0], bad[0] if bad else plain[0])
    return Verdict(
        program.name, program.version(), runs, len(good), is_steady, runner.malloc_of(program),
        int(statistics.median(one.peak_kib for one in plain)), int(statistics.median(one.peak_kib for one in ours)),
        runner.library_sum, machine(), datetime.date.today().isoformat(),
    )  # fmt: skip


def keep_difference(program: Program, expected: Outcome, other: Outcome) -> None:
    DIFFERENCES.mkdir(parents=True, exist_ok=True)
    name = program.name.replace("/", "-").replace(" ", "_")
    for what, outcome in (("expected", expected), ("differs", other)):
        text = outcome.stdout + f"\n-- ended with {outcome.code}; stderr:\n".encode() + outcome.stderr
        (DIFFERENCES / f"{name}.{what}").write_bytes(text)


def machine() -> str:
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip() + ", "
            break
    libc = " ".join(platform.libc_ver())
    return f"{os.cpu_count()} processors, {model}Linux {platform.release().split('-')[0]}, {libc}"


def read_results() -> dict[str, Verdict]:
    if not RESULTS.exists():
        return {}
    return {name: Verdict(**entry) for name, entry in json.loads(RESULTS.read_text()).items()}


def write_results(results: dict[str, Verdict]) -> None:
    fresh = RESULTS.with_suffix(".new")
    fresh.write_text(json.dumps({name: asdict(verdict) for name, verdict in results.items()}, indent=1) + "\n")
    fresh.rename(RESULTS)


def install(programs: list[Program]) -> None:
    """Installs the packages that the rows lack, one by one, so that a missing one does not prevent the others."""
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    apt = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "install", "--no-install-recommends"]
    packages = dict.fromkeys(name for one in programs if one.missing() for name in one.packages)
    for package in packages:
        if subprocess.run([*apt, package], stdout=subprocess.DEVNULL, check=False).returncode != 0:
            print(f"real_programs: going on without {package}", file=sys.stderr)
    wheels = sorted({name for one in programs for name in one.pip if not has_wheel(name)})
    if wheels:
        if not WHEELS.exists():
            subprocess.run(["/usr/bin/python3", "-m", "venv", WHEELS], check=True)
        subprocess.run([WHEELS / "bin" / "pip", "install", "-q", "--disable-pip-version-check", *wheels], check=False)


def say_missing(programs: list[Program]) -> None:
    for program in programs:
        absent = program.missing()
        if absent:
            print(f"left out: {program.name}: no {', no '.join(absent)}")
    packages = sorted({name for one in programs if one.missing() for name in one.packages})
    if packages:
        print(f"on Debian: sudo apt-get install --no-install-recommends {' '.join(packages)}")


def is_done(verdict: Optional[Verdict], runner: Runner, runs: int) -> bool:
    return verdict is not None and verdict.is_good() and verdict.runs >= runs and verdict.library == runner.library_sum


def run_all(runner: Runner, programs: list[Program], runs: int, jobs: int) -> bool:
    results = read_results()
    lock = threading.Lock()

    def one(program: Program) -> bool:
        try:
            verdict = judge(runner, program, runs)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            print(f"FAILED  {program.name}: {error}", flush=True)
            return False
        with lock:
            results[program.name] = verdict
            write_results(results)
            mark = "ok    " if verdict.is_good() else "FAILED"
            steady = "" if verdict.is_steady else ", differs under glibc"
            print(
                f"{mark}  {program.name}: {verdict.matched} of {verdict.runs}{steady}; malloc: {verdict.malloc}; "
                f"glibc {mib(verdict.plain_kib)} MiB, hakmem {mib(verdict.ours_kib)} MiB",
                flush=True,
            )
        return verdict.is_good()

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return all(list(pool.map(one, programs)))


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs real programs under glibc's malloc and under hakmem.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="rows of tests/programs/programs.toml; all without any"
    )
    parser.add_argument(
        "--build", type=Path, default=REPOSITORY / "build" / "release", help="the folder of the library"
    )
    parser.add_argument("--runs", type=int, default=WANTED_RUNS, help="runs of each under the library; default 20")
    parser.add_argument("--jobs", type=int, default=1, help="rows at once; default 1")
    parser.add_argument(
        "--resume", action="store_true", help="leave out the rows that have their runs under this library"
    )
    parser.add_argument("--no-runs", action="store_true", help="run nothing: --write writes the stored results")
    parser.add_argument("--missing", action="store_true", help="print missing packages, and run nothing")
    parser.add_argument("--install", action="store_true", help="install missing packages first")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table of all results")
    arguments = parser.parse_args()
    programs = load()
    by_name = {program.name: program for program in programs}
    unknown = set(arguments.names) - by_name.keys()
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    wanted = [by_name[name] for name in arguments.names] or programs
    if arguments.install:
        install(wanted)
    is_good = True
    say_missing(wanted)
    if not arguments.missing and not arguments.no_runs:
        try:
            runner = Runner(library_in(arguments.build))
        except LibraryMissing as missing:
            sys.exit(f"real_programs: {missing}")
        present = [one for one in wanted if not one.missing()]
        if arguments.resume:
            present = [one for one in present if not is_done(read_results().get(one.name), runner, arguments.runs)]
        is_good = run_all(runner, present, arguments.runs, arguments.jobs)
    if arguments.write:
        write_document(arguments.write, programs, read_results())
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
