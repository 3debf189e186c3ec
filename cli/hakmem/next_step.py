"""The line after a result: the next useful command."""

from __future__ import annotations

import shlex
from typing import Sequence

import click

from hakmem.errors import write_stderr


def line(text: str) -> str:
    """In the common form."""
    return f"next: {text}"


def tell(text: str, on_stderr: bool = False) -> None:
    """Prints it behind the text of a result: on stdout, or on stderr where stdout is a program's."""
    if on_stderr:
        write_stderr(line(text) + "\n")
    else:
        click.echo(line(text))


def words(command: Sequence[str]) -> str:
    """A program and its arguments, as a shell takes them."""
    return " ".join(shlex.quote(word) for word in command)
