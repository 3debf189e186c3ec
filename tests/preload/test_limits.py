"""Little memory, little address space, few mappings, refused system calls: NULL and ENOMEM, and recovery."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import SKIPPED, Outcome, Runner, with_limit

Program = Callable[[str], Path]
Report = Callable[[str, object], None]

KIB = 1024
MIB = 1024 * KIB


def assert_fills(runner: Runner, command: Sequence[object], least_share: float) -> None:
    """fill_until_null must end well, and use at least this share of the room that the limit left."""
    outcome = runner.under(command)
    assert (outcome.code, outcome.errors()) == (0, "")
    match = re.fullmatch(r"room (\d+) got (\d+)\n", outcome.text())
    assert match, outcome.text()
    room, got = int(match.group(1)), int(match.group(2))
    assert got >= least_share * room, f"only {got} of {room} bytes were had"


# 24 bytes take 32, and 40,000 take a slab of 64 KiB; sizes near the room may leave nearly one block unused.
@pytest.mark.parametrize("limit", [200000, 65536])
@pytest.mark.parametrize(
    ("size", "least_share"),
    [
        *((24, 0.6), (64, 0.7), (1000, 0.7), (1500, 0.7), (5000, 0.7), (20000, 0.7), (40000, 0.5), (100000, 0.6)),
        *((500000, 0.6), (1100000, 0.6), (5 * MIB, 0.6), (20000000, 0.5)),
    ],
)
def test_address_space(runner: Runner, program: Program, limit: int, size: int, least_share: float) -> None:
    assert_fills(runner, with_limit("-v", limit, [program("fill_until_null"), "malloc", size, "full"]), least_share)


# Which call the system refuses last depends on the limit and on the addresses, so there are many limits.
@pytest.mark.parametrize(("kind", "kib"), [("-v", 60000), ("-d", 20000)])
def test_no_refusal_ends_a_program(
    runner: Runner, library: Path, program: Program, scaled: Callable[[int], int], kind: str, kib: int
) -> None:
    """The hardened variant may serve less the second time, when its map needs another leaf (9 MiB of addresses), and
    may refuse the large block in the end. The program then says so."""
    unmet = r".*: not so: (again >= count - count / 8|quarter != NULL) \(errno \d+\)\n"
    said = unmet if "-secure" in library.name else ""
    for step in range(scaled(400)):
        limit = kib + 50 * step
        outcome = runner.under(with_limit(kind, limit, [program("fill_until_null"), "malloc", 100000]))
        assert outcome.code == (1 if outcome.errors() else 0), (limit, outcome)
        assert re.fullmatch(f"|{said}", outcome.errors()), (limit, outcome)


@pytest.mark.parametrize(("size", "count"), [(1000, 300), (200, 3000)])
def test_short_spans_of_a_heap_that_ends(
    runner: Runner, program: Program, hakmem_only: None, size: int, count: int
) -> None:
    """The next spans of their slabs are in no list of the heap's."""
    runner.expect([program("ended_heap_near_limit"), size, count], "")


@pytest.mark.parametrize("size", [64, 5000, 100000, 3000000])
def test_data_segment(runner: Runner, program: Program, size: int) -> None:
    assert_fills(runner, with_limit("-d", 65536, [program("fill_until_null"), "malloc", size, "full"]), 0.6)


def refusals(outcome: Outcome) -> int:
    """How many requests near_limit was refused."""
    assert (outcome.code, outcome.errors()) == (0, "")
    match = re.fullmatch(r"refused (\d+) live (\d+)\n", outcome.text())
    assert match, outcome.text()
    return int(match.group(1))


# The region map takes 7 MiB of addresses, which glibc's malloc does not have.
@pytest.mark.parametrize(
    ("kind", "mib", "most_times"), [("d", 4, 1.5), ("d", 8, 1.3), ("d", 64, 1.3), ("v", 32, 2.5), ("v", 64, 2.5)]
)
def test_few_requests_are_refused(
    runner: Runner, program: Program, kind: str, mib: int, most_times: float, record_property: Report
) -> None:
    """Requests as much as the limit leaves, in sizes from 16 bytes to 1 MiB: a refusal shows the allocator's waste."""
    command = [program("near_limit"), kind, mib * KIB, 20000]
    without, with_it = refusals(runner.plain(command)), refusals(runner.under(command))
    record_property("refused without, with it", (without, with_it))
    assert with_it <= most_times * without


