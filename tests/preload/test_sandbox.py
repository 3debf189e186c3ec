"""Programs that install a system call filter, which ends them for a call that it does not name, and then use malloc."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Callable

import pytest
from free_port import free_port
from preload_runner import SKIPPED, Outcome, Runner
from under_allocator import environment

# At a HAKMEM_TEST_SCALE below 1 each way to install a filter, and each option, is tried once and not in all histories.
SHORT = float(os.environ.get("HAKMEM_TEST_SCALE") or 1) < 1
HISTORIES = ["fresh", "used", "threads"]
WAYS = ["prctl", "syscall", "tsync"]

DONE = Outcome(0, b"done\n", b"")
SSHD_LOGINS = 8
PAGE = Path(__file__).resolve().parents[2] / "docs" / "sandbox.md"

pytestmark = pytest.mark.usefixtures("hakmem_only")


def run(runner: Runner, program: Callable[[str], Path], *words: str, **variables: str) -> None:
    outcome = runner.under([program("kill_filter"), *words], env=variables)
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    assert outcome == DONE


def written_calls() -> list[str]:
    """The calls that the page about sandboxes lists, those that options alone bring along left out."""
    table = PAGE.read_text().partition("## The calls")[2]
    columns = [line.split("|") for line in table.splitlines() if line.startswith("|")]
    rows = [row[1] for row in columns if "HAKMEM_" not in row[2]]
    return sorted({word for row in rows for word in re.findall(r"`([a-z0-9_]+)`", row)})


def test_nothing_but_what_is_written(runner: Runner, program: Callable[[str], Path]) -> None:
    """By default options, after the start: with threads, and with the purge thread."""
    calls = written_calls()
    assert {"mmap", "madvise", "futex", "mincore", "clone3"} <= set(calls)
    run(runner, program, "written", ",".join(calls), "fresh")


def test_a_call_that_is_not_written_ends_the_program(runner: Runner, program: Callable[[str], Path]) -> None:
    """The filter of the test above works: it stands between the library and a call that the library makes."""
    for missing in ("madvise", "mincore"):
        calls = ",".join(set(written_calls()) - {missing})
        outcome = runner.under([program("kill_filter"), "written", calls, "fresh"])
        assert outcome.code in (-signal.SIGSYS, SKIPPED), missing


@pytest.mark.parametrize(
    ("permitted", "how", "before"),
    [*((permitted, how, before) for permitted in ("malloc", "threads")
       for how, before in (zip(WAYS, HISTORIES) if SHORT else itertools.product(WAYS, HISTORIES))),
     *itertools.product(["sshd", "systemd", "renderer"], ["prctl"], HISTORIES)],
)  # fmt: skip
def test_only_what_every_malloc_calls(
    runner: Runner, program: Callable[[str], Path], permitted: str, how: str, before: str
) -> None:
    """After the filter is in force, whatever the library had done by then, its threads and its looks are over."""
    run(runner, program, permitted, how, before)


@pytest.mark.parametrize("how", WAYS)
def test_a_tool_that_looks_into_every_process(runner: Runner, program: Callable[[str], Path], how: str) -> None:
    """Its signal ends no program whose filter forbids the return of a handler."""
    run(runner, program, "malloc", how, "tool")


@pytest.mark.parametrize("before", ["fresh", "used", "threads"])
def test_strict_mode_lives_on_what_is_there(runner: Runner, program: Callable[[str], Path], before: str) -> None:
    """read, write and exit are all: requests are served from the thread's heap, or refused."""
    run(runner, program, "strict", "prctl", before)


