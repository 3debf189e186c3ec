"""Projects that use hakmem by CMake, pkg-config and Meson. test_recipe.py has Conan, and a checkout as a subproject."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import consumer
import pytest

KINDS = ("hakmem", "hakmem_static", "hakmem_fast", "hakmem_secure")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return consumer.source_archive(tmp_path_factory.mktemp("archive"))


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix that hakmem was installed to and then moved from, so that no path of it can be baked in."""
    installed = tmp_path_factory.mktemp("install") / "first"
    consumer.run("cmake", "--install", consumer.BUILD, "--prefix", installed)
    return installed.rename(installed.with_name("moved"))


def build_and_run(build: Path, *options: str) -> None:
    consumer.run("cmake", "-G", "Ninja", "-S", consumer.HERE / "cmake", "-B", build, "-DCXX=ON", *options)
    consumer.run("cmake", "--build", build)
    for kind in KINDS:
        assert consumer.run(build / f"c_{kind}") == f"{consumer.version()}\n"
        assert consumer.run(build / f"cxx_{kind}") == "ok\n"
    assert "stdc++" not in consumer.run("readelf", "-d", build / "c_hakmem_static")


def test_find_package(prefix: Path, tmp_path: Path) -> None:
    build_and_run(tmp_path, "-DWAY=find_package", f"-DCMAKE_PREFIX_PATH={prefix}")


def test_fetch_content(archive: Path, tmp_path: Path) -> None:
    """From an archive by its address; the project sets what would break hakmem's own build."""
    wishes = ("-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON", "-DCMAKE_C_STANDARD=99")
    build_and_run(tmp_path, "-DWAY=FetchContent", f"-DURL={archive.as_uri()}", *wishes)


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is not installed")
@pytest.mark.parametrize("flags", ["", "-static"])
def test_pkg_config(prefix: Path, tmp_path: Path, flags: str) -> None:
    folder = next(prefix.rglob("hakmem.pc")).parent
    words = ("pkg-config", *(["--static"] if flags else []), "--cflags", "--libs", "hakmem")
    asked = consumer.run(*words, PKG_CONFIG_PATH=str(folder)).split()
    for compiler, name, expected in (
        ("cc", "program.c", f"{consumer.version()}\n"),
        ("c++", "standard_containers.cc", "ok\n"),
    ):
        consumer.run(compiler, *flags.split(), "-o", tmp_path / "program", consumer.HERE / name, *asked)
        assert consumer.run(tmp_path / "program", LD_LIBRARY_PATH=str(folder.parent)) == expected


PKG_CHECK = """
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hakmem REQUIRED IMPORTED_TARGET hakmem)
add_executable(program program.c)
target_link_libraries(program PRIVATE PkgConfig::hakmem)
"""


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is not installed")
def test_pkg_check_modules(prefix: Path, tmp_path: Path) -> None:
    """CMake that asks pkg-config, and a program that names nothing of the library."""
    folder = next(prefix.rglob("hakmem.pc")).parent
    (tmp_path / "CMakeLists.txt").write_text(PKG_CHECK)
    (tmp_path / "program.c").write_text('#include <stdio.h>\nint main(void) { return puts("ok") < 0; }\n')
    build = tmp_path / "build"
    consumer.run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", build, PKG_CONFIG_PATH=str(folder))
    consumer.run("cmake", "--build", build)
    assert "libhakmem.so" in consumer.run("readelf", "-d", build / "program")


@pytest.mark.skipif(shutil.which("ld.lld") is None, reason="lld is not installed")
def test_lld_keeps_the_library(tmp_path: Path) -> None:
    """With --gc-sections and --as-needed, in a program that names nothing of the library."""
    (tmp_path / "program.c").write_text('#include <stdio.h>\nint main(void) { return puts("ok") < 0; }\n')
    words = ("-fuse-ld=lld", "-Wl,--gc-sections", "-Wl,--as-needed", consumer.BUILD / "hakmem-link.o")
    library = (f"-L{consumer.BUILD}", "-lhakmem")
    consumer.run("cc", "-o", tmp_path / "program", tmp_path / "program.c", *words, *library)
    assert "libhakmem.so" in consumer.run("readelf", "-d", tmp_path / "program")


def test_folders_of_a_distribution(tmp_path: Path) -> None:
    """Absolute folders, one for headers among them: the tool runs, and find_package finds the header."""
    image = tmp_path / "image"
    places = {"LIB": image / "lib", "INCLUDE": image / "dev/include", "DATA": image / "data", "MAN": image / "man"}
    chosen = [f"-DCMAKE_INSTALL_{name}DIR={place}" for name, place in places.items()]
    build = tmp_path / "build"
    # As the build's own objects, which ccache has then.
    cache = (consumer.BUILD / "CMakeCache.txt").read_text()
    chosen += [f"-D{one}" for one in re.findall(r"^(HK_WERROR:BOOL=\w+)$", cache, re.MULTILINE)]
    consumer.run(
        "cmake", "-G", "Ninja", "-S", consumer.ROOT, "-B", build, "-DHK_TESTS=OFF",
        f"-DCMAKE_INSTALL_PREFIX={image}", f"-DHK_TOOL_PYTHON={sys.executable}", *chosen,
    )  # fmt: skip
    consumer.run("cmake", "--build", build)
    consumer.run("cmake", "--install", build)
    assert "libhakmem" in consumer.run(image / "bin/hakmem", "run", "-q", "--", "cat", "/proc/self/maps")
    assert (image / "man/man3/hakmem_free.3").exists()
    (tmp_path / "program.c").write_text("#include <hakmem/hakmem.h>\nint main(void) { hakmem_free(0); return 0; }\n")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(consumer LANGUAGES C)\nfind_package(hakmem REQUIRED)\n"
        "add_executable(program program.c)\ntarget_link_libraries(program PRIVATE hakmem::hakmem)\n"
    )
    consumer.run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "other", f"-DCMAKE_PREFIX_PATH={image}")
    consumer.run("cmake", "--build", tmp_path / "other")


