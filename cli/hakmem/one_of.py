"""Options of which one chooses the form of a result."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Sequence

import click

from hakmem.errors import EXIT_USAGE, Failure

Command = Callable[..., Any]


def one_of(parameter: str, forms: Dict[str, Sequence[str]]) -> Callable[[Command], Command]:
    """Adds flags. `forms` has, by value, the names of its flag and, last, the flag's text. The command gets the value
    of the given flag as `parameter`, None without one. Two of them are wrong usage."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def called(**values: Any) -> None:
            given = [value for value in forms if values.pop(_variable(value))]
            if len(given) > 1:
                raise Failure(f"{forms[given[0]][0]} or {forms[given[1]][0]}: one of them", EXIT_USAGE)
            command(**{parameter: given[0] if given else None}, **values)

        # The last is shown first.
        for value, (*names, text) in reversed(list(forms.items())):
            called = click.option(*names, _variable(value), is_flag=True, help=text)(called)
        return called

    def _variable(value: str) -> str:
        return f"is_{value}"

    return decorate
