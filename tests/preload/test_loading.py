"""dlopen: libraries that come and go, many of them, plugins with an allocator of their own, the library itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Callable

import pytest
from conftest import HERE, compile_program
from preload_runner import Outcome, Runner

Program = Callable[[str], Path]

STATIC_TLS_BYTES = 64  # what the library may take of it: tools/check_exports.py
WORD_BYTES = 8


def test_dlopen_and_dlclose(runner: Runner, program: Program, shim: Program) -> None:
    runner.expect([program("dlopen_loop"), shim("plugin"), 2000], "ok\n")


def test_library_loaded_late(runner: Runner, program: Program, hakmem_only: None) -> None:
    """dlopen of the library itself, in a program that runs on the C library's malloc."""
    assert runner.plain([program("dlopen_allocator"), runner.library]) == Outcome(0, b"ok\n", b"")


def copies_of_tls_library(folder: Path, count: int, words: int, model: str) -> Path:
    """FOLDER/0.so ...: copies, for ld.so knows a library again by its file."""
    folder.mkdir()
    flags = ["-shared", "-fPIC", f"-DWORDS={words}", f'-DMODEL="{model}"']
    compile_program("cc", [HERE / "shim" / "tls_library.c"], folder / "0.so", flags)
    for number in range(1, count):
        shutil.copyfile(folder / "0.so", folder / f"{number}.so")
    return folder


@pytest.mark.parametrize(("model", "words"), [("global-dynamic", 40), ("initial-exec", 1)])
def test_a_thousand_libraries_with_tls(
    runner: Runner, program: Program, tmp_path: Path, model: str, words: int
) -> None:
    folder = copies_of_tls_library(tmp_path / "libraries", 1000, words, model)
    enough_for_all = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=20000"}
    runner.expect([program("dlopen_many"), folder, 1000, words], "ok\n", env=enough_for_all)


def test_library_loaded_late_needs_little_static_tls(
    runner: Runner, program: Program, tmp_path: Path, hakmem_only: None
) -> None:
    """Libraries of one word each take all that a late one can have but 64 bytes, and it must do with those."""
    count = 1000
    folder = copies_of_tls_library(tmp_path / "libraries", count, 1, "initial-exec")
    room = int(runner.plain([program("late_static_tls"), folder, count]).text())
    assert STATIC_TLS_BYTES // WORD_BYTES < room < count

    def open_behind(words: int) -> str:
        return runner.plain([program("late_static_tls"), folder, words, runner.library]).text()

    assert "static TLS" in open_behind(room)
    words = room - STATIC_TLS_BYTES // WORD_BYTES
    assert open_behind(words) == f"{words}\nok\n"


@pytest.mark.parametrize("flag", ["-Wl,-Bsymbolic", "-Wl,--exclude-libs,ALL"], ids=["exported", "hidden"])
def test_plugin_with_an_allocator_of_its_own(
    runner: Runner, program: Program, linked: Callable[..., Path], flag: str
) -> None:
    """Linked with the archive, and opened more often than a process may have keys of thread-local values (1,024)."""
    plugin = linked("shim/static_plugin.c", "-shared", "-fPIC", flag)
    assert runner.plain([program("plugin_loop"), plugin, 1200]) == Outcome(0, b"ok\n", b"")
