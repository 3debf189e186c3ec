"""`hakmem explain`: an equation that adds up, reasons from the snapshot, and clear messages about other files."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest
from cli_support import Tool
from click.testing import CliRunner
from hakmem import json_text, watched
from hakmem.attach import Refused
from hakmem.errors import Failure
from hakmem.explain.explain import TELL
from hakmem.explain.rounding import Scale
from hakmem.explain.sites import of_process
from hakmem.main import cli
from hakmem.old_figures import OLD_FIGURES
from hakmem.page.watch import profile_on
from hakmem.top.figures import PARTS
from report_support import KIB, MIB, TERMINAL, save, sites, snapshot

_TERM = re.compile(r"([a-z ]+?) (-?[\d,.]+)(?: \([^)]*\))?(?: \+ |\Z)")


def equation(output: str) -> Tuple[str, List[Tuple[str, str]]]:
    """The whole and its parts, as they are shown."""
    line = next(one for one in output.splitlines() if one.startswith("resident "))
    whole, _, terms = line.partition(" = ")
    found = _TERM.findall(terms)
    assert " + ".join(f"{name} {value}" for name, value in found) == re.sub(r" \([^)]*\)", "", terms)
    return whole.split()[1], found


def tenths(text: str) -> int:
    return round(10 * float(text.replace(",", "")))


def adds_up(output: str) -> bool:
    whole, terms = equation(output)
    return tenths(whole) == sum(tenths(value) for _, value in terms)


# The equation.


@pytest.mark.parametrize("whole", [300 * KIB, 5 * MIB, 812 * MIB, 3 << 40])
def test_rounded_parts_add_up_to_the_rounded_whole(whole: int) -> None:
    generator = random.Random(whole)
    for _ in range(300):
        cuts = sorted(generator.randrange(whole + 1) for _ in range(generator.randrange(8)))
        parts = [high - low for low, high in zip([0, *cuts], [*cuts, whole])]
        scale = Scale(whole)
        steps = scale.rounded(whole, parts)
        assert sum(steps) == scale.steps(whole)
        one = whole / scale.steps(whole)
        assert all(abs(step * one - part) <= 1.01 * one for step, part in zip(steps, parts))


def test_the_equation_of_a_snapshot(tool: Tool, tmp_path: Path) -> None:
    done = tool("explain", save(tmp_path, "s.json", snapshot()))
    assert (done.returncode, done.stderr) == (0, "")
    assert equation(done.stdout) == (
        "574",
        [
            ("live", "300"),
            ("free in slabs", "140"),
            ("cached", "96"),
            ("not malloc", "31"),
            ("metadata", "4"),
            ("never used", "3"),
        ],
    )
    heads = re.findall(r"^([a-z ]+): ([\d.]+) MiB, \d+%$", done.stdout, re.M)
    assert heads == equation(done.stdout)[1]
    for told in (
        "cached 96 (kept because its time-out, 900 ms, is not over)",
        "78.1 MiB in blocks of 4 KiB: 20,000 free beside 700 live in 5 spans, 2 of them nearly empty",
        "250,000 ns of CPU time for a MiB-second (mode balanced)",
        "3 superslabs of 2 MiB in huge pages",
        "10.0 MiB were purged, of which 9.00 MiB were soon requested again",
    ):
        assert told in re.sub(r"\s+", " ", done.stdout)
    assert "not known: What it is made of: only a live process" in done.stdout


@pytest.mark.parametrize(
    ("learn", "state", "told"),
    [
        ("on", "learning", "kept by time-outs, of which 900 ms leads"),
        ("on", "canary", "kept by time-outs, of which 900 ms leads"),
        ("off", "learning", "kept because its time-out, 900 ms, is not over"),
        ("frozen", "learning", "kept because its time-out, 900 ms, is not over"),
    ],
)
def test_while_it_is_learned_several_timeouts_have_a_share(
    tool: Tool, tmp_path: Path, learn: str, state: str, told: str
) -> None:
    document = snapshot()
    document["options"]["learn"] = learn
    document["learning"]["state"] = state
    done = tool("explain", save(tmp_path, "s.json", document))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"cached 96 ({told})" in re.sub(r"\s+", " ", done.stdout)
    assert ("other time-outs have a share too" in re.sub(r"\s+", " ", done.stdout)) == ("leads" in told)


def test_what_was_given_back_lazily_is_the_systems_to_take(tool: Tool, tmp_path: Path) -> None:
    document = snapshot()
    document["parts"]["lazy"] = 200 * MIB
    document["memory"]["resident"] += 200 * MIB
    document["memory"]["lazy"] = 230 * MIB
    document["options"]["purge"] = "free"
    done = tool("explain", save(tmp_path, "s.json", document))
    assert (done.returncode, done.stderr) == (0, "")
    assert adds_up(done.stdout)
    assert ("purged lazily", "200") in equation(done.stdout)[1]
    told = re.sub(r"\s+", " ", done.stdout)
    assert "purged lazily 200 (the system takes it when it is short of memory)" in told
    assert (
        "Another 30.0 MiB of lazily purged memory is not resident: the system has taken it, or it was never touched."
        in told
    )
    assert "HAKMEM_PURGE=dontneed purges at once" in told


def test_sites_split_live_and_name_who_holds_slabs(tool: Tool, tmp_path: Path) -> None:
    plain, known = save(tmp_path, "s.json", snapshot()), save(tmp_path, "sites.json", sites("/no/file"))
    done = tool("explain", plain, "--profile", known, "--json", "e.json")
    assert done.returncode == 0, done.stderr
    assert adds_up(done.stdout)
    assert "free in slabs 140 (110.0 MiB held by 2 sites)" in done.stdout
    document = json.loads((tmp_path / "e.json").read_text())
    amounts = {part["part"]: part["bytes"] for part in document["parts"]}
    assert sum(amounts.values()) == document["resident"]
    # The usable bytes exceed the requested ones by a tenth.
    assert amounts["inside_blocks"] == pytest.approx((amounts["live"] + amounts["inside_blocks"]) / 11, rel=1e-6)
    assert "60.0 MiB by file+0x10 ← file+0x1010 ← file+0x2010" in re.sub(r"\s+", " ", done.stdout)


def test_a_terminal_obeys_no_name(tool: Tool, tmp_path: Path) -> None:
    document = sites(f"/no/{TERMINAL}")
    done = tool("explain", save(tmp_path, "s.json", snapshot()), "--profile", save(tmp_path, "sites.json", document))
    assert done.returncode == 0
    assert "evil?[2J?name" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_parts_that_do_not_add_up_are_told(tool: Tool, tmp_path: Path) -> None:
    for difference in (50 * MIB, -50 * MIB):
        document = snapshot()
        document["memory"]["resident"] += difference
        done = tool("explain", save(tmp_path, "s.json", document))
        assert adds_up(done.stdout)
        assert ("not accounted for", f"{difference // MIB}") in equation(done.stdout)[1]


def test_pages_that_were_only_read_are_told(tool: Tool, tmp_path: Path) -> None:
    """They are the system's page of zeros: the library counts them, and leaves nothing that is not malloc's."""
    document = snapshot()
    document["memory"]["resident"] -= document["parts"]["not_malloc"] + 50 * MIB
    document["parts"]["not_malloc"] = 0
    done = tool("explain", save(tmp_path, "s.json", document))
    assert adds_up(done.stdout)
    assert ("pages of zeros", "-50") in equation(done.stdout)[1] and "not accounted for" not in done.stdout
    shares = [int(share) for share in re.findall(r"(-?[0-9]+)%$", done.stdout, re.MULTILINE)]
    assert shares and max(shares) <= 100


def test_resident_memory_that_the_process_could_not_read_is_told(tool: Tool, tmp_path: Path) -> None:
    """As in the report that a process in another root writes itself: the difference is no pages of zeros."""
    document = snapshot()
    document["memory"]["resident"] = document["parts"]["not_malloc"] = 0
    done = tool("explain", save(tmp_path, "s.json", document))
    assert adds_up(done.stdout) and "pages of zeros" not in done.stdout
    assert "The process could not read its resident memory" in done.stdout


# A profile that runs in the process. The process is played here: what its library answers does not depend on it.


class Played:
    """Answers as a process would, and records the commands."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: List[str] = []

    def ask(self, command: str) -> bytes:
        self.asked.append(command)
        answer = self.answers.get(command.split()[1])
        if answer is None:
            raise Refused("process 1 (x) answers: unknown command")
        return json.dumps(answer).encode()


