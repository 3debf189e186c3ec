"""`hakmem profile`: where a program allocates memory. The program starts here, or runs already, or left a file."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Iterator, List, Optional, Sequence, Tuple

import click

from hakmem import next_step
from hakmem.debug_dir import debug_dir_option
from hakmem.engine import Launch
from hakmem.errors import EXIT_CANNOT, EXIT_USAGE, Failure, printable, say, write_result
from hakmem.followed import ProcessEnded
from hakmem.foreground import run_to_end
from hakmem.output import end_with, refuse_stdout, reserve, write_each
from hakmem.process_files import roots
from hakmem.process_or_program import ProcessOrProgram, process_of
from hakmem.profile import live, site_tables, top
from hakmem.profile import sites as site_lists
from hakmem.profile.debug_files import Search
from hakmem.profile.document import of_sites
from hakmem.profile.model import BY, Profile
from hakmem.profile.outputs import Outputs
from hakmem.profile.read import read
from hakmem.profile.record import FILE_VARIABLE, Recording, beside, why_none
from hakmem.profile.symbolize import Symbolizer
from hakmem.profile.write import to_bytes
from hakmem.seconds import Time
from hakmem.under_hakmem import How, prepare, start_options

# The values of --by besides the sample types: tables of call sites, which no pprof file has.
_BY_SITE = {"lifetime": site_tables.lifetimes_text, "pinned": site_tables.pinned_text}


@click.command(cls=ProcessOrProgram, context_settings={"allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the profile, with names, for pprof and others; with --by lifetime or pinned, for --sites.",
)
@click.option(
    "--by",
    type=click.Choice([*BY, *_BY_SITE]),
    default="inuse",
    help="Count live bytes (default), or all allocated ones; of a PID or --sites: lifetimes, or pinned free memory.",
)
@click.option("--rows", type=click.IntRange(1), default=20, metavar="N", help="Rows of the table; default 20.")
@click.option("--folded", "folded_name", metavar="FILE", help="Write folded stacks.")
@click.option("--speedscope", "speedscope_name", metavar="FILE", help="Write speedscope's JSON.")
@click.option("--flame", "flame_name", metavar="FILE", help="Draw a flame graph, an SVG file.")
@click.option("--json", "json_name", metavar="FILE", help="Write the whole table as JSON; - is stdout, instead of it.")
@click.option("--rate", type=live.RATES, metavar="BYTES", help="Average bytes between samples; default 524288.")
@click.option("--seconds", type=Time(0, least_open=True), metavar="N", help="Of a PID: seconds to profile; default 10.")
@click.option("--stay", is_flag=True, help="Of a PID: leave the profile running.")
@click.option("--stop", is_flag=True, help="Of a PID: read the running profile, and stop it.")
@click.option("--input", "input_name", metavar="FILE", help="Read this profile, instead of PID or PROGRAM.")
@click.option("--sites", "sites_name", metavar="FILE", help="Read this saved answer to `profile sites` instead.")
@debug_dir_option
@start_options()
@click.option("-q", "--quiet", is_flag=True, help="No table, no notes.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="PID | [--] PROGRAM [ARGUMENT]...")
def profile(
    output: Optional[str],
    by: str,
    rows: int,
    folded_name: Optional[str],
    speedscope_name: Optional[str],
    flame_name: Optional[str],
    json_name: Optional[str],
    rate: Optional[int],
    seconds: Optional[float],
    stay: bool,
    stop: bool,
    input_name: Optional[str],
    sites_name: Optional[str],
    folders: Tuple[str, ...],
    how: How,
    quiet: bool,
    command: Tuple[str, ...],
) -> None:
    """Show where memory is allocated: by PROGRAM, started here, or by the running process PID.

    One word of digits is a PID. The table goes to stdout, of a PROGRAM to stderr.
    """
    _check_subjects(input_name, sites_name, command)
    pid = process_of(command)
    _check_options(pid, input_name or sites_name, seconds, rate, how)
    end = _end_of(pid, stay, stop, rate)
    if by in _BY_SITE:
        has_sites = pid is not None or sites_name is not None
        _check_by_site(by, has_sites, (folded_name, speedscope_name, flame_name))
    named = {
        "-o": output, "--folded": folded_name, "--speedscope": speedscope_name, "--flame": flame_name,
        "--json": json_name,
    }  # fmt: skip
    if command and pid is None:
        refuse_stdout(named)
    kept = {"--rate": rate, "--seconds": seconds, "--debug-dir": folders, "--input": input_name, "--sites": sites_name}
    rest = [*how.words(), *next_step.options(kept), *next_step.subject(command)]
    outputs = Outputs(by, rows, quiet, output, folders, "-" in named.values(), pid, rest, flame_name is not None)
    with reserve(*named.values()) as outputs.files:
        if input_name is not None:
            _show(outputs, read(input_name), outputs.search(), os.path.basename(input_name))
        elif sites_name is not None:
            _show_sites(outputs, site_lists.read(sites_name), outputs.search(), sites_name)
        elif pid is not None:
            _of_process(outputs, pid, seconds, rate, end)
        else:
            sys.exit(_of_program(outputs, command, how, rate))


def _check_subjects(input_name: Optional[str], sites_name: Optional[str], command: Sequence[str]) -> None:
    """Exactly one of them is given."""
    names = {"--input": input_name, "--sites": sites_name, next_step.words(command[:1]): command or None}
    given = [name for name, value in names.items() if value is not None]
    if len(given) > 1:
        raise Failure(f"{' and '.join(given)} each say what to profile: one of them is enough", EXIT_USAGE)
    if not given:
        raise Failure(
            "nothing to profile: give a PID, a PROGRAM, --input FILE or --sites FILE, one of them", EXIT_USAGE
        )


def _check_options(
    pid: Optional[int], file_name: Optional[str], seconds: Optional[float], rate: Optional[int], how: How
) -> None:
    if seconds is not None and pid is None:
        raise Failure("--seconds is for a PID: a program is profiled from its start to its end", EXIT_USAGE)
    if pid is not None or file_name is not None:
        how.refuse()
    if rate is not None and file_name is not None:
        raise Failure("--rate has no effect on a profile that is there already", EXIT_USAGE)


def _end_of(pid: Optional[int], stay: bool, stop: bool, rate: Optional[int]) -> live.End:
    """Whether a process's profile ends with this command, goes on, or is stopped."""
    if (stay or stop) and pid is None:
        raise Failure("--stay and --stop are for a PID: a program is profiled from its start to its end", EXIT_USAGE)
    if stay and stop:
        raise Failure("--stay or --stop: one of them", EXIT_USAGE)
    if stop and rate is not None:
        raise Failure("--rate has no effect on a profile that runs already", EXIT_USAGE)
    return live.End.STAY if stay else live.End.STOP if stop else live.End.AS_BEFORE


