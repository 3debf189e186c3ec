"""The line after a result: the next useful command."""

from __future__ import annotations

import shlex
from typing import List, Mapping, Optional, Sequence

import click

from hakmem.errors import escaped, write_stderr
from hakmem.folding import columns_of_stderr, fold_command, known_columns
from hakmem.process_or_program import is_process

_LABEL = "next: "


def line(text: str) -> str:
    """In the common form."""
    return f"{_LABEL}{text}"


def lines(text: str, width: Optional[int]) -> List[str]:
    """The same in lines of this width, which a shell takes as one."""
    return fold_command(line(text), width, " " * len(_LABEL))


def tell(text: str, on_stderr: bool = False) -> None:
    """Prints it behind the text of a result: on stdout, or on stderr where stdout is a program's."""
    told = lines(text, columns_of_stderr() if on_stderr else known_columns())
    if on_stderr:
        write_stderr("".join(f"{one}\n" for one in told))
    else:
        click.echo("\n".join(told))


def options(given: Mapping[str, object]) -> List[str]:
    """Options by name, as they are typed: none for None and False, a flag for True, one for each value of several."""
    told: List[str] = []
    for name, value in given.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                told.append(name)
            elif one is not None and one is not False:
                told += [name, f"{one:g}" if isinstance(one, float) else str(one)]
    return told


def subject(command: Sequence[str]) -> List[str]:
    """A process, or a program behind `--` where its name looks like an option or a process."""
    is_unclear = bool(command) and (command[0].startswith("-") or (len(command) > 1 and is_process(command[0])))
    return [*(["--"] if is_unclear else []), *command]


def file(name: str) -> str:
    """A file's name as an argument, where it must not look like an option or a process."""
    return f"./{name}" if name.startswith("-") or is_process(name) else name


def words(command: Sequence[str]) -> str:
    """A program and its arguments, as a shell takes them."""
    return " ".join(_quoted(word) for word in command)


def _quoted(word: str) -> str:
    """Control characters are escaped: they must not reach a terminal."""
    plain = escaped(word)
    if plain == word:
        return shlex.quote(word)
    codes = "".join(one if one == escaped(one) and one not in "'\\" else _codes(one) for one in word)
    return f"$'{codes}'"


def _codes(character: str) -> str:
    """Each byte of three octal digits, which end there in each shell."""
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8"))