MESON = """
project('consumer', 'c', 'cpp', default_options: ['cpp_std=c++17', 'warning_level=3', 'werror=true'])
hakmem = dependency('hakmem', version: '>=0.1')
executable('c_program', 'program.c', dependencies: hakmem)
executable('cxx_program', 'standard_containers.cc', dependencies: hakmem)
"""
WRAP = """
[wrap-file]
directory = hakmem-{version}
source_url = {url}
source_filename = hakmem-{version}.tar.gz
source_hash = {hash}

[provide]
dependency_names = hakmem
"""


@pytest.mark.skipif(importlib.util.find_spec("mesonbuild") is None, reason="meson is not installed")
@pytest.mark.parametrize("way", ["wrap", "wrap by compilers of several words", "installed", "installed, by CMake"])
def test_meson(archive: Path, prefix: Path, tmp_path: Path, way: str) -> None:
    for name in ("program.c", "standard_containers.cc"):
        shutil.copy(consumer.HERE / name, tmp_path)
    by_cmake = "version: '>=0.1', method: 'cmake', modules: ['hakmem::hakmem_static']"
    (tmp_path / "meson.build").write_text(MESON.replace("version: '>=0.1'", by_cmake) if "CMake" in way else MESON)
    variables = {}
    if "words" in way:
        variables = {"CC": "ccache cc -fdiagnostics-color=never", "CXX": "c++ -fdiagnostics-color=never"}
        if shutil.which("ccache") is None:
            variables["CC"] = variables["CC"].partition(" ")[2]
    if "installed" not in way:
        (tmp_path / "subprojects").mkdir()
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        wrap = WRAP.format(version=consumer.version(), url=archive.as_uri(), hash=digest)
        (tmp_path / "subprojects" / "hakmem.wrap").write_text(wrap)
    else:
        folder = next(prefix.rglob("hakmem.pc")).parent
        variables = {"PKG_CONFIG_PATH": str(folder), "LD_LIBRARY_PATH": str(folder.parent)}
        variables["CMAKE_PREFIX_PATH"] = str(prefix)
    meson = (sys.executable, "-m", "mesonbuild.mesonmain")
    consumer.run(*meson, "setup", tmp_path / "build", tmp_path, **variables)
    consumer.run(*meson, "compile", "-C", tmp_path / "build", **variables)
    assert consumer.run(tmp_path / "build" / "c_program", **variables) == f"{consumer.version()}\n"
    assert consumer.run(tmp_path / "build" / "cxx_program", **variables) == "ok\n"
    if way == "wrap":
        file = next((tmp_path / "subprojects").glob("hakmem-*/src/api/control.c"))
        text = file.read_text()
        changed = re.sub(r"return VERSION_TEXT\(.*\);", 'return "another";', text)
        assert changed != text
        file.write_text(changed)
        consumer.run(*meson, "compile", "-C", tmp_path / "build", **variables)
        assert consumer.run(tmp_path / "build" / "c_program", **variables) == "another\n", "the library is the old one"


@pytest.mark.skipif(importlib.util.find_spec("mesonbuild") is None, reason="meson is not installed")
def test_meson_with_an_old_cmake(tmp_path: Path) -> None:
    """The setup names both versions. The build would end with a missing folder."""
    text = (consumer.ROOT / "CMakeLists.txt").read_text()
    needed = re.search(r"^cmake_minimum_required\(VERSION ([\d.]+)\)", text, re.MULTILINE)
    assert needed
    old = tmp_path / "bin/cmake"
    old.parent.mkdir()
    real = shutil.which("cmake")
    old.write_text(f'#!/bin/sh\n[ "$1" != --version ] || {{ echo cmake version 3.18.4; exit; }}\nexec {real} "$@"\n')
    old.chmod(0o755)
    project = tmp_path / "project"
    (project / "subprojects").mkdir(parents=True)
    (project / "subprojects/hakmem").symlink_to(consumer.ROOT)
    (project / "meson.build").write_text("project('p', 'c')\nsubproject('hakmem')\n")
    done = subprocess.run(
        [sys.executable, "-m", "mesonbuild.mesonmain", "setup", project / "build", project], check=False, text=True,
        env={**os.environ, "PATH": f"{old.parent}:{os.environ['PATH']}"}, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert done.returncode != 0 and re.search(rf"3\.18\.4.*>={re.escape(needed[1])}\b", done.stdout), done.stdout
