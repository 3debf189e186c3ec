"""The heap profile of real programs, end to end: at exit, in between by the socket, and by the tool."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest
from conftest import BUILD
from preload_runner import Outcome, Runner, with_limit
from profile_sums import CLI, allocated, in_use
from test_attach import running as attached_target
from test_attach import threads
from under_allocator import environment

assert CLI.is_dir()  # it is on the path from here
from elftools.elf.elffile import ELFFile  # noqa: E402
from hakmem.attach import Attached, Refused, attach  # noqa: E402
from hakmem.profile.model import Profile  # noqa: E402
from hakmem.profile.read import parse, read  # noqa: E402

pytestmark = [pytest.mark.usefixtures("hakmem_only"), pytest.mark.usefixtures("checks_only")]
Program = Callable[[str], Path]
MIB = 1 << 20
SITES = [f"site_{i}" for i in range(10)]
SIZES = [16, 48, 200, 1000, 5000, 20000, 60000, 300000, 2 * MIB, 10 * MIB]
EACH = 20 * MIB
ESTIMATES = ["requested_estimate", "inside_estimate", "allocated_estimate", "freed_estimate"]
# Some 2,500 samples a site, of which a site's figure has an error of 2%: six times that is never exceeded.
RATE = 8192
NEAR = 0.12
CHURNED = 200000 * 1000
TOOL = f"import sys; sys.path.insert(0, {str(CLI)!r}); from hakmem.main import main; main()"


def is_near(found: Dict[str, int], truth: Dict[str, int], near: float = NEAR) -> bool:
    return all(abs(found.get(name, 0) - bytes_) <= near * bytes_ for name, bytes_ in truth.items())


ALL_SITES = {site: EACH for site in SITES}


def recorded(runner: Runner, folder: Path, command: List[object], **variables: str) -> Outcome:
    """The program, with a profile from start to end."""
    asked = {"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_RATE": str(RATE), **variables}
    asked.setdefault("HAKMEM_PROFILE_FILE", str(folder / "%p.pb.gz"))
    return runner.under(command, env=asked)


def only_file(folder: Path) -> Path:
    (file,) = folder.glob("*.pb.gz")
    return file


# ---- At exit.


def test_known_sites_are_found(runner: Runner, program: Program, tmp_path: Path) -> None:
    """Ten sites of 16 bytes to 10 MiB; no stack begins in the library."""
    assert recorded(runner, tmp_path, [program("profile_sites"), "fill"]) == Outcome(0, b"", b"")
    profile = read(str(only_file(tmp_path)))
    assert profile.period == RATE and profile.duration_nanos > 0
    assert only_file(tmp_path).stat().st_mode & 0o777 == 0o600
    for sample in profile.samples:
        mapping = sample.locations[0].mapping
        assert mapping is None or "libhakmem" not in mapping.name, "our own frames are left out"
    assert is_near(in_use(profile), ALL_SITES), in_use(profile)
    assert is_near(allocated(profile), ALL_SITES)


def test_threads_that_reuse_one_block(runner: Runner, program: Program, tmp_path: Path) -> None:
    """All that was allocated counts, and nothing of it is in use at the end."""
    assert recorded(runner, tmp_path, [program("profile_sites"), "threads"]) == Outcome(0, b"", b"")
    profile = read(str(only_file(tmp_path)))
    assert is_near(allocated(profile), {"site_churn": 4 * CHURNED}, 0.04)
    assert in_use(profile).get("site_churn", 0) == 0


def test_children_write_their_own(runner: Runner, program: Program, tmp_path: Path) -> None:
    """What a child allocated is in its file alone; what it has of its parent is in use there, and not allocated."""
    done = recorded(runner, tmp_path, [program("profile_sites"), "fill", "fork"])
    assert (done.code, done.stderr) == (0, b"")
    child = tmp_path / f"{int(done.stdout)}.pb.gz"
    (parent,) = set(tmp_path.glob("*.pb.gz")) - {child}
    of_child, of_parent = read(str(child)), read(str(parent))
    assert is_near(allocated(of_child), {"site_child": 8 * MIB}) and is_near(in_use(of_child), ALL_SITES)
    assert all(allocated(of_child).get(site, 0) == 0 for site in SITES)
    assert "site_child" not in allocated(of_parent) and is_near(in_use(of_parent), ALL_SITES)


def test_one_name_is_the_first_processs(runner: Runner, program: Program, tmp_path: Path) -> None:
    """Without %p a child writes nothing, and does not complain."""
    file = tmp_path / "one.pb.gz"
    done = recorded(runner, tmp_path, [program("profile_sites"), "fill", "fork"], HAKMEM_PROFILE_FILE=str(file))
    assert (done.code, done.stderr) == (0, b"")
    assert is_near(allocated(read(str(file))), ALL_SITES)


def test_code_that_is_gone(runner: Runner, program: Program, shim: Callable[[str], Path], tmp_path: Path) -> None:
    """A library that is loaded and closed over and over leaves blocks behind, and stacks that lead nowhere."""
    done = recorded(runner, tmp_path, [program("profile_sites"), "plugin"], PROFILE_PLUGIN=str(shim("profile_plugin")))
    assert done == Outcome(0, b"", b"")
    profile = read(str(only_file(tmp_path)))
    assert is_near({"all": profile.total("inuse_space")}, {"all": 20 * 1000 * 1000})
    in_use(profile)


@pytest.mark.parametrize("prefix", ["", "-"])
def test_files_that_cannot_be_made(runner: Runner, program: Program, tmp_path: Path, prefix: str) -> None:
    """One line, at the start where it shows then; what stands there stays; a `-` says nothing."""
    there = tmp_path / "there"
    there.write_text("mine")
    for file, reason in ((there, "exists"), (tmp_path / "no" / "folder", "No such|no such|not there|folder")):
        done = recorded(runner, tmp_path, [program("profile_sites"), "churn"], HAKMEM_PROFILE_FILE=f"{prefix}{file}")
        assert (done.code, done.stdout) == (0, b"")
        lines = done.errors().splitlines()
        assert len(lines) == (0 if prefix else 1)
        assert all("HAKMEM_PROFILE_FILE" in line and re.search(reason, line) for line in lines), lines
    assert there.read_text() == "mine"


def test_no_room_for_the_file(runner: Runner, program: Program, tmp_path: Path) -> None:
    """A disk that is full, and a limit on files: one line, nothing is left behind, and the program ends as ever."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = [program("profile_sites"), "fill"]
    limited = recorded(runner, folder, list(with_limit("-f", 0, command)))
    assert (limited.code, list(folder.iterdir())) == (0, [])
    assert len(limited.errors().splitlines()) == 1 and "HAKMEM_PROFILE_FILE" in limited.errors()
    script = 'mount -t tmpfs -o size=4k none "$1" && head -c 4096 /dev/zero > "$1/full" && folder=$1 && shift && env "$@" && ls "$folder"'
    words = ["unshare", "-rm", "sh", "-c", script, "sh", folder]
    variables = [f"LD_PRELOAD={runner.library}", "HAKMEM_PROFILE=1", f"HAKMEM_PROFILE_FILE={folder}/p.pb.gz"]
    full = runner.plain([*words, *variables, *command])
    if "unshare" in full.errors() or "mount" in full.errors():
        pytest.skip("no mounts of one's own here")
    assert full.code == 0 and full.stdout == b"full\n", "nothing is left behind"
    assert len(full.errors().splitlines()) == 1 and "no space is left" in full.errors(), full.errors()


