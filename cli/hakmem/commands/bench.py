"""`hakmem bench`: the standard set of workloads under every allocator that is present."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Union

import click
from rich.text import Text

from hakmem import bench_report, environment, paths, plot, plot_bench, settings, table
from hakmem.allocators import GLIBC, Allocator, choose
from hakmem.bench_report import Results
from hakmem.contest import Contest, Listener
from hakmem.errors import EXIT_PROGRAM_FAILED, Failure, plural, say
from hakmem.measure import Run
from hakmem.metrics import PEAK
from hakmem.output import reserve
from hakmem.progress import ProgressBar
from hakmem.standing import stand
from hakmem.workload_runner import make_contest
from hakmem.workloads import Places, Workload, default_places, load, select

_FEWEST_ROUNDS = 3
# A run may take so much longer than expected before it is given up.
_PATIENCE_FACTOR = 60
_PATIENCE_SECONDS = 60


@click.command()
@click.option("--only", metavar="A,B,...", help="Names or groups of workloads; * and ? as in a shell.")
@click.option("--list", "list_only", is_flag=True, help="List the workloads, and end.")
@click.option("--allocators", metavar="A,B,...", help="Which to compare; default: all that are present.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Rounds over the whole set.")
@click.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), default=18.0, show_default=True,
    help="Begin no round that would end later, once there are three.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Of the workloads and of the order."
)
@click.option("--out", metavar="DIR", help="Where the results go; default: bench/results.")
@click.option("--label", metavar="TEXT", help="In the names of the files; default: machine and cores.")
@click.option(
    "--workloads", "catalogue", metavar="DIR", help="Where workloads.toml and programs.toml are; default: bench."
)
@click.option("--programs", metavar="DIR", help="Where the own programs were built; default: build/release/bench.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def bench(
    only: Optional[str],
    list_only: bool,
    allocators: Optional[str],
    rounds: int,
    minutes: float,
    seed: int,
    out: Optional[str],
    label: Optional[str],
    catalogue: Optional[str],
    programs: Optional[str],
    quiet: bool,
) -> None:
    """Measure the standard set, and write the results: JSON, a table in Markdown, and pictures."""
    root = paths.checkout()
    if root is None:
        raise Failure("the workloads are part of the checkout: start ./hakmem bench from there")
    places = default_places(root, catalogue, programs)
    workloads = select(load(places, seed), only)
    if list_only:
        for workload in workloads:
            click.echo(
                f"{workload.name}: {workload.group}, {workload.what}"
                + (f" ({workload.missing})" if workload.missing else "")
            )
        return
    left_out = {workload.name: workload.missing for workload in workloads if workload.missing}
    workloads = [workload for workload in workloads if not workload.missing]
    for name, reason in left_out.items():
        say(f"left out: {name}: {reason}")
    if not workloads:
        raise Failure("no workload is left")
    chosen = choose(allocators, GLIBC)
    facts = settings.collect()
    stem = _stem(_folder(out, root), label or f"{facts['machine']}-{facts['cores']}core")
    pictures = _pictures()
    names = [f"{stem}.json", f"{stem}.md", *(f"{stem}-{picture}.svg" for picture in pictures)]
    with reserve(*names) as files:
        results = _measure(workloads, places, chosen, facts, rounds, minutes, seed, left_out, quiet)
        contents: List[Union[str, bytes]] = [
            bench_report.as_json(results),
            bench_report.as_markdown(results, [Path(name).name for name in names[2:]]),
            *(_draw(picture, results) for picture in pictures),
        ]
        for file, content in zip(files, contents):
            assert file is not None
            file.write(content)
    _print(results, names)
    sys.exit(EXIT_PROGRAM_FAILED if any(contest.failed for contest in results.contests.values()) else 0)


def _folder(out: Optional[str], root: Path) -> Path:
    folder = Path(out) if out else root / "bench" / "results"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"cannot make the folder {folder}: {error.strerror}") from None
    return folder


def _stem(folder: Path, label: str) -> str:
    """A name that no earlier result has."""
    stem = first = folder / f"{time.strftime('%Y-%m-%d')}-{label.replace('/', '-')}"
    number = 1
    while stem.with_name(stem.name + ".json").exists():
        number += 1
        stem = first.with_name(f"{first.name}-{number}")
    return str(stem)


def _pictures() -> List[str]:
    try:
        plot.check_matplotlib()
    except Failure as failure:
        say(f"no pictures: {failure.message}")
        return []
    return ["time", "memory"]


def _measure(
    workloads: Sequence[Workload],
    places: Places,
    chosen: Sequence[Allocator],
    facts: Dict[str, settings.Setting],
    rounds: int,
    minutes: float,
    seed: int,
    left_out: Dict[str, str],
    quiet: bool,
) -> Results:
    """Rounds over the whole set, so that what the machine does in between touches all alike."""
    variables, removed = environment.neutral(environment.of_caller())
    notes = [f"left out of the environment: {', '.join(removed)}"] if removed else []
    notes += [busy] if (busy := settings.busy_machine(facts)) else []
    contests: Dict[str, Contest] = {}
    entrants = len(chosen)
    expected = sum(w.expected_seconds * (entrants + len(w.floors)) for w in workloads)
    if not quiet:
        say(
            f"{plural(len(workloads), 'workload')}, {entrants} allocators: a round takes about {expected / 60:.1f} minutes"
        )
    total = sum(entrants + len(w.floors) for w in workloads) * rounds + len(workloads)
    with ProgressBar(total, quiet) as bar:
        for workload in workloads:
            patience = _PATIENCE_SECONDS + _PATIENCE_FACTOR * workload.expected_seconds
            try:
                contest, remarks = make_contest(workload, places, chosen, variables, rounds, seed, patience, bar.tick)
            except Failure as failure:
                left_out[workload.name] = failure.message
                bar.line(f"left out: {workload.name}: {failure.message}")
                continue
            notes += [f"{workload.name}: {remark}" for remark in remarks]
            contest.listener = _listener(workload.name, bar)
            contests[workload.name] = contest
        done = _play_all(contests, rounds, minutes, bar)
    if done < rounds:
        notes.append(f"{done} of {rounds} rounds: more would have taken longer than {minutes:g} minutes")
    standings = [stand(workload, contests[workload.name]) for workload in workloads if workload.name in contests]
    return Results(facts, chosen, done, seed, standings, contests, left_out, notes)


def _listener(name: str, bar: ProgressBar) -> Listener:
    def listen(run: Run) -> None:
        bar.advance()
        if run.failure is not None:
            bar.line(f"{name} under {run.allocator}, round {run.round}: {run.failure}")

    return listen


def _play_all(contests: Dict[str, Contest], rounds: int, minutes: float, bar: ProgressBar) -> int:
    """Returns how many rounds there were."""
    begin = time.monotonic()
    for name, contest in contests.items():
        bar.describe(f"warm-up: {name}")
        contest.warm_up(1)
    for number in range(1, rounds + 1):
        round_begin = time.monotonic()
        for name, contest in contests.items():
            bar.describe(f"round {number}: {name}")
            contest.play(number)
        now = time.monotonic()
        if bar.is_plain:
            bar.line(f"round {number} of {rounds} done after {(now - begin) / 60:.1f} minutes")
        if number >= _FEWEST_ROUNDS and now + (now - round_begin) > begin + 60 * minutes:
            return number
    return rounds


def _draw(picture: str, results: Results) -> bytes:
    if picture == "time":
        ratios = {s.workload.name: results.relative_times(s) for s in results.standings}
        return plot_bench.draw("time, × the best peer (below 1 is better)", results.names, ratios)
    ratios = {s.workload.name: results.relative_memory(s, PEAK) for s in results.standings}
    return plot_bench.draw("peak resident memory, × the median peer (below 1 is better)", results.names, ratios)


def _print(results: Results, names: Sequence[str]) -> None:
    """The short form, on stdout."""
    out = table.console()
    out.print(table.standing_table(results.standings, results.rounds))
    out.print()
    lost = bench_report.losses(results)
    out.print(Text("hakmem loses:" if lost else "hakmem loses nowhere by more than the noise.", style="bold"))
    for line in lost:
        out.print(Text(f"  {line}", style="red"))
    for name, contest in results.contests.items():
        for who, run in contest.failed.items():
            out.print(Text(f"FAILED: {name} under {who}, round {run.round}: {run.failure}", style="red"))
    for note in results.notes:
        out.print(Text(note, style="dim"))
    out.print(Text("\n".join(["", "written:", *(f"  {name}" for name in names)])))
