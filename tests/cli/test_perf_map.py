"""Names of code that a runtime writes: /tmp/perf-PID.map."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_support import Tool
from hakmem.profile.debug_files import Search
from hakmem.profile.model import Location, Profile, Sample
from hakmem.profile.perf_map import PerfMap, paths_of
from hakmem.profile.symbolize import Symbolizer

PYTHON = next(
    (
        path
        for minor in range(20, 11, -1)
        if (path := shutil.which(f"python3.{minor}"))
        and subprocess.run(
            [path, "-X", "perf", "-c", "import sys; sys.exit(not sys.is_stack_trampoline_active())"],
            capture_output=True, check=False,
        ).returncode == 0
    ),
    None,
)  # fmt: skip
PROGRAM = """
kept = []
def fill_the_cache():
    for _ in range(100):
        kept.append(bytearray(100_000))
def handle_request():
    fill_the_cache()
handle_request()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "perf-1.map"
    path.write_text(
        "1000 b py::load:/srv/app.py\n"
        "1010 b py::<lambda>:<string>\n"
        "not a line\n"
        "2000 100 LazyCompile:~run /srv/app.js:3\n"
        "3000 10 old code\n"
        "3000 10 new code\n"
    )
    return path


def test_addresses(file: Path) -> None:
    found = PerfMap(["/no/such/file", str(file)])
    load = found.frame(0x1005)
    assert load is not None and (load.function, load.file) == ("py::load", "/srv/app.py")
    names = {address: frame.function for address in range(0x0FFF, 0x3020) if (frame := found.frame(address))}
    assert names[0x1015] == "py::<lambda>" and names[0x20FF] == "LazyCompile:~run /srv/app.js:3"
    assert names[0x3001] == "new code"
    assert not {0x0FFF, 0x100B, 0x101B, 0x1FFF, 0x2100, 0x3010} & {*names}


def test_what_is_no_such_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "bytes").write_bytes(bytes(range(256)) * 10)
    assert PerfMap([str(tmp_path / "fifo"), str(tmp_path / "bytes"), str(tmp_path)]).frame(0x1000) is None


def test_only_code_without_a_file_is_named_by_it(file: Path) -> None:
    profile = Profile([("inuse_space", "bytes")], [], [], [Location(0x1005), Location(0x9999)])
    profile.samples.append(Sample(tuple(profile.locations), (1,)))
    with Symbolizer(Search(perf_maps=[str(file)])) as symbolizer:
        symbolizer.symbolize(profile)
    assert [location.frames[0].function for location in profile.locations] == ["py::load", "0x9999"]


def test_the_files_of_a_process() -> None:
    assert paths_of(os.getpid(), ("/root", ""))[-1] == f"/tmp/perf-{os.getpid()}.map"


@pytest.mark.skipif(PYTHON is None, reason="no CPython with perf support (3.12 or later)")
def test_python_itself(tool: Tool, library: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    words = (
        "profile",
        "--rate",
        "4096",
        "--by",
        "alloc",
        "--folded",
        "stacks",
        "--",
        PYTHON,
        "-X",
        "perf",
        "program.py",
    )
    done = tool(*words, environment={**os.environ, "PYTHONMALLOC": "malloc"})
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert any(re.search(r"main;.*py::handle_request;.*py::fill_the_cache;", line) for line in lines)
