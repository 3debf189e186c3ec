"""`hakmem bench`: the standard set of workloads under every allocator that is present."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Callable, List, Mapping, Optional, Sequence, Tuple

import click
from rich.text import Text

from hakmem import (
    bench_build,
    bench_json,
    bench_means,
    bench_report,
    bench_tables,
    cost,
    cost_report,
    counts,
    fitting,
    next_step,
    paths,
    plot,
    plot_bench,
    plot_means,
    settings,
)
from hakmem.allocators import GLIBC, Allocator, choose, with_modes
from hakmem.bench_results import Results
from hakmem.bench_session import Session, expected_minutes
from hakmem.errors import EXIT_PROGRAM_FAILED, EXIT_SIGNAL_BASE, EXIT_USAGE, Failure, plural, say, shown
from hakmem.folding import fold, known_columns
from hakmem.metrics import PEAK
from hakmem.output import Content, OutputFile, end_with, reserve, write_each
from hakmem.progress import ProgressBar
from hakmem.seconds import Time
from hakmem.standing import LOSES
from hakmem.statistics import ENOUGH_ROUNDS
from hakmem.workloads import Workload, default_places, load, select

_POSITIVE = click.IntRange(min=1)
# Workloads that the next command names.
_MOST_NAMED = 4
_SEED = 1
_MINUTES = 18.0
_PICTURES = ("means", "time", "memory")


@click.command()
@click.option("--only", metavar="A,B,...", help="Names or groups of workloads, with commas; * and ? as in a shell.")
@click.option("--list", "list_only", is_flag=True, help="List the workloads and the time of a round, and end.")
@click.option(
    "--allocators", metavar="A,B,...", help="Allocators to compare, with commas; default: all, in their newest version."
)
@click.option("--rounds", type=_POSITIVE, default=5, show_default=True, help="Rounds over the whole set.")
@click.option(
    "--program-rounds", type=_POSITIVE, metavar="N", help="Rounds of the real programs; default: three for every five."
)
@click.option(
    "--minutes", type=Time(0, least_open=True, unit_seconds=60), default=_MINUTES, show_default=True,
    help="Time limit in minutes: after the first round nothing starts that would end later.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=_SEED, show_default=True,
    help="Seed of the workloads and of the order.",
)  # fmt: skip
@click.option(
    "--cost", "with_cost", is_flag=True,
    help="Also the cost at three prices, with hakmem in three modes; without --only on the set for it.",
)  # fmt: skip
@click.option(
    "--counts",
    "counts_only",
    is_flag=True,
    help="Only count hakmem's locks, system calls and the like, by its counting build.",
)
@click.option("--no-counts", is_flag=True, help="Only measure.")
@click.option("--out", metavar="DIR", help="Where the results go; default: bench/results.")
@click.option(
    "--draw", "drawn", nargs=2, metavar="RESULTS FILE",
    help="Measure nothing: draw the geometric means of a JSON file, or of the latest in a folder, into FILE (.svg).",
)  # fmt: skip
@click.option("--label", metavar="TEXT", help="Label in the names of the files; default: machine and cores.")
@click.option(
    "--workloads", "catalogue", metavar="DIR", help="Folder of workloads.toml and programs.toml; default: bench."
)
@click.option("--programs", metavar="DIR", help="Folder of the built workloads; default: build/release/bench.")
@click.option("--json", "json_name", metavar="FILE", help="Write the results' JSON to FILE too; - is stdout, no table.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def bench(
    only: Optional[str],
    list_only: bool,
    allocators: Optional[str],
    rounds: int,
    program_rounds: Optional[int],
    minutes: float,
    seed: int,
    with_cost: bool,
    counts_only: bool,
    no_counts: bool,
    out: Optional[str],
    drawn: Optional[Tuple[str, str]],
    label: Optional[str],
    catalogue: Optional[str],
    programs: Optional[str],
    json_name: Optional[str],
    quiet: bool,
) -> None:
    """Measure the standard set, and write the results: JSON, a table in Markdown, and pictures."""
    began = time.monotonic()
    _refuse_empty({"--out": out, "--label": label, "--workloads": catalogue, "--programs": programs})
    _check_options(json_name, measures=not (list_only or drawn), counts=(counts_only, no_counts), with_cost=with_cost)
    if drawn is not None:
        _draw_stored(*drawn)
        return
    root = _checkout()
    places = default_places(root, catalogue, programs)
    workloads = select(load(places, seed), only, for_cost=with_cost, all_of_them=list_only)
    entrants = [] if counts_only else choose(allocators, GLIBC, with_older=False)
    prices = cost.prices() if with_cost else []
    entrants = with_modes(entrants, [price.mode for price in prices])
    if list_only:
        _list(workloads, len(entrants), only is not None or with_cost)
        return
    if programs is None and any(one.own and one.missing for one in workloads):
        _check_outputs(_folder(out, root), json_name)
        bench_build.build(root)
        workloads = select(load(places, seed), only, for_cost=with_cost)
    left_out = {workload.name: workload.missing for workload in workloads if workload.missing}
    workloads = _runnable(workloads, left_out, counts_only)
    session = Session(
        workloads=workloads,
        places=places,
        allocators=entrants,
        counting_library=_counting_library(workloads, counts_only, no_counts),
        rounds=rounds,
        program_rounds=program_rounds,
        minutes=minutes,
        seed=seed,
        facts=settings.collect(),
        left_out=left_out,
        prices=prices,
        began=began,
    )
    stem = _stem(_folder(out, root), label or f"{session.facts['machine']}-{session.facts['cores']}core")
    with reserve(json_name) as (json_file,):
        results = _measure_and_write(session, stem, quiet, json_file)
    if json_name != "-":
        kept = {
            "--program-rounds": program_rounds, "--minutes": minutes if minutes != _MINUTES else None,
            "--allocators": allocators, "--seed": seed if seed != _SEED else None, "--cost": with_cost,
            "--no-counts": no_counts, "--out": out, "--label": label, "--workloads": catalogue, "--programs": programs,
        }  # fmt: skip
        _tell_next(results, only, next_step.options(kept))
    _end(session, results)


def _refuse_empty(given: Mapping[str, Optional[str]]) -> None:
    """A shell's unset variable gives an empty value, which must not mean the default."""
    for option, value in given.items():
        if value == "":
            raise Failure(f"the value of {option} is empty", EXIT_USAGE)


