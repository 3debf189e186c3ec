"""`hakmem report`: one HTML page about a program's memory."""

from __future__ import annotations

import json
import sys
from typing import Optional, Sequence, Tuple

import click

from hakmem import next_step
from hakmem.errors import EXIT_CANNOT, EXIT_USAGE, Failure, say
from hakmem.explain.explain import explain as explained
from hakmem.explain.explanation import as_json
from hakmem.output import OutputFile, end_with, refuse_stdout, reserve, write_each
from hakmem.page.course import Course
from hakmem.page.document import document
from hakmem.page.files import of_files
from hakmem.page.run import of_program
from hakmem.page.watch import watch
from hakmem.process_or_program import ProcessOrProgram, process_of
from hakmem.schemas import SCHEMAS
from hakmem.seconds import Time
from hakmem.under_hakmem import How, start_options

_SECONDS = 10.0


@click.command(cls=ProcessOrProgram, flag_of_files="from_files", context_settings={"allow_interspersed_args": False})
@click.option("-o", "--output", "output_name", metavar="FILE", required=True, help="Write the page here; - is stdout.")
@click.option("--json", "json_name", metavar="FILE", help="Write the explanation of the page as JSON too; - is stdout.")
@click.option("--seconds", type=Time(), metavar="N", help="Of a PID: seconds to watch; default 10.")
@click.option("--from", "from_files", is_flag=True, help="The arguments are files: snapshots, a map, a profile.")
@click.option("--profile", metavar="FILE", help="A profile of the same time, for the sites that hold memory.")
@start_options()
@click.argument(
    "command",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="PID | [--] PROGRAM [ARGUMENT]... | --from FILE...",
)
def report(
    output_name: str,
    json_name: Optional[str],
    seconds: Optional[float],
    from_files: bool,
    profile: Optional[str],
    how: How,
    command: Tuple[str, ...],
) -> None:
    """Write one HTML page about the memory of PID, of PROGRAM, started here, or of saved FILEs.

    One word of digits is a PID.
    """
    pid = None if from_files else process_of(command)
    _check_options(pid, from_files, seconds, profile, how)
    with reserve(output_name, json_name) as files:
        if pid is not None:
            _write(files, watch(pid, _SECONDS if seconds is None else seconds, profile))
        elif from_files:
            _write(files, of_files(command, profile))
        else:
            refuse_stdout({"-o": output_name, "--json": json_name})
            sys.exit(_of_program(files, command, how))


def _check_options(
    pid: Optional[int], from_files: bool, seconds: Optional[float], profile: Optional[str], how: How
) -> None:
    if seconds is not None and pid is None:
        raise Failure("--seconds is for a PID", EXIT_USAGE)
    if pid is not None or from_files:
        how.refuse()
    if profile is not None and pid is None and not from_files:
        raise Failure("--profile is for a PID or --from: a PROGRAM is profiled anyway", EXIT_USAGE)


def _of_program(files: Sequence[Optional[OutputFile]], command: Tuple[str, ...], how: How) -> int:
    """The program's exit code; when it ended with 0 and there is no page, 125."""
    course, ended = of_program(command, how)
    try:
        if isinstance(course, Failure):
            raise course
        _write(files, course)
    except Failure as failure:
        say(failure.message)
        return ended or EXIT_CANNOT
    return ended


def _write(files: Sequence[Optional[OutputFile]], course: Course) -> None:
    page, json_file = files
    for note in course.sites.notes if course.sites is not None else ():
        say(f"note: {note}")
    for note in course.notes:
        say(f"note: {note}")
    failures = write_each([(json_file, lambda: _as_json(course)), (page, lambda: document(course))])
    assert page is not None
    if page.is_written and page.name != "-" and (json_file is None or json_file.name != "-") and sys.stderr.isatty():
        say(f"next: xdg-open {next_step.words([next_step.file(page.name)])}")
    end_with(failures)


def _as_json(course: Course) -> str:
    told = as_json(course.evidence, explained(course.evidence))
    return json.dumps({**told, "schema": SCHEMAS["report"]}, indent=1) + "\n"
