"""`hakmem run`: one program under hakmem, as if it had been started directly."""

from __future__ import annotations

import os
import signal
import sys
from typing import Callable, FrozenSet, Optional, Tuple

import click

from hakmem import paths, verdict
from hakmem.engine import Child, Launch, Watch
from hakmem.errors import EXIT_CANNOT, EXIT_USAGE, Failure, say, say_result, write_result
from hakmem.folding import columns_of_stderr
from hakmem.guard_rates import RECOMMENDED_RATE
from hakmem.guards import rate_of
from hakmem.output import OutputFile
from hakmem.self_report import SelfReports
from hakmem.under_hakmem import How, Start, prepare, start_options
from hakmem.verdict import Verdict

# Signals that are not passed on: those that cannot be caught, that the kernel sends for a process's own faults, and
# that job control sends to a background process that touches the terminal.
_OWN = {
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
    signal.SIGSYS, signal.SIGTRAP, signal.SIGPIPE, signal.SIGTTIN, signal.SIGTTOU, signal.SIGXCPU, signal.SIGXFSZ,
}  # fmt: skip
FORWARDED: FrozenSet[int] = frozenset(int(number) for number in signal.valid_signals()) - {int(n) for n in _OWN}


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


def run_to_end(
    launch: Launch, look: Callable[[], None] = lambda: None, on_start: Callable[[Child], None] = lambda _: None
) -> Child:
    """Runs the program to its end. Passes signals on, and stops when job control stops the program. Calls `look`
    meanwhile, and `on_start` once, while signals are blocked."""
    passer = _Passer()

    def tick() -> None:
        passer.follow_stops()
        look()

    with Watch(FORWARDED, passer.hear, tick) as watch:
        passer.child = watch.start(launch)
        on_start(passer.child)
        watch.until(lambda: passer.child is not None and passer.child.ended is not None)
    assert passer.child is not None
    return passer.child


class _Passer:
    """Passes signals to the program, and its stops to the parent of this tool."""

    def __init__(self) -> None:
        self.child: Optional[Child] = None

    def hear(self, heard: signal.struct_siginfo) -> None:
        """Whether the program got the signal itself: the terminal or the program sent it to the process group."""
        if self.child is None or _is_from_kernel(heard) or heard.si_pid == self.child.pid:
            return
        self.child.signal(heard.si_signo)

    def follow_stops(self) -> None:
        """Stops this tool when the program stops, so that a shell sees it.

        The launcher continues it with the program.
        """
        if self.child is None:
            return
        self.child.read_report()
        if self.child.stopped_by is not None and self.child.ended is None:
            os.kill(os.getpid(), signal.SIGSTOP)
            self.child.stopped_by = None


def _is_from_kernel(heard: signal.struct_siginfo) -> bool:
    """Whether the kernel sent the signal: its si_code is above zero, a process's is zero or below."""
    return heard.si_code > 0


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
