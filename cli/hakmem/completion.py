"""The words that a shell offers for an argument, by its name in the usage: processes, programs and files. click has the
commands, the options and their choices itself (cli/completions)."""

from __future__ import annotations

import os
import re
from typing import Iterator, List

import click
from click.shell_completion import CompletionItem

_FILES = {"FILE", "SNAPSHOT", "BEFORE", "AFTER", "TRACE"}
_LIBRARY = "libhakmem"


def add_to(command: click.Command) -> None:
    """Completes the arguments of a command, those of the commands in it, and the files that its options name."""
    for parameter in command.params:
        words = set(re.findall(r"[A-Z]+", parameter.metavar or ""))
        if words & {"PID", "PROGRAM", *_FILES}:
            parameter.shell_complete = _Words(words, parameter.nargs == -1)  # type: ignore[method-assign]
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            add_to(inner)


class _Words:
    """Completes one parameter: `words` are those of its metavar."""

    def __init__(self, words: "set[str]", is_many: bool) -> None:
        self._words = words
        self._is_many = is_many

    def __call__(self, ctx: click.Context, incomplete: str) -> List[CompletionItem]:
        if self._is_many and ctx.params.get("command"):  # behind the program: its own arguments
            return [CompletionItem(incomplete, type="file")]
        found: List[CompletionItem] = []
        if "PID" in self._words:
            found += _processes(incomplete)
        if "PROGRAM" in self._words and "/" not in incomplete:
            found += _programs(incomplete)
        if self._words & _FILES or "/" in incomplete:
            found.append(CompletionItem(incomplete, type="file"))
        return found


def _processes(start: str) -> Iterator[CompletionItem]:
    """The processes on hakmem that the caller may look at; programs that are linked statically are not found."""
    for number in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        if not number.startswith(start):
            continue
        try:
            with open(f"/proc/{number}/maps", encoding="utf-8", errors="replace") as maps:
                is_ours = any(_LIBRARY in line for line in maps)
            with open(f"/proc/{number}/comm", encoding="utf-8", errors="replace") as comm:
                name = comm.read().strip()
        except OSError:
            continue
        if is_ours and int(number) != os.getpid():
            yield CompletionItem(number, help=name)


def _programs(start: str) -> Iterator[CompletionItem]:
    """The programs of PATH; all of them would be too many to show."""
    if not start:
        return
    names = set()
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        try:
            names.update(entry.name for entry in os.scandir(folder or ".") if entry.name.startswith(start))
        except OSError:
            continue
    yield from (CompletionItem(name) for name in sorted(names))
