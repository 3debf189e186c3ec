"""README.md's lines for C and C++: by CMake, by pkg-config, and with the archive before the C library."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import consumer
import pytest

sys.path.insert(0, str(consumer.ROOT / "tools"))
from documented_commands import commands

TEXT = (consumer.ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    consumer.run("cmake", "--install", consumer.BUILD, "--prefix", folder)
    return folder


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is not installed")
def test_pkg_config(prefix: Path, tmp_path: Path) -> None:
    shutil.copy(consumer.HERE / "program.c", tmp_path / "your-program.c")
    folder = next(prefix.rglob("hakmem.pc")).parent
    (line,) = commands("README.md", "test_pkg_config")
    consumer.run("bash", "-euc", line, cwd=tmp_path, PKG_CONFIG_PATH=str(folder))
    assert consumer.run(tmp_path / "a.out", LD_LIBRARY_PATH=str(folder.parent)) == f"{consumer.version()}\n"


def test_cmake(prefix: Path, tmp_path: Path) -> None:
    """The block that README has, in a project of one program."""
    block = re.search(r"```cmake\n(.*?)```", TEXT, re.DOTALL)
    assert block
    shutil.copy(consumer.HERE / "program.c", tmp_path)
    text = "cmake_minimum_required(VERSION 3.22)\nproject(one C)\nadd_executable(your-program program.c)\n" + block[1]
    (tmp_path / "CMakeLists.txt").write_text(text)
    consumer.run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    consumer.run("cmake", "--build", tmp_path / "build")
    assert consumer.run(tmp_path / "build/your-program") == f"{consumer.version()}\n"


@pytest.mark.parametrize("flags", [(), ("-static",)])
def test_archive(prefix: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """The command in the sentence about static linking, with that archive's own prefix."""
    found = re.search(r"`(c\+\+\s+your-program\.cc\s+/usr/local/lib/libhakmem\.a)`", TEXT)
    assert found
    shutil.copy(consumer.HERE / "standard_containers.cc", tmp_path / "your-program.cc")
    archive = next(prefix.rglob("libhakmem.a"))
    words = found[1].replace("/usr/local/lib/libhakmem.a", str(archive)).split()
    consumer.run(*words, *flags, f"-I{prefix / 'include'}", cwd=tmp_path)
    assert consumer.run(tmp_path / "a.out") == "ok\n"
