"""The rows of tests/programs/programs.toml, and the figures of each."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

from under_allocator import REPOSITORY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = REPOSITORY / "tests" / "programs" / "programs.toml"
WORK = REPOSITORY / "build" / "real-programs"
WHEELS = WORK / "wheels"
WANTED_RUNS = 20


def output_of(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def has_wheel(name: str) -> bool:
    return any(WHEELS.glob(f"lib/python3*/site-packages/{name}-*.dist-info"))


@dataclass(frozen=True)
class Program:
    """A row of programs.toml, which explains each key."""

    name: str
    group: str
    packages: tuple[str, ...]
    needs: tuple[str, ...]
    what: str
    run: str
    index: int
    prepare: str = ""
    check: str = ""
    quick: bool = False
    own_malloc: bool = False
    plain: str = ""
    user: str = ""
    pip: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """Returns the row's needs that this machine lacks."""
        absent = [name for name in self.needs if not (Path(name).exists() if "/" in name else shutil.which(name))]
        if self.user and os.geteuid() == 0 and not any(entry.pw_name == self.user for entry in pwd.getpwall()):
            absent.append(f"the user {self.user}")
        return absent + [f"the wheel {name}" for name in self.pip if not has_wheel(name)]

    def version(self) -> str:
        if self.pip:
            code = f"from importlib.metadata import version; print(version({self.pip[0]!r}))"
            return output_of([str(WHEELS / "bin" / "python"), "-c", code])
        for package in self.packages:
            found = output_of(["dpkg-query", "-W", "-f", "${Status} ${Version}", package])
            if found.startswith("install ok installed "):
                return found.split()[-1]
        return ""


@dataclass
class Verdict:
    """The figures of a row of the table."""

    name: str
    version: str
    runs: int
    matched: int
    is_steady: bool  # all runs under glibc gave one result, and ended with 0
    malloc: str  # "hakmem", "own", or a complaint
    plain_kib: int
    ours_kib: int
    library: str  # the sum of the file
    machine: str
    date: str

    def is_good(self) -> bool:
        return self.is_steady and self.matched == self.runs and self.malloc in ("hakmem", "own")


def load(file: Path = TABLE) -> list[Program]:
    entries: list[dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))["program"]
    programs = []
    for index, entry in enumerate(entries):
        lists = {key: tuple(entry.get(key, ())) for key in ("packages", "needs", "pip")}
        programs.append(Program(index=index, **{**entry, **lists}))
    names = [program.name for program in programs]
    assert len(names) == len(set(names)), "a name is there twice"
    return programs
