"""`hakmem help`: a command, a page of the documents, or what an error message of the library means."""

from __future__ import annotations

import json
from typing import List, Optional, Tuple

import click

from hakmem import help_page
from hakmem.errors import EXIT_USAGE, Failure
from hakmem.schemas import SCHEMAS


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
@click.argument("words", nargs=-1, metavar="[COMMAND | KIND | PAGE]")
@click.pass_context
def help(ctx: click.Context, is_json: bool, words: Tuple[str, ...]) -> None:  # pylint: disable=redefined-builtin
    """Show the help of a COMMAND, explain an error message by its KIND, such as double-free, or print a PAGE.

    The pages are errors, options and sandbox, and leaks.md and stats.md.
    """
    parent = ctx.parent
    assert parent is not None
    topic = " ".join(words) or None
    text = _text(parent, topic)
    click.echo(json.dumps({"schema": SCHEMAS["help"], "topic": topic, "text": text}, indent=1) if is_json else text)


def _text(parent: click.Context, topic: Optional[str]) -> str:
    if topic is None:
        return parent.get_help()
    told = _of_command(parent, topic)
    if told is None:
        told = help_page.of_topic(topic)
    if told is None:
        raise Failure(
            f"no help for {topic}: it is neither a command (hakmem help lists them), nor the kind of an error message "
            f"({', '.join(help_page.kinds())}), nor a page ({', '.join(_pages(parent))})",
            EXIT_USAGE,
        )
    return told


def _pages(parent: click.Context) -> List[str]:
    """The names that lead to the pages: a command comes before a page of its name."""
    return [f"{name}.md" if _of_command(parent, name) else name for name in help_page.names()]


def _of_command(parent: click.Context, topic: str) -> Optional[str]:
    """`learn merge` is a command in a command."""
    context = parent
    for word in topic.split():
        if not isinstance(context.command, click.Group):
            return None
        command = context.command.get_command(context, word)
        if command is None:
            return None
        context = click.Context(command, info_name=word, parent=context)
    return context.get_help() if context is not parent else None
