"""`--help` of every command ends with examples that the command understands; the man pages say the same."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Iterator, Tuple

import click
import pytest
from cli_support import ROOT, Tool
from hakmem.examples import EXAMPLES
from hakmem.main import cli


def commands(group: click.Group = cli, words: str = "") -> Iterator[Tuple[str, click.Command]]:
    """Every command, and what stands behind `hakmem` for it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{words} {name}".strip(), command
        if isinstance(command, click.Group):
            yield from commands(command, name)


ALL = dict(commands())


def test_every_command_has_examples_and_no_other_has() -> None:
    assert {*EXAMPLES} == {"", *ALL}


@pytest.mark.parametrize("words", EXAMPLES)
def test_help_ends_with_examples(words: str, tool: Tool) -> None:
    done = tool(*words.split(), "--help")
    assert done.returncode == 0
    # A command line that does not fit is folded as a shell takes it.
    end = re.sub(r" \\\n +", " ", done.stdout.partition("\n  Examples:\n")[2])
    assert end.splitlines() == [f"    {text}" for line, what in EXAMPLES[words] for text in (f"# {what}", line)]


@pytest.mark.parametrize("line", [line for examples in EXAMPLES.values() for line, _ in examples])
def test_examples_are_understood(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the parser of their command: each option is one, and has the values that it takes."""
    (tmp_path / "debug").mkdir()  # a folder that is named must be there
    monkeypatch.chdir(tmp_path)
    words = [word for word in shlex.split(line) if not word.startswith(">")]
    assert words.pop(0) == "hakmem"
    name = words.pop(0)
    if isinstance(ALL[name], click.Group):
        name += f" {words.pop(0)}"
    if words != ["--help"]:
        ALL[name].make_context(name, words)


def test_the_man_pages_and_completions_are_up_to_date() -> None:
    words = [sys.executable, str(ROOT / "tools" / "generate_man.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "man: ok\n"), done.stdout + done.stderr


def test_the_man_pages_have_every_command_and_option() -> None:
    overview = (ROOT / "docs" / "man" / "hakmem.1").read_text().replace("\\-", "-")
    for words, command in ALL.items():
        name = words.split()[0]
        assert f"\n\\fBhakmem-{name}\\fR(1)\n" in overview
        page = (ROOT / "docs" / "man" / f"hakmem-{name}.1").read_text().replace("\\-", "-")
        section = page.partition(f".SH HAKMEM {words.upper()}\n")[2].partition("\n.SH")[0] if " " in words else page
        options = [option for option in command.params if isinstance(option, click.Option)]
        assert all(f"\\fB{word}\\fR" in section for option in options for word in option.opts), words
