"""An installed hakmem can be found and linked: find_package from a C-only project, pkg-config, shared and static."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

BUILD = os.environ.get("HAKMEM_TEST_BUILD_DIR", str(Path(__file__).resolve().parents[2] / "build/release"))
PROGRAM = """
#include <hakmem/hakmem.h>
#include <stdlib.h>

int main(void) {
  void *block = malloc(100);
  bool ours = hakmem_check_owned(block);
  free(block);
  return ours ? EXIT_SUCCESS : EXIT_FAILURE;
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(consumer C)
find_package(hakmem 0.1 REQUIRED)
foreach(kind IN ITEMS hakmem hakmem_static hakmem_fast)
  add_executable(with_${kind} program.c)
  target_link_libraries(with_${kind} PRIVATE hakmem::${kind})
endforeach()
"""


def run(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix that hakmem was installed to and then moved from, so that no path of it can be baked in."""
    installed = tmp_path_factory.mktemp("install") / "first"
    run("cmake", "--install", BUILD, "--prefix", installed)
    return installed.rename(installed.with_name("moved"))


def test_find_package(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    for kind in ("hakmem", "hakmem_static", "hakmem_fast"):
        run(tmp_path / "build" / f"with_{kind}")
    assert "stdc++" not in run("readelf", "-d", tmp_path / "build" / "with_hakmem_static")


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is not installed")
def test_pkg_config(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(PROGRAM)
    description = next(prefix.rglob("hakmem.pc"))
    flags = run("pkg-config", "--cflags", "--libs", "hakmem", PKG_CONFIG_PATH=str(description.parent)).split()
    run("cc", "-o", tmp_path / "program", tmp_path / "program.c", *flags)
    run(tmp_path / "program", LD_LIBRARY_PATH=str(description.parent.parent))
