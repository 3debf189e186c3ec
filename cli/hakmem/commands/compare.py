"""`hakmem compare`: one program under every allocator that is present."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

import click
from click.core import ParameterSource

from hakmem import cost, environment, next_step, option_warnings, plot, report, settings, table
from hakmem.allocators import GLIBC, Allocator, choose, present, with_modes
from hakmem.contest import Contest, Runner
from hakmem.errors import EXIT_PROGRAM_FAILED, EXIT_USAGE, Failure, plural, say
from hakmem.folding import fold, known_columns
from hakmem.measure import Run, Task, run_program
from hakmem.output import OutputFile, end_with, reserve, write_each
from hakmem.preload_plan import Plan, Prepared, plan
from hakmem.process_or_program import is_process
from hakmem.program import Program, resolve
from hakmem.progress import ProgressBar
from hakmem.seconds import Time
from hakmem.server import Service, run_service

_POSITIVE = click.IntRange(min=1)
_SECONDS = Time(0, least_open=True)


def _list_allocators(files: Sequence[Optional[str]], command: Sequence[str]) -> None:
    if command:
        raise Failure("--list takes no PROGRAM: it lists the allocators of this machine", EXIT_USAGE)
    if any(file is not None for file in files):
        raise Failure("--list prints lines: --json, --csv and --plot are for a comparison", EXIT_USAGE)
    for allocator in present().values():
        text = allocator.describe() + (" (only when named)" if allocator.on_request else "")
        click.echo("\n".join(fold(text, known_columns(), "  ")))


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--allocators", metavar="A,B,...", help="Allocators to compare, with commas; default: all that are present."
)
@click.option("--list", "list_only", is_flag=True, help="List the allocators, and end.")
@click.option(
    "--base", default=GLIBC, show_default=True, metavar="NAME", help="The allocator that ratios are relative to."
)
@click.option(
    "--rounds", type=_POSITIVE, default=5, show_default=True, help="Counted runs under each allocator, interleaved."
)
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Uncounted runs under the base before the counted ones.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Seed of the order of the runs and of the intervals."
)
@click.option(
    "--timeout", type=_SECONDS, metavar="SECONDS", help="The longest time of one run; with --load, of the load."
)
@click.option("--cost", "with_cost", is_flag=True, help="Also the cost at three prices, with hakmem in three modes.")
@click.option("--stdin", metavar="FILE", help="The program's input; default: none.")
@click.option(
    "--set", "options", multiple=True, metavar="NAME=VALUE", help="An option of hakmem, for hakmem's runs. Repeatable."
)
@click.option(
    "--env",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="An environment variable, for all runs. Repeatable.",
)
@click.option("--setup", metavar="CMD", help="The server to measure, instead of PROGRAM.")
@click.option("--load", metavar="CMD", help="The command that loads the server.")
@click.option("--port", type=click.IntRange(1, 65535), help="The server's port; the server is ready when it accepts.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address of the port.")
@click.option(
    "--settle",
    type=Time(),
    default=0.0,
    metavar="SECONDS",
    help="Seconds of rest after the load, before the last sample.",
)
@click.option(
    "--json", "json_file", metavar="FILE", help="Write everything as JSON; - is stdout, instead of the table."
)
@click.option("--csv", "csv_file", metavar="FILE", help="Write the runs as CSV; - is stdout, instead of the table.")
@click.option("--plot", "plot_file", metavar="FILE", help="Draw bars and curves: FILE.svg or FILE.png.")
@click.option(
    "--shared-once",
    is_flag=True,
    help="Sample proportional sizes: pages that processes share count once. Costs the program more.",
)
@click.option("--show-output", is_flag=True, help="Send the program's output to stderr; by default it is discarded.")
@click.option("--force", is_flag=True, help="Measure even where preloading has no effect.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] PROGRAM [ARGUMENT]...")
def compare(
    allocators: Optional[str],
    list_only: bool,
    base: str,
    rounds: int,
    warmup: int,
    seed: int,
    timeout: Optional[float],
    with_cost: bool,
    stdin: Optional[str],
    options: Tuple[str, ...],
    assignments: Tuple[str, ...],
    setup: Optional[str],
    load: Optional[str],
    port: Optional[int],
    host: str,
    settle: float,
    json_file: Optional[str],
    csv_file: Optional[str],
    plot_file: Optional[str],
    shared_once: bool,
    show_output: bool,
    force: bool,
    quiet: bool,
    command: Tuple[str, ...],
) -> None:
    """Run PROGRAM under every allocator that is present, and compare.

    A server is compared by --setup, --load and --port. The table goes to stdout, all else to stderr.
    """
    if list_only:
        _list_allocators((json_file, csv_file, plot_file), command)
        return
    words = _command(command, setup, load, port)
    _check_files(json_file, csv_file, plot_file)
    hakmem_options = environment.options(options)
    variables, left_out = environment.neutral(environment.of_caller())
    variables.update(environment.assignments(assignments))
    chosen = choose(allocators, base)
    prices = cost.prices() if with_cost else []
    chosen = with_modes(chosen, [price.mode for price in prices])
    program = resolve(words, variables)
    with reserve(json_file, csv_file, plot_file) as files:
        the_plan = plan(program, chosen, variables, hakmem_options, force)
        _check_enough(the_plan, chosen)
        notes = [*the_plan.notes, *_notes(chosen, left_out, variables, hakmem_options)]
        task = Task(program, stdin, timeout, shared_once, show_output)
        facts = settings.collect()
        with ProgressBar(len(the_plan.prepared) * rounds + warmup, quiet) as bar:
            for note in notes:
                bar.line(note)
            run_one = _runner(task, _service(task, load, variables, host, port, settle), bar)
            base_name = the_plan.prepared[0].allocator.name
            contest = Contest(the_plan.prepared, base_name, run_one, rounds, seed, prices=prices)
            contest.listener = lambda run: _show(run, contest, bar)
            _measure(contest, warmup, bar)
        extra: Dict[str, object] = {"load": load, "port": port, "notes": notes, "hakmem_options": hakmem_options}
        failures = _write(files, contest, words, facts, extra)
        if "-" not in (json_file, csv_file):
            _print(contest, words, facts)
            if not contest.all_failed:
                next_step.tell(_next(_profiled(words, program), options, assignments, stdin, force))
        end_with(failures)
    sys.exit(EXIT_PROGRAM_FAILED if contest.failed else 0)


def _command(command: Sequence[str], setup: Optional[str], load: Optional[str], port: Optional[int]) -> List[str]:
    """The measured program, from --setup or from behind --."""
    if setup is not None and command:
        raise Failure("give the server either by --setup or after --, not both", EXIT_USAGE)
    if (load is None) != (port is None) or (setup is not None and load is None):
        raise Failure("a server needs --load and --port, besides --setup", EXIT_USAGE)
    words = _split("--setup", setup) if setup is not None else list(command)
    if port is None:
        _refuse_of_server("host", "settle")
    if not words:
        raise Failure("no program to compare: hakmem compare [options] -- PROGRAM [ARGUMENT]...", EXIT_USAGE)
    return words if port is None else _with_port(words, port)


def _refuse_of_server(*names: str) -> None:
    """Raises a Failure where one of these options of a server was given."""
    source_of = click.get_current_context().get_parameter_source
    for name in names:
        if source_of(name) is not ParameterSource.DEFAULT:
            raise Failure(f"--{name} is for a server, which --load and --port measure", EXIT_USAGE)


def _check_files(json_file: Optional[str], csv_file: Optional[str], plot_file: Optional[str]) -> None:
    if json_file == "-" and csv_file == "-":
        raise Failure("--json - and --csv - would both be on stdout", EXIT_USAGE)
    if plot_file is not None:
        plot.check(plot_file)


def _profiled(words: Sequence[str], program: Program) -> Sequence[str]:
    """The same program for `hakmem profile`, which takes a word of digits for a process."""
    return [program.named_file, *words[1:]] if is_process(words[0]) else words


def _notes(
    chosen: Sequence[Allocator], left_out: Sequence[str], variables: Dict[str, str], options: Dict[str, str]
) -> List[str]:
    """Notes about the environment and the options of hakmem."""
    notes = [f"left out of the environment: {', '.join(left_out)}"] if left_out else []
    notes += _warnings(chosen, {**variables, **options})
    has_modes = any(one.mode is not None for one in chosen)
    if has_modes and (unknown := cost.unknown_mode(chosen, variables)):
        notes.append(unknown)
    return notes


def _warnings(chosen: Sequence[Allocator], variables: Dict[str, str]) -> List[str]:
    """The library's warnings about options that it does not take. Those of the runs are discarded with the program's
    output."""
    if not any(name.startswith("HAKMEM_") for name in variables):
        return []
    libraries = [one.library for one in chosen if one.is_ours and one.mode is None and one.library is not None]
    return list(dict.fromkeys(warning for one in libraries for warning in option_warnings.of(one, variables)))


def _with_port(words: Sequence[str], port: int) -> List[str]:
    """`{port}` in a server's or a load's command stands for the port."""
    return [word.replace("{port}", str(port)) for word in words]


def _split(option: str, text: str) -> List[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Failure(f"{option} {text!r}: {error}", EXIT_USAGE) from None


def _check_enough(the_plan: Plan, chosen: Sequence[Allocator]) -> None:
    if len(the_plan.prepared) < 2:
        raise Failure(f"only {chosen[0].name} can serve this program:", below=the_plan.notes)


def _service(
    task: Task, load: Optional[str], variables: Dict[str, str], host: str, port: Optional[int], settle: float
) -> Optional[Service]:
    if load is None or port is None:
        return None
    words = _split("--load", load)
    if not words:
        raise Failure("--load is empty", EXIT_USAGE)
    program: Program = resolve(_with_port(words, port), variables)
    return Service(task, program, variables, host, port, settle_seconds=settle)


def _runner(task: Task, service: Optional[Service], bar: ProgressBar) -> Runner:
    def run_one(prepared: Prepared, number: int) -> Run:
        bar.describe(f"{f'round {number}' if number else 'warm-up'}: {prepared.allocator.name}")
        if service is not None:
            return run_service(service, prepared, number, bar.tick)
        return run_program(task, prepared, number, bar.tick)

    return run_one


def _show(run: Run, contest: Contest, bar: ProgressBar) -> None:
    bar.advance()
    if run.failure is not None:
        bar.line(f"{run.allocator}, {f'round {run.round}' if run.round else 'warm-up'}: {run.failure}")
        bar.advance(contest.rounds - run.round)


def _measure(contest: Contest, warmup: int, bar: ProgressBar) -> None:
    contest.warm_up(warmup)
    for number in range(1, contest.rounds + 1):
        contest.play(number)
        if contest.all_failed:
            break
        if bar.is_plain:
            bar.line(f"round {number} of {contest.rounds} done")


def _print(contest: Contest, words: Sequence[str], facts: Dict[str, settings.Setting]) -> None:
    entrants = plural(len(contest.prepared), "allocator")
    title = f"{shlex.join(words)}: {plural(contest.rounds, 'round')} under {entrants}"
    table.print_comparison(contest, title, facts, contest.rounds)


def _next(
    words: Sequence[str], options: Sequence[str], assignments: Sequence[str], stdin: Optional[str], force: bool
) -> str:
    """A profile of the program, with the same input and environment: without its input it would wait for a user's."""
    kept = next_step.options({"--set": options, "--force": force})
    told = f"hakmem {next_step.words(['profile', *kept, '--', *words])}"
    if assignments:
        told = f"{next_step.words(['env', *assignments])} {told}"
    return told if stdin is None else f"{told} <{next_step.words([stdin])}"


def _write(
    files: Sequence[Optional[OutputFile]],
    contest: Contest,
    words: Sequence[str],
    facts: Dict[str, settings.Setting],
    extra: Dict[str, object],
) -> List[Failure]:
    """Writes the requested files, in the order json, csv, plot."""
    json_file, csv_file, plot_file = files
    if plot_file is not None and contest.all_failed:
        say("no plot: the program failed under every allocator")
        plot_file = None
    file_format = Path(plot_file.name).suffix.lower()[1:] if plot_file is not None else ""
    return write_each(
        [
            (json_file, lambda: report.as_json(contest, words, facts, extra)),
            (csv_file, lambda: report.as_csv(contest, words)),
            (plot_file, lambda: plot.draw(contest, shlex.join(words), settings.one_line(facts), file_format)),
        ]
    )
