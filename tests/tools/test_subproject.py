"""hakmem inside another CMake project changes nothing of it. (tests/consumers builds and runs such projects.)"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "consumers"))
import consumer


def configure(build: Path, *options: str) -> str:
    return consumer.run(
        "cmake", "-G", "Ninja", "-S", consumer.HERE / "cmake", "-B", build, f"-DSOURCE={consumer.ROOT}", *options
    )


@pytest.mark.parametrize("options", ["", "-DCXX=ON", "-DCXX=ON -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON"])
def test_the_projects_variables_stay(tmp_path: Path, options: str) -> None:
    """The project itself compares its variables, and looks for targets that it should have or not have."""
    configure(tmp_path, "-DWAY=add_subdirectory", *options.split())
    cache = (tmp_path / "CMakeCache.txt").read_text()
    wanted = "Release" if "Release" in options else ""
    assert f"CMAKE_BUILD_TYPE:STRING={wanted}\n" in cache and "\nHK_TESTS:STRING=OFF\n" in cache
    rules = (tmp_path / "build.ninja").read_text()
    assert (" -O2 " in rules) == (wanted == ""), "without a build type hakmem is optimised all the same"
    assert "CMAKE_PROJECT_VERSION" not in cache


def test_only_what_is_linked_is_built(tmp_path: Path) -> None:
    project = "cmake_minimum_required(VERSION 3.22)\nproject(p C)\nadd_subdirectory({} hakmem)\n{}\n"
    use = "add_executable(program program.c)\ntarget_link_libraries(program PRIVATE hakmem::hakmem_static)"
    (tmp_path / "program.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "CMakeLists.txt").write_text(project.format(consumer.ROOT, use))
    consumer.run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build")
    commands = consumer.run("ninja", "-C", tmp_path / "build", "-t", "commands", "all")
    assert "libhakmem-archive.a" in commands
    assert "libhakmem-fast.so" not in commands and "libhakmem.so" not in commands
