"""README.md's commands that need a built library alone: preloading, and the table by which a reader sees inside. The
tests of tests/packages run the other ones."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from cli_support import ROOT, Compile, Tool
from watched_support import Watched

sys.path.insert(0, str(ROOT / "tools"))
from documented_commands import commands

README = "README.md"
# What the output of each command of the table has to show.
SHOWS = {
    "explain": r"resident .*live ",
    "report": r"<html",
    "profile": r"in use, about \d+ blocks",
    "leaks": r"leaked: no pointer leads there",
    "diff": r"\+.*MiB.*main",
    "stats": r"live",
    "help": r"double",
    "doctor": r"malloc resolves",
    "guard": r"one allocation in 1,000,000",
}
PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
static void *volatile last;
int main(void) { for (int i = 0; i < 100; i++) last = memset(malloc(3000), 1, 3000); return 0; }
"""


def table() -> list[str]:
    """The commands of the table, without `./hakmem`."""
    section = (ROOT / README).read_text().partition("## See inside")[2].partition("\n## ")[0]
    return re.findall(r"^\| [^|]+ \| `\./hakmem ([^`]+)` \|", section, re.MULTILINE)


def words_of(name: str, **values: str) -> list[str]:
    """The words of that row's command, with values for its placeholders."""
    (found,) = (line.split() for line in table() if line.split()[0] == name)
    return [values.get(word, word) for word in found]


def test_each_row_of_the_table_is_run() -> None:
    assert {line.split()[0] for line in table()} == {*SHOWS, "top", "metrics"}
    assert len(table()) == len(SHOWS) + 3  # metrics has two


@pytest.mark.parametrize("name", SHOWS)
def test_a_row_of_the_table(name: str, tool: Tool, watched: Watched, compile_c: Compile, tmp_path: Path) -> None:
    """As it stands, but for its placeholders and a short time."""
    values = {"PID": str(watched.pid), "PROGRAM": str(compile_c("readme", PROGRAM))}
    short = ["--seconds", "0.2"] if name in ("profile", "report") else []
    if name == "diff":
        # 19 MB, about 37 samples: fewer than three, which say less than a MiB, do not happen.
        for value, options in (("BEFORE", "--stay"), ("AFTER", "--stop")):
            watched.do("grow 400")
            values[value] = f"{value}.pb.gz"
            done = tool("profile", "-q", "-o", values[value], options, "--seconds", "0.2", watched.pid)
            assert done.returncode == 0, done.stderr
    done = tool(*words_of(name, **values), *short)
    said = done.stdout + done.stderr + "".join(page.read_text() for page in tmp_path.glob("page.html"))
    assert done.returncode == 0 and re.search(SHOWS[name], said), said[-4000:]


def test_top(tool: Tool, watched: Watched) -> None:
    """Goes on until it is interrupted."""
    top = tool.start(*words_of("top", PID=str(watched.pid)))
    assert top.stdout is not None
    assert any("learner: " in line for line in top.stdout)
    top.send_signal(signal.SIGINT)
    top.communicate(timeout=30)


@pytest.mark.parametrize("line", [line for line in table() if line.startswith("metrics")])
def test_a_row_that_serves(line: str, tool: Tool, watched: Watched) -> None:
    """`metrics` prints the address that Prometheus reads."""
    words = [str(watched.pid) if word == "PID" else word for word in line.split()]
    server = tool.start(*words)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert b"hakmem_up" in answer.read()
    finally:
        server.terminate()
        server.communicate(timeout=30)


def test_preloaded(library: Path, tmp_path: Path) -> None:
    """Both lines, in a folder that looks like the checkout; the program prints the files that are mapped into it."""
    (tmp_path / "build").mkdir()
    (tmp_path / "build/release").symlink_to(library.parent)
    (tmp_path / "your-program").symlink_to("/bin/cat")
    lines = commands(README, "test_preloaded")
    assert len(lines) == 2
    for number, line in enumerate(lines):
        done = _shell(f"{line} /proc/self/maps", tmp_path)
        assert "/libhakmem.so" in done[0] and ("hakmem: " in done[1]) == (number == 1), done


def _shell(line: str, folder: Path) -> tuple[str, str]:
    path = f"{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", line], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr
