"""`hakmem run`: one program under hakmem, as if it had been started directly."""

from __future__ import annotations

import sys
from typing import Optional, Tuple

import click

from hakmem import paths, verdict
from hakmem.engine import Child, Launch
from hakmem.errors import EXIT_CANNOT, EXIT_USAGE, Failure, say, say_result, write_result
from hakmem.folding import columns_of_stderr
from hakmem.foreground import run_to_end
from hakmem.guard_rates import RECOMMENDED_RATE
from hakmem.guards import rate_of
from hakmem.output import OutputFile
from hakmem.self_report import SelfReports
from hakmem.under_hakmem import How, Start, prepare, start_options
from hakmem.verdict import Verdict


def _rate(_context: click.Context, _parameter: click.Parameter, text: Optional[str]) -> Optional[int]:
    """Before any other argument: the word behind --guard may be PROGRAM."""
    try:
        return rate_of(text) if text is not None else None
    except Failure as failure:
        raise Failure(f"{failure.message}; without a RATE: --guard -- PROGRAM", EXIT_USAGE) from None


@click.command(context_settings={"allow_interspersed_args": False})
@start_options(of="")
@click.option(
    "--guard",
    "guard_rate",
    is_flag=False,
    flag_value=str(RECOMMENDED_RATE),
    metavar="[RATE]",
    callback=_rate,
    help=f"Guard one allocation in RATE, {RECOMMENDED_RATE} unless given, and report memory errors.",
)
@click.option("-v", "--verbose", is_flag=True, help="Five lines at the end instead of one.")
@click.option("-q", "--quiet", is_flag=True, help="No verdict, no warnings.")
@click.option("--json", "json_file", metavar="FILE", help="Write the verdict as JSON to FILE; - writes it to stderr.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] PROGRAM [ARGUMENT]...")
def run(
    how: How,
    guard_rate: Optional[int],
    verbose: bool,
    quiet: bool,
    json_file: Optional[str],
    command: Tuple[str, ...],
) -> None:
    """Run PROGRAM under hakmem.

    Input, output, signals and exit code are the program's. At the end a line on stderr shows its time and memory.
    """
    start = prepare(command, how)
    variables = start.variables
    if guard_rate is not None:
        variables = {**variables, "HAKMEM_GUARD": str(guard_rate)}
    output = OutputFile(json_file) if json_file not in (None, "-") else None
    try:
        for warning in () if quiet else start.warnings:
            say(f"warning: {warning}")
        with SelfReports() as reports:
            # With --quiet the program's environment has no report variable.
            if json_file is not None or not quiet:
                variables = reports.ask(variables)
            child = run_to_end(Launch(start.program, variables, library=start.library), reports.look)
            reports.collect()
        told = _verdict(child, start, reports)
        is_written = True
        if json_file is not None:
            is_written = _write(verdict.to_text(verdict.as_json(told, list(command))), output)
        elif not quiet:
            _say(told, verbose)
    finally:
        if output is not None:
            output.discard()
    sys.exit(told.ended.exit_code or (0 if is_written else EXIT_CANNOT))


def _verdict(child: Child, start: Start, reports: SelfReports) -> Verdict:
    assert child.ended is not None and child.sampler is not None
    ours = (paths.LIBRARY, paths.SECURE_LIBRARY)
    is_ours = start.library in [str(paths.find_library(name)) for name in ours]
    version = paths.hakmem_version() if is_ours else None
    return Verdict(
        child.pid, child.ended, child.sampler, reports, start.library, version, start.can_map, start.is_linked
    )


def _say(told: Verdict, verbose: bool) -> None:
    if verbose:
        for line in verdict.lines(told):
            say_result(line, indent=" " * 19)
    else:
        say_result(verdict.line(told, columns_of_stderr()))


def _write(text: str, output: Optional[OutputFile]) -> bool:
    """Writes to the file, or to stderr. Returns whether the text is written."""
    try:
        if output is not None:
            output.write(text)
        else:
            write_result(text)
    except Failure as failure:
        say(failure.message)
        return False
    return True
