"""The first minutes of a new user: in a clean root, from an empty folder, by the commands of README.md and
docs/installing.md. Each test prints how long its commands take; a time decides no test.

The artefacts are those of `make wheel`, `make crate` and `make deb` in dist/.
"""

from __future__ import annotations

import hashlib
import platform
import re
import resource
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Callable, Iterator

import clean_root
import pytest
from clean_root import ROOT, USER, CleanRoot

sys.path.insert(0, str(ROOT / "tools"))
from documented_commands import commands

README, INSTALLING = "README.md", "docs/installing.md"
HOME = "/home/user"
HERE = f"{HOME}/here"
OURS = r"malloc is in (\S*/libhakmem\.so\S*)"
LEAST_RUST = (1, 85)
PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  Dl_info place;
  void *volatile block = malloc(100000);
  int found = dladdr(dlsym(RTLD_DEFAULT, "malloc"), &place);
  printf("malloc is in %s\n", found ? place.dli_fname : "nothing");
  free(block);
  return !found;
}
"""
MAIN = """
fn main() {
    let block = vec![1_u8; 1000];
    println!("ours: {}, {} bytes", hakmem_alloc::owns(block.as_ptr()), block.len());
}
"""
Say = Callable[[str], None]


@pytest.fixture
def say(capfd: pytest.CaptureFixture[str]) -> Say:
    """Prints a line past pytest's capture, into the log of the run."""

    def line(text: str) -> None:
        with capfd.disabled():
            print(f"\n  {text}", flush=True)

    return line


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of this machine, whose release is that of the roots: they need no compiler. It names the file that its
    malloc is in."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-o", folder / "program", folder / "program.c", "-ldl"], check=True)
    return folder / "program"


def artefacts(pattern: str, target: str) -> list[Path]:
    found = sorted((ROOT / "dist").glob(pattern))
    if not found:
        pytest.skip(f"no dist/{pattern} (make {target})")
    return found


def make(folder: Path) -> CleanRoot:
    try:
        return clean_root.copy(folder)
    except clean_root.NoRoot as reason:
        pytest.skip(str(reason))


def in_order(root: CleanRoot, say: Say, lines: list[str], **variables: str) -> str:
    """Runs the lines as the ordinary user, those with `sudo` as root, and says how long all of them take. The lines'
    `your-program` is ./program."""
    output, begun, before = "", time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for line in lines:
        user = 0 if line.startswith("sudo ") else USER
        words = line.removeprefix("sudo ").replace("your-program", "./program").replace("./dist/", "/dist/")
        output += root.run("bash", "-euc", words, user=user, cwd=HERE, HOME=HOME, **variables)
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    say(f"{wall:.1f} s, of which {cpu:.1f} s CPU time: {'; '.join(lines)}")
    return output


def start_here(root: CleanRoot, program: Path) -> None:
    """The empty folder, with the program in it."""
    folder = root.empty_folder(HERE)
    shutil.copy(program, folder / "program")


def without_compiler(root: CleanRoot) -> None:
    assert root.run("sh", "-c", "command -v cc gcc clang tcc", fails=True) == ""


# ---- The wheel.


@pytest.fixture(scope="module")
def by_pip(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CleanRoot, Path]]:
    """A root with Python, the wheel, and no compiler."""
    (wheel,) = artefacts(f"hakmem-*manylinux*{platform.machine()}.whl", "wheel")
    root = make(tmp_path_factory.mktemp("pip") / "root")
    root.install("python3", "python3-venv")
    root.take(wheel, to="/dist")
    start_here(root, program)
    yield root, wheel
    shutil.rmtree(root.folder, ignore_errors=True)


def in_venv(root: CleanRoot, say: Say, name: str, lines: list[str]) -> str:
    """Runs the lines in a new virtual environment. pip finds the wheel in /dist as if it were on PyPI."""
    venv = f"{HOME}/{name}"
    root.run("python3", "-m", "venv", venv, user=USER)
    variables = {"PATH": f"{venv}/bin:{clean_root.PATH}", "PIP_FIND_LINKS": "/dist", "VIRTUAL_ENV": venv}
    return in_order(root, say, lines, **variables)


