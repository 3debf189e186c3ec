"""`hakmem top` without a terminal: what it prints, how it ends, and what the picture has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List

import jsonschema
import pytest
from cli_support import ROOT, Tool
from click.testing import CliRunner
from hakmem import attach, followed, process_files, stats_summary
from hakmem.attach import Replaced
from hakmem.errors import Failure
from hakmem.followed import Followed, ProcessEnded
from hakmem.main import cli
from hakmem.top.figures import PARTS, SELDOM
from hakmem.top.history import History, Look, figures_needed, parse
from hakmem.top.picture import Frame, draw, waiting
from hakmem.top.sparkline import sparkline
from watched_support import BLOCK_BYTES, DEADLINE_SECONDS, Watched, plain, wait_until

SCHEMA = json.loads((ROOT / "docs" / "stats.schema.json").read_text())


@pytest.fixture
def document(watched: Watched) -> Dict[str, Any]:
    process = Followed(watched.pid)
    watched.do("grow 100")
    return parse(process.ask("stats json")).document


def later(document: Dict[str, Any], seconds: float, **changes: int) -> Look:
    """The same process after a while, with counters that have grown."""
    events = {name: value + changes.get(name, 0) for name, value in document["events"].items()}
    milliseconds = int(seconds * 1000)
    return Look(
        document["time_ms"] / 1000 + seconds,
        {**document, "events": events, "uptime_ms": document["uptime_ms"] + milliseconds},
    )


# What it prints.


def test_one_look_as_json(tool: Tool, watched: Watched) -> None:
    """One line, which keeps the schema, and tells what the program has done since the last one."""
    looks = []
    for _ in range(2):
        done = tool("top", "--once", "--json", watched.pid)
        assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
        looks.append(json.loads(done.stdout))
        jsonschema.validate(looks[-1], SCHEMA)
        assert looks[-1]["pid"] == watched.pid
        watched.do("grow 100")
    live = [look["bands"]["run"] for look in looks]
    assert live[1]["live_blocks"] - live[0]["live_blocks"] == 100
    assert live[1]["live_bytes"] - live[0]["live_bytes"] >= 100 * BLOCK_BYTES


def test_a_line_for_each_look(tool: Tool, watched: Watched) -> None:
    """Over one connection; at the program's end, wherever in the interval, it ends too."""
    with tool.start("top", "--json", "--interval", "0.1", watched.pid) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        server = watched.threads()["hakmem-serve"]
        files = sorted(os.listdir(f"/proc/{watched.pid}/fd"))
        for _ in range(3):
            watched.do("grow 10")
            look = json.loads(process.stdout.readline())
            jsonschema.validate(look, SCHEMA)
        assert look["time_ms"] > first["time_ms"]
        assert watched.threads()["hakmem-serve"] == server
        assert sorted(os.listdir(f"/proc/{watched.pid}/fd")) == files
        watched.end()
        errors = process.communicate(timeout=DEADLINE_SECONDS)[1]
    assert (process.returncode, errors) == (0, f"hakmem: process {watched.pid} (holder) has ended\n")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGHUP, 128 + signal.SIGHUP)]
)
def test_a_signal_ends_it(tool: Tool, watched: Watched, number: signal.Signals, code: int) -> None:
    """Between two looks; and the program goes on, without a listener."""
    with tool.start("top", "--json", "--interval", "1000", watched.pid) as process:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        process.send_signal(number)
        errors = process.communicate(timeout=DEADLINE_SECONDS)[1]
    assert process.returncode == code
    assert errors == ("" if code == 0 else "hakmem: stopped by SIGHUP; nothing was written\n")
    wait_until(lambda: "hakmem-serve" not in watched.threads())
    watched.end()


def test_who_reads_has_seen_enough(tool: Tool, watched: Watched) -> None:
    with tool.start("top", "--json", "--interval", "0.1", watched.pid) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(DEADLINE_SECONDS) == 0


