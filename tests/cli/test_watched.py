"""Looking at a hostile process, or at another one with the same PID: nothing waits, no other process gets a signal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest
from cli_support import ROOT, Compile, Tool
from hakmem import attach_signal, linked, process_files, wake
from hakmem.errors import Failure
from hakmem.profile.module import ElfModule, Unreadable
from hakmem.regular_file import open_regular
from watched_support import SOURCE, Watched, plain, wait_until

SIGNAL = 58


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[str]"]:
    """A program without a handler: the signal ends it."""
    with subprocess.Popen(["sleep", "100"], text=True) as process:
        yield process
        process.kill()


# Files by names of others.


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_what_is_no_file_is_not_opened(pipe: Path, tmp_path: Path) -> None:
    """The pipe has no writer, so an open of it would wait."""
    (tmp_path / "link").symlink_to(pipe)
    for path in (pipe, tmp_path / "link", Path("/dev/null"), tmp_path, tmp_path / "none"):
        with pytest.raises(OSError):
            open_regular(str(path))
    with pytest.raises(Unreadable, match="not a regular file"):
        ElfModule(str(pipe))
    (tmp_path / "file").write_bytes(b"content")
    with open_regular(str(tmp_path / "file")) as file:
        assert file.read() == b"content"


# Maps a file to execute it, and puts a pipe where its name leads once the file is deleted.
TRAP = """
import mmap, os, sys
name = sys.argv[1]
with open(name, "wb+") as file:
    file.write(bytes(4096))
    file.flush()
    area = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)
