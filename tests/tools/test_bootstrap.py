"""tools/bootstrap.sh --check names the missing packages, and prints nothing where none is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What the script itself calls, and what a build needs beside compilers.
TOOLS = ("bash", "dirname", "uname", "cat", "id", "make", "cmake", "ninja", "as", "ld")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH that has no compiler."""
    for name in TOOLS:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"there is no {name}")
        (tmp_path / name).symlink_to(found)
    return tmp_path


def check(programs: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    return subprocess.run(
        [ROOT / "tools/bootstrap.sh", "--check", "build"], env={**kept, "PATH": str(programs), **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_no_compiler(programs: Path) -> None:
    done = check(programs)
    assert done.returncode == 1 and "missing: build-essential." in done.stderr, done.stderr


def test_a_compiler_of_another_name(programs: Path) -> None:
    """Only clang, for instance, which CC and CXX name, with a word before it."""
    compilers = {name: shutil.which(command) for name, command in (("CC", "cc"), ("CXX", "c++"))}
    if None in compilers.values():
        pytest.skip("no compiler")
    done = check(programs, **{name: f"env {found}" for name, found in compilers.items()})
    assert done.returncode == 1, "there is no env"
    (programs / "env").symlink_to(str(shutil.which("env")))
    done = check(programs, **{name: f"env {found}" for name, found in compilers.items()})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_compiler_without_headers(programs: Path) -> None:
    """Such as gcc without the C library's package of headers."""
    compiler = programs / "cc"
    compiler.write_text(f'#!{shutil.which("bash")}\nexec "{shutil.which("cc")}" -nostdinc "$@"\n')
    compiler.chmod(0o755)
    done = check(programs, CXX=str(shutil.which("c++")))
    assert done.returncode == 1 and "missing: build-essential." in done.stderr, done.stderr
