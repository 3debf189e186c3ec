"""`hakmem help`: a command, or what an error message of the library means."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Dict, Optional

import click

from hakmem import fitting
from hakmem.errors import EXIT_USAGE, Failure
from hakmem.schemas import SCHEMAS

# A copy of docs/errors.md, which tools/generate_docs.py keeps up to date.
PAGE = Path(__file__).resolve().parents[1] / "pages" / "errors.md"
_WHOLE = "errors"
_WIDTH = 100


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
@click.argument("topic", required=False, metavar="[COMMAND | KIND]")
@click.pass_context
def help(ctx: click.Context, is_json: bool, topic: Optional[str]) -> None:  # pylint: disable=redefined-builtin
    """Show the help of a COMMAND, or explain an error message by its KIND, such as double-free."""
    parent = ctx.parent
    assert parent is not None
    text = _text(parent, topic)
    click.echo(json.dumps({"schema": SCHEMAS["help"], "topic": topic, "text": text}, indent=1) if is_json else text)


def _text(parent: click.Context, topic: Optional[str]) -> str:
    assert isinstance(parent.command, click.Group)
    if topic is None:
        return parent.get_help()
    command = parent.command.get_command(parent, topic)
    if command is not None:
        with click.Context(command, info_name=topic, parent=parent) as inner:
            return command.get_help(inner)
    page = PAGE.read_text(encoding="utf-8")
    kinds = sections(page)
    if topic != _WHOLE and topic not in kinds:
        raise Failure(
            f"no help for {topic}: it is neither a command nor the kind of an error message ({', '.join(kinds)})",
            EXIT_USAGE,
        )
    return plain(page if topic == _WHOLE else kinds[topic])


def sections(page: str) -> Dict[str, str]:
    """The sections of the page that have the name of a kind: one word."""
    pieces = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    found = (piece.partition("\n") for piece in pieces)
    return {title: f"{title}\n{text}".rstrip() for title, _, text in found if " " not in title}


def plain(text: str) -> str:
    """Links within the page and to other pages as their words; `hakmem help` leads to the former."""
    text = re.sub(r"\[([^]]+)\]\(#([a-z-]+)\)", r"\1 (hakmem help \2)", text)
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
    return "\n\n".join(_fitted(paragraph) for paragraph in text.split("\n\n"))


def _fitted(paragraph: str) -> str:
    """Code, tables and titles keep their lines."""
    if paragraph.startswith(("    ", "|", "#")):
        return paragraph
    return textwrap.fill(" ".join(paragraph.split()), fitting.columns(_WIDTH), break_on_hyphens=False)
