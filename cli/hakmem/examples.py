"""Examples of each command: the end of its `--help`, and a section of the man page."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

import click

from hakmem import usage
from hakmem.folding import fold, fold_command

# Of the lines of an example: click's, and theirs.
_INDENT = 4

# By the words behind `hakmem`: a command line, and what it does.
EXAMPLES: Dict[str, Tuple[Tuple[str, str], ...]] = {
    "": (
        ("hakmem run -- sqlite3 shop.db .dump", "run a program under hakmem"),
        ("hakmem compare -- z3 file.smt2", "compare it under every allocator of the machine"),
        ("hakmem explain 4711", "explain why so much memory of process 4711 is resident"),
        ("hakmem run --help", "the options of a command"),
    ),
    "bench": (
        ("hakmem bench --list", "the workloads, and how long a round takes"),
        ("hakmem bench --only micro --rounds 3", "measure one group"),
        ("hakmem bench --cost --no-counts", "CPU time and memory at three prices"),
        ("hakmem bench --draw bench/results means.svg", "draw the means of stored results"),
    ),
    "compare": (
        ("hakmem compare -- z3 file.smt2", "under all allocators, five rounds"),
        ("hakmem compare --allocators hakmem,jemalloc --rounds 10 -- z3 file.smt2", "two and glibc, ten rounds"),
        ("hakmem compare --plot memory.svg -- ruby report.rb", "draw resident memory over time"),
        (
            "hakmem compare --port 7777 --setup 'redis-server --port {port}' --load 'redis-benchmark -p {port} -q'",
            "compare a server under a load",
        ),
    ),
    "diff": (
        ("hakmem diff monday.pb.gz friday.pb.gz", "what grew between two heap profiles"),
        ("hakmem diff --group function monday.pb.gz friday.pb.gz", "by function instead of by stack"),
        ("hakmem diff before.json after.json", "what grew between two statistics snapshots"),
    ),
    "doctor": (
        ("hakmem doctor", "look at this machine"),
        ("hakmem doctor -- redis-server", "and at a program"),
        ("hakmem doctor --json - -- redis-server", "the findings as JSON"),
    ),
    "env": (
        ("hakmem env", 'for a shell: eval "$(hakmem env)" puts later programs on hakmem'),
        ("hakmem env --systemd --set mode=lean", "two lines for the [Service] section of a unit"),
        ("hakmem env --docker", "a line for a Dockerfile"),
        ("hakmem env --plain --fast", "for one program: env $(hakmem env --plain --fast) ./server"),
    ),
    "explain": (
        ("hakmem explain 4711", "of a running program"),
        ("hakmem stats --json 4711 >monday.json", "save a snapshot,"),
        ("hakmem explain monday.json", "and explain it later"),
    ),
    "guard": (
        ("hakmem guard --rate 100000 4711", "guard one allocation in 100,000 of a running process"),
        ("hakmem guard 4711", "what the guards do, and when they find a bug"),
        ("hakmem guard --off 4711", "guard no more"),
        ("hakmem run --guard -- ./server", "guard a program from its start on"),
    ),
    "help": (
        ("hakmem help", "all commands"),
        ("hakmem help run", "one of them"),
        ("hakmem help double-free", "what an error message means, and what to do"),
        ("hakmem help options", "a page that messages name"),
    ),
    "leaks": (
        ("hakmem leaks -- ruby report.rb", "all blocks that are not freed at the end"),
        ("hakmem leaks --scan -- ruby report.rb", "only blocks that no pointer leads to"),
        ("hakmem leaks --scan 4711", "of a process that samples already"),
    ),
    "learn": (
        ("hakmem learn replay bench/learn_traces/redis.level", "the costs of the learner and of each time-out"),
        ("hakmem learn merge -o shop.learned runs/*.learned", "one file of many runs"),
    ),
    "learn merge": (
        ("hakmem run --set learn_file=$PWD/1.learned -- ./shop", "a run that keeps what it learns,"),
        ("hakmem learn merge -o shop.learned *.learned", "and one file of many such runs"),
        ("hakmem learn merge --json - -o shop.learned *.learned", "with the summary as JSON"),
    ),
    "learn replay": (
        ("hakmem run --set trace=shop.level -- ./shop", "record a program,"),
        ("hakmem learn replay shop.level", "and replay it"),
        ("hakmem learn replay --mode lean --plot shop.svg shop.level", "at another price, with a picture"),
    ),
    "metrics": (
        ("hakmem metrics --port 9469 4711", "serve http://127.0.0.1:9469/metrics"),
        ("hakmem metrics --port 9469 --profile 4711", "and a heap profile for pprof"),
        ("hakmem metrics --all --port 9469", "all processes on hakmem of this host"),
        (
            "hakmem metrics --all --port 9469 --targets /run/hakmem/targets.json",
            "and a file for the service discovery of Prometheus",
        ),
    ),
    "profile": (
        ("hakmem profile -- ./server --port 7777", "a program, from its start to its end"),
        ("hakmem profile --seconds 30 --flame heap.svg 4711", "a running process, as a flame graph"),
        ("hakmem profile -o heap.pb.gz 4711", "a file for `go tool pprof` and others"),
        ("hakmem profile --by lifetime 4711", "how long the blocks of each call site live"),
        ("hakmem profile --input heap.pb.gz --folded -", "folded stacks of a file"),
    ),
    "report": (
        ("hakmem report -o page.html 4711", "watch a process for ten seconds"),
        ("hakmem report -o page.html -- ruby report.rb", "a program, from its start to its end"),
        ("hakmem report -o page.html --from monday.json heap.pb.gz", "saved files"),
    ),
    "run": (
        ("hakmem run -- sqlite3 shop.db .dump", "one run, and a line about its time and memory"),
        ("hakmem run -v -- sqlite3 shop.db .dump", "five lines instead"),
        ("hakmem run --set mode=lean --set retain=64M -- ./server", "with options of hakmem"),
        ("hakmem run --quiet --json run.json -- ./server", "the verdict as JSON"),
    ),
    "stats": (
        ("hakmem stats 4711", "ten lines"),
        ("hakmem stats --all 4711", "every figure"),
        ("hakmem stats --json 4711 >monday.json", "for programs, and for hakmem explain and diff"),
    ),
    "symbolize": (
        ("hakmem symbolize server.log", "name the calls in the reports of a log"),
        ("hakmem symbolize --debug-dir ./debug report.json", "and in a report of HAKMEM_GUARD_FILE"),
    ),
    "top": (
        ("hakmem top 4711", "the live picture, in a terminal"),
        ("hakmem top --once 4711", "one look, as text"),
        ("hakmem top --json --interval 10 4711", "a line of JSON every ten seconds"),
    ),
}


def add_to(command: click.Command, words: str) -> None:
    """Adds the examples of a command, and of the commands in it, after their options."""
    if command.epilog is None:
        command.epilog = _text(EXAMPLES[words])
    if isinstance(command, click.Group) and words:
        for name, inner in command.commands.items():
            add_to(inner, f"{words} {name}")


def _text(examples: Tuple[Tuple[str, str], ...]) -> Optional[str]:
    """A paragraph that click does not rewrap: a comment above each command line, folded as a shell takes it."""
    width = usage.columns() - _INDENT
    lines = [
        f"  {part}"
        for line, what in examples
        for part in (*fold(f"# {what}", width, "# "), *fold_command(line, width, "    "))
    ]
    return "\n".join(["\b", "Examples:", *lines])
