"""`hakmem leaks`: what a program has not freed, by who asked for it, and what of that no pointer leads to any more."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Iterator, List, Optional, Sequence, Tuple

import click

from hakmem import environment, paths
from hakmem.attach import Refused, attach
from hakmem.commands.run import run_to_end
from hakmem.engine import Launch
from hakmem.errors import EXIT_CANNOT, EXIT_USAGE, Failure, say, write_stderr
from hakmem.leaks import Leaks, document, lines, notes, parse
from hakmem.output import OutputFile, reserve
from hakmem.preload_plan import check_preload
from hakmem.process_or_program import ProcessOrProgram, is_process
from hakmem.profile.debug_files import DEBUG_FOLDERS, Search
from hakmem.profile.record import why_none
from hakmem.profile.symbolize import Symbolizer
from hakmem.program import resolve

FILE_VARIABLE = "HAKMEM_LEAKS_FILE"
_SCAN_SECONDS = 60.0
_NAME = re.compile(r"(\d+)\.json\Z")


@click.command(cls=ProcessOrProgram, context_settings={"allow_interspersed_args": False})
@click.option("--scan", is_flag=True, help="Only what no pointer leads to any more: a conservative scan.")
@click.option(
    "--rate", type=click.IntRange(1), metavar="BYTES", help="Of a PROGRAM: a sample every so many; default 1."
)
@click.option("--rows", type=click.IntRange(1), default=20, metavar="N", help="Sites that are shown; default 20.")
@click.option("--json", "json_name", metavar="FILE", help="Write all sites as JSON; - is stdout.")
@click.option(
    "--error-exitcode", type=click.IntRange(0, 255), default=0, metavar="N", help="End with N if there are some."
)
@click.option(
    "--debug-dir", "folders", multiple=True, metavar="DIR", help="Where separate debug files are. Repeatable."
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Of a PROGRAM: an option of hakmem.")
@click.option("--library", metavar="FILE", help="Of a PROGRAM: the library, instead of the one that is found.")
@click.option("--force", is_flag=True, help="Of a PROGRAM: run also where preloading has no effect.")
@click.option("-q", "--quiet", is_flag=True, help="No text, no notes.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="PID | [--] PROGRAM [ARGUMENT]...", required=True)
def leaks(
    scan: bool,
    rate: Optional[int],
    rows: int,
    json_name: Optional[str],
    error_exitcode: int,
    folders: Tuple[str, ...],
    settings: Tuple[str, ...],
    library: Optional[str],
    force: bool,
    quiet: bool,
    command: Tuple[str, ...],
) -> None:
    """What PROGRAM, started here, has not freed when it ends; or what the process PID, which samples already, has now.

    One word of digits is a PID. The text goes to stdout, of a PROGRAM to stderr.
    """
    pid = int(command[0]) if len(command) == 1 and is_process(command[0]) else None
    if pid is not None and (settings or library or force or rate is not None):
        raise Failure("--rate, --set, --library and --force are for a PROGRAM that is started here", EXIT_USAGE)
    with reserve(json_name) as (file,):
        if pid is not None:
            answers, code = [(pid, _of_process(pid, scan))], 0
            roots: Sequence[str] = (f"/proc/{pid}/root", "")
        else:
            answers, code = _of_program(command, settings, library, force, quiet, rate or 1, scan)
            roots = ("",)
        _show(answers, roots, folders, None if quiet else rows, pid is None, file)
    if error_exitcode and code == 0 and any(one.of[one.kind].samples for _, one in answers):
        code = error_exitcode
    sys.exit(code)


def _of_process(pid: int, scan: bool) -> Leaks:
    with attach(pid) as attached:
        try:
            answer = attached.ask("leaks scan" if scan else "leaks", _SCAN_SECONDS)
        except Refused as refused:
            if "heap profile is off" not in refused.message:
                raise
            raise Failure(
                f"process {pid} ({attached.process.name}) samples nothing: start it with HAKMEM_PROFILE=1 or HAKMEM_LEAKS, or "
                "here, with `hakmem leaks -- …`"
            ) from None
    return parse(answer, f"the answer of process {pid}")


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A private folder that the library writes to, gone at the end."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="hakmem-leaks-"))
    except OSError as error:
        raise Failure(f"no temporary folder for the findings: {error.strerror}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _of_program(
    command: Sequence[str],
    settings: Sequence[str],
    library: Optional[str],
    force: bool,
    quiet: bool,
    rate: int,
    scan: bool,
) -> Tuple[List[Tuple[int, Leaks]], int]:
    """What each of its processes wrote, its own first, and the program's exit code; 125 when that is 0 and nothing was written."""
    variables = {**environment.of_caller(), **environment.options(settings)}
    if variables.get(FILE_VARIABLE):
        raise Failure(f"{FILE_VARIABLE} is set already: without `hakmem leaks` the program writes there", EXIT_USAGE)
    program = resolve(command, variables)
    file = paths.require_library(library)
    variables = environment.with_preload(variables, str(file))
    for warning in check_preload(program, str(file), variables, force):
        if not quiet:
            say(f"warning: {warning}")
    with _folder() as folder:
        # The minus: a process that outlives this tool finds its folder gone, and must not complain.
        pattern = str(folder).replace("%", "%%")
        asked = {"HAKMEM_LEAKS": "scan" if scan else "on", FILE_VARIABLE: f"-{pattern}/%p.json"}
        variables = {**variables, **asked, "HAKMEM_PROFILE_RATE": str(rate)}
        child = run_to_end(Launch(program, variables, library=str(file), sample=False))
        assert child.ended is not None
        answers = _collect(folder, child.pid)
    if not any(pid == child.pid for pid, _ in answers):
        reason = (
            why_none(child.ended).replace("a profile is", "leaks are").replace("without profiles", "without checks")
        )
        say(f"note: {program.name} itself said nothing of leaks: {reason}")
    return answers, child.ended.exit_code or (0 if answers else EXIT_CANNOT)


def _collect(folder: Path, own: int) -> List[Tuple[int, Leaks]]:
    answers: List[Tuple[int, Leaks]] = []
    for path in folder.iterdir():
        match = _NAME.match(path.name)
        if match is None:
            continue
        try:
            answers.append((int(match[1]), parse(path.read_bytes(), f"what process {match[1]} wrote")))
        except Failure as failure:
            say(f"note: {failure.message}")
    return sorted(answers, key=lambda one: (one[0] != own, -one[1].of[one[1].kind].bytes, one[0]))


def _show(
    answers: List[Tuple[int, Leaks]],
    roots: Sequence[str],
    folders: Tuple[str, ...],
    rows: Optional[int],
    of_program: bool,
    file: Optional[OutputFile],
) -> None:
    with Symbolizer(Search(roots, (*folders, *DEBUG_FOLDERS))) as symbolizer:
        for _, found in answers:
            symbolizer.symbolise(found.profile)
            found.merge()
        for note in symbolizer.notes.values() if rows is not None else ():
            say(f"note: {note}")
    # Of several processes those that have something to tell.
    told = [one for one in answers if one is answers[0] or one[1].of[one[1].kind].samples]
    for pid, found in told if rows is not None else ():
        text = lines(found, rows or 1)
        if len(answers) > 1:
            text = [f"process {pid}:", *text, ""]
        if of_program:
            write_stderr("".join(f"{line}\n" for line in text))
        else:
            click.echo("\n".join(text))
        for note in notes(found):
            say(f"note: {note}")
    if rows is not None and len(told) < len(answers):
        say(f"note: nothing in other processes ({len(answers) - len(told)})")
    if file is not None:
        file.write(json.dumps(document(answers), indent=1) + "\n")
