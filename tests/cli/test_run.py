"""`hakmem run`: the program is as if it had been started directly, and the verdict is told at the end."""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path
from types import SimpleNamespace
from typing import Any, List

import pytest
from cli_support import ROOT, Compile, Tool
from hakmem import verdict as verdicts
from hakmem.engine import Outcome
from hakmem.errors import Failure
from hakmem.measure import figures_of
from hakmem.memory import MemorySampler, Sample
from hakmem.program import resolve
from hakmem.self_report import SelfReports

PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable

# Prints the signals it hears, and its process id before; ends with 7 when it is told `TERM`.
LISTENER = r"""
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static void hear(int number) {
  char text[16];
  int length = snprintf(text, sizeof text, "heard %d\n", number);
  write(1, text, length);
  if (number == SIGTERM) _exit(7);
}
int main(void) {
  int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM};
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = hear;
    action.sa_flags = SA_RESTART;
    sigaction(numbers[i], &action, NULL);
  }
  char text[32];
  write(1, text, snprintf(text, sizeof text, "pid %d\n", getpid()));
  for (;;) pause();
}
"""


@pytest.fixture
def listener(compile_c: Compile) -> Path:
    return compile_c("listener", LISTENER)


pytestmark = pytest.mark.usefixtures("library")


def verdict(stderr: str) -> List[str]:
    return [line for line in stderr.splitlines() if line.startswith("hakmem: ")]


def test_output_and_exit_code_are_the_programs(tool: Tool) -> None:
    done = tool("run", "--", "sh", "-c", "cat; echo out; echo err >&2; exit 3", stdin="in\n")
    assert done.returncode == 3
    assert done.stdout == "in\nout\n"
    assert done.stderr.startswith("err\n")


def test_five_lines(tool: Tool) -> None:
    lines = verdict(tool("run", "-v", "--", "sleep", "0.4").stderr)
    assert [line.split()[1] for line in lines] == ["wall", "CPU", "resident", "faults", "allocator"]
    assert "exit code 0" in lines[0]
    assert "mean" in lines[2]
    assert "served malloc" in lines[4] and "libhakmem.so" in lines[4]


def test_one_line(tool: Tool) -> None:
    (line,) = verdict(tool("run", "--", "sh", "-c", "exit 3").stderr)
    assert re.match(r"hakmem: exit code 3 after [0-9.]+ [mµ]?s, CPU [0-9.]+ [mµ]s, peak [0-9.]+ .iB, hakmem \S+ ", line)
    (line,) = verdict(tool("run", "--set", "on_misuse=ignore", "--", "sh", "-c", "kill -9 $$").stderr)
    assert line.startswith("hakmem: killed by SIGKILL after ")


def test_quiet_prints_no_verdict(tool: Tool) -> None:
    assert tool("run", "-q", "--", "true").stderr == ""


def test_a_closed_stderr(tool: Tool) -> None:
    """The verdict goes nowhere then, and not to the program's output."""
    words = ["sh", "-c", 'exec "$@" 2>&-', "sh", *tool.words("run", "--", "sh", "-c", "echo out; exit 3")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "")


def test_killed_by_a_signal(tool: Tool) -> None:
    done = tool("run", "--", "sh", "-c", "kill -SEGV $$")
    assert done.returncode == 128 + signal.SIGSEGV
    assert "killed by SIGSEGV" in done.stderr


def test_not_found(tool: Tool, tmp_path: Path) -> None:
    assert tool("run", "--", "no-such-program").returncode == 127
    assert tool("run", "--", "./no-such-program").returncode == 127
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = tool("run", "--", "./script")
    assert done.returncode == 127
    assert "interpreter" in done.stderr


