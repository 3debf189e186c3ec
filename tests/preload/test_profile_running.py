"""The heap profile of running programs, over the socket and by the tool."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest
from conftest import BUILD
from preload_runner import Runner
from profile_sums import CLI, allocated, in_use
from test_attach import running as attached_target
from test_attach import threads
from test_profile import (
    ALL_SITES,
    CHURNED,
    EACH,
    ESTIMATES,
    MIB,
    NEAR,
    RATE,
    SITES,
    SIZES,
    TOOL,
    Program,
    is_near,
    tool,
)
from under_allocator import environment

assert CLI.is_dir()  # it is on the path from here
from elftools.elf.elffile import ELFFile  # noqa: E402
from hakmem.attach import Attached, Refused, attach  # noqa: E402
from hakmem.profile.model import Profile  # noqa: E402
from hakmem.profile.read import parse, read  # noqa: E402

pytestmark = [pytest.mark.usefixtures("hakmem_only"), pytest.mark.usefixtures("checks_only")]


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
    """A second start counts allocations anew; the figures in use stay right, whichever run has sampled the blocks."""
    with attach(target.pid) as attached:
        assert state(attached)["running"] is False and state(attached)["rate"] == 0
        for command in ("profile pprof", "profile sites"):
            with pytest.raises(Refused, match="no profile was started"):
                attached.ask(command)
        for wrong in ("x", "0", "-1", "4294967297", "99999999999999999999", "1 x", "1stay", "stay 1", "0 stay"):
            with pytest.raises(Refused, match="a number of bytes, from 1 to 4294967296"):
                attached.ask(f"profile start {wrong}")
        attached.ask(f"profile start {RATE}")
        with pytest.raises(Refused, match=f"is already running, for .* s, with a sample for each {RATE} bytes"):
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
    assert abs(bands["large"] - 2 * EACH - sum(one for one in tables if one > MIB)) < 0.1 * 2 * EACH
    (heap,) = document["heaps"]
    assert abs(heap["requested_estimate"] - small) < 0.05 * small, "larger blocks are no heap's"
    assert heap["requested_estimate"] < heap["live_bytes"]


def test_sites_and_what_lies_inside_blocks(target: Target) -> None:
    """`profile sites` shows lifetimes and sites that pin free bytes; the statistics estimate the requested bytes."""
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
        assert '\nhakmem_band_requested_estimate_bytes{band="large"} ' in metrics
        sites = json.loads(attached.ask("profile sites"))["sites"]
        pinned = sorted((site["pinned"]["bytes"], site["requested"]) for site in sites)
        assert free > 0.9 * 15 / 16 * EACH, "most of what was freed is still there"
        # 160 samples are of the blocks that stay: an error of 8%, and six times that is never exceeded.
        assert abs(pinned[-1][0] - free) < 0.5 * free, "it is one site's"
        assert sum(bytes_ for bytes_, _ in pinned[:-1]) < 0.05 * free, "and nearly none of it is another one's"
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
        assert "sampled: 5000 bytes requested " in line
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
        for command in ("profile start", "profile state", "leaks"):
            with pytest.raises(Refused, match="this variant has no heap profile"):
                attached.ask(command)


# ---- By the tool.


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
