"""The statistics without waiting for the end: on a signal, and at an interval."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
from preload_runner import Runner
from test_attach import NOBODY, Target, asked, is_over, running, threads, wait_until, waits_of

pytestmark = pytest.mark.usefixtures("hakmem_only")
Program = Callable[[str], Path]
OURS = '{"schema": 1, "version": "0.0.1", "pid": 4711}\n'


def read(file: Path) -> Dict[str, Any]:
    document: Dict[str, Any] = json.loads(file.read_text())
    return document


def is_from(file: Path, pid: int) -> bool:
    return file.exists() and file.stat().st_size > 0 and bool(read(file)["pid"] == pid)


def number_of(file: Path) -> int:
    """Each new one has another; 0 where there is none."""
    return file.stat().st_ino if file.exists() else 0


def fetch(target: Target) -> str:
    """Ends the program, and says what stands in its stderr."""
    assert target.ends_well()
    assert target.process.stderr is not None
    return target.process.stderr.read()


def test_a_signal_to_stderr(program: Program, runner: Runner) -> None:
    with running([program("attach_target")], runner.library, HAKMEM_STATS_SIGNAL="USR2") as target:
        assert target.process.stderr is not None
        for _ in range(2):
            os.kill(target.pid, signal.SIGUSR2)
            for head in ("hakmem: memory\n", "hakmem: heaps\n"):
                assert head in iter(target.process.stderr.readline, ""), "it has ended"
        wait_until(lambda: is_over(target.pid))
        target.do("still there")
        assert all(line.startswith("  ") for line in fetch(target).splitlines())


def test_a_signal_to_the_file(program: Program, runner: Runner, tmp_path: Path) -> None:
    """Each replaces what the one before wrote; so does the program's end."""
    file = tmp_path / "stats.json"
    variables = {"HAKMEM_STATS_SIGNAL": "12", "HAKMEM_STATS_FILE": str(file)}
    with running([program("attach_target")], runner.library, **variables) as target:
        numbers = []
        for _ in range(3):
            before = number_of(file)
            os.kill(target.pid, signal.SIGUSR2)
            wait_until(lambda before=before: number_of(file) != before)  # type: ignore[misc]
            numbers.append(read(file)["events"]["refill"])
            target.do("threads 1")
        assert numbers == sorted(numbers)
        before = file.stat().st_ino
        assert fetch(target) == ""
        assert file.stat().st_ino != before and read(file)["pid"] == target.pid
    assert list(tmp_path.iterdir()) == [file]


