"""Named heaps and tags in the statistics: each row is distinct, and those with the most memory have one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Outcome, Runner

Program = Callable[[str], Path]

STRANGE = 16
ROWS = 63

pytestmark = pytest.mark.usefixtures("hakmem_only")


def written(runner: Runner, program: Program, tmp_path: Path, form: str, count: int) -> str:
    """The statistics of the program at its end."""
    file = tmp_path / f"stats.{form}"
    outcome = runner.under([program("named_rows"), count], env={"HAKMEM_STATS_FILE": str(file)})
    assert outcome == Outcome(0, b"", b"")
    return file.read_bytes().decode("utf-8")


@pytest.mark.parametrize("form", ["om", "prom"])
@pytest.mark.parametrize("count", [0, 100])
def test_metrics_have_no_series_twice(runner: Runner, program: Program, tmp_path: Path, form: str, count: int) -> None:
    """Names of any bytes, and names that look like the rest's."""
    lines = written(runner, program, tmp_path, form, count).split("\n")
    series = [line.rpartition(" ")[0] for line in lines if line and not line.startswith("#")]
    assert len(series) == len(set(series))
    blocks = [one for one in series if one.startswith("hakmem_named_live_blocks{")]
    assert len(blocks) == (2 * (STRANGE + 1) if count == 0 else ROWS + 2)
    assert 'hakmem_named_live_blocks{heap="café"}' in blocks
    assert 'hakmem_named_live_blocks{tag="ctl\\\\x01"}' in blocks
    assert 'hakmem_named_live_blocks{tag="ctl\\\\\\\\x01"}' in blocks
    for rest in ("heaps", "tags"):
        assert (f'hakmem_named_live_blocks{{{rest}="others"}}' in blocks) == (count != 0)


def test_the_largest_have_rows(runner: Runner, program: Program, tmp_path: Path) -> None:
    """The rest is a row for heaps, and one for tags with its counts."""
    many = 500
    rows = json.loads(written(runner, program, tmp_path, "json", many))["named"]
    of = {(row["kind"], row["name"]): row for row in rows}
    assert len(of) == len(rows) == ROWS + 2
    for kind in ("heap", "tag"):
        assert of[kind, "large"]["live_blocks"] == 2000
        assert of[kind, "caf\u00e9"]["live_blocks"] == of[kind, "others"]["live_blocks"] == 200
        of_kind = [row for row in rows if row["kind"] in (kind, kind + "s")]
        assert sum(row["count"] for row in of_kind) == STRANGE + 1 + many
        assert sum(row["live_blocks"] for row in of_kind) == 2000 + STRANGE * 200 + many
    rest = of["tags", "others"]
    assert rest["allocated_blocks"] == rest["live_blocks"] == rest["count"] and rest["freed_blocks"] == 0
    assert "allocated_blocks" not in of["heaps", "others"]


def test_text_is_printable(runner: Runner, program: Program) -> None:
    """A name has no effect on a terminal."""
    outcome = runner.under([program("named_rows"), 100], env={"HAKMEM_STATS": "on"})
    text = outcome.stderr.decode("utf-8")
    assert outcome.code == 0 and all(line.isprintable() for line in text.split("\n"))
    table = text.split("hakmem: named heaps and tags\n")[1].split("\n")
    rows = [line for line in table if line[30:].lstrip().split(" ")[0] in ("heap", "tag", "heaps", "tags")]
    assert len(rows) == ROWS + 2