def _check_by_site(by: str, has_sites: bool, exports: Sequence[Optional[str]]) -> None:
    if not has_sites:
        raise Failure(
            f"--by {by} needs a process that runs: a profile that a program writes at its end lacks it. Name a PID "
            "(started with HAKMEM_PROFILE=1 it covers its whole time), or --sites FILE, a saved answer",
            EXIT_USAGE,
        )
    if any(name is not None for name in exports):
        raise Failure(f"--folded, --speedscope and --flame draw bytes: --by inuse or alloc, not {by}", EXIT_USAGE)


def _show(outputs: Outputs, taken: Profile, search: Search, title: str) -> None:
    taken.column(BY[outputs.by])
    with _named(outputs, taken, search):
        failures = outputs.write(taken, title)  # before the table, whose reader may end
        for line in outputs.lines(taken):
            click.echo(printable(line))
        outputs.tell_next(taken)
        end_with(failures)


@contextlib.contextmanager
def _named(outputs: Outputs, taken: Profile, search: Search) -> Iterator[Symbolizer]:
    """Names the profile's addresses, and prints notes about those without a name."""
    timed = Search(search.roots, search.debug_folders, search.time_nanos or taken.began_nanos, search.perf_maps)
    with Symbolizer(timed) as symbolizer:
        symbolizer.symbolize(taken)
        for note in () if outputs.quiet else symbolizer.notes.values():
            say(f"note: {printable(note)}")
        yield symbolizer


