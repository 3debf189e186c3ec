"""The engine: what a run took, signals, groups, descriptors, and resident memory over time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import List

import pytest
from hakmem.engine import Child, Launch, Outcome, Watch
from hakmem.errors import STOPPING_SIGNALS, Failure, Interrupted
from hakmem.launcher import launcher
from hakmem.measure import orders, stop
from hakmem.memory import MemorySampler, Sample, mean_over
from hakmem.program import Program, resolve
from hakmem.workload_runner import own_seed

MIB = 1 << 20


def run(*command: str, own_group: bool = True, timeout: float | None = None) -> tuple[Child, Outcome]:
    program = resolve(command, os.environ)
    with Watch((), lambda heard: None) as watch:
        child = watch.start(Launch(program, os.environ, own_group=own_group))
        if not watch.until(lambda: child.ended is not None, time.monotonic() + timeout if timeout else None):
            child.kill_all()
            watch.until(lambda: child.ended is not None)
    assert child.ended is not None
    return child, child.ended


def alive(group: int) -> List[str]:
    """The processes of a group. Zombies that their parent has not yet waited for do not count."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, in_group = entry.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(in_group) == group and state != "Z":
            found.append(entry.parent.name)
    return found


def expect_gone(group: int) -> None:
    """A killed process may take a while to end on a busy machine; the programs would live longer than this waits."""
    end = time.monotonic() + 60
    while alive(group):
        assert time.monotonic() < end, alive(group)
        time.sleep(0.01)


def test_exit_codes() -> None:
    assert run("sh", "-c", "exit 9")[1].exit_code == 9
    ended = run("sh", "-c", "kill -KILL $$")[1]
    assert (ended.exit_code, ended.signal, ended.describe()) == (137, 9, "killed by SIGKILL")


def test_times() -> None:
    _, ended = run("sh", "-c", "sleep 0.3; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
    assert 0.3 < ended.wall_seconds < 60
    assert 0.01 < ended.user_seconds + ended.system_seconds < ended.wall_seconds


def test_memory(busy: Path) -> None:
    child, ended = run(str(busy), "64", "1500")
    assert 64 * MIB < ended.peak_bytes < 70 * MIB
    assert ended.minor_faults > 100
    sampler = child.sampler
    assert sampler is not None
    assert len(sampler.samples) > 20
    mean = sampler.mean(0, ended.wall_seconds)
    assert mean is not None and 48 * MIB < mean < 66 * MIB
    assert 64 * MIB < (sampler.peak_anonymous() or 0) <= (sampler.peak() or 0)


def test_shared_pages_count_once(busy: Path) -> None:
    program = resolve([str(busy), "16", "200"], os.environ)
    with Watch((), lambda heard: None) as watch:
        child = watch.start(Launch(program, os.environ, shared_once=True))
        watch.until(lambda: child.ended is not None)
    assert child.sampler is not None
    assert 16 * MIB <= (child.sampler.peak() or 0) < 20 * MIB


def test_what_cannot_be_executed() -> None:
    with Watch((), lambda heard: None) as watch:
        with pytest.raises(Failure) as missing:
            watch.start(Launch(Program("/no/such/program", ("x",)), {}))
        assert missing.value.exit_code == 127
        with pytest.raises(Failure) as refused:
            watch.start(Launch(Program("/etc/passwd", ("x",)), {}))
        assert refused.value.exit_code == 126


def test_time_out_ends_the_whole_group() -> None:
    begin = time.monotonic()
    child, ended = run("sh", "-c", "sleep 100 & sleep 100", timeout=0.3)
    assert time.monotonic() - begin < 90
    assert ended.signal == signal.SIGKILL
    expect_gone(child.pid)


def test_what_is_left_behind_is_ended() -> None:
    child, ended = run("sh", "-c", "sleep 100 & exit 0")
    assert ended.exit_code == 0
    expect_gone(child.pid)


def test_an_interruption_ends_the_program() -> None:
    with pytest.raises(Interrupted) as caught, Watch(STOPPING_SIGNALS, stop) as watch:
        child = watch.start(Launch(resolve(["sleep", "100"], os.environ), os.environ, own_group=True))
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        watch.until(lambda: child.ended is not None)
    assert caught.value.signal_number == signal.SIGTERM
    expect_gone(child.pid)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) & set(STOPPING_SIGNALS) == set()