def test_a_program_that_is_replaced_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look begins anew, without a word."""
    answers: Iterator[Any] = iter([b'{"look": 1}', Replaced("replaced"), b'{"look": 2}', ProcessEnded("ended")])

    def ask(_: Followed, _command: str) -> bytes:
        answer = next(answers)
        if isinstance(answer, Failure):
            raise answer
        assert isinstance(answer, bytes)
        return answer

    monkeypatch.setattr(Followed, "__init__", lambda *_: None)
    monkeypatch.setattr(Followed, "ask", ask)
    monkeypatch.setattr(Followed, "lasts", lambda *_: True)
    monkeypatch.setattr(Followed, "close", lambda _: None)
    assert CliRunner().invoke(cli, ["top", "--json", "1"]).output == '{"look": 1}\n{"look": 2}\nhakmem: ended\n'


def test_a_disk_that_is_full(tool: Tool, watched: Watched) -> None:
    for words in (("--json", "--once"), ("--once",), ("--json",)):
        with (
            open("/dev/full", "w") as full,
            subprocess.Popen(
                tool.words("top", *words, watched.pid), stdout=full, stderr=subprocess.PIPE, text=True
            ) as process,
        ):
            errors = process.communicate(timeout=DEADLINE_SECONDS)[1]
        assert (process.returncode, errors) == (
            125,
            "hakmem: cannot write to standard output: No space left on device\n",
        )


def test_without_a_terminal_it_prints_plain_text(tool: Tool, watched: Watched) -> None:
    """Without a terminal: no colours, no escapes, everything in it."""
    watched.do("grow 100")
    done = tool("top", "--once", watched.pid)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) <= 20
    done = tool("top", "--once", "--all", watched.pid)
    assert done.stdout.isprintable() or "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"holder ({watched.pid})  hakmem 0.1.0, up ")
    assert lines[1].startswith("resident ") and " live " in lines[1]
    assert any(line.startswith("to 1 MiB".rjust(10)) for line in lines)
    assert any(line.startswith("learner: ") for line in lines) and "over the last" not in done.stdout
    with tool.start("top", "--interval", "0.1", watched.pid) as process:
        assert process.stdout is not None
        assert any(line.startswith("live    ") for line in iter(process.stdout.readline, "")), "it has ended"
        process.terminate()
        assert process.wait(DEADLINE_SECONDS) == 0


# How it ends when it cannot.


def test_there_is_no_such_process(tool: Tool) -> None:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    for command in ("top", "metrics"):
        done = tool(command, ended.pid)
        assert (done.returncode, done.stdout) == (125, "")
        assert done.stderr == f"hakmem: there is no process {ended.pid}\n"


def test_a_process_on_another_malloc(tool: Tool, watched: Watched) -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as other:
        for command in ("top", "metrics"):
            done = tool(command, other.pid)
            assert (done.returncode, done.stdout) == (125, "")
            assert done.stderr.startswith(f"hakmem: process {other.pid} (cat) does not run on hakmem: ")


def test_wrong_usage(tool: Tool) -> None:
    assert tool("top", "--interval", "0", "1").returncode == 2
    assert tool("top", "python3").returncode == 2
    assert tool("metrics", "--port", "70000", "1").returncode == 2


def test_a_process_that_is_stopped_and_goes_on(watched: Watched) -> None:
    """The late answer is not taken for that to the next question."""
    process = Followed(watched.pid)
    os.kill(watched.pid, signal.SIGSTOP)
    wait_until(lambda: "State:\tT" in Path(f"/proc/{watched.pid}/status").read_text())
    with pytest.raises(Failure, match="gives no answer") as caught:
        process.ask("stats json", 0.1)
    assert not isinstance(caught.value, ProcessEnded)
    os.kill(watched.pid, signal.SIGCONT)
    assert process.ask("protocol").startswith(b"hakmem: this process answers")
    watched.end()
    with pytest.raises(ProcessEnded, match=rf"process {watched.pid} \(holder\) has ended"):
        process.ask("stats json")
    assert not process.lasts(1000)


def test_a_connection_that_ends_before_the_process(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a moment, in which the process still is one."""
    process = Followed(watched.pid)
    looks = iter([process_files.start_of(watched.pid)])
    monkeypatch.setattr(followed, "start_of", lambda _: next(looks, None))
    with pytest.raises(ProcessEnded):
        process.ask("stats json", 0.0)


def test_a_zombie_has_ended(watched: Watched) -> None:
    """It is still in /proc."""
    process = Followed(watched.pid)
    assert process.lasts(0)
    watched.process.kill()
    os.waitid(os.P_PID, watched.pid, os.WEXITED | os.WNOWAIT)
    assert process.has_ended()
    with pytest.raises(ProcessEnded):
        process.ask("stats json")


