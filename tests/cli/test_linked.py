"""Programs that are linked with hakmem, in every way, work without a preload, and the tool says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import List

import pytest
from cli_support import Compile, Tool

SOURCE = r"""
#include <stdlib.h>
#include <string.h>
int main(void) {
  void *volatile lost = malloc(3000000);
  memset(lost, 1, 3000000);
  lost = NULL;
  return 5;
}
"""


def flags(library: Path, how: str) -> List[str]:
    """The linker's words for each way."""
    folder = library.parent
    if how == "static":
        return ["-static", str(folder / "libhakmem.a")]
    if how == "archive":
        return [str(folder / "libhakmem.a")]
    name = "libhakmem-fast.so" if how == "fast" else "libhakmem.so"
    return ["-Wl,--no-as-needed", f"-L{folder}", f"-l:{name}", f"-Wl,-rpath,{folder}"]


@pytest.fixture(params=["shared", "fast", "archive", "static"])
def linked(request: pytest.FixtureRequest, compile_c: Compile, library: Path) -> Path:
    return compile_c(f"linked-{request.param}", SOURCE, *flags(library, request.param))


def test_run(tool: Tool, linked: Path) -> None:
    done = tool("run", "-v", "--", linked)
    assert done.returncode == 5, done.stderr
    assert "served malloc" in done.stderr and "1 large block" in done.stderr
    done = tool("run", "--json", "run.json", "--", linked)
    told = json.loads((tool.folder / "run.json").read_text())
    assert (done.returncode, done.stderr, told["library_mapped"]) == (5, "", True)
    assert told["allocator"]["own"]["events"]["large_alloc"] == 1


@pytest.mark.parametrize("how", ["shared", "archive", "static"])
def test_a_program_that_writes_no_report(tool: Tool, compile_c: Compile, library: Path, how: str) -> None:
    """The allocator is hakmem all the same, also where the program is its own library."""
    source = "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { free(malloc(9)); _exit(0); }\n"
    program = compile_c(f"no-report-{how}", source, *flags(library, how))
    done = tool("run", "-v", "--", program)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("hakmem: allocator")]
    assert line.startswith("hakmem: allocator  hakmem ") and "; no report: it ended by _exit" in line


def test_doctor(tool: Tool, linked: Path) -> None:
    done = tool("doctor", "--json", "-", "--", linked)
    found = json.loads(done.stdout)
    assert (done.returncode, found["works"]) == (0, True)
    assert any("needs no preload" in finding["found"] for finding in found["findings"])


def test_other_commands_that_start_programs(tool: Tool, linked: Path) -> None:
    if "fast" in linked.name:
        pytest.skip("the library without checks has neither profiles nor leak checks")
    done = tool("profile", "--rate", "1", "--by", "alloc", "--", linked)
    assert done.returncode == 5 and "2.86 MiB allocated" in done.stderr, done.stderr
    done = tool("leaks", "--", linked)
    assert done.returncode == 5 and "3,000,000 bytes" in done.stderr, done.stderr


def test_another_library_has_no_effect(tool: Tool, linked: Path, library: Path) -> None:
    other = library.parent / ("libhakmem.so" if "fast" in linked.name else "libhakmem-fast.so")
    done = tool("run", "--library", other, "--", linked)
    assert done.returncode == 125 and "is linked with hakmem" in done.stderr


def test_compare_says_why_it_cannot(tool: Tool, compile_c: Compile, library: Path) -> None:
    program = compile_c("linked-archive", SOURCE, *flags(library, "archive"))
    done = tool("compare", "--rounds", "1", "--", program)
    assert done.returncode == 125 and "has hakmem in it" in done.stderr
