"""Where a command takes a process or a program: whose the words are that stand behind it."""

from __future__ import annotations

from typing import List, Tuple

import click
import pytest
from click.testing import CliRunner
from hakmem.process_or_program import ProcessOrProgram


@click.command(cls=ProcessOrProgram, context_settings={"allow_interspersed_args": False})
@click.option("--rows", type=int, default=1)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def show(rows: int, command: Tuple[str, ...]) -> None:
    click.echo(f"{rows} {' '.join(command)}")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["4711", "--rows", "5"], "5 4711"),
        (["--rows", "5", "4711"], "5 4711"),
        (["prog", "--rows", "5"], "1 prog --rows 5"),
        (["--rows", "5", "prog", "--rows", "6"], "5 prog --rows 6"),
        (["--rows", "5", "prog", "4711", "-x"], "5 prog 4711 -x"),
        (["--", "4711", "--rows", "5"], "1 4711 --rows 5"),
        (["./4711", "--rows", "5"], "1 ./4711 --rows 5"),
        (["--rows", "5"], "5 "),
        ([], "1 "),
    ],
)
def test_whose_the_words_are(words: List[str], shown: str) -> None:
    done = CliRunner().invoke(show, words)
    assert (done.exit_code, done.output) == (0, shown + "\n")


def test_what_is_wrong_is_said_once() -> None:
    done = CliRunner().invoke(show, ["4711", "--rows", "many"])
    assert done.exit_code == 2 and done.output.count("many") == 1
    assert CliRunner().invoke(show, ["--no-such", "4711"]).exit_code == 2
