"""CPython under hakmem, every object by malloc: its own tests, and its whole standard library parsed.

HAKMEM_TEST_FULL=1 runs the test modules whole; without it the slow ones only in part. At a HAKMEM_TEST_SCALE below 1,
one more of them runs in part.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Optional

import pytest
from preload_runner import Outcome, Runner
from under_allocator import REPOSITORY

HERE = Path(__file__).resolve().parent
BY_MALLOC = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
TIMEOUT = 900.0

SHORT = float(os.environ.get("HAKMEM_TEST_SCALE") or 1) < 1

# Module, and what the names of the tests contain that are run unless all are wanted.
MODULES = [
    ("test_json", ""),
    ("test_ast", "ASTHelpers" if SHORT else ""),
    ("test_threading", ".ThreadTests."),
    ("test_multiprocessing_fork", "WithProcessesTestPool"),
    ("test_multiprocessing_fork", "WithProcessesTestProcess"),
]


def answer(python: str, code: str) -> Optional[str]:
    """What an interpreter prints for a line of code; None if it fails."""
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@lru_cache(maxsize=None)
def interpreters() -> tuple[str, ...]:
    """The real executables behind the Pythons of this machine: this one, those on PATH, those installed beside them."""
    found: dict[str, None] = {}
    whence = "import sys; print(sys._base_executable, sys.base_prefix, sep='\\n')"
    for name in (sys.executable, "python3", "/usr/bin/python3"):
        real = answer(name, whence)
        if not real:
            continue
        executable, prefix = real.splitlines()
        found[os.path.realpath(executable)] = None
        # Version managers put one installation beside the other.
        for sibling in sorted(Path(prefix).parent.glob("3.*/bin/python3"), reverse=True):
            found[os.path.realpath(sibling)] = None
    return tuple(found)


@lru_cache(maxsize=None)
def interpreter_with(module: str) -> Optional[str]:
    """The first interpreter that brings a module of CPython's test suite."""
    return next((python for python in interpreters() if answer(python, f"import test.{module}") is not None), None)


def cases() -> list[tuple[str, str]]:
    """Each module once if all is wanted, in parts otherwise."""
    is_full = os.environ.get("HAKMEM_TEST_FULL") == "1"
    return list(dict.fromkeys((module, "" if is_full else part) for module, part in MODULES))


@pytest.mark.parametrize(("module", "part"), cases())
def test_own_suite(runner: Runner, tmp_path: Path, module: str, part: str) -> None:
    """Each test ends as it does without the library; what failed before may fail."""
    python = interpreter_with(module)
    if python is None:
        pytest.skip(f"no Python here brings test.{module}")
    command = [python, HERE / "material" / "outcomes.py", f"test.{module}", *([part] if part else [])]

    def visible(outcome: Outcome) -> object:
        assert b"hakmem:" not in outcome.stderr
        return outcome.code, outcome.stdout

    without = runner.same(command, normalise=visible, env=BY_MALLOC, cwd=tmp_path, timeout=TIMEOUT)
    assert without.text().count(" ok\n") >= 10, "hardly a test ran"
    runner.assert_malloc_is_ours([python, "-c", f"import test.{module}"], env=BY_MALLOC)


def test_whole_library_parsed(runner: Runner) -> None:
    """By four threads, as `make run` shows it."""
    needed = "import ast, sysconfig, ctypes, sys; assert sys.version_info >= (3, 9)"
    python = next((python for python in interpreters() if answer(python, needed) is not None), None)
    if python is None:
        pytest.skip("no Python here has ctypes and the sources of its library")
    command = [python, "-B", REPOSITORY / "bench" / "parse_stdlib.py"]
    runner.same(command, normalise=without_last_line, env=BY_MALLOC)
    malloc = runner.under(command, env=BY_MALLOC).text().splitlines()[-1]
    assert Path(malloc.partition(": ")[2]).resolve() == runner.library


def without_last_line(outcome: Outcome) -> object:
    """The last line says where malloc is: not the same."""
    return outcome.code, outcome.text().splitlines()[:-1], outcome.stderr
