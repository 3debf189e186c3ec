"""HAKMEM_LEARN_FILE: what one run has learned, for the next one; and files that are of no use."""

from __future__ import annotations

import os
import stat
import struct
import zlib
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Outcome, Runner, with_limit

pytestmark = pytest.mark.usefixtures("hakmem_only")
Program = Callable[[str], Path]
WELL = Outcome(7, b"", b"")
MAGIC = b"hkLEARN\n"


def learn(runner: Runner, program: Program, path: Path, mode: str = "") -> Outcome:
    """A program that learns something: a gap ends in it."""
    return runner.under([program("levels"), mode], env={"HAKMEM_LEARN_FILE": str(path)})


def epoch(record: bytes) -> int:
    """How many epochs the record knows, which must be whole."""
    assert record.startswith(MAGIC)
    assert struct.unpack("<I", record[-4:])[0] == zlib.crc32(record[:-4])
    return int(struct.unpack_from("<Q", record, 24)[0])


def with_checksum(record: bytes) -> bytes:
    """The same with the right checksum."""
    return record[:-4] + struct.pack("<I", zlib.crc32(record[:-4]))


def one_warning(outcome: Outcome, said: str) -> None:
    assert (outcome.code, outcome.stdout) == (7, b"")
    lines = outcome.errors().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("hakmem: warning: HAKMEM_LEARN_FILE=") and said in lines[0]


@pytest.fixture
def record(runner: Runner, program: Program, tmp_path: Path) -> Path:
    """The file after a first run, which finds none."""
    path = tmp_path / "learned"
    assert learn(runner, program, path) == WELL
    return path


def test_a_run_goes_on_where_the_last_one_was(runner: Runner, program: Program, record: Path) -> None:
    first = epoch(record.read_bytes())
    assert first > 0
    assert learn(runner, program, record) == WELL
    assert epoch(record.read_bytes()) > first
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert list(record.parent.iterdir()) == [record], "nothing is left beside it"


def test_who_learns_nothing_leaves_it_alone(runner: Runner, record: Path) -> None:
    before = record.stat()
    runner.expect(["/bin/true"], "", env={"HAKMEM_LEARN_FILE": str(record)})
    assert (record.stat().st_ino, record.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("how", ["off", "frozen"])
def test_without_learning_it_is_left_alone(runner: Runner, program: Program, record: Path, how: str) -> None:
    good = record.read_bytes()
    env = {"HAKMEM_LEARN_FILE": str(record), "HAKMEM_LEARN": how}
    assert runner.under([program("levels")], env=env) == WELL
    assert record.read_bytes() == good


def test_what_is_learned_at_another_price_stays(runner: Runner, program: Program, record: Path) -> None:
    good = record.read_bytes()
    env = {"HAKMEM_LEARN_FILE": str(record), "HAKMEM_MODE": "lean"}
    one_warning(runner.under([program("levels")], env=env), "was learned at another price: it is left alone")
    assert record.read_bytes() == good


def test_only_the_process_that_loaded_it_saves(runner: Runner, program: Program, tmp_path: Path) -> None:
    assert learn(runner, program, tmp_path / "learned", "leave") == WELL
    assert not list(tmp_path.iterdir()), "the child has learned, and the parent left without saving"
    outcome = learn(runner, program, tmp_path / "learned", "fork")
    assert (outcome.code, outcome.errors()) == (7, "")
    assert epoch((tmp_path / "learned").read_bytes()) > 0


# ---- Files that are of no use.


def test_a_damaged_one_is_replaced(runner: Runner, program: Program, record: Path) -> None:
    good = record.read_bytes()
    for bad in (good[:-1], good + b"x", good[:30] + bytes([good[30] ^ 4]) + good[31:]):
        record.write_bytes(bad)
        one_warning(learn(runner, program, record), "is damaged: it is not used, and will be replaced")
        assert 0 < epoch(record.read_bytes()) <= epoch(good)
    record.write_bytes(b"")
    one_warning(learn(runner, program, record), "it is not used, and will be replaced")
    assert epoch(record.read_bytes()) > 0


def test_what_is_no_record_stays(runner: Runner, program: Program, record: Path) -> None:
    good = record.read_bytes()
    strangers = {
        b"a letter to a friend": "is no record of what was learned",
        b"\0" * 100000: "is no record of what was learned",
        with_checksum(good[:8] + b"\2\0\0\0" + good[12:]): "has another version of the format",
        with_checksum(good[:16] + struct.pack("<Q", 12345) + good[24:]): "was learned at another price",
    }
    for content, said in strangers.items():
        record.write_bytes(content)
        one_warning(learn(runner, program, record), f"{said}: it is left alone")
        assert record.read_bytes() == content


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder", "device"])
def test_what_is_no_regular_file_stays(runner: Runner, program: Program, record: Path, kind: str) -> None:
    path, good = record.parent / "path", record.read_bytes()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/full")
    else:
        path.symlink_to(record if kind == "link" else "none")
    mode = path.lstat().st_mode
    one_warning(learn(runner, program, path), "cannot be read: it is no regular file")
    assert path.lstat().st_mode == mode and record.read_bytes() == good
    assert len(list(record.parent.iterdir())) == (1 if kind == "device" else 2)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_one_without_rights(runner: Runner, program: Program, record: Path) -> None:
    record.chmod(0)
    one_warning(learn(runner, program, record), "cannot be read: permission denied")


# ---- What cannot be written.


def test_a_folder_that_is_missing(runner: Runner, program: Program, tmp_path: Path) -> None:
    one_warning(learn(runner, program, tmp_path / "none" / "learned"), "cannot be written: its folder does not exist")


def test_a_folder_without_rights(runner: Runner, program: Program, tmp_path: Path) -> None:
    folder = Path("/proc/self") if os.geteuid() == 0 else tmp_path
    if folder == tmp_path:
        folder.chmod(0o555)
    one_warning(learn(runner, program, folder / "no-such-file"), "cannot be written")


def test_a_limit_on_files_costs_what_was_learned_and_not_the_program(
    runner: Runner, program: Program, record: Path
) -> None:
    good = record.read_bytes()
    command = with_limit("-f", 0, [program("levels")])
    outcome = runner.under(command, env={"HAKMEM_LEARN_FILE": str(record)})
    one_warning(outcome, "cannot be written: no space is left, or allowed")
    assert record.read_bytes() == good and list(record.parent.iterdir()) == [record]


def test_a_path_that_is_too_long(runner: Runner, program: Program) -> None:
    one_warning(learn(runner, program, Path("/tmp/" + "x" * 3000)), "its name is too long")


def test_a_failure_at_the_end_is_told_on_no_file_of_the_program(
    runner: Runner, program: Program, tmp_path: Path
) -> None:
    """The name is too long for the file that replaces it. The program has closed stderr by then."""
    for name in ("x" * 250, "-" + "x" * 250):
        command = [program("levels"), "close", tmp_path / "own"]
        assert runner.under(command, env={"HAKMEM_LEARN_FILE": name}, cwd=tmp_path) == WELL
        assert (tmp_path / "own").read_bytes() == b""


def test_an_empty_path_is_none(runner: Runner, program: Program) -> None:
    assert runner.under([program("levels")], env={"HAKMEM_LEARN_FILE": ""}) == WELL
