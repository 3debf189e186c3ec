"""Asking a running program what it holds: one that was started by LD_PRELOAD and nothing else."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest
from preload_runner import Runner
from under_allocator import environment

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cli"))
pytest.importorskip("click", reason="the packages of cli/requirements.txt are missing (./hakmem installs them)")
from hakmem.attach import Refused, attach
from hakmem.errors import Failure
from hakmem.watched import Thread, Watched

pytestmark = pytest.mark.usefixtures("hakmem_only")
Program = Callable[[str], Path]
Scaled = Callable[[int], int]
ATTACH_SIGNAL = 58
DEADLINE_SECONDS = 60.0
NOBODY = 65534


class Target:
    """The program, and the lines it obeys."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        self.do("ready")

    def do(self, line: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer.endswith("ok\n"), (line, answer, self.process.poll())
        return answer[: -len("ok\n")].strip()

    def ends_well(self) -> bool:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(DEADLINE_SECONDS) == 0


@contextmanager
def running(command: List[object], library: Path, **variables: str) -> Iterator[Target]:
    process = subprocess.Popen(
        [str(word) for word in command], env=environment(library, variables),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            yield Target(process)
        finally:
            process.kill()


@pytest.fixture
def target(program: Program, runner: Runner) -> Iterator[Target]:
    """The program with nothing but LD_PRELOAD."""
    with running([program("attach_target")], runner.library) as found:
        yield found


def asked(pid: int) -> Dict[str, Any]:
    with attach(pid) as attached:
        document: Dict[str, Any] = json.loads(attached.ask("stats json"))
    assert document["pid"] == pid
    return document


def threads(pid: int) -> Dict[int, str]:
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            found[int(task.name)] = (task / "comm").read_text().strip()
    return found


def serve_thread(pid: int) -> int:
    (found,) = (number for number, name in threads(pid).items() if name == "hakmem-serve")
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.005)


def waits_of(thread: Path) -> int:
    """How often it has gone to sleep."""
    (found,) = re.findall(r"^voluntary_ctxt_switches:\t(\d+)$", (thread / "status").read_text(), re.MULTILINE)
    return int(found)


def is_over(pid: int) -> bool:
    return "hakmem-serve" not in threads(pid).values()


def holdings(pid: int) -> List[int]:
    """Threads, descriptors and mappings."""
    return [len(list(Path(f"/proc/{pid}/{name}").iterdir())) for name in ("task", "fd")] + [
        len(Path(f"/proc/{pid}/maps").read_text().splitlines())
    ]


# Whatever the program does.


def test_idle_in_a_system_call(target: Target) -> None:
    """One thread, which waits in read: that goes on as if nothing had been."""
    assert asked(target.pid)["memory"]["in_use"] > 0
    wait_until(lambda: is_over(target.pid))
    assert list(threads(target.pid).values()) == ["attach_target"]
    assert target.ends_well()


def test_several_questions_to_one_connection(target: Target) -> None:
    with attach(target.pid) as attached:
        first = json.loads(attached.ask("stats json"))
        assert attached.ask("stats text").startswith(b"hakmem: memory\n")
        assert int(attached.ask("collect")) >= 0
        with pytest.raises(Refused, match="unknown command"):
            attached.ask("stats of the neighbours")
        with pytest.raises(Refused, match="unknown command"):
            attached.ask("stats jsons")
        assert json.loads(attached.ask("stats json"))["memory"].keys() == first["memory"].keys()
        with pytest.raises(Refused, match="the command is too long"):
            attached.ask("x" * 1000)
    assert target.ends_well()


def test_it_spins_in_malloc(target: Target) -> None:
    for _ in range(3):
        target.do("spin")
    before = asked(target.pid)["events"]["refill"]
    for _ in range(20):
        after = asked(target.pid)["events"]["refill"]
        assert after >= before
        before = after
    assert target.ends_well()


def test_many_threads(target: Target) -> None:
    target.do("threads 50")
    assert asked(target.pid)["memory"]["heaps"] >= 1
    assert len(threads(target.pid)) >= 51


def test_several_at_once(target: Target) -> None:
    """A terminal and a scraper; the fifth is told."""
    clients = [attach(target.pid) for _ in range(4)]
    for client in clients:
        assert json.loads(client.ask("stats json"))["pid"] == target.pid
    with pytest.raises(Refused, match="too many clients"):
        attach(target.pid)
    clients.pop().close()
    wait_until(lambda: len(list(Path(f"/proc/{target.pid}/fd").iterdir())) == 3 + 1 + 3)
    attach(target.pid).close()
    for client in clients:
        client.close()
    wait_until(lambda: is_over(target.pid))


def test_a_child_of_fork(target: Target) -> None:
    """It answers for itself, and its parent's end changes nothing."""
    with attach(target.pid) as attached:
        child = int(target.do("fork"))
        try:
            assert threads(child).keys() == {child}
            wait_until(lambda: len(list(Path(f"/proc/{child}/fd").iterdir())) == 3)
            assert asked(child)["pid"] == child
            assert json.loads(attached.ask("stats json"))["pid"] == target.pid
        finally:
            os.kill(child, signal.SIGKILL)
    assert asked(target.pid)["pid"] == target.pid
    assert target.ends_well()


def test_it_closes_all_descriptors(target: Target) -> None:
    with attach(target.pid) as attached:
        target.do("close")
        with pytest.raises(Failure, match="gives no answer"):
            attached.ask("stats json", seconds=1)
    asked(target.pid)
    assert target.ends_well()


def pipes(pid: int) -> dict[str, str]:
    """Returns its descriptors that are pipes. The library opens sockets and files, sometimes for a moment."""
    found = {}
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[path.name] = os.readlink(path)
    return {name: file for name, file in found.items() if file.startswith("pipe:")}


def test_its_own_descriptors_get_our_numbers(target: Target) -> None:
    """Nothing is read from them, written to them, or closed."""
    with attach(target.pid):
        target.do("close")
        target.do("reuse")
        before = pipes(target.pid)
        assert len(before) > 100
        wait_until(lambda: asked(target.pid)["pid"] == target.pid)
    wait_until(lambda: is_over(target.pid))
    assert pipes(target.pid) == before


def test_the_program_ends_with_its_own_last_thread(target: Target) -> None:
    with attach(target.pid):
        target.do("leave")
        assert target.process.wait(DEADLINE_SECONDS) == 0


def test_it_changes_its_user(target: Target) -> None:
    """What answers has the new rights, and no thread with the old ones stays."""
    if os.geteuid() != 0:
        pytest.skip("only root can change its user")
    with attach(target.pid):
        old = serve_thread(target.pid)
        target.do(f"user {NOBODY}")
        wait_until(lambda: old not in threads(target.pid))
    document = asked(target.pid)
    assert document["pid"] == target.pid
    with attach(target.pid):
        for number in threads(target.pid):
            status = Path(f"/proc/{target.pid}/task/{number}/status").read_text()
            assert f"Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}\n" in status
    assert target.ends_well()


def test_nothing_is_left_behind(target: Target, scaled: Scaled) -> None:
    asked(target.pid)
    wait_until(lambda: is_over(target.pid))
    before = holdings(target.pid)
    for _ in range(scaled(1000)):
        attach(target.pid).close()
    wait_until(lambda: holdings(target.pid) == before)
    assert target.ends_well()


def test_linked_with_the_archive(linked: Callable[..., Path]) -> None:
    """Nothing in its mappings has our name."""
    process = subprocess.Popen(
        [linked("attach_target.c", "-static")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            found = Target(process)
            asked(found.pid)
            assert found.ends_well()
        finally:
            process.kill()


def test_the_purge_thread_listens(program: Program, runner: Runner) -> None:
    """Where the program's own threads block every signal; and what the program sends to itself still reaches it."""
    process = subprocess.Popen(
        [program("attach_purge")], env=environment(runner.library, {"HAKMEM_MODE": "lean"}),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        try:
            assert process.stdin is not None and process.stdout is not None
            assert int(process.stdout.readline()) in threads(process.pid)
            asked(process.pid)
            assert process.communicate("go on\n", timeout=DEADLINE_SECONDS) == ("ok\n", None)
            assert process.returncode == 0
        finally:
            process.kill()


# Files in the way.


def test_no_such_process() -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    with pytest.raises(Failure, match=rf"there is no process {process.pid}$"):
        attach(process.pid)


def test_not_ours(program: Program) -> None:
    with (
        running([program("attach_target")], Path("/dev/null")) as target,
        pytest.raises(Failure, match="does not run on hakmem"),
    ):
        attach(target.pid)


def test_all_signals_are_blocked(target: Target) -> None:
    target.do("block")
    target.do("threads 3")
    with pytest.raises(Failure, match=f"all threads of process {target.pid} .* block signal {ATTACH_SIGNAL}"):
        attach(target.pid)
    assert target.ends_well()


def test_signals_are_blocked_for_a_moment(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by the C library, while it forks."""
    look, looks = Watched.threads, itertools.count()

    def threads(process: Watched) -> Iterator[Thread]:
        blocks_all = next(looks) < 3
        return (replace(thread, blocked=2**64 - 1) if blocks_all else thread for thread in look(process))

    monkeypatch.setattr(Watched, "threads", threads)
    with attach(target.pid) as attached:
        assert json.loads(attached.ask("stats json"))["pid"] == target.pid


def test_it_is_stopped(target: Target) -> None:
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: "State:\tT" in Path(f"/proc/{target.pid}/status").read_text())
    with pytest.raises(Failure, match="is stopped"):
        attach(target.pid)
    os.kill(target.pid, signal.SIGCONT)
    asked(target.pid)


def test_the_program_takes_the_signal(target: Target) -> None:
    target.do(f"handle {ATTACH_SIGNAL}")
    with pytest.raises(Failure, match="does not answer"):
        attach(target.pid, seconds=0.5)
    assert int(target.do("count")) > 0


def test_it_may_have_no_descriptor(program: Program, runner: Runner) -> None:
    command = ["/bin/sh", "-c", 'ulimit -n 4; exec "$0"', program("attach_target")]
    with running(command, runner.library) as target:
        with pytest.raises(Failure, match="does not answer"):
            attach(target.pid, seconds=0.5)
        thread = Path(f"/proc/{target.pid}/task/{serve_thread(target.pid)}")
        wait_until(lambda: (thread / "syscall").read_text().split()[0] != "running")
        before = waits_of(thread)
        wait_until(lambda: waits_of(thread) > before)  # it sleeps, and does not spin, until it is over
        assert target.ends_well()


def test_it_may_have_few_descriptors(program: Program, runner: Runner) -> None:
    """Fewer than the numbers that ours are far from."""
    command = ["/bin/sh", "-c", 'ulimit -n 64; exec "$0"', program("attach_target")]
    with running(command, runner.library) as target:
        with attach(target.pid) as attached:
            assert json.loads(attached.ask("stats json"))["pid"] == target.pid
        assert target.ends_well()


def test_switched_off(program: Program, runner: Runner) -> None:
    with running([program("attach_target")], runner.library, HAKMEM_ATTACH_SIGNAL="0") as target:
        status = Path(f"/proc/{target.pid}/status").read_text()
        assert "SigCgt:\t0000000000000000\n" in status
        with pytest.raises(Failure, match="HAKMEM_ATTACH_SIGNAL=0"):
            attach(target.pid)


def test_another_signal(program: Program, runner: Runner) -> None:
    with running([program("attach_target")], runner.library, HAKMEM_ATTACH_SIGNAL="usr1") as target:
        asked(target.pid)
        os.kill(target.pid, signal.SIGUSR1)  # not the tool's: nothing
        target.do("still there")
        assert target.ends_well()


def test_another_user(target: Target) -> None:
    """Neither does the tool try, nor does the process answer."""
    if os.geteuid() != 0:
        pytest.skip("only root can be two users")
    with attach(target.pid):
        child = os.fork()
        if child == 0:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            try:
                attach(target.pid)
            except Failure as failure:
                refused_by_tool = "belongs to root" in failure.message
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.connect(f"\0hakmem/{target.pid}")
                answer = connection.recv(1000)
                os._exit(
                    0 if refused_by_tool and answer == b"error the process answers only its own user and root\n" else 1
                )
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def as_nobody(body: Callable[[], object]) -> str:
    """Returns what a child of fork that runs as user 65534 answers."""
    answers, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(told, str(body()).encode())
        finally:
            os._exit(0)
    os.close(told)
    with open(answers, encoding="utf-8") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


def open_to_all(program: Path, library: Path, folder: Path) -> tuple[Path, Path]:
    """Copies in a folder that each user may search."""
    folder.chmod(0o755)
    copies = [Path(shutil.copy(path, folder)) for path in (program, library)]
    for copy in copies:
        copy.chmod(0o755)
    return copies[0], copies[1]


@pytest.fixture
def public() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_the_user_nobody(program: Program, runner: Runner, public: Path) -> None:
    """In a namespace that has every user, its number is that of no other one."""
    if os.geteuid() != 0 or Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
        pytest.skip("only root can become another user, and only here is it one user")
    command, library = open_to_all(program("attach_target"), runner.library, public)

    def ask() -> object:
        with running([command], library) as target:
            try:
                return asked(target.pid)["pid"] == target.pid
            except Failure as failure:
                return failure.message

    assert as_nobody(ask) == "True"


def test_users_without_a_number(program: Program, runner: Runner, public: Path) -> None:
    """In a namespace of its own each of them has the number 65534."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.call([unshare, "-U", "true"], stderr=subprocess.DEVNULL) != 0:
        pytest.skip("no user namespace can be made")
    command, library = open_to_all(program("attach_target"), runner.library, public)
    reason = "users without a number in its namespace share 65534, the number of its own user"
    with running([unshare, "-U", "--", command], library) as target, pytest.raises(Refused, match=reason):
        asked(target.pid)


def test_somebody_else_has_the_name(target: Target) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.bind(f"\0hakmem/{target.pid}")
        stranger.listen()
        asked(target.pid)


def test_with_raised_rights(linked: Callable[..., Path], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a program that belongs to somebody else")
    program = tmp_path / "attach_target"
    program.write_bytes(linked("attach_target.c", "-static").read_bytes())
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o4755)
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            found = Target(process)
            status = Path(f"/proc/{found.pid}/status").read_text()
            if "Uid:\t0\t0" in status:
                pytest.skip(f"{tmp_path} is mounted without setuid")
            assert "SigCgt:\t0000000000000000\n" in status
            with pytest.raises(Failure, match="raised rights"):
                attach(found.pid)
        finally:
            process.kill()
