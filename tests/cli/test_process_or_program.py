"""Where a command takes a process or a program: whose the words are that stand behind it."""

from __future__ import annotations

from typing import List, Tuple

import click
import pytest
from click.testing import CliRunner
from hakmem.errors import Failure
from hakmem.process_or_program import ProcessOrProgram, process_of


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


@click.command(cls=ProcessOrProgram, flag_of_files="saved", context_settings={"allow_interspersed_args": False})
@click.option("--saved", is_flag=True)
@click.option("--rows", type=int, default=1)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def show_files(saved: bool, rows: int, command: Tuple[str, ...]) -> None:
    click.echo(f"{saved} {rows} {' '.join(command)}")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--saved", "a", "--rows", "5", "b"], "True 5 a b"),
        (["--saved", "--rows", "5", "--", "a", "--rows"], "True 5 a --rows"),
        (["prog", "--saved"], "False 1 prog --saved"),
        (["4711", "--rows", "5"], "False 5 4711"),
    ],
)
def test_options_may_stand_among_files(words: List[str], shown: str) -> None:
    done = CliRunner().invoke(show_files, words)
    assert (done.exit_code, done.output) == (0, shown + "\n")


def test_which_process() -> None:
    assert process_of(["4711"]) == 4711
    for words in (["0"], ["00"]):
        with pytest.raises(Failure, match="is no PID") as refused:
            process_of(words)
        assert refused.value.exit_code == 2
    # Digits of another script are no process, and int() would take them.
    assert process_of(["4711", "x"]) is process_of([]) is process_of(["./4711"]) is process_of(["\u0661"]) is None
