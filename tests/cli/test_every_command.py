"""Every command, met as on a first use: output that cannot be written, narrow terminals, wrong usage, no /proc."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, List, Tuple

import pytest
from cli_support import Tool
from every_command import NOT_FOR_READERS, ON_STDERR, ON_STDOUT, World, leaves, lines_of, world
from hakmem import help_page
from test_output import open_files

__all__ = ["world"]  # a fixture
LEAVES = list(leaves())
# A word, or an option with its value, that a narrow terminal does not hold.
NARROW = re.compile(r"\s*(\S+|'[^']*'|--\S+ \S+)( \\)?|Usage: hakmem learn \w+ ")
# Words that no width holds.
LONG_WORD = re.compile(r"^\s*\S*$")


def first_lines() -> List[str]:
    """A line for each command."""
    return [f"{name} {forms[0]}".strip() for name, forms in ON_STDOUT.items() if forms]


def test_none_is_left_out() -> None:
    assert {*ON_STDOUT} == {*LEAVES}


@pytest.mark.parametrize(
    ("stdout", "reason"), [("/dev/full", "No space left on device"), ("closed", "it is closed")], ids=["full", "closed"]
)
def test_a_stdout_that_cannot_be_written(world: World, stdout: str, reason: str) -> None:
    """One line, behind notes about a profile that runs already, and 125."""
    for line in lines_of(ON_STDOUT) if stdout != "closed" else first_lines():
        done = world.run(world.words(line), stdout)
        told = [one for one in done.stderr.splitlines() if not re.match(r"hakmem: (note|left out): ", one)]
        assert (done.returncode, told) == (125, [f"hakmem: cannot write to standard output: {reason}"]), line


def test_a_reader_that_has_gone(world: World) -> None:
    for line in first_lines():
        done = world.run(world.words(line), "gone")
        assert (done.returncode, "Traceback" in done.stderr) == (141, False), (line, done.stderr)


@pytest.mark.parametrize("columns", [60, 80])
def test_widths(world: World, columns: int) -> None:
    """No line is wider, but for one long word; no figure is parted from its unit."""
    for table in (ON_STDOUT, ON_STDERR):
        for line in lines_of(table):
            if table is ON_STDOUT and line.startswith(NOT_FOR_READERS):
                continue
            done = world.run(world.words(line), COLUMNS=str(columns))
            assert done.returncode == 0, (line, done.stderr)
            found = (done.stdout if table is ON_STDOUT else done.stderr).splitlines()
            found = [one for one in found if not one.startswith("hakmem: note: ")]
            wide = [
                one for one in found if len(one.rstrip()) > columns and not LONG_WORD.match(one.removesuffix(" \\"))
            ]
            assert found and not wide, (line, wide)
            pairs = zip(found, found[1:])
            broken = [
                two for two in pairs if re.search(r"\d$", two[0]) and re.match(r"\s*([KMG]iB|B|%|ms|s)\b", two[1])
            ]
            assert not broken, (line, broken)


@pytest.mark.parametrize("columns", [24, 30, 40, 60, 80])
def test_help_fits(world: World, columns: int) -> None:
    """Below 40 columns a word, or an option with its value, may be wider."""
    whole = world.tool("--help", environment={**os.environ, "COLUMNS": str(columns)}).stdout
    texts = {line: world.run([*line.split(), "--help"], COLUMNS=str(columns)).stdout for line in ("learn", *LEAVES)}
    for line, text in {"": whole, **texts}.items():
        found = text.splitlines()
        wide = [one for one in found if len(one) > columns and (columns >= 40 or not NARROW.fullmatch(one))]
        assert found and not wide, (line, wide)
        assert not any(re.search(r"[a-z]\.\.\.$", one) for one in found), found  # a summary that is cut


@pytest.mark.parametrize("name", LEAVES)
def test_wrong_usage_is_one_line_and_names_the_help(world: World, name: str) -> None:
    done = world.run([*name.split(), "--no-such-option"])
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"hakmem: {name}: No such option .*\(see: (hakmem help {name})\)\n", done.stderr), done.stderr


def test_what_messages_name_is_there(world: World) -> None:
    assert world.run(["help", "learn", "merge"]).stdout.startswith("Usage: hakmem learn merge ")
    assert world.run(["help", "no", "such"]).returncode == 2
    for page in help_page.names():
        words = page if page not in LEAVES else f"{page}.md"
        assert len(world.run(["help", words]).stdout) > 2000


def test_pages_that_sources_name_can_be_printed() -> None:
    """In the library's messages and the tool's."""
    root = Path(__file__).resolve().parents[2]
    sources = [*root.glob("src/**/*.c"), *root.glob("cli/hakmem/**/*.py")]
    named = {
        topic for source in sources for topic in re.findall(r"hakmem help ([a-z][a-z.-]+)[;)`\\\\]", source.read_text())
    }
    assert {"options", "leaks.md", "stats.md", "sandbox"} <= named
    known = {*LEAVES, *help_page.kinds(), *help_page.names(), *(f"{page}.md" for page in help_page.names())}
    assert named <= known
    # Of the code, not of comments and documentation.
    code = (re.sub(r'"""(.|\n)*?"""|#.*|/\*(.|\n)*?\*/', "", source.read_text()) for source in sources)
    strings = [text for one in code for text in re.findall(r'"[^"\n]*\bdocs/[a-z-]+\.md[^"\n]*"', one)]
    assert strings == []


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("stats", "-5"), 2, "-5 is neither an option nor a PID"),
        (("stats", ""), 2, "'' is no PID"),
        (("stats", "0"), 2, "0 is no PID"),
        (("stats", "9" * 5000), 2, "9 is no PID"),
        (("guard", "--rate", "9" * 5000, "1"), 2, "9 is no RATE"),
        (("profile", "0"), 2, "0 is no PID"),
        (("leaks", "0"), 2, "0 is no PID"),
        (("report", "-o", "page.html", "0"), 2, "0 is no PID"),
        (("stats", "--json", "--openmetrics", "1"), 2, "--json or --openmetrics: one of them"),
        (("stats", "--text", "--json", "1"), 2, "--all or --json: one of them"),
        (("top", "--all", "1"), 2, "--all is for --once"),
        (("profile", "--input", "p.pb.gz", "123"), 2, "--input and 123 each say what to profile"),
        (("top", "--interval", "x", "1"), 2, "'x' is no number"),
        (("compare", "--list", "--json", "-"), 2, "--list prints lines"),
        (("compare", "--csv", "x.csv", "--list"), 2, "--list prints lines"),
        (("compare", "--list", "--", "true"), 2, "--list takes no PROGRAM"),
        (("bench", "--list", "--json", "-"), 2, "--json is for results that are measured"),
        (("bench", "--only", "", "--list"), 2, "no workload or group ''"),
        (("bench", "--out", ""), 2, "the value of --out is empty"),
        (("bench", "--label", ""), 2, "the value of --label is empty"),
        (("bench", "--workloads", "", "--list"), 2, "the value of --workloads is empty"),
        (("bench", "--programs", "", "--list"), 2, "the value of --programs is empty"),
        (("bench", "--draw", "a.json", "a.svg", "--json", "-"), 2, "--json is for results that are measured"),
        (("bench", "--rounds", "x"), 2, "'x' is no whole number"),
        (("bench", "--allocators", "nope"), 2, "unknown allocator 'nope'"),
        (("bench", "--workloads", "nope"), 2, "has neither workloads.toml nor programs.toml"),
        (("env", "--set", "x"), 2, "(see: hakmem help options)"),
        (("run", "--guard", "0", "true"), 2, "0 is no RATE"),
        (("run", "--guard", "-1", "--", "true"), 2, "run: No such option"),
        (("run", "--secure", "--library", "x", "true"), 2, "both name a library"),
        (("explain", "0"), 2, "0 is no PID"),
        (("compare", "--port", "1", "true"), 2, "a server needs"),
        (("compare", "--plot", "a.pdf", "true"), 2, "expected a name that ends with"),
        (("env", "--shell", "--fish"), 2, "one of them"),
        (("guard", "--rate", "5", "--off", "1"), 2, "one of them"),
        (("metrics",), 2, "which process?"),
        (("metrics", ""), 2, "'' is no PID"),
        (("run", "--guard", "0", "--", "true"), 2, "without a RATE: --guard -- PROGRAM"),
        (("learn", "replay", "--mode", "lean", "--price", "1", "x"), 2, "are two prices"),
        (("run", "--set"), 2, "run: Option '--set' requires an argument"),
        (("run", "--force=1", "true"), 2, "run: Option '--force' does not take a value"),
        (("learn", "merge", "-o"), 2, "learn merge: Option '-o' requires an argument"),
        (("--version=3",), 2, "(see: hakmem help)"),
        (("run", "--json", "--", "true"), 2, "the FILE of an option is missing before -- (see: "),
        (("leaks", "--debug-dir", "/nonexistent", "true"), 2, "Directory '/nonexistent' does not exist"),
    ],
)
def test_wrong_arguments(world: World, words: Tuple[str, ...], code: int, told: str) -> None:
    done = world.run([*words])
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert told in done.stderr
    command = " ".join(words[:2] if words[0] == "learn" else words[:1])
    assert told.startswith("(see: ") or f"(see: hakmem help {command})" in done.stderr
    assert done.stderr.count("(see: ") == 1


@pytest.mark.parametrize(
    "line",
    [
        "diff '' ''", "explain ''", "explain --profile '' PID", "learn merge ''", "learn replay ''",
        "profile --input ''", "profile --sites ''", "report -o x.html --from ''", "symbolize ''",
        "compare -q --stdin '' -- PROGRAM",
    ],
)  # fmt: skip
def test_a_file_without_a_name(world: World, line: str) -> None:
    done = world.run(world.words(line))
    assert (done.returncode, done.stderr) == (125, "hakmem: cannot read '': No such file or directory\n")


@pytest.mark.parametrize(
    "line",
    ["run --json '' -- PROGRAM", "report -o '' PID", "compare --csv '' -- PROGRAM", "metrics --all --targets ''"],
)
def test_a_result_without_a_name(world: World, line: str) -> None:
    done = world.run(world.words(line))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "the FILE of an option is empty" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "profile --seconds N 1", "report -o x.html --seconds N 1", "top --interval N 1", "metrics --all --every N",
        "compare --timeout N true", "compare --settle N true", "bench --minutes N",
    ],
)  # fmt: skip
@pytest.mark.parametrize("number", ["nan", "inf", "1e400", "99999999999"])
def test_a_time_without_an_end(world: World, line: str, number: str) -> None:
    done = world.run(line.replace("N", number).split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert ("is no number" if number == "nan" else "is more than a year") in done.stderr


def test_a_process_that_is_not_on_hakmem(world: World) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            for line in ("stats", "top --once", "explain", "profile", "leaks", "metrics", "report -o x.html"):
                done = world.run([*line.split(), str(other.pid)])
                assert (done.returncode, done.stdout, done.stderr.count("\n")) == (125, "", 1)
                assert "does not run on hakmem" in done.stderr and "hakmem help run" in done.stderr
        finally:
            other.kill()


# ---- Places that are closed.


def _in(folder: Path, script: str, words: List[str], **variables: str) -> "subprocess.CompletedProcess[str]":
    """In a mount namespace of its own."""
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{script} && exec "$@"', "sh", *words], cwd=folder,
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.fixture
def closed(as_root: None) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mount namespaces are not permitted")
    return _in


def test_without_proc(closed: Callable[..., "subprocess.CompletedProcess[str]"], world: World) -> None:
    hide = "mount -t tmpfs none /proc"
    for line in ("stats PID", "top --once PID", "explain PID", "leaks PID", "metrics PID", "profile PID"):
        done = closed(world.tool.folder, hide, world.tool.words(*world.words(line)))
        assert (done.returncode, done.stderr.count("\n")) == (125, 1), (line, done.stderr)
        assert "/proc is not mounted" in done.stderr
    for line in ("run -- PROGRAM", "diff A.JSON B.JSON", "env", "doctor", "help"):
        done = closed(world.tool.folder, hide, world.tool.words(*world.words(line)))
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), (line, done.stderr)


def test_where_nothing_can_be_written(closed: Callable[..., "subprocess.CompletedProcess[str]"], world: World) -> None:
    """What needs no file works, and what needs one says so in a line."""
    shut = "for d in / /tmp /var/tmp /dev/shm /run; do mount --bind $d $d; mount -o remount,ro,bind $d; done"
    works = ("run -- PROGRAM", "compare --rounds 1 --warmup 0 --allocators hakmem -q -- PROGRAM", "stats PID", "doctor")
    for line in works:
        done = closed(
            world.tool.folder, f"{shut} 2>/dev/null", world.tool.words(*world.words(line)), HOME="/nonexistent"
        )
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), (line, done.stderr)
    for line in ("run --json run.json -- PROGRAM", "leaks -- PROGRAM", "learn merge -o merged LEARNED"):
        done = closed(world.tool.folder, f"{shut} 2>/dev/null", world.tool.words(*world.words(line)))
        assert (done.returncode, done.stderr.count("\n")) == (125, 1), (line, done.stderr)


# ---- Signals.


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_stopped_while_it_works(world: World, number: signal.Signals, tmp_path: Path) -> None:
    """Each command that starts something or writes a file: nothing stays behind, and the code is 128 + n."""
    tool = Tool(tmp_path)
    folder = tmp_path / "temporary"
    folder.mkdir()
    duration = f"61.{number:02}{os.getpid()}"  # of this test alone
    lines = (
        "report -o out.html --seconds 60 PID",
        "profile -o out.pb.gz --rate 4096 --seconds 60 PID",
        f"compare -q --allocators hakmem --json out.json --csv out.csv -- sleep {duration}",
        f"run --json verdict.json -- sleep {duration}",
    )
    for line in lines:
        process = tool.start(*world.words(line), env={**os.environ, "TMPDIR": str(folder)})
        with process:
            _wait_until_it_works(process.pid, duration)
            process.send_signal(number)
            process.communicate(timeout=60)
        if number == signal.SIGKILL:
            assert process.returncode == -number
        else:
            assert process.returncode == 128 + number, line
        _wait_for(lambda: not any(folder.iterdir()), line)
        _wait_for(lambda: duration.encode() not in _arguments_of_all(), line)
        # The verdict of a program that a signal has ended is whole.
        assert {path.name for path in tmp_path.iterdir()} <= {folder.name, "verdict.json"}, line


def _wait_until_it_works(pid: int, duration: str) -> None:
    """It holds a file without a name, or has started its program."""
    _wait_for(
        lambda: (
            any("/#" in one or "deleted" in one for one in open_files(pid)) or duration.encode() in _arguments_of_all()
        ),
        "start",
    )


def _wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def _arguments_of_all() -> bytes:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(entry.read_bytes())
    return b"".join(one for one in found if not one.startswith(sys.executable.encode()))
