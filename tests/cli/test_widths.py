"""Text fits terminals of 60 and 80 columns, and no figure is broken in two. test_every_command.py goes over all
commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest
from cli_support import ROOT, Compile, Tool
from hakmem import bench_tables, fitting
from hakmem.counts import Counted
from profile_support import named
from report_support import save, sites
from rich.table import Table
from rich.text import Text
from watched_support import Watched, plain

TRACE = str(ROOT / "bench" / "learn_traces" / "redis.level")
WIDE = 200


def lines(tool: Tool, columns: int, *words: object) -> List[str]:
    done = tool(*words, environment={**os.environ, "COLUMNS": str(columns)})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def figures(text: List[str]) -> List[str]:
    return re.findall(r"\d[\d.,]*", "\n".join(text))


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_all_statistics(tool: Tool, watched: Watched, columns: int) -> None:
    """As the library writes them for files; folded, with the same figures, where the width is known."""
    watched.do("grow 1000")
    unset = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    whole = tool("stats", "--all", watched.pid, environment=unset).stdout
    found = lines(tool, columns, "stats", "--all", watched.pid)
    assert max(map(len, found)) <= columns < max(map(len, whole.splitlines()))
    assert sorted(word for word in " ".join(found).split() if word.endswith(".")) == sorted(
        word for word in whole.split() if word.endswith(".")
    )
    assert any(re.search(r"nearly empty \d", line) for line in found), "a row of a table is a list"


@pytest.mark.parametrize("columns", [60, 80])
def test_of_files(tool: Tool, tmp_path: Path, columns: int) -> None:
    for name, grown in (("a", 1), ("b", 1 << 34)):
        snapshot = {
            "schema": 1,
            "pid": 1,
            "memory": {"resident": grown, "large_blocks": 7},
            "events": {"purged": grown},
        }
        (tmp_path / name).write_text(json.dumps(snapshot))
    for words in (("diff", "a", "b"), ("learn", "replay", TRACE)):
        found = lines(tool, columns, *words)
        assert max(map(len, found)) <= columns, found
        assert {*figures(found)} <= {*figures(lines(tool, WIDE, *words))}


@pytest.mark.parametrize("columns", [60, 80])
def test_compare(tool: Tool, library: Path, columns: int) -> None:
    words = (
        "compare",
        "-q",
        "--rounds",
        "3",
        "--warmup",
        "0",
        "--allocators",
        "hakmem",
        "--cost",
        "--",
        "sleep",
        "0.1",
    )
    found = lines(tool, columns, *words)
    assert max(map(len, found)) <= columns, found
    rows = [line for line in found if re.match(r"  (glibc|hakmem)\b", line)]
    assert len(rows) >= 20 and all(re.search(r"\d( .?i?[sB])? ", row) for row in rows)


@pytest.mark.parametrize("columns", [60, 80])
def test_doctor_and_profile(tool: Tool, library: Path, columns: int) -> None:
    assert max(map(len, lines(tool, columns, "doctor"))) <= columns
    environment = {**os.environ, "COLUMNS": str(columns)}
    done = tool("profile", "--rate", "1", "--by", "alloc", "--", "ls", "/", environment=environment)
    rows = [line for line in done.stderr.splitlines() if line.startswith(" ")]
    assert rows and max(map(len, rows)) <= columns and "flat" in rows[0] and "blocks" in rows[0]


def test_the_names_of_a_profile_stay(tool: Tool, tmp_path: Path) -> None:
    """They are what the figures belong to: a narrow terminal does without other figures."""
    function = "a_function_of_26_letters_z"
    (tmp_path / "x.pb.gz").write_bytes(named({(function, "main"): (10, 60_000_000, 4, 30_000_000)}))
    save(tmp_path, "sites.json", sites("/no/library"))
    assert f"    28.6 MiB  {function}" in lines(tool, 40, "profile", "--input", "x.pb.gz", "--rows", 2)
    for by, figure in (("lifetime", "120.0 MiB"), ("pinned", "90.0 MiB")):
        found = lines(tool, 40, "profile", "--sites", "sites.json", "--by", by)
        assert any(line.startswith(f"{figure:>12}  library+0x10 ← library") for line in found), found
        assert max(map(len, found)) <= 40


def test_a_terminal_decides(tool: Tool, library: Path) -> None:
    """Through a real one of 60 columns: script(1) makes it."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(tool, {})).splitlines()
    assert "learned" in plain and max(map(len, plain)) <= 60


