"""Every command writes JSON, with a version, as docs/cli.schema.json describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

import click
import pytest
from cli_support import ROOT, Compile, Tool
from hakmem.main import cli
from hakmem.schemas import SCHEMAS
from report_support import save, snapshot
from watched_support import Watched

jsonschema = pytest.importorskip("jsonschema")

DOCUMENT: Dict[str, Any] = json.loads((ROOT / "docs" / "cli.schema.json").read_text())
STATISTICS: Dict[str, Any] = json.loads((ROOT / "docs" / "stats.schema.json").read_text())
TRACE = str(ROOT / "bench" / "learn_traces" / "redis.level")


def check(name: str, text: str) -> Dict[str, Any]:
    """The document, when it is one of this command."""
    found: Dict[str, Any] = json.loads(text)
    schema = STATISTICS if name in ("stats", "top") else DOCUMENT["$defs"][name]
    jsonschema.Draft202012Validator(schema).validate(found)
    assert found["schema"] == SCHEMAS[name]
    return found


def test_every_command_has_it_and_is_described() -> None:
    context = click.Context(cli)
    leaves = {}
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        inner = command.commands.items() if isinstance(command, click.Group) else ()
        leaves.update({f"{name} {word}": one for word, one in inner} if inner else {name: command})
    described = {name for name in leaves if any("--json" in one.opts for one in leaves[name].params)}
    assert described == {*leaves} == {*SCHEMAS} == {*DOCUMENT["$defs"]}
    for name, schema in DOCUMENT["$defs"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        if "$ref" not in schema:
            assert schema["properties"]["schema"] == {"const": SCHEMAS[name]}
    assert SCHEMAS["stats"] == SCHEMAS["top"] == STATISTICS["properties"]["schema"]["const"]


def test_a_difference_below_zero_is_described(tool: Tool, tmp_path: Path) -> None:
    document = snapshot()
    document["memory"]["resident"] = document["parts"]["live"]
    document["parts"]["not_malloc"] = 0
    told = check("explain", tool("explain", "--json", "-", save(tmp_path, "s.json", document)).stdout)
    assert [part["part"] for part in told["parts"] if part["bytes"] < 0] == ["zero_pages"]


def test_of_a_process(tool: Tool, watched: Watched) -> None:
    watched.do("grow 100")
    pid = str(watched.pid)
    check("stats", tool("stats", "--json", pid).stdout)
    check("top", tool("top", "--once", "--json", pid).stdout)
    told = check("explain", tool("explain", "--json", "-", pid).stdout)
    assert told["pid"] == watched.pid
    check("report", tool("report", "--seconds", "0", "-o", "page.html", "--json", "-", pid).stdout)
    assert check("guard", tool("guard", "--json", pid).stdout)["rate"] == 0
    for by in ("alloc", "lifetime", "pinned"):
        words = ("profile", "--seconds", "0.01", "--by", by, "--json", "-", pid)
        assert check("profile", tool(*words).stdout)["by"] == by
    with tool.start("metrics", "--json", pid) as process:
        assert process.stdout is not None
        assert check("metrics", process.stdout.readline())["url"].startswith("http://127.0.0.1:")
        process.terminate()


def test_of_a_sampling_process(tool: Tool, compile_c: Compile, library: Path) -> None:
    from watched_support import SOURCE

    found = Watched(compile_c("holder", SOURCE), library, HAKMEM_PROFILE="1", HAKMEM_PROFILE_RATE="1")
    with found.process:
        found.do("grow 10")
        leaks = check("leaks", tool("leaks", "--json", "-", found.pid).stdout)
        rows = check("profile", tool("profile", "--json", "-", found.pid).stdout)["rows"]
        found.process.kill()
    assert leaks["processes"][0]["sites"] and any(row["bytes"] >= 10 * 48000 for row in rows)


def test_of_a_program(tool: Tool, library: Path, busy: Path) -> None:
    def written(name: str) -> str:
        return (tool.folder / name).read_text()

    tool("run", "--json", "run.json", "--", busy, "30", "50")
    check("run", written("run.json"))
    tool("leaks", "--json", "leaks.json", "--", busy, "3", "0")
    assert check("leaks", written("leaks.json"))["processes"][0]["sites"]
    tool("profile", "--rate", "1", "--by", "alloc", "--json", "profile.json", "-q", "--", busy, "3", "0")
    assert check("profile", written("profile.json"))["total_bytes"] >= 3 << 20
    check("compare", tool("compare", "--rounds", "1", "--warmup", "0", "--json", "-", "--", busy, "3", "0").stdout)
    check("doctor", tool("doctor", "--json", "-", "--", busy).stdout)


def test_of_files(tool: Tool, tmp_path: Path) -> None:
    for name, resident in (("a", 1), ("b", 2)):
        snapshot = {"schema": 1, "pid": 1, "memory": {"resident": resident}, "events": {"refill": resident}}
        (tmp_path / name).write_text(json.dumps(snapshot))
    (tmp_path / "report.log").write_text("hakmem:   #0 0x1000 /nowhere/at_all+0x10\n")
    assert len(check("symbolize", tool("symbolize", "--json", "report.log").stdout)["places"]) == 1
    check("diff", tool("diff", "--json", "-", "a", "b").stdout)
    check("learn replay", tool("learn", "replay", "--json", "-", TRACE).stdout)
    assert check("help", tool("help", "--json", "double-free").stdout)["topic"] == "double-free"


def test_no_json_beside_a_programs_output(tool: Tool, library: Path) -> None:
    for option in ("--json", "-o", "--folded", "--speedscope", "--flame"):
        done = tool("profile", option, "-", "--", "true")
        assert done.returncode == 2 and f"stdout is the program's: name a file for {option}" in done.stderr