def test_a_tool_that_was_killed_before_the_launcher_ran(tmp_path: Path) -> None:
    """Its process id is no parent's."""
    nobody = 1 << 22
    words = [launcher(), "1", "0", str(nobody), "1", "-", shutil.which("touch"), "touch", "it_ran"]
    done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (1, b"", [])


def test_two_programs_at_once() -> None:
    with Watch((), lambda heard: None) as watch:
        children = [watch.start(Launch(resolve(["sh", "-c", f"exit {n}"], os.environ), os.environ)) for n in (3, 4)]
        watch.until(lambda: all(child.ended is not None for child in children))
    assert [child.ended.exit_code for child in children if child.ended] == [3, 4]


def test_no_descriptors_are_left_and_none_are_passed_on() -> None:
    before = set(os.listdir("/proc/self/fd"))
    reading, writing = os.pipe()
    program = resolve(["ls", "/proc/self/fd"], os.environ)
    with Watch((), lambda heard: None) as watch:
        child = watch.start(Launch(program, os.environ, stdout=writing))
        watch.until(lambda: child.ended is not None)
    os.close(writing)
    with os.fdopen(reading) as output:
        inherited = {fd for fd in before if os.path.exists(f"/proc/self/fd/{fd}") and os.get_inheritable(int(fd))}
        assert len(set(output.read().split()) - inherited - {"0", "1", "2"}) <= 1  # ls's own
    assert set(os.listdir("/proc/self/fd")) == before


def test_signals_are_the_programs_own() -> None:
    """Nothing is blocked, and what Python ignores is not ignored."""
    reading, writing = os.pipe()
    program = resolve(["grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"], os.environ)
    with Watch(STOPPING_SIGNALS, lambda heard: None) as watch:
        child = watch.start(Launch(program, os.environ, stdout=writing))
        watch.until(lambda: child.ended is not None)
    os.close(writing)
    with os.fdopen(reading) as output:
        blocked, ignored = (int(line.split()[1], 16) for line in output)
    assert blocked == 0
    assert not ignored & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))


def samples(*pairs: tuple[float, int]) -> List[Sample]:
    return [Sample(seconds, resident, 0) for seconds, resident in pairs]


def test_the_mean_is_the_area_under_the_curve() -> None:
    rising = samples((0.0, 0), (10.0, 100))
    assert mean_over(rising, 0.0, 10.0) == 50.0
    steps = samples((1.0, 10), (2.0, 10), (2.0, 30), (4.0, 30))
    assert mean_over(steps, 0.0, 5.0) == (2 * 10 + 3 * 30) / 5
    assert mean_over(steps, 2.0, 4.0) == pytest.approx(30, rel=0.4)
    assert mean_over(steps, 6.0, 7.0) is None
    assert mean_over([], 0.0, 1.0) is None


def test_hours_of_samples_are_thinned_out_and_keep_their_peak() -> None:
    sampler = MemorySampler(os.getpid())
    sampler.samples = samples(*((number / 10, 5 if number != 777 else 99) for number in range(4001)))
    sampler._thin_out()
    assert len(sampler.samples) <= 2002
    assert sampler.peak() == 99
    assert [s.seconds for s in sampler.samples] == sorted(s.seconds for s in sampler.samples)


def test_orders_are_shuffled_by_their_seed() -> None:
    names = ["a", "b", "c", "d"]
    plan = orders(names, 20, seed=1)
    assert plan == orders(names, 20, seed=1) != orders(names, 20, seed=2)
    assert all(sorted(order) == names for order in plan)
    assert {order[0] for order in plan} == set(names)
    assert orders(names, 2, seed=3, first="c")[0][0] == "c"


def test_workloads_do_not_share_an_order() -> None:
    names = ["base", *(f"peer{number}" for number in range(7))]
    neighbours = set()
    for number in range(20):
        seed = own_seed(1, f"workload{number}")
        assert seed == own_seed(1, f"workload{number}") != own_seed(2, f"workload{number}")
        first = orders(names, 1, seed, first="base")[0]
        neighbours.add(first[first.index("peer1") - 1])
    assert len(neighbours) >= len(names) // 2
