"""`hakmem doctor`: finds what keeps hakmem from working well on this machine and in a program."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Iterator, Mapping, Optional, Tuple

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakmem import environment, fitting, musl, next_step, paths
from hakmem.doctor.examination import Examination, examine
from hakmem.doctor.finding import Finding, Level
from hakmem.elf_check import follow
from hakmem.errors import EXIT_CANNOT, escaped, plural
from hakmem.kernel_files import KernelFiles
from hakmem.output import end_with, reserve, write_each
from hakmem.program import Program, resolve

_STYLES = {Level.OK: "green", Level.NOTE: "cyan", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}
# The room that a column of findings needs beside level and subject.
_NARROWEST_TABLE = 76


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--library", "library_name", metavar="FILE", help="Check this library instead of the one that is found.")
@click.option("--json", "json_file", metavar="FILE", help="Write the findings as JSON; - is stdout, instead of text.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] [PROGRAM [ARGUMENT]...]")
def doctor(library_name: Optional[str], json_file: Optional[str], command: Tuple[str, ...]) -> None:
    """Check what keeps hakmem from working well on this machine, and in PROGRAM.

    PROGRAM does not run; its dynamic linker tells what it would load.
    """
    variables = environment.of_caller()
    program = resolve(command, variables) if command else None
    library = paths.named_library(library_name) if library_name is not None else _find_library(program, variables)
    with reserve(json_file) as (output,):
        examination = examine(KernelFiles(), variables, library, program)
        failures = write_each([(output, lambda: json.dumps(examination.as_json(), indent=1) + "\n")])
    if json_file != "-":
        typed = [*next_step.options({"--library": library_name}), "--", *(command or ["PROGRAM"])]
        _print(examination, f"hakmem run {next_step.words(typed)}")
    end_with(failures)
    sys.exit(0 if examination.works else EXIT_CANNOT)


def _find_library(program: Optional[Program], variables: Mapping[str, str]) -> Optional[Path]:
    """The library for the program's C library if there is one, else the usual one."""
    executable = follow(program.named_file, variables).executable if program is not None else None
    if executable is not None and executable.interpreter is not None and musl.runs_on_musl(executable.interpreter):
        return musl.library_for(executable.interpreter) or paths.find_library()
    return paths.find_library()


def _print(examination: Examination, next_command: str) -> None:
    out = fitting.console()
    if out.width < _NARROWEST_TABLE:
        _print_list(out, examination)
    else:
        _print_table(out, examination)
    out.print()
    _sum_up(out, examination)
    if examination.works:
        for line in next_step.lines(next_command, out.width):
            out.print(Text(line, style="dim"), soft_wrap=True)


def _print_list(out: Console, examination: Examination) -> None:
    """Each finding stands below its subject, because a column of its own would break paths."""
    for finding in examination.findings:
        out.print(Text(finding.level.value, style=_STYLES[finding.level]), escaped(finding.subject), soft_wrap=True)
        for label, text in (("", finding.found), *_reasons(finding)):
            fitting.print_words(out, f"  {label}{text}", "dim" if label else "", "       " if label else "  ")


def _print_table(out: Console, examination: Examination) -> None:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    for finding in examination.findings:
        rows.add_row(Text(finding.level.value, style=_STYLES[finding.level]), escaped(finding.subject), _told(finding))
    out.print(rows)


def _reasons(finding: Finding) -> Iterator[Tuple[str, str]]:
    """With their labels."""
    yield from ((label, text) for label, text in (("why: ", finding.why), ("do:  ", finding.todo)) if text)


def _told(finding: Finding) -> Text:
    text = Text(escaped(finding.found))
    for label, more in _reasons(finding):
        text.append(f"\n{label}{escaped(more)}", style="dim")
    return text


def _sum_up(out: Console, examination: Examination) -> None:
    levels = [finding.level for finding in examination.findings]
    told = [
        plural(levels.count(level), level.value)
        for level in reversed(list(Level))
        if level is not Level.OK and level in levels
    ]
    where = "here" if examination.program is None else f"in {examination.program}"
    verdict = f"Nothing keeps hakmem from working {where}" if examination.works else f"hakmem does not work {where}"
    fitting.print_words(out, verdict + (f": {', '.join(told)}." if told else "."), "bold")