os.unlink(name)
os.mkfifo(name + " (deleted)")
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_process_that_maps_a_trap(tool: Tool, tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    words = [sys.executable, "-c", TRAP, str(tmp_path / "trap")]
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            maps = process_files.read(process.pid, "maps").decode()
            assert f"{tmp_path}/trap (deleted)" in [path for _, path in process_files.mapped_files(maps)]
            done = tool("stats", process.pid)
        finally:
            process.kill()
    assert (done.returncode, "does not run on hakmem" in done.stderr) == (125, True), done.stderr


def test_the_mark_is_found_across_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = linked._MARK
    monkeypatch.setattr(linked, "_CHUNK", 16)
    for place in (0, 5, 15, 16, 100):
        (tmp_path / "file").write_bytes(bytes(place) + mark + bytes(9))
        assert linked.has_hakmem(str(tmp_path / "file"))
    (tmp_path / "file").write_bytes(mark[:-1] + bytes(20))
    assert not linked.has_hakmem(str(tmp_path / "file"))


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With holes in it one may say that it has no end."""
    content = linked._MARK + bytes(9)
    (tmp_path / "file").write_bytes(content)
    for longest, is_found in ((len(content), True), (len(content) - 1, False)):
        monkeypatch.setattr(linked, "_LONGEST_PROGRAM", longest)
        assert linked.has_hakmem(str(tmp_path / "file")) is is_found


# Signals.


@pytest.fixture(params=[True, False], ids=["descriptor", "number"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to name a thread: kernels before 6.9 have one of them alone."""
    if not request.param:
        monkeypatch.delattr(os, "pidfd_open", raising=False)


def test_only_the_same_process_is_signalled(sleeper: "subprocess.Popen[str]", way: None) -> None:
    with pytest.raises(ProcessLookupError):
        wake.wake(sleeper.pid, sleeper.pid, SIGNAL, lambda: False)
    assert sleeper.poll() is None
    sleeper.send_signal(signal.SIGCONT)
    wake.wake(sleeper.pid, sleeper.pid, SIGNAL, lambda: True)
    assert sleeper.wait(60) == -SIGNAL


def test_a_thread_of_another_process(sleeper: "subprocess.Popen[str]", way: None) -> None:
    """Its number may have been a thread's of ours."""
    with pytest.raises(ProcessLookupError):
        wake.wake(os.getpid(), sleeper.pid, SIGNAL, lambda: True)
    assert sleeper.poll() is None


def test_a_number_that_was_given_anew(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at it and the signal: nothing is sent, and it is said."""
    from hakmem.watched import Watched as Process

    process = Process(watched.pid)
    assert process.is_alive()
    sent = []
    monkeypatch.setattr(wake, "_call", lambda *arguments: sent.append(arguments))
    process.wake()
    assert len(sent) == 1
    monkeypatch.setattr(process_files, "start_of", lambda _: "another time")
    assert not process.is_alive()
    with pytest.raises(Failure, match=f"^process {watched.pid} has ended$"):
        process.wake()
    assert len(sent) == 1


# Becomes a program without hakmem at the end of its stdin.
REPLACED = r"""
#include <stdio.h>
#include <unistd.h>
int main(void) {
  char *nothing[] = {NULL};
  puts("ok");
  fflush(stdout);
  while (getchar() != EOF) continue;
  return execle("/bin/sleep", "sleep", "100", (char *)NULL, nothing);
}
"""


def test_a_program_that_is_replaced_meanwhile(
    library: Path, compile_c: Compile, way: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for a thread and the signal, which would end the next program."""
    from hakmem.watched import Watched as Process

    pipe = subprocess.PIPE
    with subprocess.Popen([compile_c("replaced", REPLACED)], env=plain(library), stdin=pipe, stdout=pipe) as program:
        try:
            assert program.stdout is not None and program.stdout.readline() == b"ok\n"
            process = Process(program.pid)
            thread = process._thread_to_wake()

            def find_thread() -> object:
                assert program.stdin is not None
                program.stdin.close()
                wait_until(lambda: Path(f"/proc/{program.pid}/comm").read_text() == "sleep\n")
                return thread

            monkeypatch.setattr(process, "_thread_to_wake", find_thread)
            process.wake()
            with pytest.raises(subprocess.TimeoutExpired):
                program.wait(1)
        finally:
            program.kill()


def test_when_a_process_began(sleeper: "subprocess.Popen[str]") -> None:
    began = process_files.start_of(sleeper.pid)
    assert began is not None and began == process_files.start_of(sleeper.pid)
    sleeper.kill()
    wait_until(lambda: process_files.start_of(sleeper.pid) is None)  # a zombie until its parent waits for it
    sleeper.wait()
    assert process_files.start_of(sleeper.pid) is None


# What the library reads, too.


def test_the_attach_signal_is_the_librarys() -> None:
    source = (ROOT / "src" / "policy" / "option_value.c").read_text()
    table = source.split("words_SIGNAL[] = {{")[1].split("}};")[0]
    names = {name: int(value) for name, value in re.findall(r'"(\w+)", (\d+)', table)}
    assert len(names) >= 9
    for name, value in names.items():
        assert attach_signal.number(name) == attach_signal.number(name.upper()) == value
    option = (ROOT / "src" / "policy" / "option.def").read_text()
    found = re.search(r"HK_OPTION\(attach_signal, SIGNAL, (\d+), 0, (\d+),", option)
    assert found is not None and int(found[1]) == attach_signal.DEFAULT == SIGNAL
    assert attach_signal.number(found[2]) == int(found[2])
    for text in ("", "65", "nonsense", "-1", "\u0661"):
        assert attach_signal.number(text) == SIGNAL
    assert attach_signal.number("0") == 0


# A program under a filter.

# Permits every call, and so only shows that there is a filter.
FILTERED = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000), 8)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)), 16)
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
    sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("value", ["auto", "off"])
def test_a_program_under_a_filter(tool: Tool, library: Path, compile_c: Compile, value: str) -> None:
    """It has no handler that the filter might kill for, and the tool says what to set; with that, it answers."""
    words = [sys.executable, "-c", FILTERED, str(compile_c("holder", SOURCE))]
    variables = {**plain(library), "HAKMEM_SANDBOX": value}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=variables, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("begin\n")
            process.stdin.flush()
            if process.stdout.readline() != "ok\n":
                pytest.skip("this kernel or container allows no seccomp filter")
            done = tool("stats", process.pid)
        finally:
            process.kill()
    if value == "off":
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 125 and "HAKMEM_SANDBOX=off" in done.stderr, done.stderr
