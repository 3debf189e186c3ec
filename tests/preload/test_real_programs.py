"""Programs that are already on the machine do real work under the library: the same output, errors and exit code.

Each runs HAKMEM_TEST_REPEAT times. A program that is not installed is skipped by name.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Outcome, Runner, without_times

MATERIAL = Path(__file__).resolve().parent / "material"


def need(*names: str) -> None:
    """Skip where one of the programs is absent."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with some text in it, the same every time."""
    folder = tmp_path / "tree"
    folder.mkdir()
    state = 1
    for file_number in range(60):
        lines = []
        for _ in range(600):
            state = (state * 1103515245 + 12345) % 2**31
            lines.append(f"{state % 9973} line of file {file_number} {'x' * (state >> 16 & 31)}\n")
        (folder / f"file{file_number}").write_text("".join(lines))
    return folder


def renew(folder: Path) -> Callable[[], None]:
    """Each run must find the folder empty."""

    def prepare() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    return prepare


# One program, one input, nothing written but its output.
SIMPLE: dict[str, list[object]] = {
    "perl": ["perl", MATERIAL / "words.pl"],
    "ruby": ["ruby", MATERIAL / "objects.rb"],
    "node": ["node", MATERIAL / "objects.js"],
    "php": ["php", MATERIAL / "extensions.php"],
    "z3": ["z3", MATERIAL / "puzzle.smt2"],
    "gs": [
        *["gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=ppmraw", "-r72", "-sOutputFile=-"],
        MATERIAL / "drawing.ps",
    ],
}


@pytest.mark.parametrize("name", SIMPLE)
def test_script(runner: Runner, name: str) -> None:
    need(name)
    without = runner.same(SIMPLE[name])
    assert without.code == 0 and without.stdout
    runner.assert_malloc_is_ours(SIMPLE[name])


def test_sqlite(runner: Runner) -> None:
    need("sqlite3")
    without = runner.same(["sqlite3", ":memory:"], stdin=(MATERIAL / "tables.sql").read_bytes())
    assert without.code == 0 and without.stdout.endswith(b"ok\n")
    runner.assert_malloc_is_ours(["sqlite3", ":memory:", "SELECT 1"])


def test_sqlite_on_disk(runner: Runner, tmp_path: Path) -> None:
    need("sqlite3")
    folder = tmp_path / "database"
    script = (MATERIAL / "tables.sql").read_bytes().replace(b"journal_mode = MEMORY", b"journal_mode = WAL")
    runner.same(["sqlite3", folder / "file.db"], prepare=renew(folder), stdin=script)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_compiling_cxx(runner: Runner, tmp_path: Path, compiler: str) -> None:
    """The same object file, and a program that runs: compiler proper, assembler and linker run under hakmem too."""
    need(compiler)
    target = tmp_path / "containers.o"
    command = [compiler, "-std=c++17", "-O2", "-c", MATERIAL / "containers.cc", "-o", target]

    def made(outcome: Outcome) -> object:
        assert outcome.code == 0
        return outcome, target.read_bytes()

    runner.same(command, normalise=made)
    link_and_run = 'set -e; "$0" "$1" -o "$2"; "$2"'
    without = runner.same(["/bin/sh", "-c", link_and_run, compiler, target, tmp_path / "containers"])
    assert without.code == 0 and without.stdout
    runner.assert_malloc_is_ours(["/bin/sh", "-c", f"echo 'int main() {{}}' | {compiler} -x c++ - -o /dev/null"])


def test_cmake_and_make(runner: Runner, tmp_path: Path) -> None:
    need("cmake", "make", "cc")
    folder = tmp_path / "build"
    script = 'cmake -G "Unix Makefiles" -S "$0" -B . && cmake --build . -j2 && ./sample'
    without = runner.same(
        ["/bin/sh", "-c", script, MATERIAL / "project"],
        prepare=renew(folder),
        # Two jobs at once: the order of their lines is not given.
        normalise=lambda outcome: (outcome.code, sorted(without_times(outcome.text()).splitlines()), outcome.stderr),
        cwd=folder,
    )
    assert without.code == 0 and b"42" in without.stdout
    runner.assert_malloc_is_ours(["cmake", "--version"])
    runner.assert_malloc_is_ours(["make", "--version"])


