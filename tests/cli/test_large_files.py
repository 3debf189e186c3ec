"""Input files that have no end, and small ones within a small limit on memory."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path
from typing import List

import pytest
from cli_support import Tool
from hakmem.commands import symbolize
from hakmem.errors import Failure
from profile_support import named
from report_support import save, sites, snapshot

# A read of as many bytes as the largest file may have does not fit.
LIMIT = 640 << 20


def limited(tool: Tool, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        tool.words(*words), cwd=tool.folder, capture_output=True, text=True, timeout=300, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)),
    )  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ["profile", "--input", "p"], ["profile", "--sites", "sites.json"], ["diff", "p", "p"],
        ["explain", "s.json", "--profile", "p"], ["symbolize", "s.json"],
    ],
)  # fmt: skip
def test_small_files(tool: Tool, tmp_path: Path, words: List[str]) -> None:
    (tmp_path / "p").write_bytes(named({("append", "main"): (9, 1000, 1, 900)}))
    save(tmp_path, "s.json", snapshot())
    save(tmp_path, "sites.json", sites())
    done = limited(tool, *words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["symbolize", "/dev/zero"], 125), (["diff", "/dev/zero", "/dev/zero"], 125),
        (["learn", "replay", "/dev/zero"], 125), (["bench", "--draw", "/dev/zero", "a.svg"], 2),
        (["profile", "--input", "/dev/zero"], 125), (["explain", "/dev/zero"], 125),
    ],
)  # fmt: skip
def test_files_without_an_end(tool: Tool, words: List[str], code: int) -> None:
    """Where the memory does not suffice, the message says so."""
    if words[0] == "bench":
        pytest.importorskip("matplotlib")
    done = limited(tool, *words)
    assert done.returncode in (code, 125), done.stderr
    assert (done.stdout, done.stderr.count("\n")) == ("", 1), done.stderr


def test_a_log_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolize, "_MOST_BYTES", 3 << 20)
    log = tmp_path / "log"
    log.write_bytes(b"x" * (3 << 20))
    assert len(symbolize._read(str(log))) == 3 << 20
    for name in (str(log), "/dev/zero"):
        log.write_bytes(b"x" * ((3 << 20) + 1))
        with pytest.raises(Failure, match="is larger than 3 MiB: give the part that has the reports"):
            symbolize._read(name)