def test_wheel(by_pip: tuple[CleanRoot, Path], say: Say) -> None:
    """Two commands, without a compiler."""
    root, wheel = by_pip
    without_compiler(root)
    lines = commands(INSTALLING, "test_wheel")
    assert [line.split()[0] for line in lines] == ["pip", "hakmem"]
    told = in_venv(root, say, "wheel", lines)
    found = re.search(OURS, told)
    assert found, told
    # The library is the one of dist/, and of no other package of that name.
    with zipfile.ZipFile(wheel) as archive:
        expected = hashlib.sha256(archive.read("hakmem/native/libhakmem.so")).hexdigest()
    assert hashlib.sha256((root.folder / found[1].lstrip("/")).read_bytes()).hexdigest() == expected
    without_compiler(root)


def test_readme_by_pip(by_pip: tuple[CleanRoot, Path], say: Say) -> None:
    """README's first way: run, compare and doctor."""
    told = in_venv(by_pip[0], say, "readme", commands(README, "test_readme_by_pip"))
    assert re.search(OURS, told) and "glibc" in told, told


# ---- The Debian packages.


@pytest.fixture(scope="module")
def by_apt(packages: dict[str, Path], program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CleanRoot]:
    """A root with nothing but the packages' files."""
    root = make(tmp_path_factory.mktemp("apt") / "root")
    root.take(*packages.values(), to="/dist")
    (root.folder / "etc/apt/apt.conf.d/yes").write_text('APT::Get::Assume-Yes "true";\n')
    start_here(root, program)
    yield root
    shutil.rmtree(root.folder, ignore_errors=True)


def test_package(by_apt: CleanRoot, say: Say) -> None:
    """Two commands, without a compiler."""
    lines = commands(INSTALLING, "test_package")
    assert [line.split()[0] for line in lines] == ["sudo", "hakmem"]
    assert re.search(OURS, in_order(by_apt, say, lines))
    without_compiler(by_apt)


@pytest.mark.parametrize("page", [README, INSTALLING])
def test_from_make_deb(by_apt: CleanRoot, say: Say, page: str) -> None:
    """The lines of both pages. tools/run_tests.py has run the first, `make deb`, before this suite."""
    first, *lines = commands(page, "test_from_make_deb")
    assert first == "make deb"
    assert re.search(OURS, in_order(by_apt, say, lines))


# ---- The crate.


def rust_packages(root: CleanRoot) -> str:
    """The package of a cargo that is recent enough. Debian 12 has such a one for what Debian builds for browsers."""
    for name in ("cargo", "cargo-web"):
        found = re.search(r"Candidate: (?:\d+:)?(\d+)\.(\d+)", root.start("apt-cache", "policy", name).stdout)
        # Debian numbered cargo by itself up to 0.66, which is Rust 1.65.
        if found and (int(found[1]), int(found[2])) >= LEAST_RUST:
            return name
    pytest.skip("this release has no Rust 1.85")


def test_crate(say: Say, tmp_path: Path) -> None:
    """Two commands, with cargo and a C compiler."""
    (crate,) = artefacts("hakmem-alloc-*.crate", "crate")
    root = make(tmp_path / "root")
    root.install(rust_packages(root), "gcc", "libc6-dev")
    root.take(crate, to="/dist")
    folder = root.empty_folder(HERE)
    root.run("cargo", "init", "--quiet", "--vcs", "none", "--name", "program", user=USER, cwd=HERE, HOME=HOME)
    root.run("bash", "-euc", f"tar -xf /dist/{crate.name} -C {HOME}", user=USER)
    block = re.search(r"```rust\n(.*?)```", (ROOT / README).read_text(), re.DOTALL)
    assert block
    (folder / "src/main.rs").write_text(block[1] + MAIN)
    lines = commands(INSTALLING, "test_crate")
    assert [line.split()[:2] for line in lines] == [["cargo", "add"], ["cargo", "run"]]
    assert "ours: true, 1000 bytes\n" in in_order(root, say, lines)
    shutil.rmtree(root.folder, ignore_errors=True)
