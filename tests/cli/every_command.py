"""Every command as it is typed, for the tests that go over all commands. A new command has to be entered here."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import click
import pytest
from cli_support import ROOT, Compile, Tool
from forked_tool import ForkedTool
from hakmem.main import cli
from hakmem.paths import find_library
from test_bench import FAKE, WORKLOADS
from test_learn_merge import record
from watched_support import SOURCE, Watched

_NO_NOTES = "--rounds 1 --warmup 0 --allocators hakmem -q"
_OF_SET = "--workloads set --programs set --allocators hakmem --no-counts -q --seed 5 --rounds 1"
# By the command: its forms with a result on stdout, and those of a PROGRAM, with a result on stderr. Words in capitals
# are those of `World.words`.
ON_STDOUT: Dict[str, Tuple[str, ...]] = {
    "bench": (f"{_OF_SET} --list",),
    "compare": (f"{_NO_NOTES} -- PROGRAM", "--list"),
    "diff": ("A.JSON B.JSON", "PROFILE PROFILE"),
    "doctor": ("-- PROGRAM", ""),
    "env": ("", "--systemd --set mode=lean"),
    "explain": ("PID", "A.JSON"),
    "guard": ("PID", "--rate 1000 PID"),
    "help": ("", "double-free", "options", "leaks"),
    "learn merge": ("-q LEARNED",),
    "learn replay": ("TRACE",),
    "leaks": ("PID", "--scan PID"),
    "metrics": ("PID",),
    "profile": ("PID", "--by alloc PID", "--by lifetime PID", "--by pinned PID", "--input PROFILE"),
    "report": ("-o - --from A.JSON B.JSON", "-o - --seconds 0 PID"),
    "run": (),
    "stats": ("PID", "--all PID", "--openmetrics PID"),
    "symbolize": ("REPORT",),
    "top": ("--once PID", "--once --all PID"),
}
ON_STDERR: Dict[str, Tuple[str, ...]] = {
    "leaks": ("-- PROGRAM",),
    "learn merge": ("-o merged LEARNED",),
    "profile": ("--by alloc -- PROGRAM",),
    "run": ("-- PROGRAM", "-v -- PROGRAM"),
}
# Their lines are for shells and browsers.
NOT_FOR_READERS = ("env", "report", "metrics", "learn merge", "stats --openmetrics")


def leaves(group: click.Group = cli, words: str = "") -> Iterator[str]:
    """Every command that does something."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, name)
        else:
            yield f"{words} {name}".strip()


def lines_of(table: Dict[str, Tuple[str, ...]]) -> List[str]:
    """All command lines of a table."""
    return [f"{name} {form}".strip() for name, forms in table.items() for form in forms]


@dataclass
class World:
    """What the commands work on: a process that samples, a program, and files in the tool's folder."""

    tool: Tool
    process: Watched
    program: Path
    run: ForkedTool

    def words(self, line: str) -> List[str]:
        """The line's words, with what there is here in the place of those in capitals."""
        there = {
            "PID": str(self.process.pid), "PROGRAM": str(self.program), "A.JSON": "a.json", "B.JSON": "b.json",
            "PROFILE": "a.pb.gz",
            "REPORT": "report.log", "LEARNED": "a.learned",
            "TRACE": str(ROOT / "bench" / "learn_traces" / "redis.level"),
        }  # fmt: skip
        return [there.get(word, word) for word in shlex.split(line)]


@pytest.fixture(scope="module")
def world(compile_c: Compile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Everything that `World.words` names."""
    tool, library = Tool(tmp_path_factory.mktemp("world")), find_library()
    if library is None:
        pytest.skip("libhakmem.so is not built (make lib)")
    options = {"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_RATE": "1", "HAKMEM_PROFILE_FILE": "-"}
    process = Watched(compile_c("holder", SOURCE, "-g"), library, **options)
    with process.process:
        try:
            process.do("grow 300")
            _write_files(tool, process)
            run = ForkedTool(tool.folder, tmp_path_factory.mktemp("scratch"))
            yield World(tool, process, compile_c("keeper", _KEEPER, "-g"), run)
            run.close()
        finally:
            process.process.kill()


_KEEPER = r"""
#include <stdlib.h>
#include <string.h>
int main(void) {
  for (int i = 0; i < 40; i++) memset(malloc(48000), 1, 48000);
  return 0;
}
"""


def _write_files(tool: Tool, process: Watched) -> None:
    taken = json.loads(tool("stats", "--json", process.pid).stdout)
    (tool.folder / "a.json").write_text(json.dumps(taken))
    taken["memory"]["resident"] += 1 << 34
    (tool.folder / "b.json").write_text(json.dumps(taken))
    assert tool("profile", "-q", "-o", "a.pb.gz", process.pid).returncode == 0
    (tool.folder / "report.log").write_text("hakmem:   #0 0x1000 /nowhere/at_all+0x10\n")
    (tool.folder / "a.learned").write_bytes(record().to_bytes())
    folder = tool.folder / "set"
    folder.mkdir()
    (folder / "workloads.toml").write_text(WORKLOADS)
    (folder / "input").touch()
    for name in ("fake", "fake_floor"):
        (folder / name).write_text(FAKE)
        (folder / name).chmod(0o755)