def _show_sites(outputs: Outputs, answer: bytes, search: Search, title: str) -> None:
    found = site_lists.parse(answer, title)
    if outputs.by not in _BY_SITE:
        _show(outputs, found.profile, search, os.path.basename(title))
        return
    output, json_file = outputs.files[0], outputs.files[-1]
    with _named(outputs, found.profile, search):
        failures = write_each([(output, lambda: answer), (json_file, lambda: of_sites(found, outputs.by, outputs.pid))])
        if outputs.shows_table:
            for line in _BY_SITE[outputs.by](found, outputs.rows):
                click.echo(printable(line))
            other = next(by for by in _BY_SITE if by != outputs.by)
            outputs.tell_again(["--by", other])
        end_with(failures)


def _of_process(outputs: Outputs, pid: int, seconds: Optional[float], rate: Optional[int], end: live.End) -> None:
    notes: List[str] = []
    take = live.take_sites if outputs.by in _BY_SITE else live.take
    try:
        taken = take(live.asker(pid), pid, seconds, rate, notes, end)
    except ProcessEnded as ended:
        raise Failure(
            f"{ended.message}: `hakmem profile -- PROGRAM` profiles a program to its end, as HAKMEM_PROFILE=1 with "
            f"{FILE_VARIABLE} does (see: hakmem help profile)"
        ) from None
    for note in () if outputs.quiet else notes:
        say(f"note: {note}")
    # While the process runs, /proc/PID/root leads to its files.
    search = outputs.search(roots(pid), pid)
    if isinstance(taken, bytes):
        _show_sites(outputs, taken, search, f"process {pid}")
    else:
        _show(outputs, taken, search, f"process {pid}")
        if not notes:
            outputs.tell_no_samples(taken, "a longer time by --seconds, or a smaller --rate")


def _of_program(outputs: Outputs, command: Sequence[str], how: How, rate: Optional[int]) -> int:
    """The program's exit code; when it ended with 0 and there is no profile to show for it, 125."""
    start = prepare(command, how)
    for warning in () if outputs.quiet else start.warnings:
        say(f"warning: {warning}")
    with Recording() as recording:
        variables = recording.ask(start.variables, rate)
        child = run_to_end(Launch(start.program, variables, library=start.library, sample=False))
        assert child.ended is not None
        try:
            own, others, notes = recording.collect(child.pid, BY[outputs.by])
            is_none = own is None and not others
            for note in notes if is_none or not outputs.quiet else ():
                say(f"note: {note}")
            if is_none:
                raise Failure(f"no profile was written: {why_none(child.ended)}")
            if own is None and not outputs.quiet:
                say(f"note: {start.program.name} itself wrote no profile: {why_none(child.ended)}")
            _show_all(outputs, child.pid, own, others, start.program.name)
        except Failure as failure:
            say(failure.message)
            return child.ended.exit_code or EXIT_CANNOT
    return child.ended.exit_code


def _show_all(
    outputs: Outputs, pid: int, own: Optional[Profile], others: List[Tuple[int, Profile]], title: str
) -> None:
    """Shows the program's own profile, or else the biggest one. The other processes' are written beside it."""
    if own is None:
        pid, own = others[0]
        others = others[1:]
        title = f"process {pid}, started by {title}"
    with _named(outputs, own, outputs.search(pid=pid)) as symbolizer:
        for line in outputs.lines(own):
            write_result(f"{printable(line)}\n")
        outputs.tell_next(own, on_stderr=True)
        outputs.tell_no_samples(own, "a smaller --rate")
        if outputs.by == "inuse" and not outputs.quiet and top.is_nearly_nothing(own):
            say("note: nearly nothing was in use at the end; --by alloc shows all allocations")
        failures = outputs.write(own, os.path.basename(title))
        if outputs.output_name is not None:
            failures += _write_others(outputs, others, symbolizer)
        elif others and not outputs.quiet:
            say(f"other processes wrote profiles too ({len(others)}): -o keeps them")
        end_with(failures)


def _write_others(outputs: Outputs, others: List[Tuple[int, Profile]], symbolizer: Symbolizer) -> List[Failure]:
    """Beside the profile that -o names. Returns the failures."""
    names: List[str] = []
    failures: List[Failure] = []
    for number, other in others:
        symbolizer.symbolize(other)
        try:
            with reserve(beside(str(outputs.output_name), number)) as (output,):
                assert output is not None
                output.write(to_bytes(other))
                names.append(output.name)
        except Failure as failure:
            failures.append(failure)
    if names and not outputs.quiet:
        say(f"other processes' profiles: {', '.join(names)}")
    return failures