@pytest.mark.parametrize(
    "options",
    [
        {"HAKMEM_MODE": "fast"},
        {"HAKMEM_MODE": "lean"},
        {"HAKMEM_HUGE_PAGES": "always"},
        {"HAKMEM_PURGE": "free"},
        {"HAKMEM_MEMORY_LIMIT": "64M"},
        {"HAKMEM_RETAIN": "0"},
        {"HAKMEM_CRASH_REPORT": "1"},
        {"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_RATE": "4096", "HAKMEM_PROFILE_FILE": "-/nowhere/profile"},
    ],
    ids=lambda options: next(iter(options)).lower() + "-" + next(iter(options.values())),
)
@pytest.mark.parametrize("before", ["threads"] if SHORT else ["fresh", "threads"])
def test_options_need_no_other_calls(
    runner: Runner, program: Callable[[str], Path], options: dict[str, str], before: str
) -> None:
    """An instrument that runs goes on with the calls that are permitted."""
    run(runner, program, "threads", "prctl", before, **options)


def test_a_serving_thread_ends_before_the_filter(
    runner: Runner, program: Callable[[str], Path], tmp_path: Path
) -> None:
    """A thread without the filter would be a way around it for an attacker with access to the program's memory."""
    variables = {"HAKMEM_STATS_FILE": str(tmp_path / "stats.json"), "HAKMEM_STATS_INTERVAL": "1"}
    run(runner, program, "malloc", "tsync", "threads", **variables)


@pytest.mark.usefixtures("hakmem_only")
@pytest.mark.parametrize("call", ["prctl", "syscall"])
def test_the_filter_of_a_child_that_borrows_the_memory(
    runner: Runner, program: Callable[[str], Path], call: str
) -> None:
    """Its parent is under no filter, and stays as it was."""
    outcome = runner.under([program("vfork_filters"), call])
    if outcome.code == SKIPPED:
        pytest.skip("no filter can be installed")
    assert outcome == Outcome(0, b"ok\n", b"")


def test_a_filter_that_came_unseen(runner: Runner, program: Callable[[str], Path]) -> None:
    """The purge thread, which is not under it, sees within a second that the first thread is."""
    run(runner, program, "unseen", "-", "threads")


def test_a_filter_that_came_through_exec(runner: Runner, program: Callable[[str], Path]) -> None:
    """What services are seldom permitted is not called from the start."""
    run(runner, program, "inherited", "prctl", "fresh")


def test_the_user_says_that_there_is_a_sandbox(runner: Runner, program: Callable[[str], Path]) -> None:
    """For a program whose filter the library does not see coming."""
    run(runner, program, "inherited", "prctl", "fresh", HAKMEM_SANDBOX="on")


REPORTS = {
    "stats": {"HAKMEM_STATS": "1"},
    "leaks": {"HAKMEM_LEAKS": "1"},
    "scan": {"HAKMEM_LEAKS": "scan"},
    "stats_file": {"HAKMEM_STATS_FILE": "FOLDER/stats.%p.json", "HAKMEM_STATS_INTERVAL": "1"},
    "profile_file": {"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_FILE": "FOLDER/profile.%p"},
    "learn_file": {"HAKMEM_LEARN_FILE": "FOLDER/learn"},
    "trace": {"HAKMEM_TRACE": "FOLDER/trace.%p"},
    "crash": {"HAKMEM_CRASH_REPORT": "1"},
    "signal": {"HAKMEM_STATS_SIGNAL": "10"},
}


def reports(name: str, folder: Path) -> dict[str, str]:
    return {key: value.replace("FOLDER", str(folder)) for key, value in REPORTS.get(name, {}).items()}


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_at_exit_leaves_the_output_alone(
    runner: Runner, program: Callable[[str], Path], tmp_path: Path, report: str
) -> None:
    """Under a filter of its own the program exits, with its buffered output; a report on stderr is written too."""
    outcome = runner.under([program("kill_filter"), "output", "-", "-"], env=reports(report, tmp_path))
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    assert (outcome.code, outcome.stdout) == (0, b"done\n")
    assert ("hakmem: memory" in outcome.errors()) == (report == "stats")


