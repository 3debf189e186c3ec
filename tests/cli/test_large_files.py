"""Input files that have no end, and small ones within a small limit on memory."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Callable, List

import pytest
from cli_support import Tool
from hakmem import bench_means, bounded, level_trace
from hakmem.commands import symbolize
from hakmem.errors import EXIT_CANNOT, Failure
from hakmem.explain import snapshot as snapshots
from hakmem.profile import changes
from hakmem.profile import read as profile_read
from hakmem.profile import sites as profile_sites
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


def test_too_little_memory(tool: Tool) -> None:
    done = limited(tool, "profile", "--input", "/dev/zero")
    told = "hakmem: there is not enough memory: is it limited, as by ulimit -v?\n"
    assert (done.returncode, done.stdout, done.stderr) == (125, "", told)


@pytest.mark.parametrize(
    ("module", "bound", "read"),
    [
        (level_trace, "_MOST_BYTES", level_trace.read), (changes, "MOST_BYTES", changes.load),
        (profile_read, "MOST_BYTES", profile_read.read), (profile_sites, "_MOST_BYTES", profile_sites.read),
        (bench_means, "_MOST_BYTES", bench_means.read), (snapshots, "_MOST_BYTES", snapshots.read),
    ],
)  # fmt: skip
def test_files_without_an_end(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, bound: str, read: Callable[[str], object]
) -> None:
    monkeypatch.setattr(module, bound, 3 << 20)
    with pytest.raises(Failure, match=r"^/dev/zero is larger than 3 MiB$") as failed:
        read("/dev/zero")
    assert failed.value.exit_code == EXIT_CANNOT


def test_a_file_as_large_as_the_bound(tmp_path: Path) -> None:
    content = bytes(range(256)) * (3 << 12)
    (tmp_path / "p").write_bytes(content)
    assert bounded.read_file(str(tmp_path / "p"), 3 << 20) == content
    with open("/dev/zero", "rb") as file:
        assert bounded.read(file, 3 << 20) == bytes(3 << 20)


def test_a_log_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolize, "_MOST_BYTES", 3 << 20)
    log = tmp_path / "log"
    log.write_bytes(b"x" * (3 << 20))
    assert len(symbolize._read(str(log))) == 3 << 20
    for name in (str(log), "/dev/zero"):
        log.write_bytes(b"x" * ((3 << 20) + 1))
        with pytest.raises(Failure, match="is larger than 3 MiB: give the part that has the reports"):
            symbolize._read(name)
