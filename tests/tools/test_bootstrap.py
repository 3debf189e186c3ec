"""tools/bootstrap.sh names the missing packages, and prints nothing where none is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What the script itself calls, and what a build needs beside compilers.
TOOLS = ("bash", "dirname", "uname", "cat", "id", "make", "cmake", "ninja", "as", "ld")


def compiler(name: str) -> str:
    """That compiler's file. ccache is one by the name alone, and looks on PATH for the compiler itself."""
    for folder in os.get_exec_path():
        found = shutil.which(name, path=folder)
        if found and Path(found).resolve().name != "ccache":
            return found
    pytest.skip(f"there is no {name}")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH that has no compiler."""
    for name in TOOLS:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"there is no {name}")
        (tmp_path / name).symlink_to(found)
    return tmp_path


def write_program(file: Path, text: str) -> None:
    file.write_text(f"#!{shutil.which('bash')}\n{text}\n")
    file.chmod(0o755)


def bootstrap(programs: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    return subprocess.run(
        [ROOT / "tools/bootstrap.sh", *words, "build"], env={**kept, "PATH": str(programs), **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def check(programs: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return bootstrap(programs, "--check", **variables)


def test_no_compiler(programs: Path) -> None:
    done = check(programs)
    assert done.returncode == 1 and "missing: build-essential." in done.stderr, done.stderr


def test_a_compiler_of_another_name(programs: Path) -> None:
    """Only clang, for instance, which CC and CXX name, with a word before it."""
    compilers = {"CC": compiler("cc"), "CXX": compiler("c++")}
    done = check(programs, **{name: f"env {found}" for name, found in compilers.items()})
    assert done.returncode == 1, "there is no env"
    (programs / "env").symlink_to(str(shutil.which("env")))
    done = check(programs, **{name: f"env {found}" for name, found in compilers.items()})
    assert (done.returncode, done.stderr) == (0, "")


def test_a_compiler_without_headers(programs: Path) -> None:
    """Such as gcc without the C library's package of headers."""
    write_program(programs / "cc", f'exec "{compiler("cc")}" -nostdinc "$@"')
    done = check(programs, CXX=compiler("c++"))
    assert done.returncode == 1 and "missing: build-essential." in done.stderr, done.stderr


@pytest.mark.parametrize("variable", ["CC", "CXX"])
def test_a_compiler_that_is_not_there(programs: Path, variable: str) -> None:
    """The variable is named: the packages do not bring its compiler."""
    done = check(programs, **{"CC": compiler("cc"), "CXX": compiler("c++"), variable: "clang-none"})
    assert done.returncode == 1 and f"{variable}=clang-none is no command" in done.stderr, done.stderr
    assert done.stderr.count("clang-none") == 1


def test_no_apt_get(programs: Path) -> None:
    """Another distribution: the reason is no lack of rights, which root has."""
    done = bootstrap(programs)
    assert done.returncode == 1 and "missing: build-essential. On Debian and Ubuntu: " in done.stderr, done.stderr
    assert "right" not in done.stderr


@pytest.mark.parametrize(
    "version, is_enough",
    [("3.18.4", False), ("3.21.7", False), ("3.22.1", True), ("3.31.0-rc1", True), ("4.1.2", True)],
)
def test_an_old_cmake(programs: Path, version: str, is_enough: bool) -> None:
    """Debian 11 has 3.18, which takes `--preset` for the path of the sources."""
    (programs / "cmake").unlink()
    write_program(programs / "cmake", f'echo "cmake version {version}"')
    done = check(programs, CC=compiler("cc"), CXX=compiler("c++"))
    assert (done.returncode == 0) == is_enough, done.stderr
    assert is_enough or f"cmake is {version}, and hakmem needs 3.22 or later" in done.stderr, done.stderr


def test_an_old_cmake_of_the_distribution(programs: Path) -> None:
    """What apt-get installs is looked at too."""
    for name in ("cmake", "id"):
        (programs / name).unlink()
    write_program(programs / "id", "echo 0")
    (programs / "env").symlink_to(str(shutil.which("env")))
    write_program(programs / "old", 'echo "cmake version 3.18.4"')
    write_program(programs / "apt-get", f'exec {shutil.which("mv")} "{programs}/old" "{programs}/cmake"')
    done = bootstrap(programs, CC=compiler("cc"), CXX=compiler("c++"))
    assert done.returncode == 1 and "cmake is 3.18.4, and hakmem needs 3.22 or later" in done.stderr, done.stderr


@pytest.mark.parametrize("version, is_enough", [("1.65.0", False), ("1.85.0", True), ("2.0.0", True)])
def test_an_old_cargo(programs: Path, version: str, is_enough: bool) -> None:
    """Debian 12's package cargo is Rust 1.65, which does not read the crate's Cargo.lock."""
    write_program(programs / "cargo", f'echo "cargo {version}"')
    done = subprocess.run(
        [ROOT / "tools/bootstrap.sh", "--check", "crate"], capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": str(programs), "CC": compiler("cc"), "CXX": compiler("c++")},
    )  # fmt: skip
    assert (done.returncode == 0) == is_enough, done.stderr
    assert is_enough or f"cargo is {version}, and the crate needs 1.85 or later" in done.stderr, done.stderr
