"""No thread of the library keeps rights for long that the program's first thread has given up, whatever can be read."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Callable, Dict, Iterator, List

import pytest
from preload_runner import Runner
from test_attach import NOBODY, environment, threads, wait_until

pytestmark = [
    pytest.mark.usefixtures("hakmem_only"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to give up"),
]
Program = Callable[[str], Path]
RIGHTS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
# What a thread may have given up beyond the first one's: sets of capabilities, as bits.
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
OURS = ("hakmem-serve", "hakmem-purge")


class Dropper:
    """Runs the program, and sends it commands."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.pid = process.pid
        self._wait()

    def do(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        self._wait()

    def _wait(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ok\n", self.process.poll()

    def status(self, thread: int) -> Dict[str, str]:
        """Of one thread, by label; empty when it has ended."""
        with suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{self.pid}/task/{thread}/status").read_text().splitlines()
            return {label: value.strip() for label, _, value in (line.partition(":") for line in lines)}
        return {}

    def ours(self) -> List[int]:
        return [number for number, name in threads(self.pid).items() if name in OURS]

    def has_thread(self, name: str) -> bool:
        return name in threads(self.pid).values()

    def too_many_rights(self) -> List[str]:
        """What a thread of ours has and the first one has not."""
        first = self.status(self.pid)
        return [
            f"{status['Name']}: {label} {status[label]}"
            for status in map(self.status, self.ours())
            for label in (*RIGHTS, "NoNewPrivs", "Seccomp") if status and has_more(label, status[label], first[label])
        ]  # fmt: skip


def has_more(label: str, own: str, first: str) -> bool:
    if label in SETS:
        return int(own, 16) & ~int(first, 16) != 0
    if label in ("NoNewPrivs", "Seccomp"):
        return int(own) < int(first)
    if label == "Groups":
        return not set(own.split()) <= set(first.split())
    return own != first


@contextmanager
def dropper(program: Program, runner: Runner, variables: Dict[str, str]) -> Iterator[Dropper]:
    process = subprocess.Popen(
        [program("drop_rights")], env=environment(runner.library, variables), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with process:
        try:
            yield Dropper(process)
        finally:
            process.kill()


@pytest.fixture
def jail(tmp_path: Path) -> Path:
    """A folder without /proc, in which paths of the test's folder are there too."""
    tmp_path.chmod(0o755)
    folder = tmp_path / "jail"
    inner = folder / str(tmp_path).lstrip("/")
    inner.mkdir(parents=True)
    for one in (folder, *folder.rglob("*")):  # whatever the umask is
        one.chmod(0o755)
    inner.chmod(0o777)
    return folder


@pytest.mark.parametrize("how", ["user", "capabilities", "groups", "all"])
@pytest.mark.parametrize("hidden", ["nothing", "jail", "files"])
def test_no_thread_of_ours_keeps_more(
    program: Program, runner: Runner, tmp_path: Path, jail: Path, hidden: str, how: str
) -> None:
    variables = {"HAKMEM_STATS_FILE": str(tmp_path / "stats.json"), "HAKMEM_STATS_INTERVAL": "1"}
    with dropper(program, runner, variables) as found:
        wait_until(lambda: all(found.has_thread(name) for name in OURS))
        if hidden != "nothing":
            found.do(f"{hidden} {jail}")
        found.do(how)
        wait_until(lambda: not found.too_many_rights())
        for _ in range(10):
            time.sleep(0.1)
            # A thread that ends, or is just made by a thread with other rights, has a second.
            wait_until(lambda: not found.too_many_rights())


def test_the_file_is_renewed_with_the_rights_of_now(
    program: Program, runner: Runner, tmp_path: Path, jail: Path
) -> None:
    """Where there is no /proc either: the first thread's next request has made the new thread. No signal of the library
    ends a wait of the program early."""
    file = tmp_path / "stats.json"
    variables = {"HAKMEM_STATS_FILE": str(file), "HAKMEM_STATS_INTERVAL": "1"}
    inner = jail / str(file).lstrip("/")
    with dropper(program, runner, variables) as found:
        wait_until(lambda: found.has_thread("hakmem-serve"))
        found.do(f"jail {jail}")
        found.do("all")
        found.do("wait 2000")
        assert not found.has_thread("hakmem-serve")
        found.do("request")
        wait_until(lambda: inner.exists() and inner.stat().st_uid == NOBODY)
        first = inner.stat().st_ino
        wait_until(lambda: inner.exists() and inner.stat().st_ino != first)
        assert found.too_many_rights() == []


def test_a_filter_ends_ours_and_asks_nothing_of_the_first_thread(
    program: Program, runner: Runner, tmp_path: Path
) -> None:
    variables = {"HAKMEM_STATS_FILE": str(tmp_path / "stats.json"), "HAKMEM_STATS_INTERVAL": "1"}
    with dropper(program, runner, variables) as found:
        wait_until(lambda: all(found.has_thread(name) for name in OURS))
        found.do("filter")
        wait_until(lambda: not found.ours())
