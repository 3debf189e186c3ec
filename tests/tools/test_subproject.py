"""hakmem inside another CMake project changes nothing of it. (tests/consumers builds and runs such projects.)"""

from __future__ import annotations

import platform
import shutil
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


def test_the_projects_headers_and_warnings_are_not_hakmems(tmp_path: Path) -> None:
    """A folder `base` of the project's own, and warnings and checkers whose rules hakmem's code does not keep."""
    lines = (
        "cmake_minimum_required(VERSION 3.22)", "project(p C)", "include_directories(${CMAKE_SOURCE_DIR})",
        "set(CMAKE_C_CLANG_TIDY false)", "set(CMAKE_C_CPPCHECK false)",
        "add_compile_options(-Wpedantic -Wconversion -Werror -Werror=conversion)",
        f"add_subdirectory({consumer.ROOT} hakmem)",
    )  # fmt: skip
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "base").mkdir()
    (tmp_path / "base/bytes.h").write_text("#error the project's\n")
    consumer.run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build")
    places = {"hakmem_core_common": ("base/bytes", "policy/level"), "hakmem_core": ("heap/mid",)}
    objects = [f"hakmem/CMakeFiles/{part}.dir/src/{name}.c.o" for part, names in places.items() for name in names]
    consumer.run("ninja", "-C", tmp_path / "build", *objects)


@pytest.mark.skipif(shutil.which("ld.gold") is None, reason="gold is not installed")
def test_the_projects_linker_gets_the_options_that_it_has(tmp_path: Path) -> None:
    """add_link_options names another linker for hakmem's libraries too, which has no `-z noseparate-code`."""
    project = "cmake_minimum_required(VERSION 3.22)\nproject(p C)\nadd_link_options({})\nadd_subdirectory({} hakmem)\n"
    option = "-Wl,-z,noseparate-code"
    for options, expected in (("", True), ('-fuse-ld=gold "$<$<TARGET_EXISTS:other>:-lother;-lanother>"', False)):
        (tmp_path / "CMakeLists.txt").write_text(project.format(options, consumer.ROOT))
        build = tmp_path / f"build{len(options)}"
        consumer.run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", build)
        rules = (build / "build.ninja").read_text()
        assert "-Wl,-z,relro" in rules
        assert (option in rules) == (expected and platform.machine() == "x86_64"), options
