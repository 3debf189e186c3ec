"""Fixtures: the build for musl, and C programs that musl-gcc compiles from this folder.

HAKMEM_TEST_BUILD_DIR     where the library for musl is built (default build/musl)
HAKMEM_TEST_SCALE    multiplies the rounds of threads and forks
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Callable

import pytest

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
FLAGS = ["-std=gnu17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fno-builtin"]

Compile = Callable[..., Path]


@pytest.fixture(scope="session")
def build() -> Path:
    """The folder of the build."""
    folder = Path(os.environ.get("HAKMEM_TEST_BUILD_DIR", REPOSITORY / "build" / "musl")).resolve()
    if shutil.which("musl-gcc") is None:
        pytest.skip("there is no musl-gcc")
    if not (folder / "libhakmem.a").is_file():
        pytest.fail(f"no {folder}/libhakmem.a: make musl")
    return folder


@pytest.fixture(scope="session")
def library(build: Path) -> Path:
    """The library to preload."""
    return build / "libhakmem.so"


@pytest.fixture(scope="session")
def compiled(build: Path, tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compiles a source of this folder. Further arguments follow it on the command line."""
    folder = tmp_path_factory.mktemp("musl")

    def make(name: str, *arguments: str) -> Path:
        kind = "-".join(Path(argument).name.strip("-") for argument in arguments)
        target = folder / f"{Path(name).stem}-{kind or 'dynamic'}"
        if not target.exists():
            words = ["musl-gcc", *FLAGS, str(HERE / f"{name}.c"), *arguments, "-o", str(target)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return target

    return make


@pytest.fixture(params=["static", "static_pie", "preloaded"])
def start(request: pytest.FixtureRequest, build: Path, library: Path, compiled: Compile) -> Callable[..., list[str]]:
    """The command that runs a program of this folder on hakmem, in each of three ways."""

    def command(name: str, *arguments: str) -> list[str]:
        if request.param == "preloaded":
            return [str(compiled(name)), *arguments]
        linking = "-static" if request.param == "static" else "-static-pie"
        return [str(compiled(name, linking, str(build / "libhakmem.a"))), *arguments]

    return command
