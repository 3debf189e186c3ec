"""`hakmem leaks`: what a program that loses blocks is told of, its exit codes, and answers that are damaged."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import pytest
from cli_support import Compile, Tool
from hakmem.errors import Failure
from hakmem.leaks import parse
from hakmem.leaks_report import lines, notes
from watched_support import SOURCE as SOURCE_OF_HOLDER
from watched_support import Watched

SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *kept, *volatile lost;
__attribute__((noinline)) void lose(int count) { for (; count > 0; count--) lost = malloc(1000); lost = 0; }
__attribute__((noinline)) void clear(void) { volatile char room[65536]; for (int i = 0; i < 65536; i++) room[i] = 0; }
int main(int argc, char **argv) {
  kept = malloc(5000);
  lose(argc > 1 ? atoi(argv[1]) : 0);
  clear();
  if (argc > 2) return atoi(argv[2]);
  return 0;
}
"""


@pytest.fixture
def loser(compile_c: Compile) -> Path:
    return compile_c("loser", SOURCE, "-O1", "-g", "-fno-builtin")


def test_a_program(tool: Tool, library: Path, loser: Path, tmp_path: Path) -> None:
    """Names, sums, and JSON that has the same."""
    done = tool("leaks", "--scan", "--json", tmp_path / "out.json", "--library", library, "--", loser, 7)
    assert (done.returncode, done.stdout) == (0, "")
    assert "7,000 bytes in 7 blocks leaked: no pointer leads there" in done.stderr
    assert "\n  lose (" in done.stderr and "still reachable" in done.stderr and "about" not in done.stderr
    (process,) = json.loads((tmp_path / "out.json").read_text())["processes"]
    assert (process["exact"], process["scan"]) == (True, "done")
    assert process["threads"] == {"others": 0, "asked": 0}
    assert process["unreachable"] == {"samples": 7, "blocks": 7, "bytes": 7000}
    assert process["sites"][0]["stack"][0]["function"] == "lose"
    assert list(tmp_path.glob("*.json")) == [tmp_path / "out.json"]


@pytest.mark.parametrize(
    ("count", "own", "wanted", "code"), [(7, 0, 9, 9), (0, 0, 9, 0), (7, 3, 9, 3), (7, 0, 0, 0), (7, 3, 0, 3)]
)
def test_exit_codes(tool: Tool, library: Path, loser: Path, count: int, own: int, wanted: int, code: int) -> None:
    words = ["leaks", "--scan", "-q", "--error-exitcode", wanted, "--library", library, "--", loser, count, own]
    done = tool(*words)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_without_a_scan(tool: Tool, library: Path, loser: Path) -> None:
    """All that is live, of which the program keeps some."""
    done = tool("leaks", "--library", library, "--", loser, 7)
    assert "12,000 bytes in 8 blocks not freed" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "every block was freed"),
        (["--rate", "1000"], "every sampled block was freed"),
        (["--scan"], "nothing leaked: a pointer leads to each block"),
        (["--scan", "--rate", "1000"], "nothing leaked: a pointer leads to each sampled block"),
    ],
)
def test_nothing_is_found(tool: Tool, library: Path, compile_c: Compile, words: List[str], told: str) -> None:
    program = compile_c("nothing", "int main(void) { return 0; }")
    done = tool("leaks", "--library", library, *words, "--", program)
    assert done.returncode == 0 and done.stderr.splitlines()[0] == told


def test_guarded_blocks_are_not_judged(tool: Tool, library: Path, loser: Path) -> None:
    """The scan does not look at their slots, and says so."""
    done = tool("leaks", "--scan", "--library", library, "--set", "guard=1", "--", loser, 7)
    told = "12,000 bytes in 8 blocks were allocated during the scan, or are guarded: it cannot judge them\n"
    assert done.returncode == 0 and told in done.stderr, done.stderr
    options = {"LD_PRELOAD": str(library), "HAKMEM_GUARD": "1", "HAKMEM_LEAKS": "scan", "HAKMEM_PROFILE_RATE": "1"}
    own = subprocess.run([loser, "7"], env=options, capture_output=True, text=True, timeout=60, check=False)
    assert f"hakmem: leaks: {told.replace('12,000', '12000')}" in own.stderr, own.stderr