@pytest.mark.parametrize(
    ("report", "course"),
    [*((report, "alone") for report in ["none", *REPORTS]),
     *((report, "threads") for report in (["none", "stats_file"] if SHORT else ["none", *REPORTS]))],
)  # fmt: skip
def test_an_inherited_filter_that_permits_proven_calls_alone(
    runner: Runner, program: Callable[[str], Path], tmp_path: Path, report: str, course: str
) -> None:
    """What the dynamic loader has done, and with threads the C library; the purge thread is there and stays."""
    outcome = runner.under([program("kill_filter"), "proven", course, "-"], env=reports(report, tmp_path))
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    assert (outcome.code, outcome.stdout) == (0, b"done\n"), outcome.errors()
    made = sorted(file.name.partition(".")[0] for file in tmp_path.iterdir())
    assert made == {"stats_file": ["stats"], "profile_file": ["profile"], "learn_file": ["learn"]}.get(report, [])
    refused = [name for name in ("TRACE", "CRASH_REPORT", "STATS_SIGNAL") if f"HAKMEM_{name}=" in outcome.errors()]
    assert refused == {"trace": ["TRACE"], "crash": ["CRASH_REPORT"], "signal": ["STATS_SIGNAL"]}.get(report, [])


@pytest.mark.parametrize("call", ["getpid", "gettid", "prctl", "fstatfs", "rt_sigaction", "capget"])
def test_the_list_of_proven_calls_is_the_pages(call: str) -> None:
    """The page marks the calls that the tests above kill for."""
    rows = [line for line in PAGE.read_text().partition("## The calls")[2].splitlines() if line.startswith("|")]
    marked = [row for row in rows if f"`{call}`" in row.split("|")[1]]
    assert marked and all("under an inherited filter" in row for row in marked)


# ---- sshd, whose child has a filter of the first kind before the user is known.


@pytest.fixture
def sshd_folder(tmp_path: Path) -> Path:
    """Keys of its own; sshd and its client believe no folder that others may write to."""
    if not all(map(shutil.which, ("sshd", "ssh", "ssh-keygen"))):
        pytest.skip("no OpenSSH here")
    tmp_path.chmod(0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    (tmp_path / "authorized").write_bytes((tmp_path / "user.pub").read_bytes())
    return tmp_path


@pytest.mark.parametrize("compression", ["yes", "no"])
def test_sshd(library: Path, sshd_folder: Path, compression: str) -> None:
    """Logs in by a key over loopback; with compression the filtered child allocates the most."""
    if not Path("/run/sshd").is_dir():
        pytest.skip("sshd needs /run/sshd")
    port = free_port()
    settings = [
        f"HostKey={sshd_folder}/host", f"AuthorizedKeysFile={sshd_folder}/authorized", "StrictModes=no", "UsePAM=no",
        "ListenAddress=127.0.0.1", "PidFile=none", f"Compression={compression}", "PermitRootLogin=yes",
    ]  # fmt: skip
    options = [word for setting in settings for word in ("-o", setting)]
    server = subprocess.Popen(
        [str(shutil.which("sshd")), "-D", "-e", "-f", "/dev/null", "-p", str(port), *options],
        env=environment(library), stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_for_port(port)
        for _ in range(SSHD_LOGINS):
            answer = subprocess.run(
                ["ssh", "-F", "none", "-C" if compression == "yes" else "-T", "-p", str(port),
                 "-i", sshd_folder / "user", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
                 "-o", "BatchMode=yes", "127.0.0.1", "echo in; head -c 3000000 /dev/zero | wc -c"],
                capture_output=True, timeout=60, check=False,
            )  # fmt: skip
            assert (answer.returncode, answer.stdout) == (0, b"in\n3000000\n"), answer.stderr.decode()
    finally:
        server.terminate()
        server.wait()
        if server.stderr is not None:
            server.stderr.close()


def wait_for_port(port: int) -> None:
    for _ in range(200):
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("sshd does not listen")
