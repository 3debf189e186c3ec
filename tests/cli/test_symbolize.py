"""`hakmem symbolize` reads the reports that the library writes, whatever the program's file is called."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator, List

import pytest
from cli_support import Compile, Tool
from hakmem.profile.log import names_of

PROGRAM = r"""
#include <stdlib.h>
#include <unistd.h>
static void *volatile block;
__attribute__((noinline)) void touch_freed(void) { *(volatile char *)block = 1; }
__attribute__((noinline)) void free_it(void) { free(block); }
int main(int argc, char **argv) {
  if (argc > 1) unlink(argv[1]);
  block = malloc(40);
  free_it();
  touch_freed();
  return 0;
}
"""
NAMES = [b"plain", b"a b", b"x+0x12", b"x+0x12 y", b"#1 0x2 /x+0x3", b"line\nline", b"tab\tback\\slash\\x0a", b'"q"',
         b'"module":"/x","offset":"0x1"', b"caf\xc3\xa9", b"\xff\xc3", b"\xc2\x85", b"\xe2\x80\xa8", b"written \\012",
         b"kept (deleted)"]  # fmt: skip


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short path: a report has the end of a long one."""
    usual = tempfile.gettempdir()  # a report has the last 92 characters of a path, and no file is found by those
    with tempfile.TemporaryDirectory(prefix="s+0x1 ", dir=usual if len(usual) < 30 else "/tmp") as path:
        yield Path(path)


@pytest.fixture
def program(compile_c: Compile) -> Path:
    return compile_c("touches", PROGRAM, "-g", "-fno-inline", "-fno-optimize-sibling-calls")


def reports(folder: Path, program: Path, library: Path, *words: str) -> List[str]:
    """The report as text, and as JSON."""
    json_file = folder / "report.json"
    environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(library), "HAKMEM_GUARD": "1",
                   "HAKMEM_GUARD_FILE": str(json_file)}  # fmt: skip
    done = subprocess.run(
        [program, *words], env=environment, capture_output=True, check=False, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    )  # fmt: skip
    (folder / "report.txt").write_bytes(done.stderr)
    return ["report.txt", "report.json"]


@pytest.mark.parametrize("name", NAMES)
def test_of_any_name(folder: Path, program: Path, library: Path, name: bytes) -> None:
    copy = folder / os.fsdecode(name)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, copy)
    tool = Tool(folder)
    for report in reports(folder, copy, library):
        done = tool("symbolize", report)
        for function in ("touch_freed", "free_it", "main"):
            assert re.search(rf" {function} \([^ ]*touches\.c:\d+\)$", done.stdout, re.MULTILINE), done
        places = json.loads(tool("symbolize", "--json", report).stdout)["places"]
        assert str(copy) in {one["module"].replace("\\012", "\n") for one in places} or b"012" in name, places


def test_a_file_that_is_no_longer_there(folder: Path, program: Path, library: Path) -> None:
    """The kernel writes ` (deleted)` behind its path. Another file at the path is not the program."""
    copy = folder / "deleted"
    shutil.copy(program, copy)
    tool = Tool(folder)
    for report in reports(folder, copy, library, str(copy)):
        assert "deleted (deleted): the file is no longer there; " in tool("symbolize", report).stderr
    shutil.copy(program, copy)
    for report in ("report.txt", "report.json"):
        done = tool("symbolize", report)
        assert "deleted (deleted): the file had been replaced already" in done.stderr
        assert "touch_freed" not in done.stdout


@pytest.mark.parametrize(
    "line,path",
    [
        ("hakmem:   #0 0x1 /a b+0x12", "/a b"),
        ("log: hakmem:   #10 0x1 /a+0x12 b+0x12\r", "/a+0x12 b"),
        (r"hakmem:   #0 0x1 /\\x41\x0a\xc3\xa9+0x12", "/\\x41\n\u00e9"),
        (r'{"address":"0x1","module":"/\\u00ff\u00ff\"","offset":"0x12"},', '/\\u00ff\udcff"'),
        ('hakmem:   #0 0x1 /"module":"/x","offset":"0x1"+0x12', '/"module":"/x","offset":"0x1"'),
    ],
)
def test_paths_as_the_library_writes_them(line: str, path: str) -> None:
    assert list(names_of([line], [])[0]) == [(path, 0x12)]


@pytest.mark.parametrize(
    "line",
    [
        "hakmem:   #0 0x1 ...path+0x12",
        "hakmem:   #0 0x1 /a+0x12 main (a.c:1)",
        "hakmem:   touched by thread 1 (#1 0x2 /x+0x3) of",
    ],
)
def test_lines_without_a_place(line: str) -> None:
    assert names_of([line], [])[0] == {}


def test_other_lines_stay(tool: Tool, tmp_path: Path) -> None:
    """As they are, but for control characters, which must not reach a terminal."""
    (tmp_path / "log").write_bytes(b"one\ttwo\x0cthree\xe2\x80\xa8\n\ncaf\xe9\x1b[31m\r\nlast")
    words = tool.words("symbolize", "log")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.stdout == b"one\ttwo\\x0cthree\\u2028\n\ncaf\xe9\\x1b[31m\nlast\n"


def test_of_a_pipe(tool: Tool) -> None:
    """As a shell's `<(...)` names it."""
    words = ["bash", "-c", '"$@" <(echo line)', "bash", *tool.words("symbolize")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "line\n", "")


@pytest.mark.parametrize(("name", "reason"), [(".", "Is a directory"), ("no", "No such file or directory")])
def test_a_file_that_cannot_be_read(tool: Tool, name: str, reason: str) -> None:
    done = tool("symbolize", name)
    assert (done.returncode, done.stderr) == (125, f"hakmem: cannot read {name}: {reason}\n")


def test_a_closed_input(tool: Tool) -> None:
    words = ["sh", "-c", 'exec "$@" <&-', "sh", *tool.words("symbolize")]
    done = subprocess.run(words, cwd=tool.folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (125, "hakmem: cannot read standard input: it is closed\n")
