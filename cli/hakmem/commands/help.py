"""`hakmem help`: a command, or what an error message of the library means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, Optional

import click

from hakmem.errors import EXIT_USAGE, Failure

# A copy of docs/errors.md, which tools/generate_docs.py keeps up to date.
PAGE = Path(__file__).resolve().parents[1] / "pages" / "errors.md"
_WHOLE = "errors"


@click.command()
@click.argument("topic", required=False, metavar="[COMMAND | KIND]")
@click.pass_context
def help(ctx: click.Context, topic: Optional[str]) -> None:  # pylint: disable=redefined-builtin
    """Show the help of a COMMAND, or explain an error message by its KIND, such as double-free."""
    parent = ctx.parent
    assert parent is not None and isinstance(parent.command, click.Group)
    if topic is None:
        click.echo(parent.get_help())
        return
    command = parent.command.get_command(parent, topic)
    if command is not None:
        with click.Context(command, info_name=topic, parent=parent) as inner:
            click.echo(command.get_help(inner))
        return
    kinds = sections(PAGE.read_text(encoding="utf-8"))
    if topic != _WHOLE and topic not in kinds:
        raise Failure(
            f"no help for {topic}: it is neither a command nor the kind of an error message ({', '.join(kinds)})",
            EXIT_USAGE,
        )
    click.echo(plain(PAGE.read_text(encoding="utf-8") if topic == _WHOLE else kinds[topic]))


def sections(page: str) -> Dict[str, str]:
    """The sections of the page that have the name of a kind: one word."""
    pieces = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    found = (piece.partition("\n") for piece in pieces)
    return {title: f"{title}\n{text}".rstrip() for title, _, text in found if " " not in title}


def plain(text: str) -> str:
    """Links within the page and to other pages as their words; `hakmem help` leads to the former."""
    text = re.sub(r"\[([^]]+)\]\(#([a-z-]+)\)", r"\1 (hakmem help \2)", text)
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