def _check_options(json_name: Optional[str], measures: bool, counts: Tuple[bool, bool], with_cost: bool) -> None:
    """`counts` is --counts and --no-counts."""
    if json_name is not None and not measures:
        raise Failure("--json is for results that are measured, not for --list and --draw", EXIT_USAGE)
    if all(counts):
        raise Failure("--counts and --no-counts leave nothing to do", EXIT_USAGE)
    if with_cost and counts[0]:
        raise Failure("--cost needs measured runs, and --counts measures none", EXIT_USAGE)


def _checkout() -> Path:
    root = paths.checkout()
    if root is None:
        raise Failure("the workloads are part of the checkout: start ./hakmem bench from there")
    return root


def _runnable(workloads: Sequence[Workload], left_out: Mapping[str, str], counts_only: bool) -> List[Workload]:
    """The workloads to run, at least one. Says why the others are left out."""
    for name, reason in left_out.items():
        say(f"left out: {name}: {reason}")
    chosen = [one for one in workloads if one.name not in left_out and (one.own or not counts_only)]
    if not chosen:
        raise Failure(f"no workload is left; `{bench_build.COMMAND}` in the checkout builds hakmem's own")
    return chosen


def _check_outputs(folder: Path, json_name: Optional[str]) -> None:
    """Refuses what cannot be written before a build that takes minutes. The results' names are not known yet."""
    with reserve(f"{_stem(folder, 'results')}.json"), reserve(json_name):
        pass


def _draw_stored(results: str, target: str) -> None:
    if Path(target).suffix != ".svg":
        raise Failure(f"--draw {shown(target)}: expected a name that ends with .svg", EXIT_USAGE)
    plot.check_matplotlib()
    found = bench_means.of_stored(results)
    if found is None:
        raise Failure(f"{results}: no workload that every allocator ended")
    with reserve(target) as (file,):
        assert file is not None
        file.write(plot_means.draw(found))
    click.echo(f"written: {target}")


def _list(workloads: Sequence[Workload], allocators: int, are_named: bool) -> None:
    for workload in workloads:
        missing = f" ({workload.missing})" if workload.missing else ""
        missing += " (only when named, or by --cost)" if workload.on_request else ""
        text = f"{workload.name}: {workload.group}, {workload.expected_seconds:g} s, {workload.what}{missing}"
        click.echo("\n".join(fold(text, known_columns(), "  ")))
    runnable = [workload for workload in workloads if not workload.missing and (are_named or not workload.on_request)]
    if allocators:
        minutes = expected_minutes(runnable, allocators)
        say(f"{_set_text(runnable, allocators)}: a round should take {minutes:.1f} minutes")


def _set_text(workloads: Sequence[Workload], allocators: int) -> str:
    return f"{plural(len(workloads), 'workload')} under {plural(allocators, 'allocator')}"


def _counting_library(workloads: Sequence[Workload], counts_only: bool, no_counts: bool) -> Optional[Path]:
    """Returns the counts where the counting build exists. With --counts its absence is a Failure."""
    if counts_only:
        return counts.require_library()
    if no_counts or not any(workload.own for workload in workloads):
        return None
    library = counts.find_library()
    if library is None:
        say(f"no counts: {counts.LIBRARY} is not built ({counts.HOW_TO_BUILD})")
    return library


def _folder(out: Optional[str], root: Path) -> Path:
    folder = Path(out) if out else root / "bench" / "results"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"cannot make the folder {folder}: {error.strerror}") from None
    return folder


