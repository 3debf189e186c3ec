"""Builds the workloads of `hakmem bench` where they are missing: plain `make` builds the libraries alone."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import List, Sequence

from hakmem.errors import Failure, say

_FOLDER = "build/release"
_TARGETS = ("bench_programs", "hakmem_count")
_SHOWN_LINES = 5
COMMAND = f"cmake --build {_FOLDER} --target {' '.join(_TARGETS)}"


def build(root: Path) -> None:
    """Builds them in the checkout, or raises a Failure with the command and the end of its output."""
    say(f"the workloads are not built yet: {COMMAND}")
    if not (root / _FOLDER / "CMakeCache.txt").is_file():
        _run(root, ["cmake", "--preset", "release"])
    _run(root, COMMAND.split())


def _run(root: Path, words: Sequence[str]) -> None:
    command = " ".join(words)
    try:
        done = subprocess.run(
            words, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
    except OSError as error:
        raise Failure(
            f"the workloads are not built, and {words[0]} does not start ({error.strerror}): {_advice()}"
        ) from None
    if done.returncode != 0:
        end: List[str] = done.stdout.decode(errors="replace").rstrip().splitlines()[-_SHOWN_LINES:]
        raise Failure(f"`{command}` failed in {root}; {_advice()}:", below=end)


def _advice() -> str:
    return "`tools/bootstrap.sh build` installs what a build needs, and `make bench` builds and measures"
