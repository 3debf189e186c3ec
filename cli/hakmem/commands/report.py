"""`hakmem report`: one HTML page about a program's memory."""

from __future__ import annotations

import sys
from typing import Optional, Tuple

import click

from hakmem.errors import EXIT_CANNOT, EXIT_USAGE, Failure, say
from hakmem.output import OutputFile, reserve
from hakmem.page.course import Course
from hakmem.page.document import document
from hakmem.page.files import of_files
from hakmem.page.run import of_program
from hakmem.page.watch import watch

_SECONDS = 10.0


@click.command(context_settings={"allow_interspersed_args": True})
@click.option("-o", "--output", "output_name", metavar="FILE", required=True, help="The page; - is stdout.")
@click.option("--seconds", type=click.FloatRange(0), metavar="N", help="Of a PID: for how long; default 10.")
@click.option("--from", "from_files", is_flag=True, help="The arguments are files: snapshots, a map, a profile.")
@click.option("--profile", metavar="FILE", help="A profile of the same time: who holds what.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Of a PROGRAM: an option of hakmem.")
@click.option("--library", metavar="FILE", help="Of a PROGRAM: the library, instead of the one that is found.")
@click.option("--force", is_flag=True, help="Of a PROGRAM: run also where preloading has no effect.")
@click.argument(
    "words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="PID | -- PROGRAM... | --from FILES..."
)
def report(
    output_name: str,
    seconds: Optional[float],
    from_files: bool,
    profile: Optional[str],
    settings: Tuple[str, ...],
    library: Optional[str],
    force: bool,
    words: Tuple[str, ...],
) -> None:
    """Write one HTML page about the memory of PID, of PROGRAM, started here, or of saved FILES."""
    pid = int(words[0]) if not from_files and len(words) == 1 and words[0].isdecimal() else None
    _check_options(pid, from_files, seconds, profile, bool(settings or library or force))
    with reserve(output_name) as (output,):
        assert output is not None
        if pid is not None:
            _write(output, watch(pid, _SECONDS if seconds is None else seconds, profile))
        elif from_files:
            _write(output, of_files(words, profile))
        else:
            if output_name == "-":
                raise Failure("stdout is the program's: name a file for the page", EXIT_USAGE)
            sys.exit(_of_program(output, words, settings, library, force))


def _check_options(
    pid: Optional[int], from_files: bool, seconds: Optional[float], profile: Optional[str], of_program_alone: bool
) -> None:
    if pid == 0:
        raise Failure("there is no process 0")
    if seconds is not None and pid is None:
        raise Failure("--seconds is for a PID", EXIT_USAGE)
    if of_program_alone and (pid is not None or from_files):
        raise Failure("--set, --library and --force are for a PROGRAM that is started here", EXIT_USAGE)
    if profile is not None and pid is None and not from_files:
        raise Failure("--profile is for a PID or --from: a PROGRAM is profiled anyway", EXIT_USAGE)


def _of_program(
    output: OutputFile, words: Tuple[str, ...], settings: Tuple[str, ...], library: Optional[str], force: bool
) -> int:
    """The program's exit code; when it ended with 0 and there is no page, 125."""
    course, ended = of_program(words, settings, library, force)
    try:
        if isinstance(course, Failure):
            raise course
        _write(output, course)
    except Failure as failure:
        say(failure.message)
        return ended or EXIT_CANNOT
    return ended


def _write(output: OutputFile, course: Course) -> None:
    for note in course.sites.notes if course.sites is not None else ():
        say(f"note: {note}")
    for note in course.notes:
        say(f"note: {note}")
    output.write(document(course))