def run_in_folder(runner: Runner, script: str, folder: Path, programs: list[str], also: Path) -> Outcome:
    """A script of material/, in a folder that is made anew each time, with a copy of `also` in it."""

    def prepare() -> None:
        renew(folder)()
        shutil.copytree(also, folder / also.name)

    without = runner.same(["/bin/sh", MATERIAL / script], prepare=prepare, cwd=folder)
    assert without.code == 0 and without.stdout
    for name in programs:
        if shutil.which(name):
            runner.assert_malloc_is_ours([name, "--version"])
    return without


def test_git(runner: Runner, tmp_path: Path, tree: Path) -> None:
    need("git")
    run_in_folder(runner, "git.sh", tmp_path / "work", ["git"], tree)


def test_archives(runner: Runner, tmp_path: Path, tree: Path) -> None:
    need("tar")
    run_in_folder(runner, "archive.sh", tmp_path / "work", ["tar", "gzip", "bzip2", "xz", "zstd"], tree)


def test_redis(runner: Runner, tmp_path: Path) -> None:
    """Debian's redis is linked with jemalloc, and calls it by the C library's names: the preload serves it."""
    need("redis-server", "redis-cli", "redis-benchmark")
    folder = tmp_path / "r"
    without = runner.same(["/bin/sh", MATERIAL / "redis.sh"], prepare=renew(folder), cwd=folder)
    assert without.code == 0 and without.stdout.endswith(b"server ended with 0\n"), without.text()
    log = (folder / "log").read_text(errors="replace")
    assert "hakmem:" not in log and "crash" not in log.lower()
    runner.assert_malloc_is_ours(["redis-server", "--version"])


def test_java(runner: Runner, tmp_path: Path) -> None:
    """A program where there is a compiler, the start of the virtual machine at least."""
    need("java")
    if shutil.which("javac"):
        assert runner.plain(["javac", "-d", tmp_path, MATERIAL / "Start.java"]).code == 0
        command: list[object] = ["java", "-cp", tmp_path, "Start"]
    else:
        command = ["java", "-version"]
    without = runner.same(command)
    assert without.code == 0
    runner.assert_malloc_is_ours(["java", "-version"])


def test_javac(runner: Runner, tmp_path: Path) -> None:
    need("javac")
    folder = tmp_path / "classes"

    def made(outcome: Outcome) -> object:
        assert outcome.code == 0
        return outcome, {file.name: file.read_bytes() for file in folder.iterdir()}

    runner.same(["javac", "-d", folder, MATERIAL / "Start.java"], prepare=renew(folder), normalise=made)


NUMBERS = "".join(f"{number * 7919 % 1000003} {number}\n" for number in range(200000)).encode()

TEXT_TOOLS: dict[str, list[object]] = {
    "sort": ["sort", "-n", "--parallel=2", "-S", "2M"],
    "sort -u": ["sort", "-u", "-k2"],
    "sed": ["sed", "-E", "s/([0-9])([0-9]+)/\\2-\\1/g; /77/d; N; P; D"],
    "awk": ["awk", "-f", MATERIAL / "table.awk"],
    "grep": ["grep", "-E", "(12|21)+3?.*9$"],
    "tr": ["tr", "0-9", "a-j"],
    "bash": ["bash", "-c", 'declare -A t; while read -r a b; do t[$((a % 500))]+=$b; [ "$b" -lt 5000 ] || break; done; '
             'for k in "${!t[@]}"; do echo "$k ${#t[$k]}"; done | sort -n'],
    "openssl": ["openssl", "dgst", "-sha256"],
    "bc": ["bc", "-lq"],
    "dd": ["dd", "bs=8M", "status=none"],
}  # fmt: skip


@pytest.mark.parametrize("name", TEXT_TOOLS)
def test_text_tools(runner: Runner, name: str) -> None:
    need(str(TEXT_TOOLS[name][0]))
    stdin = b"scale=2000\n4*a(1)\n2^20000 % 977\n" if name == "bc" else NUMBERS
    without = runner.same(TEXT_TOOLS[name], stdin=stdin)
    assert without.code == 0 and without.stdout
    runner.assert_malloc_is_ours(TEXT_TOOLS[name])


def test_find_and_pipes(runner: Runner, tree: Path) -> None:
    """A dozen short programs at once."""
    need("find", "xargs")
    script = "find . -type f | sort | xargs -n 5 wc -l | awk '{ n += $1 } END { print n }'; ls -la | wc -l"
    assert runner.same(["/bin/sh", "-c", script], cwd=tree).code == 0
