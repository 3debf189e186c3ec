"""The edges of a process's life: before main, after it, threads that end; and silence all along."""

from __future__ import annotations

import array
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import DEFAULT_TIMEOUT, SKIPPED, Outcome, Runner
from under_allocator import environment

Program = Callable[[str], Path]

STATIONS = "constructor\nmain\natexit\ndestructor\n"

F_SETPIPE_SZ = 1031  # Python's fcntl has it from 3.10 on


@pytest.mark.parametrize("variables", [{}, {"LD_BIND_NOW": "1"}], ids=["lazy", "bind_now"])
def test_before_and_after_main(runner: Runner, program: Program, variables: dict[str, str]) -> None:
    runner.expect([program("early_and_late")], STATIONS, env=variables)


def test_with_an_auditor(runner: Runner, program: Program, shim: Program) -> None:
    """ld.so then has two worlds, with a malloc in each."""
    runner.expect([program("early_and_late")], STATIONS, env={"LD_AUDIT": str(shim("audit"))})


@pytest.mark.parametrize("first", [True, False], ids=["library_first", "shim_first"])
def test_interposed_functions_that_allocate(
    runner: Runner, program: Program, shim: Program, tmp_path: Path, first: bool
) -> None:
    """mmap, dlsym, pthread_setspecific and others, each of which calls malloc, as profilers and sandboxes do."""
    shims = [shim("reentrant")]
    runner.expect([program("early_and_late")], STATIONS, also=shims, first=first)
    runner.expect([program("libc_names"), tmp_path / "report.xml"], "ok\n", also=shims, first=first)
    outcome = runner.under([program("tls_destructors"), 400, 8], also=shims, first=first)
    assert (outcome.code, outcome.errors()) == (0, "")
    runner.expect([program("late_runtime"), shim("cxx_plugin")], "1 2 1 2 1 2\n", also=shims, first=first)
    runner.expect([program("fork_handlers"), 20], "ok\n", also=[*shims, shim("at_fork")], first=first)


def symbols(library: Path, which: str, kinds: str) -> set[str]:
    """Names of the dynamic symbol table, without versions, whose kind `nm` writes as one of `kinds`."""
    listing = subprocess.run(["nm", "-D", which, library], capture_output=True, text=True, check=True).stdout
    lines = (line.split() for line in listing.splitlines())
    return {words[-1].partition("@")[0] for words in lines if words[-2] in kinds}


def test_whatever_the_library_calls_is_interposed(runner: Runner, shim: Program, hakmem_only: None) -> None:
    """Or the test above would miss it. Left out is what cannot be made to allocate: data, calls of compilers, and looks
    at a thread's own record."""
    left_out = {"__environ", "environ", "__errno_location", "abort", "memcmp", "memcpy", "memmove", "memset", "strlen"}
    left_out |= {"strcmp", "strncmp", "strrchr", "pthread_self", "pthread_getcpuclockid", "pthread_setcanceltype"}
    imports = symbols(runner.library, "--undefined-only", "U")
    assert imports - left_out <= symbols(shim("reentrant"), "--defined-only", "T")


@pytest.mark.parametrize("at_once", [1, 8])
def test_thread_destructors(runner: Runner, program: Program, at_once: int) -> None:
    """10,000 threads; the program itself fails if memory grows by more than 4 MiB after the first quarter."""
    outcome = runner.under([program("tls_destructors"), 10000, at_once])
    assert (outcome.code, outcome.errors()) == (0, ""), outcome.text()


# Nothing is said, and nothing changed, unless asked for.


@pytest.mark.parametrize(
    "script", ["exit 0", "exit 37", "echo out; echo err >&2; exit 3", "kill -TERM $$", "kill -ABRT $$"]
)
@pytest.mark.parametrize("stats", ["0", "1"])
def test_exit_code_is_untouched(runner: Runner, script: str, stats: str, hakmem_only: None) -> None:
    command = ["/bin/sh", "-c", script]
    without, with_it = runner.plain(command), runner.under(command, env={"HAKMEM_STATS": stats})
    assert (with_it.code, with_it.stdout) == (without.code, without.stdout)
    if stats == "0":
        assert with_it.stderr == without.stderr


