"""`hakmem help`: commands, and the page that error messages of the library name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from cli_support import ROOT, Compile, Tool
from hakmem.help_page import sections
from hakmem.main import GROUPS

KINDS = (
    "double-free", "invalid-free", "use-after-free", "invalid-pointer", "damaged-block", "crash",
    "overflow", "underflow", "destroyed-heap", "leaked-heap", "wrong-size",
)  # fmt: skip


def test_every_kind_of_the_library_has_its_text(tool: Tool) -> None:
    files = ("api/misuse.c", "inspect/crash_report.c", "report/guard_report.c")
    sources = "".join((ROOT / "src" / name).read_text() for name in files)
    assert {*KINDS} <= {*re.findall(r"[a-z]+-[a-z]+(?:-[a-z]+)?|crash|overflow|underflow", sources)}
    assert {*sections((ROOT / "docs" / "errors.md").read_text())} == {*KINDS}
    for kind in KINDS:
        done = tool("help", kind)
        assert done.returncode == 0 and done.stdout.startswith(f"{kind}\n"), done.stderr
        assert "](" not in done.stdout  # a link leads nowhere in a terminal
        narrow = tool("help", kind, environment={"COLUMNS": "60", "PATH": "/usr/bin:/bin"}).stdout
        assert max(len(line) for line in narrow.splitlines() if not line.startswith("    ")) <= 60
        assert narrow.split() == done.stdout.split()


def test_a_message_names_a_command_that_works(tool: Tool, compile_c: Compile, library: Path) -> None:
    source = "#include <stdlib.h>\nint main(void) { void *volatile p = malloc(9); free(p); free(p); return 0; }"
    program = compile_c("twice", source, "-fno-builtin")
    done = subprocess.run(
        [program], env={"LD_PRELOAD": str(library)}, capture_output=True, text=True, timeout=60, check=False
    )
    named = re.search(r"\(see: hakmem (help [a-z-]+)\)\n", done.stderr)
    assert named is not None, done.stderr
    assert "freed before" in tool(*named.group(1).split()).stdout


def test_commands_and_the_whole(tool: Tool) -> None:
    assert tool("help").stdout == tool("--help").stdout
    assert tool("help", "run").stdout == tool("run", "--help").stdout
    assert all(f"\n{kind}\n" in tool("help", "errors").stdout.replace("## ", "") for kind in KINDS)
    done = tool("help", "nonsense")
    assert (done.returncode, done.stdout) == (2, "") and "double-free" in done.stderr
    pages = re.search(r"nor a page \((.*?)\)", done.stderr)
    assert pages is not None and {"errors", "leaks.md"} <= {*pages.group(1).split(", ")}
    for name in pages.group(1).split(", "):
        page = (ROOT / "docs" / f"{name.removesuffix('.md')}.md").read_text()
        assert tool("help", name).stdout.partition("\n")[0] == page.partition("\n")[0]


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_groups_and_whole_summaries(tool: Tool, columns: str) -> None:
    text = tool("--help", environment={"COLUMNS": columns, "PATH": "/usr/bin:/bin"}).stdout
    places = [text.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    assert "..." not in text.partition("\n  Examples")[0].partition("Options:")[2]


@pytest.mark.parametrize("columns", ["1", "4", "20"])
def test_help_in_a_terminal_of_a_few_columns(tool: Tool, columns: str) -> None:
    for words in (["--help"], ["run", "--help"]):
        done = tool(*words, environment={"COLUMNS": columns, "PATH": "/usr/bin:/bin"})
        assert (done.returncode, done.stderr) == (0, "") and "Examples" in done.stdout


@pytest.mark.parametrize("word", ["abc", "0", "-1x", "4711.5", "٤"])
def test_a_word_that_is_no_process(tool: Tool, word: str) -> None:
    for command in ("stats", "top", "metrics"):
        done = tool(command, "--", word)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"hakmem: {word} is no PID: ") and done.stderr.count("\n") == 1


def test_the_help_that_a_message_on_a_signal_names_explains_it(tool: Tool) -> None:
    messages = (ROOT / "cli" / "hakmem" / "attach.py").read_text()
    named = re.search(r"\(EINTR\).*?\(see: hakmem (help [a-z-]+)\)", messages, re.DOTALL)
    assert named and "EINTR" in tool(*named[1].split()).stdout