def test_no_file_is_named(runner: Runner, program: Program) -> None:
    """That is said, unless whoever asks reads it in between."""
    command = [program("profile_sites"), "churn"]
    (line,) = runner.under(command, env={"HAKMEM_PROFILE": "1"}).errors().splitlines()
    assert "HAKMEM_PROFILE_FILE names none" in line
    assert runner.under(command, env={"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_FILE": "-"}) == Outcome(0, b"", b"")


def test_go_reads_a_real_program(runner: Runner, tmp_path: Path) -> None:
    """`go tool pprof -top` of the Python interpreter, where go is."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        pytest.skip("no go here")
    script = "kept = [bytes(1000) for _ in range(50000)]; print(len(kept))"
    done = recorded(runner, tmp_path, [sys.executable, "-c", script], PYTHONMALLOC="malloc")
    assert done == Outcome(0, b"50000\n", b"")
    for kind in ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space"):
        command = [go, "tool", "pprof", "-top", f"-sample_index={kind}", only_file(tmp_path)]
        top = subprocess.run(
            command, env={**os.environ, "PPROF_TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=120, check=False
        )  # fmt: skip
        assert top.returncode == 0, top.stderr
        assert f"Type: {kind}" in top.stdout and re.search(r"\d+(\.\d+)?% +\S", top.stdout), top.stdout
        assert "hakmem" not in top.stdout


def test_linked_with_the_archive(linked: Callable[..., Path], tmp_path: Path) -> None:
    """Our frames are in the file there, and the tool leaves them out."""
    variables = {
        "HAKMEM_PROFILE": "1",
        "HAKMEM_PROFILE_RATE": str(RATE),
        "HAKMEM_PROFILE_FILE": str(tmp_path / "%p.pb.gz"),
    }
    program = linked("profile_sites.c", "-ldl")
    done = subprocess.run(
        [program, "fill"], env=environment(None, variables), capture_output=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert is_near(in_use(read(str(only_file(tmp_path)))), ALL_SITES)


# ---- In between.


class Target:
    """The program, started by LD_PRELOAD and nothing else, and the lines that it obeys."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        self._answer()

    def do(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        assert answer.endswith("ok\n"), (answer, self.process.poll())
        return answer[: -len("ok\n")].strip()


@contextmanager
def running(program: Path, library: Path) -> Iterator[Target]:
    with subprocess.Popen(
        [program], env=environment(library, None), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:  # fmt: skip
        try:
            yield Target(process)
        finally:
            process.kill()


@pytest.fixture
def target(program: Program, runner: Runner) -> Iterator[Target]:
    with running(program("profile_sites"), runner.library) as found:
        yield found


def state(attached: Attached) -> Dict[str, Any]:
    answer: Dict[str, Any] = json.loads(attached.ask("profile state"))
    return answer


def profile_of(attached: Attached) -> Profile:
    return parse(attached.ask("profile pprof"), "the answer")


def test_start_read_stop_start(target: Target) -> None:
    """A second start counts allocations anew; what is in use stays right, whichever run has sampled it."""
    with attach(target.pid) as attached:
        assert state(attached)["running"] is False and state(attached)["rate"] == 0
        for command in ("profile pprof", "profile sites"):
            with pytest.raises(Refused, match="no profile was started"):
                attached.ask(command)
        for wrong in ("x", "0", "-1", "4294967297", "99999999999999999999", "1 x", "1stay", "stay 1", "0 stay"):
            with pytest.raises(Refused, match="a number of bytes, from 1 to 4294967296"):
                attached.ask(f"profile start {wrong}")
        attached.ask(f"profile start {RATE}")
        with pytest.raises(Refused, match=f"runs already, for .* s, with a sample for each {RATE} bytes"):
            attached.ask("profile start 100")
        assert state(attached)["running"] is True and state(attached)["rate"] == RATE
        target.do("fill")
        assert is_near(in_use(profile_of(attached)), ALL_SITES)
        attached.ask("profile stop")
        with pytest.raises(Refused, match="no profile runs"):
            attached.ask("profile stop")
        before = profile_of(attached)
        assert is_near(in_use(before), ALL_SITES) and is_near(allocated(before), ALL_SITES)
        assert profile_of(attached).duration_nanos == before.duration_nanos, "it has ended"
        attached.ask(f"profile start {RATE}")
        target.do("churn")
        second = profile_of(attached)
        assert is_near(in_use(second), ALL_SITES), "those of the first run"
        assert all(allocated(second).get(site, 0) == 0 for site in SITES)
        assert is_near(allocated(second), {"site_churn": CHURNED}, 0.06)
        assert second.time_nanos > before.time_nanos
        target.do("empty")
        assert all(in_use(profile_of(attached)).get(site, 0) == 0 for site in SITES)
        attached.ask("profile stop")


def is_running(pid: int) -> bool:
    with attach(pid) as attached:
        return bool(state(attached)["running"])


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.01)


def test_it_ends_with_the_client_that_has_started_it(target: Target) -> None:
    """However that ends; and no other client's end concerns it."""
    with attach(target.pid) as starter:
        starter.ask(f"profile start {RATE}")
        with attach(target.pid) as other:
            assert state(other)["running"] is True
        assert is_running(target.pid)
    wait_until(lambda: not is_running(target.pid))
    # A client that is killed says nothing.
    starter = attach(target.pid)
    starter.ask("profile start")
    starter._connection.close()
    wait_until(lambda: not is_running(target.pid))


def test_one_that_is_to_stay_stays_until_it_is_stopped(target: Target) -> None:
    for command in ("profile start stay", f"profile start {RATE} stay"):
        with attach(target.pid) as attached:
            attached.ask(command)
        wait_until(lambda: "hakmem-serve" not in threads(target.pid).values())
        assert is_running(target.pid)
        with attach(target.pid) as attached:
            attached.ask("profile stop")
        assert not is_running(target.pid)


def test_the_end_of_a_client_ends_its_own_profile_alone(target: Target) -> None:
    with attach(target.pid) as other:
        with attach(target.pid) as starter:
            starter.ask("profile start 1000")
            other.ask("profile stop")
            other.ask("profile start 2000")
        for _ in range(3):  # each a visit later than the end above
            assert state(other)["running"] is True and state(other)["rate"] == 2000
            time.sleep(0.3)


def test_a_child_of_fork_has_none_of_a_client(program: Program, runner: Runner) -> None:
    with attached_target([program("attach_target")], runner.library) as target, attach(target.pid) as attached:
        attached.ask("profile start")
        child = int(target.do("fork"))
        try:
            assert not is_running(child)
            attached.ask("profile stop")
            attached.ask("profile start stay")
            second = int(target.do("fork"))
            try:
                assert is_running(second)
            finally:
                os.kill(second, signal.SIGKILL)
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_tool_is_killed(target: Target) -> None:
    command = [sys.executable, "-I", "-c", TOOL, "profile", "--seconds", "100", str(target.pid)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: is_running(target.pid))
        process.kill()
    wait_until(lambda: not is_running(target.pid))


def parts_of(attached: Attached) -> List[Dict[str, Any]]:
    document = json.loads(attached.ask("stats json"))
    return [*document["bands"].values(), *document["classes"], *document["heaps"]]


def check_estimates_of_parts(document: Dict[str, Any]) -> None:
    """After `fill` and `thin`."""
    by_size = {one["bytes"]: one for one in document["classes"]}
    for asked, given in ((16, 16), (48, 48), (200, 208), (1000, 1008), (5000, 5120), (20000, 20480)):
        # Those that are sampled themselves are of the next class: at this rate one of eight blocks of 1000 bytes.
        assert abs(by_size[given]["requested_estimate"] / by_size[given]["live_bytes"] - asked / given) < 0.01, given
    assert abs(by_size[1024]["requested_estimate"] / by_size[1024]["live_bytes"] - 1000 / 1024) < 0.01
    assert all((one["requested_estimate"] or 0) <= one["live_bytes"] for one in document["classes"])
    tables = [8 * (EACH // size) for size in SIZES]
    small = 5 * EACH + EACH // 16 + sum(one for one in tables if one <= 32768)
    bands = {name: band["requested_estimate"] for name, band in document["bands"].items()}
    assert abs(bands["tiny"] + bands["mid"] - small) < 0.05 * small
    assert abs(bands["run"] - 2 * EACH) < 0.1 * 2 * EACH
    assert abs(bands["big"] - 2 * EACH - sum(one for one in tables if one > MIB)) < 0.1 * 2 * EACH
    (heap,) = document["heaps"]
    assert abs(heap["requested_estimate"] - small) < 0.05 * small, "larger blocks are no heap's"
    assert heap["requested_estimate"] < heap["live_bytes"]


def test_sites_and_what_lies_inside_blocks(target: Target) -> None:
    """`profile sites` tells lifetimes and whose blocks hold free memory; the statistics estimate what was asked for."""
    with attach(target.pid) as attached:
        live = json.loads(attached.ask("stats json"))["live"]
        assert {live[name] for name in ESTIMATES} == {None}
        assert all(part["requested_estimate"] is None for part in parts_of(attached))
        metrics = attached.ask("stats openmetrics").decode()
        assert "hakmem_live_bytes" in metrics and not any(name in metrics for name in ESTIMATES)
        attached.ask(f"profile start {RATE}")
        target.do("fill")
        target.do("thin")
        document = json.loads(attached.ask("stats json"))
        live, free = document["live"], document["parts"]["free_in_slabs"]
        assert live["requested_estimate"] + live["inside_estimate"] == live["bytes"]
        # 20 MiB a site, of one of them a sixteenth; and the tables of their addresses.
        truth = 9 * EACH + EACH // 16 + sum(8 * (EACH // size) for size in (16, 48, 200, 1000, 5000))
        assert abs(live["requested_estimate"] - truth) < 0.05 * truth
        # The tiny ones are most of all; it was thinned alone that some were freed of.
        allocated, freed = sum(EACH // size for size in SIZES), EACH // 200 * 15 // 16
        assert abs(live["allocated_estimate"] - allocated) < 0.1 * allocated
        assert abs(live["freed_estimate"] - freed) < 0.1 * freed
        metrics = attached.ask("stats openmetrics").decode()
        assert f"\nhakmem_live_freed_estimate {live['freed_estimate']}\n" in metrics
        assert "\nhakmem_live_requested_estimate_bytes " in metrics
        check_estimates_of_parts(document)
        assert '\nhakmem_heap_requested_estimate_bytes{heap="1"} ' in metrics
        assert '\nhakmem_class_requested_estimate_bytes{class="16"} ' in metrics
        assert '\nhakmem_band_requested_estimate_bytes{band="big"} ' in metrics
        sites = json.loads(attached.ask("profile sites"))["sites"]
        pinned = sorted((site["pinned"]["bytes"], site["requested"]) for site in sites)
        assert free > 0.9 * 15 / 16 * EACH, "most of what was freed is still there"
        assert abs(pinned[-1][0] - free) < 0.3 * free, "one site has nearly all of it"
        assert pinned[-1][1] < EACH / 8, "it is the one that has little in use"
        freed = next(site for site in sites if site["pinned"]["bytes"] == pinned[-1][0])
        assert abs(sum(freed["lifetimes"]) - EACH // 200 * 15 // 16) < NEAR * EACH / 200


def test_a_sampled_block_is_explained(target: Target, program: Program) -> None:
    """Its start is the address that the program has, and the calls that asked for it are told."""
    with attach(target.pid) as attached:
        attached.ask("profile start 1")
        block = int(target.do("block"), 16)
        line = attached.ask(f"describe {block:x}").decode()
        assert f"{block:#x} is the start of a live block of " in line
        assert "sampled: 5000 bytes asked for " in line
        found = re.search(r" by profile_sites\+0x([0-9a-f]+) profile_sites\+0x", line)
        assert found is not None, line
        with program("profile_sites").open("rb") as file:
            (symbol,) = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name("site_4")
        assert symbol["st_value"] < int(found[1], 16) < symbol["st_value"] + symbol["st_size"]
        assert "100 bytes into a live block" in attached.ask(f"describe {block + 100:x}").decode()
        assert "bytes before the sampled block at" in attached.ask(f"describe {block - 8:x}").decode()


def test_the_variant_without_checks(program: Program) -> None:
    """It says that it has no profile."""
    fast = BUILD / "libhakmem-fast.so"
    if not fast.is_file():
        pytest.skip(f"no {fast}")
    with running(program("profile_sites"), fast) as target, attach(target.pid) as attached:
        with pytest.raises(Refused, match="this variant has no heap profile"):
            attached.ask("profile start")
        assert state(attached)["running"] is False


# ---- By the tool.


def tool(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-c", TOOL, "profile", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_tool_profiles_a_program(runner: Runner, program: Program, tmp_path: Path) -> None:
    """From start to end; and one without symbols, whose place in the file is told."""
    words = ["--library", runner.library, "--rate", RATE, "--"]
    done = tool(*words, program("profile_sites"), "fill")
    assert done.returncode == 0 and done.stdout == ""
    assert all(re.search(rf"  {site}$", done.stderr, re.MULTILINE) for site in SITES), done.stderr
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, program("profile_sites")], check=True, timeout=60)
    done = tool(*words, stripped, "fill")
    assert done.returncode == 0
    assert re.search(r"  stripped\+0x[0-9a-f]+$", done.stderr, re.MULTILINE), done.stderr
    assert "note: " in done.stderr


def test_the_tool_profiles_a_process(target: Target, tmp_path: Path) -> None:
    """One that runs already, and that is left as it was found: with a profile where there was one."""
    with attach(target.pid) as attached:
        attached.ask(f"profile start {RATE} stay")
    target.do("fill")
    file = tmp_path / "found.pb.gz"
    done = tool("-o", file, target.pid)
    assert done.returncode == 0 and "runs in process" in done.stderr and "left running" in done.stderr
    assert all(site in done.stdout for site in SITES)
    assert is_near(in_use(read(str(file))), ALL_SITES)
    with attach(target.pid) as attached:
        assert state(attached)["running"] is True
        attached.ask("profile stop")
    done = tool("--seconds", "0.1", target.pid)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: not is_running(target.pid))
    done = tool("--stay", "--seconds", "0.1", target.pid)
    assert done.returncode == 0 and "hakmem profile --stop" in done.stderr
    assert is_running(target.pid)
    done = tool("--stop", target.pid)
    assert done.returncode == 0, done.stderr
    with attach(target.pid) as attached:
        assert state(attached)["running"] is False