def test_a_file_that_says_nothing_holds_no_stderr_open(runner: Runner, tmp_path: Path, hakmem_only: None) -> None:
    """What reads a pipe at stderr would wait for a daemon's end, although the daemon has closed its stderr."""

    def descriptors(**variables: str) -> list[str]:
        outcome = runner.under(["/bin/ls", "/proc/self/fd"], env=variables)
        assert outcome.code == 0
        return outcome.text().split()

    plain = descriptors()
    for variable in ("HAKMEM_STATS_FILE", "HAKMEM_PROFILE_FILE"):
        assert descriptors(**{variable: f"-{tmp_path}/result"}) == plain
        assert len(descriptors(**{variable: f"{tmp_path}/result"})) == len(plain) + 1, "it may complain"
    for variable in ("HAKMEM_LEARN_FILE", "HAKMEM_TRACE"):
        for path in (f"-{tmp_path}/result", f"{tmp_path}/result"):
            assert len(descriptors(**{variable: path})) == len(plain) + 1, "a - is part of the path"
    assert len(descriptors(HAKMEM_STATS="1")) == len(plain) + 1


def test_without_the_time_stamp_counter(runner: Runner, program: Program, tmp_path: Path, hakmem_only: None) -> None:
    """Neither requests nor the reports of the end read it."""
    variables = {
        "HAKMEM_STATS": "1", "HAKMEM_STATS_FILE": str(tmp_path / "stats.json"),
        "HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_FILE": str(tmp_path / "%p.pb.gz"), "HAKMEM_GUARD": "100",
        "HAKMEM_TRACE": str(tmp_path / "%p.trace"),
    }  # fmt: skip
    outcome = runner.under([program("no_time_stamps")], env=variables)
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    assert outcome.code == 0, outcome.errors()
    assert "hakmem: events" in outcome.errors()
    assert len(list(tmp_path.iterdir())) == 3


def test_stats_go_to_stderr_at_exit(runner: Runner, hakmem_only: None) -> None:
    outcome = runner.under(["/bin/ls", "/"], env={"HAKMEM_STATS": "1"})
    assert outcome.stdout == runner.plain(["/bin/ls", "/"]).stdout
    assert outcome.errors().startswith("hakmem: ")
    assert len(outcome.errors().splitlines()) >= 5


def test_stats_with_streams_closed(runner: Runner, hakmem_only: None) -> None:
    """There may be no stream to write to."""
    outcome = runner.under(["/bin/sh", "-c", "exec 2>&- 1>&-; exec true"], env={"HAKMEM_STATS": "1"})
    assert outcome.code == 0


FREE_NO_BLOCK = "import ctypes; ctypes.CDLL(None).free(ctypes.c_void_p(64))"

# Options, what the program does that has its own file at descriptor 2, and how it ends.
WITHOUT_STDERR = {
    "stats": ({"HAKMEM_STATS": "1"}, "", 0),
    "leaks": ({"HAKMEM_LEAKS": "scan"}, "", 0),
    "misuse": ({}, FREE_NO_BLOCK, -signal.SIGABRT),
    "misuse_warns": ({"HAKMEM_ON_MISUSE": "warn"}, FREE_NO_BLOCK, 0),
    "crash": ({"HAKMEM_CRASH_REPORT": "1"}, "import ctypes; ctypes.string_at(8)", -signal.SIGSEGV),
    "crash_and_stats": (
        {"HAKMEM_CRASH_REPORT": "1", "HAKMEM_STATS": "1"}, "import ctypes; ctypes.string_at(8)", -signal.SIGSEGV
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WITHOUT_STDERR)
def test_a_file_in_the_place_of_a_closed_stderr(runner: Runner, case: str, tmp_path: Path, hakmem_only: None) -> None:
    """The program's file gets the lowest free number, 2."""
    variables, act, code = WITHOUT_STDERR[case]
    script = f"import os; file = os.open('data', os.O_CREAT | os.O_WRONLY); os.write(file, b'its own %d' % file); {act}"
    words = ["/bin/sh", "-c", 'ulimit -c 0; exec 2>&-; exec "$0" -c "$1"', sys.executable, script]
    outcome = runner.under(words, env=variables, cwd=tmp_path)
    assert (outcome.code, (tmp_path / "data").read_bytes()) == (code, b"its own 2")


# What the program opens at descriptor 2 after it has begun, and whether a message about a misuse goes there.
IN_PLACE_OF_STDERR = {
    "connection": ("os.dup(near.fileno())", False),
    "log": ("os.open('data', os.O_CREAT | os.O_WRONLY | os.O_APPEND)", True),
    "collected": ("os.open('data', os.O_CREAT | os.O_RDWR)", True),
}


@pytest.mark.parametrize("case", IN_PLACE_OF_STDERR)
def test_a_file_that_takes_the_place_of_stderr_later(runner: Runner, case: str, tmp_path: Path) -> None:
    """A message goes to a file, where logs are, and never to a connection."""
    opens, gets_message = IN_PLACE_OF_STDERR[case]
    script = f"""
import os, socket
near, far = socket.socketpair()
os.close(2)
file = {opens}
os.write(file, b"its own %d" % file)
{FREE_NO_BLOCK}
if not os.path.exists("data"):
    open("data", "wb").write(far.recv(4096))
"""
    outcome = runner.under([sys.executable, "-c", script], env={"HAKMEM_ON_MISUSE": "warn"}, cwd=tmp_path)
    own, _, message = (tmp_path / "data").read_bytes().partition(b"its own 2")
    assert (outcome.code, own, b"invalid-free" in message) == (0, b"", gets_message), message


@pytest.mark.parametrize("variable", ["HAKMEM_STATS=1", "HAKMEM_LEAKS=scan", "HAKMEM_NO_SUCH_OPTION=1"])
@pytest.mark.parametrize("kind", ["pipe_without_reader", "file_at_its_limit"])
def test_stderr_that_takes_nothing(runner: Runner, kind: str, variable: str, tmp_path: Path) -> None:
    """The program ends well, and writes its own output."""
    (tmp_path / "text").write_text("ok\n")
    if kind == "pipe_without_reader":
        reader, stderr = os.pipe()
        os.close(reader)
    else:
        stderr = os.open(tmp_path / "full", os.O_CREAT | os.O_WRONLY)
    script = f'ulimit -S -f 0; export LD_PRELOAD="$1" {variable}; exec cat text'
    words = ["sh", "-c", script, "sh", str(runner.library)]
    done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=stderr, check=False)
    os.close(stderr)
    assert (done.returncode, done.stdout) == (0, b"ok\n")


