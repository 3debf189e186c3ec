"""Stdout that cannot be written ends a command with one line and 125; stderr matters for whole results alone.
test_every_command.py goes over all commands."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import List

import pytest
from cli_support import Tool
from watched_support import Watched

FULL = "hakmem: cannot write to standard output: No space left on device\n"
WORDS = (("--help",), ("--version",), ("stats", "--help"), ("doctor", "--json", "-"))


def ends(tool: Tool, words: List[str], redirection: str) -> "subprocess.CompletedProcess[str]":
    """The tool, started by a shell that redirects."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *tool.words(*words)],
        cwd=tool.folder, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_full_disk_is_one_line(tool: Tool, words: List[str]) -> None:
    done = ends(tool, [*words], ">/dev/full")
    assert (done.returncode, done.stderr) == (125, FULL)


def test_a_reader_that_has_gone_is_no_message(tool: Tool) -> None:
    script = '{ "$@"; echo $? >code; } | true'
    words = ["sh", "-c", script, "sh", *tool.words("bench", "--help")]
    done = subprocess.run(words, cwd=tool.folder, capture_output=True, text=True, timeout=100, check=False)
    assert done.stderr == ""
    assert (tool.folder / "code").read_text() in ("0\n", "141\n")  # as the pipe took the text, or did not


def test_top_ends_well_with_its_reader(tool: Tool, watched: Watched) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        tool.words("top", watched.pid), cwd=tool.folder, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=100,
        check=False,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "code"), [("profile -- true", 125), ("leaks -- true", 125), ("run --json - -- true", 125),
                        ("profile -- sh -c 'exit 7'", 7), ("profile -q -- true", 0), ("run -- true", 0)],
)  # fmt: skip
def test_a_result_on_a_full_stderr(tool: Tool, library: Path, words: str, code: int) -> None:
    """As on stdout, unless the program has failed. The line of `run` is no such result."""
    assert ends(tool, shlex.split(words), "2>/dev/full").returncode == code


def test_a_full_stderr_changes_no_exit_code(tool: Tool, library: Path) -> None:
    assert ends(tool, ["run", "--", "sh", "-c", "exit 7"], "2>/dev/full").returncode == 7
    assert ends(tool, ["stats"], "2>/dev/full").returncode == 2
    assert ends(tool, ["compare", "--rounds", "1", "--warmup", "0", "--", "true"], "2>/dev/full").returncode == 0
    assert ends(tool, ["doctor"], ">&- 2>&-").returncode == 125
