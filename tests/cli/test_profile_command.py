"""`hakmem profile`: of a program, of a running process, of a file; what goes where, and how it ends when it cannot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Dict, List, Optional, Tuple

import pytest
from cli_support import ROOT, Compile, Tool
from click.testing import CliRunner
from hakmem.errors import Failure
from hakmem.main import cli
from hakmem.profile import live
from hakmem.profile.live import take
from hakmem.profile.read import read
from hakmem.profile.record import beside
from profile_support import PRINT_STACK, build, compiler, named, profile_of
from watched_support import SOURCE, Watched, plain

SHOP = {("append", "grow", "main"): (10, 6000, 4, 3000), ("load", "main"): (5, 2000, 1, 500)}


def test_a_result_on_stdout_is_alone_there(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "shop").write_bytes(named(SHOP))
    for option in ("-o", "--folded", "--speedscope", "--flame"):
        told = subprocess.run(
            tool.words("profile", option, "-", "--input", "shop"), cwd=tmp_path, stdout=subprocess.PIPE, check=True
        ).stdout
        assert tool("profile", "-q", option, "file", "--input", "shop").returncode == 0
        assert told == (tmp_path / "file").read_bytes() and b"flat%" not in told


def test_files_are_written_before_a_table_without_a_reader(
    tool: Tool, library: Path, compile_c: Compile, tmp_path: Path
) -> None:
    (tmp_path / "shop").write_bytes(named(SHOP))
    process = Watched(compile_c("watched", SOURCE), library, HAKMEM_PROFILE="1", HAKMEM_PROFILE_RATE="1")
    with process.process:
        process.do("grow 5")
        for number, words in enumerate(
            (
                ("profile", "--input", "shop", "--json"),
                ("profile", "--by", "pinned", process.pid, "--json"),
                ("leaks", process.pid, "--json"),
            )
        ):
            reading, writing = os.pipe()
            os.close(reading)
            command = tool.words(*words[:1], words[-1], f"{number}.json", *words[1:-1])
            done = subprocess.run(command, cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, check=False)
            os.close(writing)
            assert done.returncode == 128 + signal.SIGPIPE, done.stderr
            assert json.loads((tmp_path / f"{number}.json").read_text())
        process.end()


# Does what the library does for a profile, as far as the tool sees it: at exit each process writes the file that
# HAKMEM_PROFILE_FILE names.
STAND_IN = r"""
#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *__libc_malloc(size_t);
void *malloc(size_t bytes) { return __libc_malloc(bytes); }
__attribute__((destructor)) static void leave(void) {
  const char *on = getenv("HAKMEM_PROFILE"), *pattern = getenv("HAKMEM_PROFILE_FILE"), *source = getenv("SOURCE");
  if (!on || strcmp(on, "1") || !pattern || !source || *pattern != '-') return;
  char path[4096], *end = path;
  for (const char *c = pattern + 1; *c; c++) {
    if (c[0] == '%' && c[1] == 'p') { end += sprintf(end, "%d", (int)getpid()); c++; }
    else { if (c[0] == '%' && c[1] == '%') c++; *end++ = *c; }
  }
  *end = 0;
  FILE *in = fopen(source, "rb"), *out = fopen(path, "wbx");
  if (!in || !out) return;
  for (int c; (c = getc(in)) != EOF;) putc(c, out);
  fclose(out);
  const char *rate = getenv("HAKMEM_PROFILE_RATE");
  if (rate) fprintf(stderr, "rate %s\n", rate);
}
"""


# Copies its input to its output, starts CHILDREN children, and exits with CODE: `family CHILDREN CODE`.
FAMILY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  (void)argc;
  for (int c; (c = getchar()) != EOF;) putchar(c);
  fflush(stdout);
  for (int i = atoi(argv[1]); i > 0; i--)
    if (fork() == 0) exit(0);
  while (wait(NULL) > 0) {}
  return atoi(argv[2]);
}
"""


@pytest.fixture
def family(compile_c: Compile) -> Path:
    return compile_c("family", FAMILY)


@pytest.fixture
def stand_in(compile_c: Compile) -> Path:
    return compile_c("libhakmem-standin.so", STAND_IN, "-shared", "-fPIC")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "source.pb.gz"
    file.write_bytes(named(SHOP))
    return file


@pytest.fixture
def environment(source: Path, tmp_path: Path) -> Dict[str, str]:
    (tmp_path / "tmp").mkdir()
    return {**os.environ, "SOURCE": str(source), "TMPDIR": str(tmp_path / "tmp")}


