"""Stdout that cannot be written ends every command with one line and 125; stderr never matters."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import List

import pytest
from cli_support import ROOT, Tool
from watched_support import Watched

FULL = "hakmem: cannot write to standard output: No space left on device\n"
CLOSED = "hakmem: cannot write to standard output: it is closed\n"
WITHOUT_PROCESS = (
    ("--help",),
    ("--version",),
    ("stats", "--help"),
    ("compare", "--list"),
    ("bench", "--list"),
    ("doctor", "--json", "-"),
    ("learn", "replay", str(ROOT / "bench" / "learn_traces" / "redis.level")),
)
OF_PROCESS = (
    ("stats", "PID"),
    ("stats", "--json", "PID"),
    ("top", "PID"),
    ("top", "--once", "PID"),
    ("explain", "PID"),
    ("explain", "--json", "-", "PID"),
    ("profile", "--seconds", "0.01", "PID"),
    ("report", "--seconds", "0", "-o", "-", "PID"),
    ("metrics", "PID"),
)


def ends(tool: Tool, words: List[str], redirection: str) -> "subprocess.CompletedProcess[str]":
    """The tool, started by a shell that redirects."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *tool.words(*words)],
        cwd=tool.folder, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("words", WITHOUT_PROCESS, ids=" ".join)
def test_a_full_disk_is_one_line(tool: Tool, words: List[str]) -> None:
    done = ends(tool, [*words], ">/dev/full")
    assert (done.returncode, done.stderr) == (125, FULL)


def test_a_full_disk_is_one_line_for_commands_with_a_process(tool: Tool, watched: Watched) -> None:
    for words in OF_PROCESS:
        done = ends(tool, [word.replace("PID", str(watched.pid)) for word in words], ">/dev/full")
        assert (done.returncode, done.stderr.splitlines()[-1] + "\n") == (125, FULL), words
        assert "Traceback" not in done.stderr


def test_a_closed_stdout_is_one_line(tool: Tool) -> None:
    done = ends(tool, ["doctor", "--json", "-"], ">&-")
    assert (done.returncode, done.stderr) == (125, CLOSED)


def test_a_reader_that_has_gone_is_no_message(tool: Tool) -> None:
    script = '{ "$@"; echo $? >code; } | true'
    words = ["sh", "-c", script, "sh", *tool.words("bench", "--help")]
    done = subprocess.run(words, cwd=tool.folder, capture_output=True, text=True, timeout=100, check=False)
    assert done.stderr == ""
    assert (tool.folder / "code").read_text() in ("0\n", "141\n")  # as the pipe took the text, or did not


def test_a_pipe_without_a_reader_is_sigpipe(tool: Tool, watched: Watched) -> None:
    """But for `top PID`: a reader that goes is its usual end."""
    for words in OF_PROCESS:
        reader, writer = os.pipe()
        os.close(reader)
        named = [word.replace("PID", str(watched.pid)) for word in words]
        done = subprocess.run(
            tool.words(*named),
            cwd=tool.folder,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=100,
            check=False,
        )
        os.close(writer)
        expected = 0 if words == ("top", "PID") else 141
        assert done.returncode == expected and "Traceback" not in done.stderr, (words, done.stderr)


def test_a_full_stderr_changes_no_exit_code(tool: Tool, library: Path) -> None:
    assert ends(tool, ["run", "--", "sh", "-c", "exit 7"], "2>/dev/full").returncode == 7
    assert ends(tool, ["stats"], "2>/dev/full").returncode == 2
    assert ends(tool, ["compare", "--rounds", "1", "--warmup", "0", "--", "true"], "2>/dev/full").returncode == 0
    assert ends(tool, ["doctor"], ">&- 2>&-").returncode == 125