def bytes_in(pipe: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_stderr_whose_reader_leaves_during_a_write(runner: Runner, hakmem_only: None) -> None:
    """The pipe has taken the report's first page by then, and the write returns that number, with a SIGPIPE."""
    reader, stderr = os.pipe()
    page = fcntl.fcntl(stderr, F_SETPIPE_SZ, 4096)
    with subprocess.Popen(["true"], env=environment(runner.library, {"HAKMEM_STATS": "1"}), stderr=stderr) as program:
        os.close(stderr)
        end = time.monotonic() + DEFAULT_TIMEOUT
        while bytes_in(reader) < page and program.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        is_writing = program.poll() is None
        os.close(reader)
    assert (is_writing, program.returncode) == (True, 0)


@pytest.mark.parametrize(
    "variable",
    [
        "HAKMEM_ON_MISUSE=perhaps",
        "HAKMEM_STATS=maybe",
        "HAKMEM_RETAIN=lots",
        "HAKMEM_SPARE_SLABS=99999",
        "HAKMEM_RETAIN=",
    ],
)
def test_bad_option_warns_once(runner: Runner, program: Program, variable: str, hakmem_only: None) -> None:
    name, value = variable.split("=")
    outcome = runner.under([program("early_and_late")], env={name: value})
    assert (outcome.code, outcome.text()) == (0, STATIONS)
    (line,) = outcome.errors().splitlines()
    assert line.startswith("hakmem: ") and name in line and value in line


def test_unknown_option_warns_once(runner: Runner, program: Program, hakmem_only: None) -> None:
    outcome = runner.under([program("early_and_late")], env={"HAKMEM_NO_SUCH_OPTION": "1"})
    assert (outcome.code, outcome.text()) == (0, STATIONS)
    (line,) = outcome.errors().splitlines()
    assert line.startswith("hakmem: ") and "HAKMEM_NO_SUCH_OPTION" in line


def test_options_are_ignored_with_raised_rights(
    runner: Runner, linked: Callable[..., Path], tmp_path: Path, hakmem_only: None
) -> None:
    """ld.so drops a preload there, so the program is linked with the archive."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a program that belongs to somebody else")
    program = tmp_path / "raised_rights"
    shutil.copy(linked("raised_rights.c"), program)
    file = Path("/tmp") / f"hakmem-raised-rights-{os.getpid()}"  # a folder without write permission would prove nothing
    variables = {"HAKMEM_STATS": "1", "HAKMEM_ON_MISUSE": "perhaps", "HAKMEM_STATS_FILE": str(file)}
    listened = runner.plain([program], env=variables)
    assert file.is_file()
    file.unlink()
    assert (listened.code, listened.text()) == (0, "secure 0\n") and b"hakmem: " in listened.stderr
    nobody = 65534
    os.chown(program, nobody, nobody)
    program.chmod(0o4755)
    outcome = runner.plain([program], env=variables)
    if outcome.text() == "secure 0\n":
        pytest.skip(f"{tmp_path} is mounted without setuid")
    assert outcome == Outcome(0, b"secure 1\n", b"")