# Beside glibc's malloc with what the library and its map leave: 7,800 KiB of addresses, 250 KiB of data. The program
# limits itself, so its addresses have the window of the region map, which is mapped at the start.
OWN_KIB = {"v": 7800, "d": 250}


@pytest.mark.parametrize(
    ("kind", "kib", "operations", "largest", "live_kib"),
    [
        *(("v", 24000, 20000, 20000, 18000), ("d", 16000, 20000, 20000, 14000)),
        *(("d", 16000, 60000, 2000, 15000), ("d", 8000, 20000, 20000, 8000)),
    ],
)
def test_small_sizes_near_a_limit(
    runner: Runner,
    program: Program,
    kind: str,
    kib: int,
    operations: int,
    largest: int,
    live_kib: int,
    record_property: Report,
) -> None:
    """A class costs the pages of its blocks. Each function says ENOMEM, and all can be had again."""
    arguments = [operations, largest, live_kib]
    without = refusals(runner.plain([program("near_limit"), kind, kib - OWN_KIB[kind], *arguments]))
    # In one run of 19 the mappings lie across the end of a GiB, and the region map takes 1 MiB more.
    with_it = min(refusals(runner.under([program("near_limit"), kind, kib, *arguments])) for _ in range(3))
    record_property("refused without, with it", (without, with_it))
    assert with_it <= 1.5 * without + 500


@pytest.mark.parametrize(("kind", "mib"), [("d", 8), ("d", 32), ("v", 24)])
def test_threads_near_a_limit(runner: Runner, program: Program, kind: str, mib: int) -> None:
    """Blocks keep their contents, calloc's are zero, and all the memory is there again in the end."""
    outcome = runner.under([program("near_limit_threads"), kind, mib, 4, 2000])
    assert (outcome.code, outcome.errors()) == (0, "")
    assert re.fullmatch(r"served [1-9]\d* refused [1-9]\d*\n", outcome.text())


def test_a_data_segment_of_four_mib(runner: Runner) -> None:
    """The library can be loaded, and its map is no data."""
    runner.same(with_limit("-d", 4096, ["/bin/sh", "-c", "echo one | sort | wc -l"]))


@pytest.mark.parametrize("function", ["calloc", "realloc", "memalign", "posix_memalign"])
@pytest.mark.parametrize("size", [8000, 2000000])
def test_other_functions(runner: Runner, program: Program, function: str, size: int) -> None:
    assert_fills(runner, with_limit("-v", 200000, [program("fill_until_null"), function, size]), 0.5)


@pytest.mark.parametrize("step", [5000, 1000000])
def test_growing_by_realloc(runner: Runner, program: Program, step: int) -> None:
    command = [program("grow_until_null"), step, 200000 * KIB]
    runner.expect(with_limit("-v", 200000, command), "ok\n")


def test_freed_memory_serves_every_size(runner: Runner, program: Program) -> None:
    """40 MiB live in one size after the other, three times round, where 117 MiB is the limit. glibc's malloc passes."""
    runner.expect(with_limit("-v", 120000, [program("band_phases"), 40, 3]), "ok\n")


def test_threads_without_memory(runner: Runner, program: Program) -> None:
    runner.expect(with_limit("-v", 120000, [program("limit_threads")]), "ok\n")


@pytest.mark.parametrize("limit", [65536, 40000])
def test_programs_start(runner: Runner, limit: int) -> None:
    for command in (["/bin/ls", "/"], ["/bin/sh", "-c", "echo one | sort | wc -l"], ["awk", "BEGIN { print 1 }"]):
        runner.same(with_limit("-v", limit, command))


def test_mappings_used_up(runner: Runner, program: Program) -> None:
    outcome = runner.under([program("map_exhaustion")])
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    assert (outcome.code, outcome.text(), outcome.errors()) == (0, "ok\n", "")