def test_a_process_that_becomes_another_program(library: Path) -> None:
    """It is the same process, has another name, and counts from the start."""
    with subprocess.Popen(
        ["/bin/sh", "-c", "echo; read line; exec cat"],
        env=plain(library),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == b"\n"
        process = Followed(other.pid)
        assert process.name == "sh"
        other.stdin.write(b"go\nhere\n")
        other.stdin.flush()
        assert other.stdout.readline() == b"here\n"  # by cat
        with pytest.raises(Replaced, match="has replaced its program by another"):
            process.ask("stats json")
        assert json.loads(process.ask("stats json"))["pid"] == other.pid
        assert process.name == "cat"


# What the picture has.


def test_every_size_of_terminal(document: Dict[str, Any]) -> None:
    """Never a line more than there are, nor one that is longer; the last one stands."""
    history = History()
    for second in range(200):
        history.add(later(document, second, refill=second * second))
    for width in range(1, 150, 7):
        for height in (1, 2, 3, 5, 8, 13, 21, 24, 25, 40, 100):
            lines = draw(history, Frame(7, "a program", 1.0, width=width, height=height))
            assert len(lines) == height and max(line.cell_len for line in lines) <= width
            assert lines[-1].plain == ("q quits" if width >= 7 else "q quits"[: width - 1] + "…")
    assert all(line.cell_len <= 200 for line in waiting(Frame(7, "a program", 1.0)))


def test_a_usual_terminal_has_everything(document: Dict[str, Any]) -> None:
    history = History()
    history.add(later(document, 0))
    history.add(later(document, 2))
    history.add(later(document, 4, refill=50, purged=4 << 20))
    lines = [line.plain for line in draw(history, Frame(7, "a program", 2.0, width=80, height=24))]
    assert "over the last 4.00 s" in lines[3] and lines[2] == ""
    (refills,) = (line for line in lines if "refills" in line)
    (purged,) = (line for line in lines if "purged" in line)
    assert refills.endswith(" 25/s") and purged.endswith(" 2.00 MiB/s")
    parts = [line for line in lines if line.startswith(tuple(title for _, title, _ in PARTS))]
    assert len(parts) >= len(PARTS) - len(SELDOM) and {line.index("%") for line in parts} == {36}
    head = next(number for number, line in enumerate(lines) if line.startswith("     block"))
    assert len(lines[head + 1].split()) == 11 and lines[head + 6] != ""
    assert lines[-3].startswith("learner: ") and lines[-2].startswith("  epoch ")
    assert "▁█ " in refills
    ascii_only = draw(history, Frame(7, "a program", 2.0, "trouble", 140, 50, True))
    assert all(set(line.plain) <= set(map(chr, range(127))) | {"–"} for line in ascii_only)
    assert ascii_only[0].plain == "trouble"


def test_the_classes_are_those_that_are_resident_most(document: Dict[str, Any]) -> None:
    history = History()
    history.add(later(document, 0))
    lines = [line.plain for line in draw(history, Frame(7, "a program"))]
    head = next(number for number, line in enumerate(lines) if line.startswith("     block"))
    most = max(document["classes"], key=lambda one: one["resident"])
    size, unit, blocks = lines[head + 1].split()[:3]
    assert float(size) * (1024 if unit == "KiB" else 1) == most["bytes"]
    assert int(blocks.replace(",", "")) == most["live_blocks"]
    assert len([line for line in lines[head + 1 :] if line[:10].strip().endswith(("B", "KiB"))]) >= len(
        document["classes"]
    )


def heap_lines(document: Dict[str, Any], **how: Any) -> List[List[str]]:
    history = History()
    history.add(later(document, 0))
    lines = [line.plain for line in draw(history, Frame(7, "a program", **how))]
    heads = [number for number, line in enumerate(lines) if line.startswith("      heap")]
    if not heads:
        return []
    return [line.split() for line in lines[heads[0] + 1 : lines.index("", heads[0])]]


def test_the_heaps_are_those_that_have_most_in_use(document: Dict[str, Any]) -> None:
    (told,) = heap_lines(document)
    (truth,) = document["heaps"]
    assert told[0] == "1" and told[1] == f"{truth['live_blocks']:,}" and told[-1] == "attached"
    assert truth["live_blocks"] == sum(document["bands"][band]["live_blocks"] for band in ("tiny", "mid"))
    many = [{**truth, "number": i + 1, "live_bytes": i * 7 % 4000, "live_blocks": i * 7 % 4000} for i in range(4000)]
    document = {**document, "heaps": many, "memory": {**document["memory"], "heaps": 4000}}
    told = heap_lines(document)
    assert [line[1] for line in told] == ["3,999", "3,998", "3,997", "3,996", "3,995", "3,995"]
    assert told[-1] == ["and", "3,995", "more"]
    assert len(heap_lines(document, width=100, height=40)) == 6, "in a big terminal"
    assert heap_lines(document, width=100, height=39) == []
    older = [{key: heap[key] for key in ("state", "node", "slabs", "spare_slabs")} for heap in many]
    assert heap_lines({**document, "heaps": older}) == []


def test_the_history(document: Dict[str, Any]) -> None:
    history = History()
    for second in range(700):
        history.add(later(document, second, refill=10 * second))
    assert len(history.looks) == 600 and history.first == 100 and history.seconds == 599
    rates = history.rates(lambda one: one["events"]["refill"])
    assert rates[0] == 0 and all(abs(rate - 10) < 0.01 for rate in rates[1:])
    history.add(later(document, -1))  # exec: it has been up for less time than before
    assert len(history.looks) == 1 and history.first == 700 and history.rates(lambda one: 1.0) == [0.0]


@pytest.mark.parametrize("answer", [b"", b"[1]", b"{}", b'{"schema": 2}', b'{"schema": 3, "time_ms": 1}'])
def test_an_answer_of_another_kind(answer: bytes) -> None:
    with pytest.raises(Failure, match=r"no statistics|another version"):
        parse(answer)


def broken(document: Any) -> Iterator[Any]:
    """The document without each of its figures, and with a word or nothing in its place."""
    for key in document if isinstance(document, dict) else range(min(1, len(document))):
        if isinstance(document[key], (dict, list)):
            for part in broken(document[key]):
                yield {**document, key: part} if isinstance(document, dict) else [part, *document[1:]]
        if isinstance(document, dict):
            yield {name: value for name, value in document.items() if name != key}
        for value in ("word", None):
            yield {**document, key: value} if isinstance(document, dict) else [value, *document[1:]]


def test_an_answer_that_lacks_a_figure(document: Dict[str, Any]) -> None:
    """Of an older library, or of a program that answers itself."""
    refused = 0
    for one in broken(document):
        for show in (summary, picture):
            try:
                assert show(one)
            except Failure as failure:
                refused += 1
                assert failure.message.startswith("the process")
    assert refused > 100


def summary(document: Dict[str, Any]) -> List[str]:
    with figures_needed():
        return stats_summary.lines(parse(json.dumps(document).encode()).document, 7, "a program")


def picture(document: Dict[str, Any]) -> List[str]:
    history = History()
    for seconds in (0, 1):
        look = parse(json.dumps(document).encode())
        with figures_needed():
            history.add(Look(look.seconds + seconds, look.document))
    with figures_needed():
        return [line.plain for line in draw(history, Frame(7, "a program", 1.0))]


@pytest.mark.parametrize("words", [["stats"], ["top", "--once"]])
def test_of_a_process_that_answers_without_a_figure(
    words: List[str], watched: Watched, document: Dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    del document["live"]
    monkeypatch.setattr(attach.Attached, "ask", lambda *_: json.dumps(document).encode())
    done = CliRunner().invoke(cli, [*words, str(watched.pid)])
    assert (done.exit_code, done.output) == (125, "hakmem: the process's answer has no live: another version?\n")


def test_sparklines() -> None:
    assert sparkline([], 10) == "" and sparkline([1.0], 0) == ""
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([0, 0, 0], 8) == "▁▁▁" and sparkline([5e9, 5e9 + 1], 8) == "▁▁"
    # Twice as many as there are columns: two share one, and keep it when the first ones drop out.
    values = [float(number % 16) for number in range(64)]
    whole = sparkline(values, 32)
    assert len(whole) == 32
    assert sparkline(values[2:], 31, first=2) == whole[1:]
    assert all(len(sparkline(values[first:], width, first)) <= width for first in range(40) for width in range(1, 70))