def test_the_next_command_keeps_the_options(tool: Tool, library: Path, loser: Path) -> None:
    """Those that change what is measured, and the exit code."""

    def next_line(*words: object) -> str:
        return tool("leaks", "--library", library, *words).stderr.splitlines()[-1]

    kept = f"--library {library} --rate 2"
    line = next_line("--rate", 2, "--error-exitcode", 9, "--", loser, 7)
    assert line == f"next: hakmem leaks --scan --error-exitcode 9 {kept} {loser} 7"
    line = next_line("--rate", 2, "--scan", "--error-exitcode", 9, "--", loser, 0)
    assert line == f"next: hakmem leaks --scan --error-exitcode 9 -q {kept} -- {loser} 0"
    assert "--error-exitcode 1 -q" in next_line("--scan", "--", loser, 0)


@pytest.mark.parametrize("name", ["-loser", "4711"])
def test_the_next_command_of_a_program_that_looks_like_another_word(
    tool: Tool, library: Path, loser: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Like an option, or like a process, behind which options may stand. Also in the next line of hakmem profile."""
    (tool.folder / name).symlink_to(loser)
    monkeypatch.setenv("PATH", f"{tool.folder}:{os.environ['PATH']}")
    for words, told in (
        (["leaks"], f"leaks --scan --library {library} -- {name} 7"),
        (["leaks", "--rate", "1"], f"leaks --scan --library {library} --rate 1 -- {name} 7"),
        (["profile", "--rate", "1"], f"profile --flame heap.svg --library {library} --rate 1 -- {name} 7"),
    ):
        done = tool(*words, "--library", library, "--", name, 7)
        assert done.stderr.splitlines()[-1] == f"next: hakmem {told}"


def test_no_process_reports(tool: Tool, library: Path, compile_c: Compile) -> None:
    """A program that ends past its exit handlers."""
    quick = compile_c("quick", "#include <unistd.h>\nint main(void) { _exit(0); }\n")
    done = tool("leaks", "--library", library, "--", quick)
    assert done.returncode == 125 and "itself said nothing of leaks" in done.stderr


def test_quiet_where_another_process_answers(tool: Tool, library: Path, loser: Path, compile_c: Compile) -> None:
    """The note about the program itself is for people. Without any answer it is the reason for the exit code."""
    source = """
    #include <sys/wait.h>
    #include <unistd.h>
    int main(int argc, char **argv) {
      if (argc > 1 && fork() == 0) execv(argv[1], argv + 1);
      while (wait(0) > 0) { }
      _exit(0);
    }
    """
    parent = compile_c("parent", source)
    for words, is_told in (([], True), (["-q"], False)):
        done = tool("leaks", *words, "--library", library, "--", parent, loser)
        assert (done.returncode, "itself said nothing of leaks" in done.stderr) == (0, is_told)
        assert is_told or done.stderr == ""
    done = tool("leaks", "-q", "--library", library, "--", parent)
    assert done.returncode == 125 and "itself said nothing of leaks" in done.stderr


def test_a_service_that_samples_nothing(tool: Tool, watched: Watched) -> None:
    """The remedy needs no restart."""
    done = tool("leaks", watched.pid)
    assert (done.returncode, done.stdout) == (125, "")
    remedy = f"hakmem profile --stay {watched.pid}"
    assert f"samples nothing: no heap profile runs. `{remedy}` begins one, for later blocks" in done.stderr
    assert tool(*remedy.split()[1:], "--rate", "1", "--seconds", "0.01").returncode == 0
    watched.do("grow 100")
    done = tool("leaks", watched.pid)
    assert done.returncode == 0 and "100 blocks" in done.stdout, done.stdout + done.stderr


def test_a_profile_that_has_ended(tool: Tool, watched: Watched) -> None:
    """It knows nothing of the blocks from before, nor of those from after it."""
    for words in (["--rate", "1", "--seconds", "0.01", "--stay"], ["--stop"]):
        assert tool("profile", "-q", *words, watched.pid).returncode == 0
        watched.do("grow 100")
    done = tool("leaks", watched.pid)
    assert (done.returncode, done.stdout) == (125, "")
    assert "samples nothing: its heap profile has ended" in done.stderr


def test_a_library_without_samples(tool: Tool, library: Path, compile_c: Compile) -> None:
    """To start the program with HAKMEM_PROFILE=1 would be no help."""
    fast = library.parent / "libhakmem-fast.so"
    if not fast.exists():
        pytest.skip("libhakmem-fast.so is not built")
    program = Watched(compile_c("holder", SOURCE_OF_HOLDER), fast)
    with program.process:
        try:
            done = tool("leaks", program.pid)
            assert done.returncode == 125 and "this variant has no heap profile" in done.stderr
            assert "HAKMEM_PROFILE=1" not in done.stderr
            told = tool("explain", program.pid).stdout
            assert "the process's library has no profiles" in " ".join(told.split())
        finally:
            program.process.kill()


def test_a_profile_that_began_late_is_told() -> None:
    leaks = parse(answer(), "it")
    assert "from before" not in " ".join(notes(leaks))
    leaks.unknown_ms = 5000
    assert "the profile began 5 s after the program: blocks from before are unknown" in notes(leaks)


def test_a_process_that_samples_from_its_start(tool: Tool, library: Path, compile_c: Compile) -> None:
    process = Watched(compile_c("holder", SOURCE_OF_HOLDER), library, HAKMEM_PROFILE="1", HAKMEM_PROFILE_RATE="1")
    with process.process:
        done = tool("leaks", process.pid)
        process.process.kill()
    assert done.returncode == 0 and "not freed" in done.stdout and "from before" not in done.stderr


def test_wrong_usage(tool: Tool) -> None:
    assert tool("leaks").returncode == 2
    assert tool("leaks", "--rate", 5, 1).returncode == 2
    done = tool("leaks", "--json", "-", "--", "echo", "the program's")
    assert (done.returncode, done.stdout) == (2, "") and "stdout is the program's: name a file" in done.stderr
    gone = subprocess.Popen(["true"])
    gone.wait()
    done = tool("leaks", gone.pid)
    assert done.returncode == 125 and f"there is no process {gone.pid}" in done.stderr


def sums(blocks: int = 0) -> Dict[str, int]:
    return {"samples": blocks, "blocks": blocks, "bytes": 16 * blocks}


def answer(**changes: Any) -> bytes:
    document = {
        "schema": 1, "rate": 524288, "samples": 10, "lost": 2, "scan": "out of time", "scan_ms": 5, "scan_bytes": 1,
        "threads": None, "unreachable": sums(), "reachable": sums(), "unjudged": sums(3), "left_out": 1, "mappings": [],
        "sites": [{"frames": [], "shared": True, "unreachable": sums(), "reachable": sums(), "unjudged": sums(3)}],
    }  # fmt: skip
    return json.dumps({**document, **changes}).encode()


def test_estimates_and_scans_that_fail_are_told() -> None:
    leaks = parse(answer(), "it")
    assert lines(leaks, 20)[0] == "about 48 bytes in about 3 blocks not freed"
    assert lines(leaks, 20)[-1] == "and 1 more site"
    text = " ".join(notes(leaks))
    assert "took too long" in text and "2 of 10 samples" in text and "one for each 512 KiB" in text


def test_threads_that_could_not_be_asked_are_told() -> None:
    told = " ".join(notes(parse(answer(scan="done", threads={"others": 1200, "asked": 1196}), "it")))
    assert "of 1,200 other threads 4 ran or could not be read" in told
    for threads in ({"others": 5, "asked": 5}, None):
        assert "other threads" not in " ".join(notes(parse(answer(scan="done", threads=threads), "it")))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        answer()[:200],
        answer(schema=2),
        answer(sites=[{}]),
        answer(unjudged=5),
        answer(threads={}),
    ],
)
def test_damaged_answers(data: bytes) -> None:
    with pytest.raises(Failure, match="is no leak report of hakmem"):
        parse(data, "it")
