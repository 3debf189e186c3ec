"""Commands whose argument is a process or a program. All words after a program's name are its own. Options may follow
a process, as people type them: `hakmem profile 4711 --seconds 5`. They may also stand among files."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import click

from hakmem.decimal_text import number
from hakmem.errors import EXIT_USAGE, Failure, shown


def is_process(word: str) -> bool:
    """One word of digits is a process; a program of such a name is `./123`."""
    return number(word) is not None


def process_of(command: Sequence[str]) -> Optional[int]:
    """The process that the words name; None where they are a program and its arguments. Raises a Failure for 0."""
    return PID.convert(command[0], None, None) if len(command) == 1 and is_process(command[0]) else None


class _Pid(click.ParamType):
    """The number of a process."""

    name = "pid"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> int:
        """Raises a Failure that says what a PID is."""
        text = str(value)
        if not is_process(text) or int(text) == 0:
            raise Failure(
                f"{shown(text)} is no PID: give a running process's number (pidof NAME prints it)", EXIT_USAGE
            )
        return int(text)


PID = _Pid()


class ProcessOrProgram(click.Command):
    """For `@click.command(cls=...)` with allow_interspersed_args off, and with an argument `command` of any number of
    words. `flag_of_files` is the flag, if there is one, behind which the words are files."""

    def __init__(self, *arguments: Any, flag_of_files: str = "", **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._flag_of_files = flag_of_files

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        """Classifies the words once, before click parses them."""
        if "--" not in args:
            try:
                found, _, _ = self.make_parser(ctx).parse_args(args=list(args))
            except click.UsageError:
                found = {}  # the code below reports the error
            # Without words it is None, an empty list, or an object of click's that has no length, by click's version.
            words = found.get("command")
            has_process = isinstance(words, (list, tuple)) and len(words) > 0 and is_process(words[0])
            ctx.allow_interspersed_args = has_process or found.get(self._flag_of_files) is True
        return super().parse_args(ctx, args)
