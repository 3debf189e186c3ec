"""Fixtures: the library, this folder's programs, and a runner. Variables:

HAKMEM_TEST_BUILD_DIR     where the library and the programs are built (default build/release)
HAKMEM_TEST_LIBRARY  a library to test instead of HAKMEM_TEST_BUILD_DIR/libhakmem.so: libhakmem-fast.so, or another
                     allocator, to see whether the test is wrong; tests of hakmem's own features are then
                     left out
HAKMEM_TEST_SCALE    multiplies the numbers of forks, signals and cancellations: 1 is a few seconds each, 100 ten
                     thousand forks
HAKMEM_TEST_REPEAT   how often each real program runs under the library (default 2; 20 for the soak)
HAKMEM_TEST_FULL     1: CPython's test modules whole, not in part
HAKMEM_TEST_LIBC     musl: the build is for musl, and tests that need glibc are left out (on_musl.py)
HAKMEM_TEST_OVERCOMMIT  1: try vm.overcommit_memory=2, which is a setting of the whole machine; needs root
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tools"), str(REPOSITORY / "tests")]

pytest.register_assert_rewrite("preload_runner")
from on_musl import reason_to_leave_out  # noqa: E402
from preload_runner import Runner  # noqa: E402
from under_allocator import LibraryMissing, library_in  # noqa: E402

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("HAKMEM_TEST_BUILD_DIR", REPOSITORY / "build" / "release")).resolve()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("HAKMEM_TEST_LIBC") != "musl":
        return
    for item in items:
        reason = reason_to_leave_out(item.path.stem, item.name)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def library() -> Path:
    """The library under test."""
    wanted = Path(os.environ.get("HAKMEM_TEST_LIBRARY", BUILD / "libhakmem.so"))
    try:
        return library_in(wanted.parent, wanted.name)
    except LibraryMissing as missing:
        pytest.exit(str(missing), returncode=2)


@pytest.fixture(scope="session")
def static_library() -> Path:
    """The archive, for programs that are linked with it."""
    try:
        return library_in(BUILD, "libhakmem.a")
    except LibraryMissing as missing:
        pytest.fail(str(missing))


@pytest.fixture(scope="session")
def runner(library: Path) -> Runner:
    """Runs programs with and without the library."""
    return Runner(library, int(os.environ.get("HAKMEM_TEST_REPEAT", "2")))


@pytest.fixture(scope="session")
def scaled() -> Callable[[int], int]:
    """Multiplies a count by HAKMEM_TEST_SCALE, as tests/support/scale.h does."""
    scale = float(os.environ.get("HAKMEM_TEST_SCALE") or 1)
    return lambda count: max(1, int(count * scale))


@pytest.fixture
def hakmem_only(library: Path) -> None:
    """Leaves a test out when another allocator stands in."""
    if b"hakmem_version" not in library.read_bytes():
        pytest.skip(f"{library.name} is not hakmem")


@pytest.fixture
def checks_only(library: Path) -> None:
    """Leaves a test out where free blocks carry no mark."""
    if "-fast" in library.name:
        pytest.skip(f"{library.name} has no checks")


@pytest.fixture(scope="session")
def program() -> Callable[[str], Path]:
    """A program of this folder, as the build made it."""

    def find(name: str) -> Path:
        path = BUILD / "tests" / "preload" / name
        if not path.is_file():
            pytest.fail(f"no {path}: build the tests (`make test-release`)")
        return path

    return find


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A shared library of shim/, compiled."""
    folder = tmp_path_factory.mktemp("shim")

    def build(name: str) -> Path:
        target = folder / f"{name}.so"
        if not target.exists():
            source = next((HERE / "shim").glob(f"{name}.c*"))
            compile_program("c++" if source.suffix == ".cc" else "cc", [source], target, ["-shared", "-fPIC"])
        return target

    return build


@pytest.fixture(scope="session")
def linked(tmp_path_factory: pytest.TempPathFactory, static_library: Path) -> Callable[..., Path]:
    """A program of this folder, linked with the archive instead of preloaded."""
    folder = tmp_path_factory.mktemp("linked")

    def build(source: str, *flags: str) -> Path:
        target = folder / f"{Path(source).stem}{''.join(flags)}"
        if not target.exists():
            compiler = ["c++", "-std=gnu++17"] if source.endswith(".cc") else ["cc", "-std=gnu17"]
            compile_program(compiler[0], [HERE / source, static_library], target, [*compiler[1:], *flags, "-pthread"])
        return target

    return build


def compile_program(compiler: str, inputs: list[Path], target: Path, flags: list[str]) -> None:
    """The compiler must leave every malloc and free where it stands."""
    common = ["-O1", "-g", "-w", "-fno-builtin"]
    command = [
        compiler,
        *common,
        f"-I{REPOSITORY / 'include'}",
        *flags,
        "-o",
        str(target),
        *(str(path) for path in inputs),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}:\n{done.stderr}")
