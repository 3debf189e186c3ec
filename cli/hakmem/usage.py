"""How commands are listed in `--help`, how wide it is, and how wrong usage is reported."""

from __future__ import annotations

import re
import shutil
from typing import Any, Dict, Sequence, Tuple

import click

from hakmem.errors import Failure, say

WIDTH = 100
# click writes no narrower, but for a width that it is given.
_NARROWEST_OF_CLICK = 50
_LEAST = 24  # a narrower terminal wraps the lines
_MARGIN = 2
_SHARE_OF_TERMS = 3  # a third of the width at the most
_LONGEST_SUMMARY = 200
_SEE = "(see: "
# click's words for its types.
_PLAIN = (
    (r"is not a valid integer(?: range)?", "is no whole number"),
    (r"is not a valid float(?: range)?", "is no number"),
    (r"^No such option: ?", "No such option "),
)


class WholeSummaries(click.Group):
    """Lists its commands in groups, with summaries that are not cut."""

    def groups(self, ctx: click.Context) -> Dict[str, Sequence[str]]:
        """The titles, and the names of the commands."""
        return {"Commands": self.list_commands(ctx)}

    def invoke(self, ctx: click.Context) -> Any:
        """Names the command whose option lacks its value, or has one in vain: click's failure does not."""
        try:
            return super().invoke(ctx)
        except click.UsageError as failure:
            name = ctx.invoked_subcommand
            command = self.get_command(ctx, name) if failure.ctx is None and name is not None else None
            if command is not None:
                failure.ctx = click.Context(command, parent=ctx, info_name=name)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click's, without a limit."""
        for title, names in self.groups(ctx).items():
            commands = ((name, self.get_command(ctx, name)) for name in names)
            rows = [(name, command.get_short_help_str(_LONGEST_SUMMARY)) for name, command in commands if command]
            with formatter.section(title):
                formatter.write_dl(rows, col_spacing=3)


class Formatter(click.HelpFormatter):
    """Writes what an option means below it where there is too little room beside it."""

    def write_dl(self, rows: Sequence[Tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """As click's."""
        longest = min(max((len(term) for term, _ in rows), default=0), col_max)
        if self.width < _NARROWEST_OF_CLICK and longest * _SHARE_OF_TERMS > self.width:
            col_max = col_spacing = _MARGIN
        super().write_dl(rows, col_max, col_spacing)


def columns() -> int:
    """The width of a help text."""
    return min(max(shutil.get_terminal_size().columns, _LEAST), WIDTH)


def width() -> Dict[str, int]:
    """What click needs to know for a narrow terminal."""
    narrow = columns() - _MARGIN
    return {"terminal_width": max(narrow, 20)} if narrow < _NARROWEST_OF_CLICK else {}


def show(failure: click.ClickException) -> None:
    """One message on stderr. Wrong usage is told in one line too, with the command that explains the usage."""
    context = failure.ctx if isinstance(failure, (click.UsageError, Failure)) else None
    is_usage = context is not None or isinstance(failure, click.UsageError)
    if not is_usage or type(failure).__name__ == "NoArgsIsHelpError":
        failure.show()
        return
    words = context.command_path.split()[1:] if context is not None else []
    if isinstance(failure, click.UsageError):
        text = f"{' '.join(words)}: {_message(failure)}" if words else _message(failure)
    else:
        text = failure.format_message()
    # A message that names another page needs no second one.
    say(text if _SEE in text else f"{text} {_SEE}{' '.join(['hakmem help', *words])})")


def _takes_pid(failure: click.UsageError) -> bool:
    parameters = failure.ctx.command.params if failure.ctx is not None else []
    return any("PID" in (one.metavar or "") for one in parameters if isinstance(one, click.Argument))


def _message(failure: click.UsageError) -> str:
    if isinstance(failure, click.NoSuchOption) and re.match(r"-\d", failure.option_name) and _takes_pid(failure):
        return f"{failure.option_name} is neither an option nor a PID"
    text = failure.format_message()
    for pattern, words in _PLAIN:
        text = re.sub(pattern, words, text)
    return " ".join(text.split()).rstrip(".")
