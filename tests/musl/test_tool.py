"""The command line tool and programs of musl: it takes the library for musl, or says how to get it or to link."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable, Iterator

import pytest

CLI = Path(__file__).resolve().parents[2] / "cli"
sys.path.insert(0, str(CLI))
for module in ("click", "rich", "elftools"):
    pytest.importorskip(module, reason="the packages of cli/requirements.txt are missing (./hakmem installs them)")

from hakmem import elf_check, musl, paths  # noqa: E402
from hakmem.errors import Failure  # noqa: E402

START = f"import sys; sys.path.insert(0, {str(CLI)!r}); from hakmem.main import main; main()"
CANNOT = 125
Compile = Callable[..., Path]


def tool(*words: object) -> subprocess.CompletedProcess[str]:
    """Runs the tool to its end."""
    command = [sys.executable, "-I", "-c", START, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def dynamic(compiled: Compile) -> Path:
    return compiled("names")


@pytest.fixture
def static(compiled: Compile) -> Path:
    """A program with musl's own malloc."""
    return compiled("double_free", "-static")


@pytest.fixture
def glibc_library(tmp_path: Path) -> Path:
    """A library that glibc's linker loads."""
    target = tmp_path / "libhakmem.so"
    words = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(target), "-Wl,--no-as-needed"]
    subprocess.run(words, input="int hakmem_version;", text=True, check=True)
    return target


def test_run_takes_the_library_for_musl(dynamic: Path, build: Path) -> None:
    done = tool("run", "-v", "--", dynamic)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert "served malloc" in done.stderr and "/libhakmem.so" in done.stderr


def test_doctor_finds_nothing_in_the_way(dynamic: Path, library: Path) -> None:
    done = tool("doctor", "--library", library, "--json", "-", "--", dynamic)
    assert done.returncode == 0, done.stdout
    assert f"into {library}" in done.stdout


def test_doctor_looks_for_the_library_itself(dynamic: Path) -> None:
    assert tool("doctor", "--", dynamic).returncode == 0


def test_a_static_program_is_told_how_to_link(static: Path) -> None:
    done = tool("run", "-v", "--", static)
    assert done.returncode == CANNOT
    assert "linked statically with musl" in done.stderr and "libhakmem.a" in done.stderr
    done = tool("doctor", "--json", "-", "--", static)
    assert done.returncode == CANNOT
    assert "musl-gcc -static" in done.stdout and "make musl" in done.stdout


def test_a_stripped_static_program_too(static: Path, compiled: Compile, tmp_path: Path) -> None:
    """Where there are no symbols, musl is known by a text of its strerror, which most programs have."""
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", str(compiled("names", "-static")), "-o", str(stripped)], check=True)
    assert musl.is_static_musl(str(static))
    assert musl.is_static_musl(str(stripped)) == (b"No error information" in stripped.read_bytes())
    assert not musl.is_static_musl(sys.executable)


def test_a_library_for_the_other_c_library_is_refused(dynamic: Path, library: Path, glibc_library: Path) -> None:
    done = tool("run", "--library", glibc_library, "--", dynamic)
    assert done.returncode == CANNOT and "runs on musl" in done.stderr
    done = tool("run", "--library", library, "--", "/bin/true")
    assert done.returncode == CANNOT and "is for musl" in done.stderr


def test_without_a_library_the_tool_says_the_command(dynamic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "checkout", lambda: None)
    monkeypatch.setattr(paths, "find_library", lambda name="": None)
    executable = elf_check.read_executable(str(dynamic))
    assert executable is not None
    with pytest.raises(Failure, match="`make musl` in the checkout"):
        musl.require_library(None, executable.interpreter)


def test_compare_measures_beside_musls_malloc(compiled: Compile) -> None:
    if paths.find_library() is None:
        pytest.skip("libhakmem.so is not built (make lib)")
    done = tool("compare", "--allocators", "hakmem", "--rounds", "2", "--", compiled("threads"), "1")
    assert done.returncode == 0, done.stderr
    assert "glibc stands for musl's own malloc" in done.stdout + done.stderr


@pytest.fixture(params=["linked", "preloaded"])
def waiting(request: pytest.FixtureRequest, build: Path, compiled: Compile) -> Iterator[int]:
    """A running program on hakmem."""
    if request.param == "linked":
        program, variables = compiled("waits", "-static", str(build / "libhakmem.a")), {}
    else:
        program, variables = compiled("waits"), {"LD_PRELOAD": str(build / "libhakmem.so")}
    with subprocess.Popen([str(program)], env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process.pid
        process.send_signal(signal.SIGKILL)


def test_a_running_program_is_read(waiting: int) -> None:
    done = tool("stats", waiting)
    assert done.returncode == 0, done.stderr
    assert "resident" in done.stdout