def test_not_executable(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    done = tool("run", "--", "./text")
    assert (done.returncode, done.stdout) == (126, "")
    assert done.stderr == "hakmem: ./text: not executable\n"
    assert tool("run", "--", str(tmp_path)).returncode == 126


def test_a_name_that_leads_nowhere(tool: Tool, tmp_path: Path) -> None:
    """It is there, and the message has the system's reason."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "text").write_text("hello")
    os.mkfifo(tmp_path / "pipe", 0o755)
    for name, reason in (
        ("pipe", "not a regular file"),
        ("loop", "too many levels of symbolic links"), ("text/x", "not a directory"), ("x" * 300, "file name too long"),
    ):  # fmt: skip
        done = tool("run", "--", f"./{name}")
        assert (done.returncode, done.stderr) == (126, f"hakmem: ./{name}: {reason}\n")


def test_a_program_in_place_of_the_rate_of_guards(tool: Tool) -> None:
    """--guard takes the word behind it, and the message says what to write."""
    done = tool("run", "--guard", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hakmem: true is no RATE: ") and "--guard -- PROGRAM" in done.stderr
    assert tool("run", "-q", "--guard", "--", "true").returncode == 0


def test_a_folder_without_search_permission(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0)
    user = os.geteuid()
    os.seteuid(user or 65534)  # root may search every folder
    try:
        with pytest.raises(Failure, match="folder/program: permission denied") as caught:
            resolve([str(tmp_path / "folder" / "program")], {})
    finally:
        os.seteuid(user)
    assert caught.value.exit_code == 126


def test_a_script_without_an_interpreter_line_is_the_shells(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "script").write_text('echo "$0 $1"; exit 4')
    (tmp_path / "script").chmod(0o755)
    done = tool("run", "-q", "--", "./script", "word")
    assert (done.returncode, done.stdout) == (4, "./script word\n")


def test_wrong_options(tool: Tool) -> None:
    assert tool("run", "--no-such-option", "--", "true").returncode == 2
    assert tool("run").returncode == 2
    assert tool("run", "--set", "nonsense", "--", "true").returncode == 2


def test_the_programs_options_are_its_own(tool: Tool) -> None:
    assert tool("run", "echo", "--quiet", "-x", "--").stdout == "--quiet -x --\n"


def test_preload_and_options_reach_the_program(tool: Tool, library: Path) -> None:
    done = tool("run", "-q", "--set", "retain=1M", "--set", "HAKMEM_STATS=0", "--", "env")
    lines = done.stdout.splitlines()
    assert f"LD_PRELOAD={library}" in lines
    assert {"HAKMEM_RETAIN=1M", "HAKMEM_STATS=0"} <= set(lines)


def test_the_environment_is_otherwise_untouched(tool: Tool, library: Path) -> None:
    """Python would add LC_CTYPE in the C locale."""
    environment = {"PATH": os.environ["PATH"], "LANG": "C", "ODD": "a=b\nc"}
    done = tool("run", "-q", "--", "env", "-0", environment=environment)
    expected = {**environment, "LD_PRELOAD": str(library)}
    assert dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry) == expected


def test_an_existing_preload_stays_in_front(tool: Tool, library: Path, compile_c: Compile) -> None:
    other = compile_c("libother.so", "int other;", "-shared", "-fPIC")
    done = tool("run", "-q", "--", "env", environment={**os.environ, "LD_PRELOAD": str(other)})
    assert f"LD_PRELOAD={other}:{library}" in done.stdout.splitlines()


def test_a_preload_that_serves_malloc_first(tool: Tool, compile_c: Compile) -> None:
    source = "#include <stddef.h>\nvoid *__libc_malloc(size_t); void *malloc(size_t n) { return __libc_malloc(n); }"
    other = compile_c("libmine.so", source, "-shared", "-fPIC")
    done = tool("run", "--", "true", environment={**os.environ, "LD_PRELOAD": str(other)})
    assert done.returncode == 125
    assert f"malloc would be served by {other}" in done.stderr


def test_static_is_refused_and_can_be_forced(tool: Tool, compile_c: Compile) -> None:
    program = compile_c("static_hello", '#include <stdio.h>\nint main(void) { puts("hello"); return 5; }', "-static")
    done = tool("run", "--", program)
    assert (done.returncode, done.stdout) == (125, "")
    assert "linked statically" in done.stderr and "--force" in done.stderr
    forced = tool("run", "--force", "--", program)
    assert (forced.returncode, forced.stdout) == (5, "hello\n")
    assert "warning: " in forced.stderr


def test_a_static_program_is_never_said_to_be_preloaded(tool: Tool, compile_c: Compile) -> None:
    """However soon it ends."""
    static = compile_c("static-once", "int main(void) { return 0; }", "-static")
    for words in (("--force",), ("--force", "-v")):
        line = verdict(tool("run", *words, "--", static).stderr)[-1]
        assert "was NOT mapped by the program" in line and "was preloaded" not in line and "_exit" not in line
    told = json.loads(tool("run", "--force", "--json", "-", "--", static).stderr.splitlines()[-1])
    assert told["library_mapped"] is False
    assert told["allocator"]["no_report"] == "the program does not map the library"


def test_a_library_that_is_missing(tool: Tool) -> None:
    done = tool("run", "--library", "/no/such/library.so", "--", "true")
    assert done.returncode == 125
    assert "no library" in done.stderr


def test_the_hardened_library(tool: Tool, library: Path) -> None:
    secure = library.parent / "libhakmem-secure.so"
    done = tool("run", "--secure", "--", "env")
    assert f"LD_PRELOAD={secure.resolve()}" in done.stdout.splitlines()
    assert "hakmem 0." in done.stderr and done.returncode == 0
    both = tool("run", "--secure", "--library", secure, "--", "true")
    assert (both.returncode, both.stdout) == (2, "")
    assert "--secure and --library both name a library" in both.stderr


def test_another_allocator_is_not_called_hakmem(tool: Tool, compile_c: Compile) -> None:
    source = "void *__libc_malloc(unsigned long);\nvoid *malloc(unsigned long n) { return __libc_malloc(n); }"
    other = compile_c("libforwards.so", source, "-shared", "-fPIC", "-fno-builtin")
    for words in ([], ["-v"]):
        done = tool("run", *words, "--library", other, "--", "sleep", "0.1")
        assert done.returncode == 0, done.stderr
        assert re.search(r"\blibforwards\.so (served malloc|was preloaded)", done.stderr), done.stderr


def test_a_library_that_cannot_be_named(tool: Tool, library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "with space.so"
    copy.write_bytes(library.read_bytes())
    done = tool("run", "--library", copy, "--", "true")
    assert done.returncode == 125
    assert "space" in done.stderr


def test_json_has_the_verdict(tool: Tool, tmp_path: Path, busy: Path) -> None:
    done = tool("run", "--json", "verdict.json", "--", busy, "50", "2000")
    assert (done.returncode, done.stderr) == (0, "")
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert verdict["exit_code"] == 0 and verdict["signal"] is None
    assert verdict["library_mapped"] is True
    assert 50 << 20 <= verdict["peak_bytes"] <= 60 << 20
    assert 40 << 20 <= verdict["mean_bytes"] <= verdict["peak_bytes"]
    assert 2 <= verdict["wall_seconds"] < 60
    assert verdict["minor_faults"] > 0
    on_stderr = tool("run", "--json", "-", "--", "echo", "hello")
    assert on_stderr.stdout == "hello\n"
    assert json.loads(on_stderr.stderr)["command"] == ["echo", "hello"]


def test_json_that_cannot_be_written_is_refused_before_the_program_runs(tool: Tool) -> None:
    done = tool("run", "--json", "/no/such/folder/file", "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (125, "")


@pytest.mark.parametrize(("own", "code"), [(0, 125), (3, 3)])
def test_json_that_cannot_be_written_at_the_end(tool: Tool, own: int, code: int) -> None:
    done = tool("run", "--json", "/dev/full", "--", "sh", "-c", f"exit {own}")
    assert done.returncode == code and done.stderr == "hakmem: cannot write /dev/full: No space left on device\n"


def test_the_peak_is_the_programs_own(tool: Tool) -> None:
    """A peak that began at the size of the Python that starts it would be many times as high."""
    done = tool("run", "--json", "-", "--", "true")
    assert json.loads(done.stderr)["peak_bytes"] < 6 << 20


def test_children_count(tool: Tool, busy: Path) -> None:
    done = tool("run", "--json", "-", "--", "sh", "-c", f"{busy} 30 400 & {busy} 30 400; wait")
    verdict = json.loads(done.stderr)
    assert verdict["most_processes"] == 3
    assert verdict["peak_tree_bytes"] > 58 << 20
    assert verdict["peak_bytes"] < 40 << 20


def test_the_peak_of_all_is_no_lower_than_that_of_the_largest() -> None:
    """Samples may miss a peak that the kernel counts."""
    ended = Outcome(0, 1.0, 0.1, 0.1, 80 << 20, 1, 0)
    sampler = MemorySampler(os.getpid())
    sampler.samples, sampler.most_processes = [Sample(0.1, 5 << 20, 0)], 2
    told = verdicts.Verdict(1, ended, sampler, SelfReports(), "library", None)
    assert "peak 80.0 MiB" in verdicts.line(told)
    assert "80.0 MiB peak, too short" in verdicts.lines(told)[2]
    assert verdicts.as_json(told, [])["peak_tree_bytes"] == ended.peak_bytes
    child: Any = SimpleNamespace(sampler=sampler)
    assert figures_of(child, ended, 0.0, 1.0)["peak_tree_bytes"] == ended.peak_bytes
    sampler.samples.append(Sample(0.2, 90 << 20, 0))
    assert sampler.peak_together(ended.peak_bytes) == 90 << 20
    assert MemorySampler(1, shared_once=True).peak_together(1) is None


def wait_for(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdout is not None
    while text := process.stdout.readline():
        if text.startswith(line):
            return text.strip()
    raise AssertionError(f"no line {line!r}: {process.communicate()}")


def test_signals_are_passed_on(tool: Tool, listener: Path) -> None:
    process = tool.start("run", "-v", "--", listener)
    wait_for(process, "pid")
    for number in (
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
        signal.SIGALRM,
    ):
        process.send_signal(number)
        assert wait_for(process, "heard") == f"heard {int(number)}"
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 7
    assert len(verdict(stderr)) == 5


def test_a_signal_that_kills_the_program(tool: Tool) -> None:
    process = tool.start("run", "--", "sh", "-c", "echo pid; exec sleep 100")
    wait_for(process, "pid")
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "killed by SIGTERM" in stderr


def test_ignored_signals_stay_ignored(tool: Tool) -> None:
    script = "trap '' HUP; exec \"$@\""
    words = ["sh", "-c", script, "sh", *tool.words("run", "-q", "--", "sh", "-c", "kill -HUP $$; echo alive")]
    assert subprocess.run(words, capture_output=True, text=True, check=False, timeout=60).stdout == "alive\n"


def test_ctrl_c_arrives_once(tool: Tool, listener: Path) -> None:
    """The terminal sends it to the whole group, the program too: it must not be passed on as well."""
    pid, terminal = pty.fork()
    if pid == 0:
        words = tool.words("run", "-q", "--", listener)
        os.execv(words[0], words)
    text = b""
    while b"pid" not in text:
        text += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    os.set_blocking(terminal, False)
    heard = f"heard {int(signal.SIGINT)}".encode()
    deadline, patience = time.monotonic() + 1, time.monotonic() + 60
    while time.monotonic() < (deadline if heard in text else patience):
        try:
            text += os.read(terminal, 1000)
        except BlockingIOError:
            time.sleep(0.02)
    os.kill(pid, signal.SIGTERM)
    assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 7
    os.close(terminal)
    assert text.count(heard) == 1


def wait_until_stopped(pid: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WUNTRACED | os.WNOHANG)
        if found and os.WIFSTOPPED(status):
            return
        time.sleep(0.02)
    raise AssertionError("it did not stop")


@pytest.mark.parametrize("through_us", [True, False])
def test_it_stops_and_goes_on_with_the_program(tool: Tool, listener: Path, through_us: bool) -> None:
    process = tool.start("run", "-q", "--", listener, preexec_fn=os.setpgrp)
    program = int(wait_for(process, "pid").split()[1])
    target = process.pid if through_us else program
    os.kill(target, signal.SIGTSTP)
    wait_until_stopped(process.pid)
    os.kill(target, signal.SIGCONT)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 7


def copied_checkout(folder: Path, library: Path) -> Path:
    """The starter, its tool and a Python of its own, which finds the packages of this one: it has nothing to install.
    The checkout's own build/venv stays as it is."""
    root = folder / "checkout"
    shutil.copytree(ROOT / "cli", root / "cli", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "hakmem", root)
    (root / "src" / "policy").mkdir(parents=True)
    shutil.copy(ROOT / "src" / "policy" / "option.def", root / "src" / "policy")  # by which the tool knows a checkout
    (root / "build" / "release").mkdir(parents=True)
    for name in ("libhakmem.so", "hakmem-launch"):
        (root / "build" / "release" / name).symlink_to(library.parent / name)
    venv.create(root / "build" / "venv", with_pip=False, symlinks=True)
    (site,) = (root / "build" / "venv" / "lib").glob("python3*/site-packages")
    found = [importlib.util.find_spec(name) for name in ("pip", "click", "rich", "elftools")]
    folders = dict.fromkeys(str(Path(one.origin).parents[1]) for one in found if one is not None and one.origin)
    (site / "packages.pth").write_text("\n".join(folders))
    return root


def test_the_starter_works_from_anywhere_and_through_links(library: Path, tmp_path: Path) -> None:
    pytest.importorskip("pip")
    root = copied_checkout(tmp_path, library)
    # Where it lacks a package all the same, it gets none: neither an index nor the distribution answers.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "apt-get").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "apt-get").chmod(0o755)
    alone = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PIP_NO_INDEX": "1"}
    first = subprocess.run([root / "hakmem", "--version"], env=alone, capture_output=True, text=True, check=False)
    assert (first.returncode, first.stderr.splitlines()[-1:]) == (0, ["hakmem: ready"]), first.stderr
    link = tmp_path / "link"
    link.symlink_to(root / "hakmem")
    second = tmp_path / "second"
    second.symlink_to(link)
    (tmp_path / "click.py").write_text("raise SystemExit('the wrong click')")
    environment = {**alone, "PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nowhere"}
    words = [str(second), "run", "-q", "--", "sh", "-c", 'pwd; echo "$PYTHONHOME"; echo "$LD_PRELOAD"']
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path}\n/nowhere\n{library}\n"