def test_a_program(tool: Tool, stand_in: Path, family: Path, environment: Dict[str, str], tmp_path: Path) -> None:
    """Its input, output and exit code are its own; the table goes to stderr, and nothing is left behind."""
    words = ("--library", stand_in, "-o", "out.pb.gz", "--folded", "f.txt", "--rate", "4096")
    done = tool("profile", *words, "--", family, "0", "3", environment=environment, stdin="in\n")
    assert (done.returncode, done.stdout) == (3, "in\n")
    assert done.stderr.startswith("rate 4096\n")
    table = {line.split()[-1]: line.split() for line in done.stderr.splitlines()}
    assert table["append"][2:4] == ["85.7%", "85.7%"] and table["load"][2:4] == ["14.3%", "100.0%"]
    assert [one.values for one in read(str(tmp_path / "out.pb.gz")).samples] == list(SHOP.values())
    assert (tmp_path / "f.txt").read_text() == "main;grow;append 3000\nmain;load 500\n"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_next_command_keeps_the_options(
    tool: Tool, stand_in: Path, family: Path, environment: Dict[str, str], source: Path
) -> None:
    """Those that change what is measured."""
    words = ("--set", "mode=lean", "--library", stand_in, "--rate", "1")
    kept = f"--flame heap.svg --set mode=lean --library {stand_in} --rate 1 {family} 0 0"
    for by, told in (("alloc", "--by alloc "), ("inuse", "")):
        done = tool("profile", *words, "--by", by, "--", family, "0", "0", environment=environment)
        assert f"next: hakmem profile {told}{kept}" in done.stderr.splitlines()
    (tool.folder / "x y").mkdir()
    done = tool("profile", "--by", "alloc", "--debug-dir", "x y", "--input", source)
    wanted = f"next: hakmem profile --by alloc --flame heap.svg --debug-dir 'x y' --input {source}"
    assert done.stdout.splitlines()[-1] == wanted


def test_nearly_nothing_is_in_use(tool: Tool, stand_in: Path, environment: Dict[str, str], source: Path) -> None:
    """A program that frees all: the table of what it asked for is another one."""
    words = ("profile", "--library", stand_in)
    told = "nearly nothing was in use at the end; --by alloc shows all allocations"
    for in_use, is_told in ((0, True), (9, True), (11, False)):
        source.write_bytes(named({("append", "main"): (9, 1000, 1, in_use)}))
        done = tool(*words, "--", "true", environment=environment)
        assert (done.returncode, told in done.stderr) == (0, is_told), in_use
    source.write_bytes(named({("append", "main"): (9, 1000, 0, 0)}))
    for more in (["--by", "alloc"], ["-q"]):
        assert told not in tool(*words, *more, "--", "true", environment=environment).stderr


def test_too_little_for_a_sample(tool: Tool, library: Path, watched: Watched) -> None:
    """The remedy is a smaller rate; the bytes of all allocations are nothing too."""
    words = ("--rate", "1000000000", "--", "true")
    done = tool("profile", *words)
    told = "note: too little was allocated for a sample: a smaller --rate than 1000000000 takes more"
    assert done.returncode == 0 and told in done.stderr and "next:" not in done.stderr, done.stderr
    assert tool("profile", "-q", *words).stderr == ""
    done = tool("profile", "--seconds", "0.1", watched.pid)
    assert "sample: a longer time by --seconds, or a smaller --rate than 524288 takes more" in done.stderr, done.stderr


def test_other_processes(tool: Tool, stand_in: Path, family: Path, environment: Dict[str, str], tmp_path: Path) -> None:
    """Each has its own file."""
    words = ("profile", "--library", stand_in, "-o", "out.pb.gz", "--", family, "2", "0")
    done = tool(*words, environment=environment)
    assert done.returncode == 0
    others = sorted(one.name for one in tmp_path.glob("out.*.pb.gz") if one.name != "out.pb.gz")
    assert len(others) == 2 and all(name.split(".")[1].isdecimal() for name in others)
    assert all(len(read(str(tmp_path / name)).samples) == 2 for name in ["out.pb.gz", *others])
    assert f"other processes' profiles: {others[0]}" in done.stderr or f", {others[0]}" in done.stderr
    assert beside("a/b.pb.gz", 7) == "a/b.7.pb.gz" and beside("x", 7) == "x.7" and beside("x.prof", 7) == "x.7.prof"
    # A shell ends by _exit: what it started is shown.
    done = tool("profile", "--library", stand_in, "--", "sh", "-c", f"{family} 0 0; true", environment=environment)
    assert done.returncode == 0 and "append" in done.stderr
    assert "sh itself wrote no profile" in done.stderr or "other processes wrote profiles too (1)" in done.stderr


