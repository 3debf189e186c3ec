"""Modules that are opened with RTLD_DEEPBIND: they use the program's malloc, and are found where their opener looks."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Callable, List

import pytest
from conftest import HERE, compile_program
from preload_runner import Outcome, Runner

Program = Callable[[str], Path]

OK = Outcome(0, b"ok\n", b"")


@pytest.mark.parametrize("how", ["open", "base", "new"])
def test_blocks_are_exchanged(runner: Runner, program: Program, shim: Program, hakmem_only: None, how: str) -> None:
    runner.expect([program("deepbind"), how, shim("deepbind_module")], "ok\n")


@pytest.mark.parametrize("is_first", [True, False])
def test_behind_and_before_a_library_that_interposes_dlsym(
    runner: Runner, program: Program, shim: Program, hakmem_only: None, is_first: bool
) -> None:
    """It is the caller of dlsym then, and what comes next to it may be the library itself."""
    command = [program("deepbind"), "open", shim("deepbind_module")]
    assert runner.under(command, also=[shim("reentrant")], first=is_first) == OK


@pytest.mark.parametrize("arguments", [["self"], ["missing", "no-such-module.so"]])
def test_what_has_no_file(runner: Runner, program: Program, arguments: List[str]) -> None:
    assert runner.same([program("deepbind"), *arguments]) == OK


def test_the_option_keeps_the_flag(runner: Runner, program: Program, shim: Program, hakmem_only: None) -> None:
    outcome = runner.under([program("deepbind"), "open", shim("deepbind_module")], env={"HAKMEM_DEEPBIND": "1"})
    assert outcome.code < 0, "the C library's free ends the program"


def opener(folder: Path, module: Path, *flags: str) -> Path:
    """FOLDER/opener.so, with the module in FOLDER/inner, where only the opener looks."""
    (folder / "inner").mkdir()
    shutil.copyfile(module, folder / "inner" / "only_there.so")
    target = folder / "opener.so"
    path = "-Wl,-rpath,$ORIGIN/inner"
    compile_program("cc", [HERE / "shim" / "deepbind_opener.c"], target, ["-shared", "-fPIC", path, *flags])
    return target


@pytest.mark.parametrize("name", ["only_there.so", "$ORIGIN/inner/only_there.so"])
def test_the_caller_stays_the_caller(
    runner: Runner, program: Program, shim: Program, tmp_path: Path, hakmem_only: None, name: str
) -> None:
    """The search path and $ORIGIN are those of the library that called dlopen, not of hakmem in between."""
    library = opener(tmp_path, shim("deepbind_module"))
    runner.expect([program("deepbind"), "by", library, name], "ok\n")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_constructor_that_opens_a_module(
    runner: Runner, shim: Program, tmp_path: Path, hakmem_only: None, is_first: bool
) -> None:
    """Before the library's own constructor has run, too."""
    library = opener(tmp_path, shim("deepbind_module"), '-DOPEN_EARLY="only_there.so"')
    assert runner.under(["/bin/echo", "ok"], also=[library], first=is_first) == OK


def test_ctypes(runner: Runner, shim: Program, hakmem_only: None) -> None:
    """Python gives the flag as it is."""
    script = (
        "import ctypes, os, sys\n"
        "module = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_DEEPBIND)\n"
        "whole = ctypes.CDLL(None)\n"
        "whole.malloc.restype = module.give.restype = ctypes.c_void_p\n"
        "for size in range(1, 3000): module.take(ctypes.c_void_p(whole.malloc(ctypes.c_size_t(size))))\n"
        "for size in range(1, 3000): whole.free(ctypes.c_void_p(module.give(ctypes.c_size_t(size))))\n"
        "print('ok')\n"
    )
    runner.expect([sys.executable, "-c", script, shim("deepbind_module")], "ok\n")