def _stem(folder: Path, label: str) -> str:
    """Returns a name that no earlier result has."""
    stem = first = folder / f"{time.strftime('%Y-%m-%d')}-{label.replace('/', '-')}"
    number = 1
    while any(stem.with_name(stem.name + ending).exists() for ending in _endings(_PICTURES)):
        number += 1
        stem = first.with_name(f"{first.name}-{number}")
    return str(stem)


def _endings(pictures: Sequence[str]) -> List[str]:
    return [".json", ".md", *(f"-{picture}.svg" for picture in pictures)]


def _pictures(allocators: Sequence[Allocator]) -> List[str]:
    if not allocators:
        return []
    try:
        plot.check_matplotlib()
    except Failure as failure:
        say(f"no pictures: {failure.message}")
        return []
    return [*_PICTURES]


def _measure_and_write(session: Session, stem: str, quiet: bool, json_file: Optional[OutputFile]) -> Results:
    """The files are reserved before anything runs, and written whole at the end."""
    pictures = _pictures(session.allocators)
    with reserve(*(f"{stem}{ending}" for ending in _endings(pictures))) as files:
        if session.allocators and not quiet:
            minutes = expected_minutes(session.workloads, len(session.allocators))
            say(f"{_set_text(session.workloads, len(session.allocators))}: a round should take {minutes:.1f} minutes")
        with ProgressBar(session.run_count(), quiet) as bar:
            results = session.measure(bar)
        stored, page, *drawn = files
        draws: List[Callable[[], Content]] = [partial(_draw, picture, results) for picture in pictures]
        # The page is behind the pictures: it shows those that were written.
        failures = write_each(
            [
                (stored, lambda: bench_json.as_json(results)),
                *zip(drawn, draws),
                (page, lambda: bench_report.as_markdown(results, [Path(name).name for name in _written(drawn)])),
                (json_file, lambda: bench_json.as_json(results)),
            ]
        )
        written = _written(files)
    if json_file is None or json_file.name != "-":
        _print(results, written)
    end_with(failures)
    return results


def _written(files: Sequence[Optional[OutputFile]]) -> List[str]:
    return [file.name for file in files if file is not None and file.is_written]


def _draw(picture: str, results: Results) -> bytes:
    if picture == "means":
        return plot_means.draw(bench_means.of_results(results))
    if picture == "time":
        ratios = {s.workload.name: results.relative_times(s) for s in results.standings}
        return plot_bench.draw("time, × the best peer (below 1 is better)", results.names, ratios)
    ratios = {s.workload.name: results.relative_memory(s, PEAK) for s in results.standings}
    return plot_bench.draw("peak resident memory, × the median peer (below 1 is better)", results.names, ratios)


def _print(results: Results, names: Sequence[str]) -> None:
    """The short form, on stdout."""
    out = fitting.console()
    if results.standings:
        bench_tables.print_standings(results.standings)
        out.print()
        if results.prices:
            bench_tables.print_costs(results.standings)
            for price in results.prices:
                fitting.print_words(out, cost_report.cost_summary(results, price))
            out.print()
        fitting.print_words(out, bench_report.losses_title(results), "bold")
        for line in bench_report.losses(results):
            fitting.print_words(out, f"  {line}", "red", "    ")
    elif results.counted:
        bench_tables.print_counts(results.counted)
    for name, contest in results.contests.items():
        for who, run in contest.failed.items():
            text = f"FAILED: {name} under {who}, round {run.round}: {run.failure}"
            fitting.print_words(out, text, "red", "  ")
    for one in results.counted:
        if one.failure is not None:
            fitting.print_words(out, f"FAILED: {one.workload} was not counted: {one.failure}", "red", "  ")
    for note in results.notes:
        fitting.print_words(out, note, "dim")
    if names:
        out.print(Text("\n".join(["", "written:", *(f"  {name}" for name in names)])), soft_wrap=True)


def _tell_next(results: Results, only: Optional[str], kept: Sequence[str]) -> None:
    """More rounds: of the lost workloads, else of the same set. `kept` are the other options, as they are typed."""
    lost = [standing.workload.name for standing in results.standings if standing.time_word == LOSES]
    named = next_step.options({"--only": ",".join(lost[:_MOST_NAMED]) or only})
    rounds = next_step.options({"--rounds": max(ENOUGH_ROUNDS, 2 * results.rounds)})
    next_step.tell(f"hakmem {next_step.words(['bench', *named, *rounds, *kept])}")


def _end(session: Session, results: Results) -> None:
    number = session.ending.signal
    if number is not None:
        say(f"broken off after {plural(results.rounds, 'complete round')}; their results were written")
        sys.exit(EXIT_SIGNAL_BASE + number)
    failed = any(contest.failed for contest in results.contests.values()) or any(c.failure for c in results.counted)
    sys.exit(EXIT_PROGRAM_FAILED if failed else 0)
