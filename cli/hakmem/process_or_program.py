"""Commands whose argument is a process or a program. Behind a program's name all words are its own; behind a process there are none,
so options may stand there too, as people type them: `hakmem profile 4711 --seconds 5`."""

from __future__ import annotations

from typing import List

import click


def is_process(word: str) -> bool:
    """One word of digits is a process; a program of such a name is `./123`."""
    return word.isascii() and word.isdigit()


class ProcessOrProgram(click.Command):
    """For `@click.command(cls=...)` with allow_interspersed_args off, and with an argument `command` of any number of words."""

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        """Looks once whether the first word that is no option is a process."""
        if "--" not in args:
            try:
                found, _, _ = self.make_parser(ctx).parse_args(args=list(args))
            except click.UsageError:
                found = {}  # what is wrong is said below
            # Without words it is None, an empty list, or an object of click's that has no length, by click's version.
            words = found.get("command")
            ctx.allow_interspersed_args = isinstance(words, (list, tuple)) and len(words) > 0 and is_process(words[0])
        return super().parse_args(ctx, args)
