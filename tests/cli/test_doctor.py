"""`hakmem doctor` as a user starts it: text, JSON, exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from cli_support import Compile, Tool

CALLS = "#include <stdlib.h>\nint main(void) { void *volatile p = malloc(9); free(p); return 0; }"
LEVELS = {"ok", "note", "warning", "problem"}

pytestmark = pytest.mark.usefixtures("library")


@pytest.fixture
def calls(compile_c: Compile) -> Path:
    return compile_c("calls", CALLS)


def test_nothing_keeps_it_from_working(tool: Tool, calls: Path) -> None:
    done = tool("doctor", "--", calls, "--an-option-of-its-own")
    assert done.returncode == 0 and done.stderr == ""
    assert f"Nothing keeps hakmem from working in {calls}" in " ".join(done.stdout.split())


def test_the_next_command_is_the_examined_one(tool: Tool, library: Path, tmp_path: Path) -> None:
    """With its arguments and options, also where a shell runs it."""
    script = tmp_path / "script"
    script.write_text("echo no first line of its own\n")
    script.chmod(0o755)
    lines = tool("doctor", "--library", library, "--", "./script", "two words").stdout.splitlines()
    assert lines[-1] == f"next: hakmem run --library {library} -- ./script 'two words'"
    assert tool("doctor").stdout.splitlines()[-1] == "next: hakmem run -- PROGRAM"


def test_without_a_program(tool: Tool) -> None:
    done = tool("doctor")
    assert done.returncode == 0 and "Nothing keeps hakmem from working here" in done.stdout


def test_a_problem(tool: Tool, compile_c: Compile) -> None:
    static = compile_c("calls_static", CALLS, "-static")
    done = tool("doctor", static)
    assert done.returncode == 125
    assert "problem" in done.stdout and "why: " in done.stdout and "do:  " in done.stdout
    assert f"hakmem does not work in {static}: 1 problem" in " ".join(done.stdout.split())


@pytest.mark.parametrize("name, code", [("no-such-program", 127), ("./no-such-program", 127), ("/", 126), ("", 127)])
def test_what_cannot_be_run(tool: Tool, name: str, code: int) -> None:
    done = tool("doctor", "--", name)
    assert done.returncode == code and done.stdout == "" and done.stderr.startswith("hakmem: ")


def test_json(tool: Tool, calls: Path, library: Path, tmp_path: Path) -> None:
    done = tool("doctor", "--json", "-", "--", calls)
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["schema"] == 1 and told["works"] is True
    assert told["program"] == str(calls) and told["library"] == str(library)
    assert told["worst"] in LEVELS - {"problem"}
    for finding in told["findings"]:
        assert set(finding) == {"level", "subject", "found", "why", "do"} and finding["level"] in LEVELS
        assert finding["level"] == "ok" or (finding["why"] and finding["do"])


def test_json_in_a_file(tool: Tool, calls: Path, tmp_path: Path) -> None:
    file = tmp_path / "doctor.json"
    done = tool("doctor", "--json", file, "--library", "/bin/sh", "--", calls)
    assert done.returncode == 125 and "malloc resolves" in done.stdout
    told = json.loads(file.read_text())
    assert told["works"] is False and told["worst"] == "problem"


def test_a_file_that_cannot_be_written(tool: Tool, calls: Path) -> None:
    done = tool("doctor", "--json", "/nowhere/x.json", "--", calls)
    assert done.returncode == 125 and done.stdout == "" and "/nowhere/x.json" in done.stderr


def test_a_library_that_does_not_exist(tool: Tool) -> None:
    done = tool("doctor", "--library", "/nowhere/lib.so")
    assert done.returncode == 125 and "no library /nowhere/lib.so" in done.stderr


def test_the_program_is_not_run(tool: Tool, compile_c: Compile, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    source = f'#include <fcntl.h>\nint main(void) {{ return open("{mark}", O_CREAT | O_WRONLY, 0600) < 0; }}'
    assert tool("doctor", compile_c(f"marks_{tmp_path.name}", source)).returncode == 0
    assert not mark.exists()


def test_a_caller_who_collects_reports_gets_none(tool: Tool, calls: Path, tmp_path: Path) -> None:
    file = tmp_path / "report"
    done = tool("doctor", calls, environment={**os.environ, "HAKMEM_STATS_FILE": f"{file}.%p"})
    assert done.returncode == 0 and list(tmp_path.iterdir()) == []
