"""`hakmem leaks`: the blocks that a program has not freed, by stack, and those that no pointer leads to."""

from __future__ import annotations

import json
import sys
from typing import List, Optional, Sequence, Tuple

import click

from hakmem import next_step, process_files
from hakmem.attach import Refused, attach
from hakmem.debug_dir import debug_dir_option
from hakmem.engine import Launch
from hakmem.errors import EXIT_CANNOT, EXIT_USAGE, Failure, escaped, say, write_result
from hakmem.explain import snapshot
from hakmem.folding import columns_of_stderr, known_columns
from hakmem.foreground import run_to_end
from hakmem.leaks import Leaks, parse
from hakmem.leaks_report import document, lines, notes
from hakmem.output import OutputFile, refuse_stdout, reserve, write_each
from hakmem.private_folder import PrivateFolder
from hakmem.process_or_program import ProcessOrProgram, process_of
from hakmem.profile import live, perf_map
from hakmem.profile.debug_files import DEBUG_FOLDERS, Search
from hakmem.profile.record import why_none
from hakmem.profile.symbolize import Symbolizer
from hakmem.under_hakmem import How, prepare, start_options

FILE_VARIABLE = "HAKMEM_LEAKS_FILE"
_SCAN_SECONDS = 60.0


@click.command(cls=ProcessOrProgram, context_settings={"allow_interspersed_args": False})
@click.option("--scan", is_flag=True, help="Only blocks that no pointer leads to: a conservative scan.")
@click.option(
    "--rate", type=live.RATES, metavar="BYTES", help="Of a PROGRAM: average bytes between samples; default 1."
)
@click.option("--rows", type=click.IntRange(1), default=20, metavar="N", help="Number of sites to show; default 20.")
@click.option("--json", "json_name", metavar="FILE", help="Write all sites as JSON; - is stdout, for a PID only.")
@click.option(
    "--error-exitcode", type=click.IntRange(0, 255), default=0, metavar="N", help="End with N if blocks were found."
)
@debug_dir_option
@start_options()
@click.option("-q", "--quiet", is_flag=True, help="No text, no notes.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="PID | [--] PROGRAM [ARGUMENT]...", required=True)
def leaks(
    scan: bool,
    rate: Optional[int],
    rows: int,
    json_name: Optional[str],
    error_exitcode: int,
    folders: Tuple[str, ...],
    how: How,
    quiet: bool,
    command: Tuple[str, ...],
) -> None:
    """Show the blocks that PROGRAM has not freed at its end, or those that the process PID, which samples, has now.

    One word of digits is a PID. The text goes to stdout, of a PROGRAM to stderr.
    """
    pid = process_of(command)
    if pid is not None:
        how.refuse("--rate" if rate is not None else "")
    else:
        refuse_stdout({"--json": json_name})
    with reserve(json_name) as (file,):
        if pid is not None:
            answers, code = [(pid, _of_process(pid, scan))], 0
            roots: Sequence[str] = process_files.roots(pid)
        else:
            answers, code = _of_program(command, how, quiet, rate or 1, scan)
            roots = ("",)
        # The text of a PROGRAM goes to stderr.
        shown = None if quiet or json_name == "-" else rows
        failures = _show(answers, roots, folders, shown, pid is None, file)
        if shown is not None and answers:
            kept = [*how.words(), *next_step.options({"--rate": rate, "--debug-dir": folders})]
            _tell_next(answers[0][1], scan, pid, kept, error_exitcode, command)
    if error_exitcode and code == 0 and any(one.of[one.kind].samples for _, one in answers):
        code = error_exitcode
    for failure in failures:
        say(failure.message)
        code = code or EXIT_CANNOT
    sys.exit(code)


def _of_process(pid: int, scan: bool) -> Leaks:
    with attach(pid) as attached:
        name = attached.process.name
        try:
            answer = attached.ask("leaks scan" if scan else "leaks", _SCAN_SECONDS)
        except Refused as refused:
            if "heap profile is off" not in refused.message:
                raise
            raise _samples_nothing(pid, name, "no heap profile runs") from None
        # A profile that has ended leaves its samples behind, which say nothing of other blocks.
        told = f"the answer of process {pid}"
        uptime_ms = snapshot.parse(attached.ask("stats json"), told).number("uptime_ms")
        state = live.state(attached.ask)
        if not state.running:
            raise _samples_nothing(pid, name, "its heap profile has ended")
        found = parse(answer, told)
        found.unknown_ms = uptime_ms - state.duration_ms
    return found


def _samples_nothing(pid: int, name: str, reason: str) -> Failure:
    return Failure(
        f"process {pid} ({name}) samples nothing: {reason}. `hakmem profile --stay {pid}` begins one, for later "
        "blocks; for all, start the program with HAKMEM_PROFILE=1 or HAKMEM_LEAKS, or here, with `hakmem leaks -- …`"
    )


def _of_program(
    command: Sequence[str], how: How, quiet: bool, rate: int, scan: bool
) -> Tuple[List[Tuple[int, Leaks]], int]:
    """Returns the processes' reports, the program's first, and its exit code; 125 when that is 0 and there is none."""
    start = prepare(command, how)
    if start.variables.get(FILE_VARIABLE):
        raise Failure(f"{FILE_VARIABLE} is set already: without `hakmem leaks` the program writes there", EXIT_USAGE)
    for warning in () if quiet else start.warnings:
        say(f"warning: {warning}")
    try:
        own_folder = PrivateFolder("leaks", ".json")
    except OSError as error:
        raise Failure(f"no temporary folder for the findings: {error.strerror}") from None
    with own_folder as folder:
        asked = {"HAKMEM_LEAKS": "scan" if scan else "on", FILE_VARIABLE: folder.pattern}
        variables = {**start.variables, **asked, "HAKMEM_PROFILE_RATE": str(rate)}
        child = run_to_end(Launch(start.program, variables, library=start.library, sample=False))
        assert child.ended is not None
        answers, damaged = _collect(folder, child.pid)
    is_told = not (quiet and answers)
    for note in damaged if is_told else ():
        say(f"note: {note}")
    if is_told and not any(pid == child.pid for pid, _ in answers):
        reason = why_none(child.ended, "leaks are", "checks")
        say(f"note: {start.program.name} itself said nothing of leaks: {reason}")
    return answers, child.ended.exit_code or (0 if answers else EXIT_CANNOT)


def _collect(folder: PrivateFolder, own: int) -> Tuple[List[Tuple[int, Leaks]], List[str]]:
    """The processes' reports, the program's first, and notes about damaged ones."""
    answers: List[Tuple[int, Leaks]] = []
    notes: List[str] = []
    for number, file in folder.files():
        try:
            answers.append((number, parse(file.read_bytes(), f"what process {number} wrote")))
        except Failure as failure:
            notes.append(failure.message)
    return sorted(answers, key=lambda one: (one[0] != own, -one[1].of[one[1].kind].bytes, one[0])), notes


def _show(
    answers: List[Tuple[int, Leaks]],
    roots: Sequence[str],
    folders: Tuple[str, ...],
    rows: Optional[int],
    of_program: bool,
    file: Optional[OutputFile],
) -> List[Failure]:
    """Returns the failure to write the file."""
    maps = perf_map.paths_of(answers[0][0], roots) if answers else ()
    with Symbolizer(Search(roots, (*folders, *DEBUG_FOLDERS), perf_maps=maps)) as symbolizer:
        for _, found in answers:
            symbolizer.symbolize(found.profile)
            found.merge()
        for note in symbolizer.notes.values() if rows is not None else ():
            say(f"note: {note}")
    # Before the text, whose reader may end.
    failures = write_each([(file, lambda: json.dumps(document(answers), indent=1) + "\n")])
    # Of several processes, those with findings.
    told = [one for one in answers if one is answers[0] or one[1].of[one[1].kind].samples]
    for pid, found in told if rows is not None else ():
        width = columns_of_stderr() if of_program else known_columns()
        text = [escaped(line) for line in lines(found, rows or 1, width)]
        if len(answers) > 1:
            text = [f"process {pid}:", *text, ""]
        if of_program:
            write_result("".join(f"{line}\n" for line in text))
        else:
            click.echo("\n".join(text))
        for note in notes(found):
            say(f"note: {note}")
    if rows is not None and len(told) < len(answers):
        say(f"note: nothing in other processes ({len(answers) - len(told)})")
    return failures


def _tell_next(
    found: Leaks, scan: bool, pid: Optional[int], kept: Sequence[str], error_exitcode: int, command: Sequence[str]
) -> None:
    """Of unfreed blocks the scan, which tells those that are lost; after it a look at the rest. `kept` are the
    options that go on to it."""
    if found.of[found.kind].samples and not scan:
        code = next_step.options({"--error-exitcode": error_exitcode or None})
        tip = ["leaks", "--scan", *code, *kept, *next_step.subject(command)]
    elif pid is not None:
        tip = ["explain", *command]
    elif scan:
        tip = ["leaks", "--scan", "--error-exitcode", str(error_exitcode or 1), "-q", *kept, "--", *command]
    else:
        tip = ["profile", "--by", "alloc", *kept, *next_step.subject(command)]
    next_step.tell(f"hakmem {next_step.words(tip)}", on_stderr=pid is None)