@contextmanager
def memory_cgroup(limit: int) -> Iterator[Path]:
    """A control group with a memory limit, below this process's own; skips the test where none can be made."""
    parent = next((path for path in cgroup_parents() if path.is_dir()), None)
    if parent is None:
        pytest.skip("no memory controller is mounted")
    group = parent / f"hakmem-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made in {parent}: {error.strerror}")
    try:
        files = [group / name for name in ("memory.max", "memory.limit_in_bytes") if (group / name).exists()]
        if not files:
            pytest.skip(f"{parent} does not hand the memory controller on")
        files[0].write_text(str(limit))
        yield group
    finally:
        group.rmdir()


def cgroup_parents() -> Iterator[Path]:
    """Where a group of ours could be: below the one that this process is in, version 1 or 2."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, inside = line.split(":", 2)
        for mount in mounts:
            _, where, kind, options, *_ = mount.split()
            is_v1 = kind == "cgroup" and "memory" in controllers.split(",") and "memory" in options.split(",")
            is_v2 = kind == "cgroup2" and controllers == ""
            if is_v2 and "memory" not in (Path(where) / inside.lstrip("/") / "cgroup.controllers").read_text().split():
                continue
            if is_v1 or is_v2:
                yield Path(where) / inside.lstrip("/")


def test_memory_cgroup(runner: Runner, program: Program) -> None:
    """28 MiB live, in sizes of every band one after the other, inside 64 MiB: the kernel kills what takes more.

    Blocks of 24 bytes take 32, and the program's own table of them another third. glibc's malloc passes."""
    with memory_cgroup(64 * MIB) as group:
        runner.expect(joining(group, [program("band_phases"), 28, 2]), "ok\n")


# Live at the most, in MiB, and in how many rounds it comes and goes: after fewer of them the resident memory without a
# limit depends more on the pages that happen to be touched than on the missing limit.
LIVE, ROUNDS = 200, 120
LIMIT = 256 * MIB
# The rest of a limit is for its own records, the program's code and the kernel's tables.
SHARE_HELD = 0.95
# As much dirty memory as may be: the difference that a limit makes does not depend on how fast the machine is.
KEEP_ALL = {"HAKMEM_RETAIN": "1G"}


def churn(runner: Runner, command: Sequence[object], **how: object) -> tuple[int, int]:
    """live_and_churn must end well. The most that was live, and the most that was resident."""
    outcome = runner.under(command, **how)
    assert (outcome.code, outcome.errors()) == (0, "")
    match = re.fullmatch(r"live (\d+) peak (\d+)\n", outcome.text())
    assert match, outcome.text()
    live, peak = int(match.group(1)), int(match.group(2))
    assert live > (LIVE - 10) * MIB
    return live, peak


@pytest.mark.usefixtures("hakmem_only")
def test_limit_by_option(
    runner: Runner, program: Program, scaled: Callable[[int], int], record_property: Report
) -> None:
    """Idle memory gives way to the limit: without it more is resident than the limit is made for."""
    command = [program("live_and_churn"), LIVE, max(ROUNDS, scaled(ROUNDS))]
    live, without = churn(runner, command, env=KEEP_ALL)
    _, peak = churn(runner, command, env={**KEEP_ALL, "HAKMEM_MEMORY_LIMIT": "256M"})
    record_property("live, resident without a limit, with it", (live, without, peak))
    assert peak < SHARE_HELD * LIMIT < without, f"{live} live, {without} resident without a limit, {peak} with it"


@pytest.mark.usefixtures("hakmem_only")
@pytest.mark.parametrize("use", ["touch", "leave"])
def test_limit_counts_what_was_touched(runner: Runner, program: Program, use: str) -> None:
    """Memory that was requested and never touched takes nothing from the limit; where it was, nothing stays dirty."""
    outcome = runner.under([program("untouched_blocks"), 300, use], env={**KEEP_ALL, "HAKMEM_MEMORY_LIMIT": "200M"})
    match = re.fullmatch(r"faults (\d+)\n", outcome.text())
    assert match, (outcome.text(), outcome.errors())
    faults_a_round = int(match.group(1)) / 50
    assert faults_a_round > 20 if use == "touch" else faults_a_round < 2, outcome.text()


@pytest.mark.usefixtures("hakmem_only")
def test_limit_below_what_is_live(runner: Runner, program: Program) -> None:
    """A limit that cannot be kept fails no request."""
    churn(runner, [program("live_and_churn"), LIVE, 3], env={"HAKMEM_MEMORY_LIMIT": "1"})


@pytest.mark.usefixtures("hakmem_only")
@pytest.mark.parametrize("value", ["", "lots", "-1", "10%", "1.5G", "max", "2000000T", "99999999999999999999999"])
def test_limit_that_is_no_size(runner: Runner, value: str) -> None:
    outcome = runner.under(["/bin/echo", "ok"], env={"HAKMEM_MEMORY_LIMIT": value})
    assert (outcome.code, outcome.text()) == (0, "ok\n")
    assert outcome.errors() == (
        f"hakmem: warning: HAKMEM_MEMORY_LIMIT={value} is not accepted: expected bytes, with K, M, G or T, "
        "from 0 to 1024T; keeping the default 0 (see: hakmem help options)\n"
    )


def joining(group: Path, command: Sequence[object]) -> Sequence[object]:
    """The command as a member of the group from its first instruction."""
    return ["/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group, *command]


NEIGHBOUR = "memory = b'x' * int(input()); print('there', flush=True); input()"


@contextmanager
def neighbour(group: Path, size: int) -> Iterator[None]:
    """Another process in the group, which holds `size` bytes and does nothing."""
    command = [str(word) for word in joining(group, [sys.executable, "-c", NEIGHBOUR])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{size}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "there\n"
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("others", [0, 12 * MIB])
def test_live_memory_in_a_cgroup(
    runner: Runner, program: Program, scaled: Callable[[int], int], others: int, record_property: Report
) -> None:
    """200 MiB live in a group of 256 MiB. Beside another process dirty memory makes the kernel kill: that process has
    8 MiB of an interpreter besides the bytes that it is told to hold."""
    with memory_cgroup(LIMIT) as group:
        command = joining(group, [program("live_and_churn"), LIVE, max(ROUNDS, scaled(ROUNDS))])
        if others:
            with neighbour(group, others):
                live, peak = churn(runner, command, env=KEEP_ALL)
        else:
            live, peak = churn(runner, command, env=KEEP_ALL)
        record_property("live, resident", (live, peak))
        assert peak < LIMIT - others


OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")


@contextmanager
def strict_overcommit() -> Iterator[None]:
    """No promise of memory that the machine does not have. A setting of the whole machine, so only on request."""
    if os.environ.get("HAKMEM_TEST_OVERCOMMIT") != "1":
        pytest.skip("vm.overcommit_memory is the whole machine's: HAKMEM_TEST_OVERCOMMIT=1 (as root) tries it")
    if not os.access(OVERCOMMIT, os.W_OK):
        pytest.skip("vm.overcommit_memory cannot be set here")
    before = OVERCOMMIT.read_text()
    try:
        OVERCOMMIT.write_text("2")
        yield
    finally:
        OVERCOMMIT.write_text(before)


def test_strict_overcommit(runner: Runner, program: Program, tmp_path: Path) -> None:
    with strict_overcommit():
        runner.expect([program("libc_names"), tmp_path / "malloc_info.xml"], "ok\n")
        runner.expect([program("early_and_late")], "constructor\nmain\natexit\ndestructor\n")
        assert_fills(runner, with_limit("-v", 2000000, [program("fill_until_null"), "malloc", 64 * MIB]), 0.9)
        runner.same(["sort", "-n"], stdin="".join(f"{number * 7919 % 10007}\n" for number in range(10000)).encode())


def test_shrinking_needs_no_memory(runner: Runner, program: Program) -> None:
    runner.expect([program("shrink_when_full")], "ok\n")


def test_a_size_is_told_after_a_shrinking_without_memory(runner: Runner, program: Program) -> None:
    """The hardened variant compares it with the block, which is the old one."""
    runner.expect([program("told_after_refusal")], "")


@pytest.mark.parametrize("size", [100, 100000, 2000000])
def test_first_request_of_a_thread_fails(runner: Runner, program: Program, size: int) -> None:
    runner.expect([program("first_request_fails"), size], "ok\n")