def test_a_signal_while_somebody_listens(program: Program, runner: Runner, tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    variables = {"HAKMEM_STATS_SIGNAL": "usr1", "HAKMEM_STATS_FILE": str(file)}
    with running([program("attach_target")], runner.library, **variables) as target:
        asked(target.pid)
        os.kill(target.pid, signal.SIGUSR1)
        wait_until(lambda: is_from(file, target.pid))


@pytest.mark.parametrize("number", ["9", "11", "32"])
@pytest.mark.parametrize("option", ["HAKMEM_STATS_SIGNAL", "HAKMEM_ATTACH_SIGNAL"])
def test_a_signal_that_nobody_may_have(program: Program, runner: Runner, option: str, number: str) -> None:
    outcome = runner.under([program("early_and_late")], env={option: number})
    assert outcome.code == 0
    assert (
        outcome.errors() == f"hakmem: warning: {option}={number} is not used: a fault, the system or the C library "
        "uses it (see: hakmem help options)\n"
    )


def test_the_signal_of_the_tool(program: Program, runner: Runner) -> None:
    outcome = runner.under([program("early_and_late")], env={"HAKMEM_STATS_SIGNAL": "58"})
    assert outcome.code == 0
    assert (
        outcome.errors() == "hakmem: warning: HAKMEM_STATS_SIGNAL=58 is not used: it is that of HAKMEM_ATTACH_SIGNAL "
        "(see: hakmem help options)\n"
    )


def test_a_signal_that_is_in_use(program: Program, runner: Runner) -> None:
    """Inherited, here: the shell has it ignored."""
    command = ["/bin/sh", "-c", 'trap "" USR2; exec "$0"', program("attach_target")]
    with running(command, runner.library, HAKMEM_STATS_SIGNAL="USR2", HAKMEM_ATTACH_SIGNAL="0") as target:
        os.kill(target.pid, signal.SIGUSR2)
        target.do("still there")
        lines = fetch(target).splitlines()
    # The shell, which runs on it too, has not said anything: it began with the signal at its default.
    told = "hakmem: warning: HAKMEM_STATS_SIGNAL=12 is not used: the program already uses it (see: hakmem help options)"
    assert lines == [told]


def test_every_second(program: Program, runner: Runner, tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    variables = {"HAKMEM_STATS_INTERVAL": "1", "HAKMEM_STATS_FILE": str(file)}
    with running([program("attach_target")], runner.library, **variables) as target:
        wait_until(lambda: is_from(file, target.pid))
        first = file.stat().st_ino
        wait_until(lambda: file.stat().st_ino != first)
        asked(target.pid)  # beside it, and it goes on
        first = file.stat().st_ino
        wait_until(lambda: file.stat().st_ino != first)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert fetch(target) == ""
    assert list(tmp_path.iterdir()) == [file]


def test_a_shortage_is_told_once(program: Program, runner: Runner, tmp_path: Path) -> None:
    """The thread tries again at each interval; then there is memory again, and the end has its file."""
    file = tmp_path / "stats.json"
    variables = {"HAKMEM_STATS_INTERVAL": "1", "HAKMEM_STATS_FILE": str(file)}
    with running([program("attach_target")], runner.library, **variables) as target:
        wait_until(lambda: is_from(file, target.pid))
        (serving,) = (number for number, name in threads(target.pid).items() if name == "hakmem-serve")
        thread = Path(f"/proc/{target.pid}/task/{serving}")
        before = resource.prlimit(target.pid, resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))
        first = waits_of(thread)
        wait_until(lambda: waits_of(thread) >= first + 10)  # it wakes at 750 ms too
        resource.prlimit(target.pid, resource.RLIMIT_AS, before)
        lines = fetch(target).splitlines()
    reason = "cannot be written: the system refuses memory for it (see: hakmem help options)"
    assert len(lines) == 1 and lines[0].startswith("hakmem: warning: HAKMEM_STATS_FILE=") and lines[0].endswith(reason)
    assert is_from(file, target.pid)


def test_readers_never_see_half_a_file(program: Program, runner: Runner, tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    variables = {"HAKMEM_STATS_SIGNAL": "usr2", "HAKMEM_STATS_FILE": str(file)}
    with running([program("attach_target")], runner.library, **variables) as target:
        for _ in range(300):
            os.kill(target.pid, signal.SIGUSR2)
            if file.exists():
                assert read(file)["pid"] == target.pid
        wait_until(lambda: is_from(file, target.pid))
        assert fetch(target) == ""


@pytest.mark.parametrize("text", ["", OURS], ids=["empty", "of_an_earlier_run"])
def test_what_is_ours_is_replaced(program: Program, runner: Runner, tmp_path: Path, text: str) -> None:
    """And its permissions stay."""
    file = tmp_path / "stats.json"
    file.write_text(text)
    file.chmod(0o644)
    variables = {"HAKMEM_STATS_INTERVAL": "1000", "HAKMEM_STATS_FILE": str(file)}
    with running([program("attach_target")], runner.library, **variables) as target:
        assert fetch(target) == ""
        assert read(file)["pid"] == target.pid
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


@pytest.mark.parametrize("what", ["text", "symbolic_link", "hard_link", "another_users", "folder"])
def test_what_is_not_ours_stays(program: Program, runner: Runner, tmp_path: Path, what: str) -> None:
    file, other = tmp_path / "stats.json", tmp_path / "other"
    other.write_text(OURS)
    if what == "text":
        file.write_text("{}\n")
    elif what == "symbolic_link":
        file.symlink_to(other)
    elif what == "hard_link":
        os.link(other, file)
    elif what == "folder":
        file.mkdir()
    else:
        file.write_text(OURS)
        if os.geteuid() != 0:
            pytest.skip("only root may give files away")
        os.chown(file, NOBODY, NOBODY)
    before = os.lstat(file)
    variables = {"HAKMEM_STATS_INTERVAL": "1", "HAKMEM_STATS_SIGNAL": "usr2", "HAKMEM_STATS_FILE": str(file)}
    with running([program("attach_target")], runner.library, **variables) as target:
        os.kill(target.pid, signal.SIGUSR2)
        (line,) = fetch(target).splitlines()
    assert line.startswith("hakmem: warning: HAKMEM_STATS_FILE=/") and " cannot be written: it " in line
    assert os.lstat(file).st_ino == before.st_ino and other.read_text() == OURS
    assert {path.name for path in tmp_path.iterdir()} == {"stats.json", "other"}


def test_children_write_files_of_their_own(program: Program, runner: Runner, tmp_path: Path) -> None:
    variables = {"HAKMEM_STATS_INTERVAL": "1", "HAKMEM_STATS_FILE": str(tmp_path / "%p.json")}
    with running([program("attach_target")], runner.library, **variables) as target:
        child = int(target.do("fork"))
        try:
            for pid in (child, target.pid):
                wait_until(lambda pid=pid: is_from(tmp_path / f"{pid}.json", pid))  # type: ignore[misc]
        finally:
            os.kill(child, signal.SIGKILL)


def test_one_name_is_the_parents(program: Program, runner: Runner, tmp_path: Path) -> None:
    """The child says nothing, and writes nothing, at its end neither."""
    if shutil.which("perl") is None:
        pytest.skip("not installed: perl")
    file = tmp_path / "stats.json"
    variables = {"HAKMEM_STATS_INTERVAL": "1000", "HAKMEM_STATS_SIGNAL": "usr2", "HAKMEM_STATS_FILE": str(file)}
    variables["LC_ALL"] = "C"  # of another locale that is not installed perl warns
    outcome = runner.under(["perl", "-e", "fork // die; exit 0"], env=variables)
    assert (outcome.code, outcome.errors()) == (0, "")
    with running([program("attach_target")], runner.library, **variables) as target:
        child = int(target.do("fork"))
        try:
            os.kill(child, signal.SIGUSR2)
            asked(child)
            os.kill(target.pid, signal.SIGUSR2)
            wait_until(lambda: is_from(file, target.pid))
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_new_user_goes_on_writing(program: Program, runner: Runner, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can change its user")
    folder = Path(f"/tmp/hakmem-stats-{os.getpid()}")  # pytest's own folders are closed to others
    folder.mkdir()
    try:
        os.chown(folder, NOBODY, NOBODY)
        file = folder / "stats.json"
        variables = {"HAKMEM_STATS_INTERVAL": "1", "HAKMEM_STATS_FILE": str(file)}
        with running([program("attach_target")], runner.library, **variables) as target:
            target.do(f"user {NOBODY}")
            target.do("spin")  # a request starts the thread with the new rights
            wait_until(lambda: is_from(file, target.pid))
            assert file.stat().st_uid == NOBODY
    finally:
        subprocess.run(["rm", "-r", str(folder)], check=True)