def test_sites_of_a_profile_that_runs() -> None:
    played = Played(state={"running": True, "rate": 524288}, sites=sites("/no/file"))
    found, why_none = of_process(played.ask, 1)
    assert found is not None and why_none == ""
    assert [one.live_bytes // MIB for one in found.rows] == [60, 30, 10]
    assert found.inside_share == pytest.approx(1 / 11)
    assert [one.pinned_bytes for one in found.pinning] == [90 * MIB, 20 * MIB]
    assert found.rows[0].names[-1] == "file+0x2010"


def test_no_profile_runs_and_none_is_started() -> None:
    played = Played(state={"running": False})
    found, why_none = of_process(played.ask, 1)
    assert found is None and "`hakmem profile -o heap.pb.gz 1` takes one" in why_none
    assert "knows only later blocks" in why_none and "HAKMEM_PROFILE=1" in why_none
    assert played.asked == ["profile state"]
    assert of_process(Played().ask, 1) == (None, "the process's library has no profiles")


def test_an_answer_about_the_profile_without_its_state_is_refused() -> None:
    played = Played(state={"rate": 524288})
    with pytest.raises(Failure, match="did not say whether a profile runs: another version"):
        of_process(played.ask, 1)
    with pytest.raises(Failure, match="did not say"), profile_on(played, True):  # type: ignore[arg-type]
        pytest.fail("the watch went on")


@pytest.mark.parametrize(
    ("running", "asked"),
    [
        (True, ["profile state"]),
        (False, ["profile state", "profile start 524288", "profile stop"]),
        (None, ["profile state"]),
    ],
)
def test_a_report_leaves_a_profile_as_it_was(running: Optional[bool], asked: List[str]) -> None:
    played = Played(**({"state": {"running": running}, "start": {}, "stop": {}} if running is not None else {}))
    with pytest.raises(KeyError), profile_on(played, True):  # type: ignore[arg-type]
        raise KeyError
    assert played.asked == asked
    with profile_on(played, False):  # type: ignore[arg-type]
        pass
    assert played.asked == asked


# Files that are no snapshots.


def test_an_older_snapshot_is_explained_as_far_as_it_goes(tool: Tool, tmp_path: Path) -> None:
    memory = {
        "resident": 100 * MIB,
        "in_use": 70 * MIB,
        "dirty_slabs": 20 * MIB,
        "large_dirty": 5 * MIB,
        "large_blocks": 9 * MIB,
    }
    done = tool("explain", save(tmp_path, "s.json", {"schema": 1, "version": "0.1.0", "pid": 7, "memory": memory}))
    assert (done.returncode, equation(done.stdout)) == (0, ("100", [("all else", "75"), ("cached at most", "25")]))
    assert "an older library" in " ".join(done.stdout.split())


def test_a_snapshot_with_earlier_names_is_read_as_one_with_the_present_ones(tool: Tool, tmp_path: Path) -> None:
    present, earlier = snapshot(), copy.deepcopy(snapshot())
    for section, names in OLD_FIGURES.items():
        found = earlier.get(section, {})
        for figures in found if isinstance(found, list) else [found]:
            for old, name in names.items():
                if name in figures:
                    figures[old] = figures.pop(name)
    assert "idle" in earlier["parts"] and "dirty_slabs" not in earlier["parts"]
    texts = [tool("explain", save(tmp_path, "s.json", document)) for document in (present, earlier)]
    assert texts[0].returncode == 0 and texts[0].stdout == texts[1].stdout


def changed(*path: str, value: Any) -> str:
    document: Dict[str, Any] = copy.deepcopy(snapshot())
    place = document
    for name in path[:-1]:
        place = place[name]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(document)


WHOLE = json.dumps(snapshot())
BAD = [
    ("", "is empty"),
    (WHOLE[: len(WHOLE) // 2], "is cut off: was the disk full"),
    (WHOLE.replace(":", ";", 3), "is damaged: it is no valid JSON"),
    ("[" * 100_000, "is damaged: it is no valid JSON (it is nested too deep)"),
    ("{\x01\x02 no JSON at all", "is damaged: it is no valid JSON"),
    (WHOLE + "behind it", "is damaged: it is no valid JSON"),
    ("hello", "is no statistics snapshot: it is no JSON"),
    ('{"a": 1}', "is JSON, but no statistics snapshot"),
    (changed("schema", value=3), "has schema 3, and this tool knows up to 2: use the tool of that version"),
    (changed("schema", value="2"), "is damaged: schema is '2'"),
    (changed("memory", "resident", value=-1), "is damaged: memory.resident is -1"),
    (changed("parts", value=None), "is damaged: it has no parts"),
    (changed("parts", "dirty_slabs", value=None), "is damaged: parts.dirty_slabs is None"),
    (changed("parts", "dirty_slabs", value=True), "is damaged: parts.dirty_slabs is True"),
    (changed("classes", value=[{"bytes": []}]), "is damaged: classes has bytes []"),
    (changed("heaps", value={}), "is damaged: heaps is no list"),
    (changed("heaps", value=[{"live_bytes": None}]), "is damaged: heaps has live_bytes None"),
    (changed("heaps", value=[{"live_bytes": "5K"}]), "is damaged: heaps has live_bytes '5K'"),
    (changed("named", value=[{"live_bytes": ""}]), "is damaged: named has live_bytes ''"),
    (changed("bands", value={"mid": None}), "is damaged: bands is no list of objects"),
    (changed("bands", value={"mid": {"live_blocks": "5K"}}), "is damaged: bands has live_blocks '5K'"),
    (changed("learning", value=[]), "is damaged: learning is no object"),
    ("# TYPE hakmem gauge\n", "is OpenMetrics text"),
]


@pytest.mark.parametrize(("content", "message"), BAD)
def test_bad_snapshots(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    for command in (["explain", str(path)], ["report", "--from", str(path), "-o", str(tmp_path / "page.html")]):
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 125, done.output
        assert f"hakmem: {path}" in done.output and message in done.output
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("is_ascii", [True, False])
def test_json_that_is_cut_off(is_ascii: bool) -> None:
    """It is told from damage at each place."""
    document = {'é\\"\n': [1.5, -2, 1e-7, True, False, None], "": {"x": "ü\U0001f600"}, "y": []}
    whole = json.dumps(document, indent=1, ensure_ascii=is_ascii).encode()
    for length in range(1, len(whole)):
        for data, is_cut in ((whole[:length], True), (whole[:length] + b"\1" + whole[length:], False)):
            with pytest.raises(ValueError) as failure:
                json_text.decode(data)
            assert json_text.ends_early(failure.value) is is_cut, data


def test_a_snapshot_is_no_profile_and_the_other_way_round(tool: Tool, tmp_path: Path) -> None:
    plain, known = save(tmp_path, "s.json", snapshot()), save(tmp_path, "sites.json", sites())
    assert "a statistics snapshot is no profile" in tool("explain", plain, "--profile", plain).stderr
    assert "no statistics snapshot" in tool("explain", known).stderr
    known.write_text(known.read_text().replace('"0x1011"', "7"))
    done = tool("explain", plain, "--profile", known)
    assert (done.returncode, "is damaged" in done.stderr) == (125, True)


def test_the_next_command_has_the_same_profile(tool: Tool, tmp_path: Path) -> None:
    plain, known = save(tmp_path, "s.json", snapshot()), save(tmp_path, "sites.json", sites())
    (tip,) = re.findall(r"^next: hakmem (.*)$", tool("explain", plain, "--profile", known).stdout, re.MULTILINE)
    assert tip == f"report -o page.html --profile {known} --from {plain}"
    assert tool(*tip.split()).returncode == 0
    assert tool("explain", plain).stdout.endswith(f"next: hakmem report -o page.html --from {plain}\n")


def test_the_next_command_names_a_file_that_looks_like_another_word(tool: Tool, tmp_path: Path) -> None:
    """Like an option, or like a process. Also in the next line of hakmem diff."""
    for name in ("-s.json", "4711"):
        save(tmp_path, name, snapshot())
        for words in (["explain", "--", f"./{name}"], ["diff", "--", name, name], ["explain", "--", "-s.json"]):
            done = tool(*words)
            (tip,) = re.findall(r"^next: hakmem (.*)$", done.stdout, re.MULTILINE)
            assert tool(*tip.split()).returncode == 0, tip


def test_no_file(tool: Tool) -> None:
    done = tool("explain", "nothing.json")
    assert (done.returncode, done.stderr) == (125, "hakmem: cannot read nothing.json: No such file or directory\n")


def test_what_cannot_be_written(tool: Tool, tmp_path: Path) -> None:
    plain = save(tmp_path, "s.json", snapshot())
    assert (
        tool("explain", plain, "--json", "/dev/full").stderr
        == "hakmem: cannot write /dev/full: No space left on device\n"
    )
    assert tool("explain", plain, "--json", "no/where").returncode == 125


# Processes.


@contextmanager
def holding(library: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that has started under the library."""
    # The list has a block of more than 1 MiB as well as small ones, half of which are free again.
    code = (
        "import sys; a = [bytes(700 + i % 900) for i in range(40000)]; b = a[::2]; del a; "
        "print(1, flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONMALLOC": "malloc"}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code, *words], env=environment, stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"1\n"
            yield process
        finally:
            process.kill()


def test_a_running_process(tool: Tool, library: Path, tmp_path: Path) -> None:
    with holding(library) as process:
        done = tool("explain", process.pid, "--json", "e.json")
        assert done.returncode == 0, done.stderr
        assert adds_up(done.stdout)
        assert f"process {process.pid} (" in done.stdout
        document = json.loads((tmp_path / "e.json").read_text())
        assert sum(part["bytes"] for part in document["parts"]) == document["resident"]
        parts = {part["part"]: part for part in document["parts"]}
        assert {"live", "free_in_slabs", "not_malloc"} <= parts.keys()
        assert parts["live"]["bytes"] > 20_000 * 700
        assert any("programs and libraries" in line for line in parts["not_malloc"]["why"])
        # And saved, it is the same but for what /proc told.
        saved = tmp_path / "saved.json"
        saved.write_text(tool("stats", "--json", process.pid).stdout)
        assert adds_up(tool("explain", saved).stdout)


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


@pytest.mark.parametrize("command", [("explain",), ("report", "-o", "page.html")])
def test_who_cannot_be_asked(tool: Tool, tmp_path: Path, command: Tuple[str, ...]) -> None:
    for pid, message in (
        (dead_pid(), "there is no process"),
        (os.getpid(), "does not run on hakmem"),
    ):
        done = tool(*command, pid)
        assert (done.returncode, done.stdout) == (125, ""), done
        assert message in done.stderr
    assert not list(tmp_path.glob("*page*"))


def test_a_word_of_digits_is_a_process_and_never_a_file(tool: Tool, tmp_path: Path) -> None:
    pid = dead_pid()
    save(tmp_path, f"{pid}", snapshot())
    done = tool("explain", pid)
    assert (done.returncode, done.stdout) == (125, "")
    assert f"there is no process {pid}" in done.stderr
    assert tool("explain", f"./{pid}").stdout.startswith("process 4711")


def test_process_0_is_a_mistake_of_the_command_line(tool: Tool) -> None:
    done = tool("explain", 0)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", tool("stats", 0).stderr.replace("stats", "explain"))
    assert "0 is no PID" in done.stderr


def test_a_profile_of_another_process_is_left_out(tool: Tool, library: Path) -> None:
    with holding(library) as process, holding(library) as other:
        for pid in (process.pid, other.pid):
            assert tool("profile", "-q", "--seconds", "0.05", "-o", f"{pid}.pb.gz", pid).returncode == 0
        own, foreign = (tool("explain", "--profile", f"{one}.pb.gz", process.pid) for one in (process.pid, other.pid))
    assert (own.returncode, foreign.returncode) == (0, 0)
    told = f"{other.pid}.pb.gz is of another process"
    assert f"note: {told}: its sites are left out." in " ".join(foreign.stdout.split())
    assert f"Which code allocated it: {told}." in " ".join(foreign.stdout.split())
    assert "of another process" not in own.stdout


@pytest.mark.parametrize("command", [["explain"], ["report", "-o", "-"]])
def test_somebody_elses_process(library: Path, command: List[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with holding(library) as process:
        monkeypatch.setattr(watched.os, "geteuid", lambda: os.getuid() + 12345)
        done = CliRunner().invoke(cli, [*command, str(process.pid)])
    assert done.exit_code == 125
    assert "belongs to" in done.output and "only that user, or root, gets an answer" in done.output


def test_the_process_goes_on(tool: Tool, library: Path) -> None:
    """It is left as it was: no descriptor, thread or handler more, and it ends as it would have."""
    with holding(library) as process:
        for _ in range(3):
            assert tool("explain", process.pid).returncode == 0
        end = time.monotonic() + 30
        while len(os.listdir(f"/proc/{process.pid}/task")) > 1:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


def test_a_part_has_one_name_in_all_commands() -> None:
    """A reader compares what `hakmem top` shows with what `hakmem explain` says about it."""
    explained = {figure: name for figure, (name, _) in TELL.items()}
    shown = {figure: name for figure, name, _ in PARTS}
    shared = explained.keys() & shown.keys()
    assert shared >= {"live", "free_in_slabs", "uncarved", "lazy", "metadata", "not_malloc"}
    assert {figure: explained[figure] for figure in shared} == {figure: shown[figure] for figure in shared}
