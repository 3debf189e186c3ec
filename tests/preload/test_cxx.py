"""C++: all forms of operator new and delete, the new_handler, exceptions; preloaded and linked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Outcome, Runner, with_limit

HERE = Path(__file__).resolve().parent


def test_operators(runner: Runner, program: Callable[[str], Path]) -> None:
    runner.expect([program("cxx_operators")], "ok\n")


def test_operators_without_preload(runner: Runner, program: Callable[[str], Path]) -> None:
    """The test program itself is right about the standard."""
    assert runner.plain([program("cxx_operators")]) == Outcome(0, b"ok\n", b"")


def test_operators_come_from_the_library(runner: Runner, program: Callable[[str], Path]) -> None:
    runner.assert_malloc_is_ours([program("cxx_operators")])


@pytest.mark.parametrize("flags", [(), ("-static",)], ids=["archive", "static"])
def test_operators_when_linked(runner: Runner, linked: Callable[..., Path], flags: tuple[str, ...]) -> None:
    program = linked("cxx_operators.cc", *flags)
    assert runner.plain([program]) == Outcome(0, b"ok\n", b"")
    defined = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True, check=True).stdout
    symbols = {line.split()[-1] for line in defined.splitlines() if line.strip()}
    assert {"malloc", "free", "hakmem_malloc", "_Znwm", "_ZdlPv"} <= symbols


def test_handler_frees_memory(runner: Runner, program: Callable[[str], Path]) -> None:
    runner.expect(with_limit("-v", 200000, [program("new_handler_frees")]), "ok\n")


def test_handler_frees_memory_when_linked(runner: Runner, linked: Callable[..., Path]) -> None:
    assert runner.plain(with_limit("-v", 200000, [linked("new_handler_frees.cc")])) == Outcome(0, b"ok\n", b"")


def test_replaced_operators(runner: Runner, program: Callable[[str], Path]) -> None:
    """A program that replaces only some forms is served by its own for the others."""
    runner.expect([program("replaced_operators")], "ok\n")


@pytest.mark.parametrize("flags", [(), ("-static",)], ids=["archive", "static"])
def test_replaced_operators_when_linked(runner: Runner, linked: Callable[..., Path], flags: tuple[str, ...]) -> None:
    assert runner.plain([linked("replaced_operators.cc", *flags)]) == Outcome(0, b"ok\n", b"")


def test_runtime_that_comes_with_a_plugin(
    runner: Runner, program: Callable[[str], Path], shim: Callable[[str], Path]
) -> None:
    runner.expect([program("late_runtime"), shim("cxx_plugin")], "1 2 1 2 1 2\n")


@pytest.mark.parametrize("compiler", ["c++", "clang++"])
def test_runtime_inside_a_plugin(runner: Runner, program: Callable[[str], Path], tmp_path: Path, compiler: str) -> None:
    """The dynamic linker binds the plugin's new to the library's, and no libstdc++.so is loaded."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is missing")
    source, plugin = HERE / "shim/cxx_plugin.cc", tmp_path / "plugin.so"
    flags = ["-shared", "-fPIC", "-std=c++17", "-static-libstdc++", "-static-libgcc"]
    subprocess.run([compiler, *flags, "-o", plugin, source], check=True)
    assert runner.plain([program("late_runtime"), plugin]) == Outcome(0, b"1 2 1 2 1 2\n", b"")
    runner.expect([program("late_runtime"), plugin], "1 2 1 2 1 2\n")