def on_a_terminal(tool: Tool, more: Dict[str, str]) -> str:
    words = shlex.join(tool.words("learn", "replay", TRACE))
    environment = {**os.environ, "TERM": "xterm-256color", **more}
    return subprocess.run(
        ["script", "-qec", f"stty cols 60; exec {words}", "/dev/null"],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    ).stdout  # fmt: skip


def test_colours_are_for_terminals(tool: Tool, library: Path, tmp_path: Path) -> None:
    """And for none with NO_COLOR."""
    colour = r"\x1b\[[0-9;]*(3[0-9]|9[0-7])[0-9;]*m"
    words = ("doctor", "--library", library)
    run = shlex.join(tool.words(*words))
    for more, is_coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        told = subprocess.run(
            ["script", "-qec", run, "/dev/null"], env={**os.environ, "TERM": "xterm-256color", **more},
            capture_output=True, text=True, timeout=60, check=False,
        ).stdout  # fmt: skip
        assert (re.search(colour, told) is not None) is is_coloured
    assert "\x1b" not in tool(*words).stdout


@pytest.mark.parametrize(("columns", "is_list"), [("200", False), ("60", True)])
def test_the_table_of_counts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str, is_list: bool
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    figures = {"refill": 123_456_789, "peak_in_use": 5 << 30, "peak_held": 6 << 30, "bytes_requested": 1 << 30}
    bench_tables.print_counts([Counted("a-workload", 2, 1_000_000, figures)])
    shown = capsys.readouterr().out
    assert ("  refills: 123,456,789" in shown) is is_list
    assert "123,456,789" in shown and "5.00 GiB" in shown and "6.00 GiB" in shown
    assert max(map(len, shown.splitlines())) <= int(columns)


def test_a_table_that_cannot_fit_becomes_a_list(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    wide = Table("name", "a\nfigure", "words")
    wide.add_row("first", "123,456", "x" * 50)
    wide.add_row(Text("second"), "", "y")
    fitting.print_table(fitting.console(), wide)
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert shown == ["first", "  a figure: 123,456", f"  words: {'x' * 50}", "", "second", "  words: y"]


# Twenty named heaps, each with memory of the one thread.
_MANY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  void *(*create)(const char *, const void *) = dlsym(RTLD_DEFAULT, "hakmem_heap_create");
  void *(*take)(void *, size_t) = dlsym(RTLD_DEFAULT, "hakmem_heap_malloc");
  for (int i = 0; i < 20; i++) {
    char name[32];
    snprintf(name, sizeof name, "shop %d: baskets", i);
    void *volatile kept = take(create(name, NULL), 1000);
    (void)kept;
  }
  puts("ok");
  fflush(stdout);
  (void)getchar();
  return 0;
}
"""


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_statistics_of_many_heaps(tool: Tool, library: Path, compile_c: Compile, columns: int) -> None:
    """A table that does not have all rows says so in a line of its own, and each row of each table is a list."""
    with subprocess.Popen(
        [compile_c("many", _MANY, "-ldl")], env=plain(library), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ok\n"
        found = lines(tool, columns, "stats", "--all", process.pid)
        process.stdin.close()
    assert any(re.fullmatch(r"  and \d+ more with less in use", line) for line in found), found[-60:]
    text = " ".join("\n".join(found[found.index("hakmem: named heaps and tags") :]).split())
    if columns < 120:
        row = r"shop 7: baskets, heap, parts 1, live blocks 1, live bytes 1\.0 KiB, memory .* refused count 0 "
        assert re.search(row, text), text
    else:
        assert re.search(r"parts live blocks .* shop 7: baskets heap 1 1 1\.0 KiB ", text), text