def test_more_processes_than_are_kept(tool: Tool, stand_in: Path, family: Path, environment: Dict[str, str]) -> None:
    words = ("--library", stand_in, "--", family, "34", "0")
    assert "2 smaller profiles of more processes left out" in tool("profile", *words, environment=environment).stderr
    done = tool("profile", "-q", *words, environment=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_program_that_writes_none(tool: Tool, stand_in: Path, environment: Dict[str, str]) -> None:
    """125 where all else went well; a program's own failure is what the caller shall see."""
    environment.pop("SOURCE")
    done = tool("profile", "--library", stand_in, "--", "true", environment=environment)
    assert done.returncode == 125 and "no profile was written: either it ended by _exit" in done.stderr
    done = tool("profile", "--library", stand_in, "--", "sh", "-c", "kill -SEGV $$", environment=environment)
    assert done.returncode == 128 + signal.SIGSEGV and "killed by SIGSEGV" in done.stderr


def test_a_damaged_profile_of_a_program(tool: Tool, stand_in: Path, environment: Dict[str, str], source: Path) -> None:
    source.write_bytes(source.read_bytes()[:60])
    done = tool("profile", "--library", stand_in, "-o", "out.pb.gz", "--", "true", environment=environment)
    assert done.returncode == 125
    assert "the profile of process " in done.stderr and "is cut off" in done.stderr
    assert not (tool.folder / "out.pb.gz").exists()


def test_a_disk_that_is_full(tool: Tool, stand_in: Path, environment: Dict[str, str], source: Path) -> None:
    done = tool("profile", "--library", stand_in, "-o", "/dev/full", "-q", "--", "true", environment=environment)
    assert (done.returncode, done.stderr) == (125, "hakmem: cannot write /dev/full: No space left on device\n")
    done = tool("profile", "-q", "--flame", "/dev/full", "--input", source)
    assert (done.returncode, done.stderr) == (125, "hakmem: cannot write /dev/full: No space left on device\n")


def test_what_cannot_be_written_is_refused_before_the_program_runs(tool: Tool, stand_in: Path) -> None:
    for option in ("-o", "--folded", "--speedscope", "--flame"):
        done = tool("profile", "--library", stand_in, option, "/no/such/folder/x", "--", "echo", "hello")
        assert (done.returncode, done.stdout) == (125, "")
        assert "cannot write /no/such/folder/x" in done.stderr


def test_a_file(tool: Tool, tmp_path: Path) -> None:
    """From addresses to names, and every form at once."""
    text = PRINT_STACK + (
        "__attribute__((noinline)) void load(void) { print_stack((void **)__builtin_frame_address(0)); }\n"
        'int main(void) { load(); __asm__ volatile(""); return 0; }\n'
    )
    program = build(tmp_path, "program.c", text, [compiler("cc"), "-O1", "-g", "-fno-omit-frame-pointer"])
    (tmp_path / "raw.pb.gz").write_bytes(profile_of(program))
    done = tool(
        "profile",
        "--input",
        "raw.pb.gz",
        "-o",
        "o.pb.gz",
        "--folded",
        "-",
        "--speedscope",
        "s.json",
        "--flame",
        "f.svg",
    )
    assert done.returncode == 0
    assert any(line.endswith(";main 4096") for line in done.stdout.splitlines())
    frames = [frame for one in read(str(tmp_path / "o.pb.gz")).samples[0].locations for frame in one.frames]
    assert (frames[0].function, Path(frames[0].file)) == ("main", tmp_path / "program.c")
    assert frames[0].line == len(text.splitlines())
    mapping = read(str(tmp_path / "o.pb.gz")).samples[0].locations[0].mapping
    assert mapping is not None and mapping.has_functions and mapping.has_filenames and mapping.has_lines
    assert any(frame["name"] == "main" for frame in json.loads((tmp_path / "s.json").read_text())["shared"]["frames"])
    assert 'data-name="main"' in (tmp_path / "f.svg").read_text()
    # What has names keeps them, with the program gone.
    program.unlink()
    done = tool("profile", "--input", "o.pb.gz")
    assert done.returncode == 0 and "main" in done.stdout and done.stderr == ""


def test_damaged_files(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(named(SHOP)[:40])
    done = tool("profile", "--input", "cut")
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith("hakmem: cut is cut off")
    assert tool("profile", "--input", "no-such").returncode == 125


def test_wrong_usage(tool: Tool, source: Path) -> None:
    for words in (
        [], ["--input", source, "true"], ["--seconds", "1", "--", "true"], ["--rate", "0", "1"], ["--set", "x=1", "1"],
        ["--input", source, "--rate", "5"], ["--by", "nonsense", "1"],
    ):  # fmt: skip
        assert tool("profile", *words).returncode == 2, words
    assert tool("profile", "--", "no-such-program").returncode == 127


@pytest.mark.parametrize("command", ["profile", "leaks"])
def test_the_rates_are_those_of_the_library(tool: Tool, command: str) -> None:
    assert "profile_rate, SIZE, 512 * HK_KIB, 1, 4 * HK_GIB," in (ROOT / "src" / "policy" / "option.def").read_text()
    assert (live.RATES.min, live.RATES.max) == (1, 4 << 30)
    done = tool(command, "--rate", (4 << 30) + 1, "--", "true")
    assert done.returncode == 2 and "is not in the range" in done.stderr


def test_the_callers_own_profile_file(tool: Tool, stand_in: Path) -> None:
    environment = {**os.environ, "HAKMEM_PROFILE_FILE": "/tmp/x"}
    done = tool("profile", "--library", stand_in, "--", "true", environment=environment)
    assert done.returncode == 2 and "HAKMEM_PROFILE_FILE is set already" in done.stderr


class Process:
    """A process that can be asked, as the library answers."""

    def __init__(self, running: bool = False, rate: int = 524288) -> None:
        self.running = running
        self.rate = rate
        self.asked: List[str] = []
        self.dies_at: Optional[str] = None

    def ask(self, request: str) -> bytes:
        self.asked.append(request)
        if self.dies_at is not None and request.startswith(self.dies_at):
            raise Failure("process 7 has ended")
        words = request.split()
        if words[1] == "state":
            return json.dumps({"running": self.running, "rate": self.rate}).encode()
        if words[1] == "start":
            assert not self.running
            self.running, self.rate = True, int(words[2])
        if words[1] == "stop":
            self.running = False
        return named(SHOP) if words[1] == "pprof" else b""


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> List[float]:
    seconds: List[float] = []
    monkeypatch.setattr(live.time, "sleep", seconds.append)
    return seconds


def test_a_process(slept: List[float]) -> None:
    process = Process()
    notes: List[str] = []
    taken = take(process.ask, 7, 3.0, 4096, notes)
    assert process.asked == ["profile state", "profile start 4096", "profile pprof", "profile stop"]
    assert (sum(slept), notes, len(taken.samples)) == (3.0, [], 2)
    take(process.ask, 7, None, None, notes)
    assert sum(slept) == 3.0 + live.DEFAULT_SECONDS and "profile start 524288" in process.asked


def test_a_profile_that_another_client_has_started(slept: List[float]) -> None:
    """It is read at once, and goes on."""
    process = Process(running=True, rate=1 << 20)
    notes: List[str] = []
    take(process.ask, 7, None, 4096, notes)
    assert process.asked == ["profile state", "profile pprof"] and process.running and slept == []
    assert notes[0] == "a profile runs in process 7 already (a sample every 1.00 MiB): it is read, and left running"
    assert "--rate has no effect" in notes[1]


def test_what_was_started_is_stopped(monkeypatch: pytest.MonkeyPatch, slept: List[float]) -> None:
    """Also when the wait is interrupted. When the process has ended, the caller gets a failure."""

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    process = Process()
    process.dies_at = "profile pprof"
    with pytest.raises(Failure, match="process 7 has ended"):
        take(process.ask, 7, 1.0, None, [])
    assert not process.running
    monkeypatch.setattr(live.time, "sleep", interrupted)
    process = Process()
    with pytest.raises(KeyboardInterrupt):
        take(process.ask, 7, 1.0, None, [])
    assert process.asked[-1] == "profile stop"


@pytest.mark.parametrize("answer", [b"yes", b"[]", b'{"running": 1}'])
def test_an_answer_of_another_version(answer: bytes) -> None:
    with pytest.raises(Failure, match="another version"):
        take(lambda _: answer, 7, 1.0, None, [])


def test_the_command_attaches(monkeypatch: pytest.MonkeyPatch, slept: List[float], tmp_path: Path) -> None:
    """From PID to file, by a connection for each request; that of the start is there until the stop."""
    from click.testing import CliRunner
    from hakmem.commands.profile import profile

    _, closed = attachable(monkeypatch)
    done = CliRunner().invoke(profile, ["--seconds", "2", "-o", str(tmp_path / "o.pb.gz"), "4711"])
    assert done.exit_code == 0, done.output
    assert "append" in done.output and len(read(str(tmp_path / "o.pb.gz")).samples) == 2
    assert closed == [["profile state"], ["profile pprof"], ["profile start 524288", "profile stop"]]
    assert sum(slept) == 2.0


def attachable(monkeypatch: pytest.MonkeyPatch, running: bool = False) -> Tuple[Process, List[List[str]]]:
    """A process, and what each connection has asked it, in the order in which they ended."""
    process = Process(running)
    closed: List[List[str]] = []

    class Connection:
        def __init__(self, pid: int) -> None:
            assert pid == 4711
            self.asked: List[str] = []
            self.process = SimpleNamespace(is_alive=lambda: True, runs_another_program=lambda: False, name="x")

        def ask(self, request: str) -> bytes:
            self.asked.append(request)
            return process.ask(request)

        def close(self) -> None:
            closed.append(self.asked)

        def __enter__(self) -> "Connection":
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

    monkeypatch.setattr(live, "attach", Connection)
    return process, closed


def test_a_profile_that_stays(monkeypatch: pytest.MonkeyPatch, slept: List[float]) -> None:
    """No connection is kept for it, and nothing stops it."""
    from click.testing import CliRunner
    from hakmem.commands.profile import profile

    process, closed = attachable(monkeypatch)
    done = CliRunner().invoke(profile, ["--stay", "--seconds", "2", "4711"])
    assert done.exit_code == 0 and "append" in done.output
    assert closed == [["profile state"], ["profile start 524288 stay"], ["profile pprof"]]
    assert process.running and sum(slept) == 2.0


def test_a_profile_is_stopped_on_demand(monkeypatch: pytest.MonkeyPatch, slept: List[float]) -> None:
    """Whatever started it, and when it cannot be read too."""
    from click.testing import CliRunner
    from hakmem.commands.profile import profile

    process, _ = attachable(monkeypatch, running=True)
    done = CliRunner().invoke(profile, ["--stop", "4711"])
    assert done.exit_code == 0 and "append" in done.output and not process.running and slept == []
    done = CliRunner().invoke(profile, ["--stop", "4711"])
    assert done.exit_code == 125
    process.running, process.dies_at = True, "profile pprof"
    assert CliRunner().invoke(profile, ["--stop", "4711"]).exit_code == 125
    assert not process.running


@pytest.mark.parametrize("words", [["--stay", "true"], ["--stop", "--input", "x"], ["--stay", "--stop", "1"],
                                   ["--stop", "--rate", "1", "1"]])  # fmt: skip
def test_what_stay_and_stop_are_not_for(tool: Tool, words: List[str]) -> None:
    assert tool("profile", *words).returncode == 2


def test_a_start_that_is_refused_keeps_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    process, closed = attachable(monkeypatch)
    process.dies_at = "profile start"
    with pytest.raises(Failure):
        live.asker(4711)("profile start 1")
    assert closed == [["profile start 1"]]


def test_a_process_that_ends_meanwhile(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was there, and has ended. The tool does not wait for the rest of the time."""
    slept: List[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        watched.end()

    monkeypatch.setattr(live, "time", SimpleNamespace(sleep=sleep))
    done = CliRunner().invoke(cli, ["profile", "--seconds", "3600", str(watched.pid)])
    assert len(slept) == 1 and slept[0] <= 1.0
    told = (
        f"hakmem: process {watched.pid} (holder) has ended: `hakmem profile -- PROGRAM` profiles a program to its end"
    )
    assert (done.exit_code, done.output.startswith(told)) == (125, True), done.output


@pytest.mark.parametrize("preload", ["", "LD_PRELOAD= "])
def test_a_process_that_becomes_another_program(library: Path, monkeypatch: pytest.MonkeyPatch, preload: str) -> None:
    """On hakmem or not: the profile ended with the first program."""
    script = f"echo; read line; {preload}exec cat"
    pipe = subprocess.PIPE
    with subprocess.Popen(["/bin/sh", "-c", script], env=plain(library), stdin=pipe, stdout=pipe) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == b"\n"

        def exec_it(_: float) -> None:
            assert other.stdin is not None and other.stdout is not None
            other.stdin.write(b"go\nhere\n")
            other.stdin.flush()
            assert other.stdout.readline() == b"here\n"  # by cat

        monkeypatch.setattr(live, "time", SimpleNamespace(sleep=exec_it))
        with pytest.raises(Failure, match=f"^process {other.pid} .sh. has replaced its program by another"):
            take(live.asker(other.pid), other.pid, 1.0, None, [])
