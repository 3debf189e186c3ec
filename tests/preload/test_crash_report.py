"""HAKMEM_CRASH_REPORT: the report of a crash, and that the program ends as it would have without."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Callable, Optional

import pytest
from preload_runner import SKIPPED, Outcome, Runner
from under_allocator import environment

Program = Callable[[str], Path]

pytestmark = pytest.mark.usefixtures("hakmem_only")

FIRST = re.compile(
    r"hakmem: crash: (?P<signal>SIG[A-Z]+) in thread (?P<thread>\d+) \((?P<name>[^)]*)\) of process (?P<process>\d+): "
    r"(?P<cause>.+) \(see: hakmem help crash\)"
)
CALL = re.compile(r"hakmem:   #\d+ 0x[0-9a-f]+( \S+\+0x[0-9a-f]+| \(nothing is mapped there\))?")

# The way to crash: the signal, and what the report says of its cause.
WAYS = {
    "in_block": (signal.SIGSEGV, r"an? \w+ (of|to) 0x[0-9a-f]+, which the page protection forbids"),
    "past_block": (signal.SIGSEGV, r"an? \w+ (of|to) 0x[0-9a-f]+, which the page protection forbids"),
    "in_freed": (signal.SIGSEGV, r"an? \w+ (of|to) 0x[0-9a-f]+, which the page protection forbids"),
    "null": (signal.SIGSEGV, r"an? \w+ (of|to) 0x10, where nothing is mapped"),
    "null_call": (signal.SIGSEGV, r"an? \w+ (of|to) 0x0, where nothing is mapped"),
    "through_freed": (signal.SIGSEGV, r"an? \w+ (of|to) 0x8, where nothing is mapped"),
    "past_file": (signal.SIGBUS, r"an? \w+ (of|to) 0x[0-9a-f]+, past the end of a mapped file, or memory has run out"),
    "overflow": (signal.SIGSEGV, r"an? \w+ (of|to) 0x[0-9a-f]+, where nothing is mapped"),
    "low_stack": (signal.SIGSEGV, r"an? \w+ (of|to) 0x10, where nothing is mapped"),
    "small_stack": (signal.SIGSEGV, r"an? \w+ (of|to) 0x10, where nothing is mapped"),
    "thread_null": (signal.SIGSEGV, r"an? \w+ (of|to) 0x10, where nothing is mapped"),
    "thread_overflow": (signal.SIGSEGV, r"an? \w+ (of|to) 0x[0-9a-f]+, which the page protection forbids"),
    "threads": (signal.SIGSEGV, r"an? \w+ (of|to) 0x10, where nothing is mapped"),
    "abort": (signal.SIGABRT, "sent by the program itself"),
    "raise": (signal.SIGSEGV, "sent by the program itself"),
    "damage": (signal.SIGABRT, "sent by the program itself"),
}


@pytest.fixture(autouse=True)
def no_cores() -> None:
    """For this process and what it starts: a crash is meant here."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


@pytest.fixture(scope="session")
def crash(runner: Runner, program: Program) -> Callable[..., Outcome]:
    def run(*words: str, report: bool = True) -> Outcome:
        if words[0] == "damage" and "-fast" in runner.library.name:
            pytest.skip(f"{runner.library.name} does not notice damage")
        env = {"HAKMEM_CRASH_REPORT": "1"} if report else {}
        return runner.under([program("crash"), *words], env=env)

    return run


def reports(stderr: str) -> list[list[str]]:
    """The lines of each report, those of other messages left out."""
    found: list[list[str]] = []
    for line in stderr.splitlines():
        if FIRST.fullmatch(line):
            found.append([line])
        elif line.startswith("hakmem:   "):
            found[-1].append(line)
    return found


def only_report(outcome: Outcome) -> list[str]:
    (report,) = reports(outcome.errors())
    return report


def test_no_name_forges_a_line(runner: Runner, program: Program, tmp_path: Path) -> None:
    """Neither the thread's name nor a path, among the calls and in the stack of a sampled block."""
    copy = tmp_path / os.fsdecode(b"a\nhakmem: b\r\x1b\\\xff")
    shutil.copy(program("crash"), copy)
    env = {"HAKMEM_CRASH_REPORT": "1"}
    has_samples = "-fast" not in runner.library.name
    if has_samples:
        env.update(HAKMEM_PROFILE="1", HAKMEM_PROFILE_RATE="1", HAKMEM_PROFILE_FILE="-")
    lines = runner.under([copy, "in_block"], env=env).errors().splitlines()
    assert FIRST.fullmatch(lines[0]) and r" (a\x0ahakmem: b\x0d\x1b\\\xff) of process " in lines[0], lines
    assert all(line.startswith("hakmem:   ") and line.isprintable() for line in lines[1:]), lines
    written = r"a\\012hakmem: b\x0d\x1b\\\xff+0x"
    assert any(f"/{written}" in line for line in lines), lines
    assert not has_samples or any(f" by {written}" in line for line in lines), lines


@pytest.mark.parametrize("way", WAYS)
def test_one_report_and_the_same_end(crash: Callable[..., Outcome], runner: Runner, program: Program, way: str) -> None:
    number, cause = WAYS[way]
    outcome = crash(way)
    report = only_report(outcome)
    first = FIRST.fullmatch(report[0])
    assert first is not None and first["signal"] == number.name
    assert re.fullmatch(cause, first["cause"]), first["cause"]
    assert CALL.fullmatch(report[1]) and report[1].startswith("hakmem:   #0 ")
    assert outcome.code == -number
    if way != "damage":  # which other allocators may not notice
        assert runner.plain([program("crash"), way]).code == -number


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_said_unless_asked_for(crash: Callable[..., Outcome], way: str) -> None:
    outcome = crash(way, report=False)
    assert outcome.code == -WAYS[way][0]
    assert reports(outcome.errors()) == []


@pytest.mark.parametrize(
    "way,what",
    [
        ("in_block", r"70000 bytes into a live block of 262144 bytes at 0x\w+ \(run of 4 slabs at 0x\w+\)"),
        ("past_block", r"in free memory, 5 bytes past the end of a live block of 262144 bytes at 0x\w+"),
        ("in_freed", r"in free memory"),
        ("null", r"NULL plus 16 bytes, which is never mapped"),
    ],
)
def test_the_address_is_described(crash: Callable[..., Outcome], way: str, what: str) -> None:
    """In the words that hakmem_describe had for it a moment before."""
    outcome = crash(way)
    said = outcome.text().rstrip("\n")
    assert re.fullmatch(rf"0x[0-9a-f]+ is {what}", said), said
    assert f"hakmem:   {said}" in only_report(outcome)


def test_registers_that_lead_into_blocks_are_described(crash: Callable[..., Outcome]) -> None:
    outcome = crash("through_freed")
    block = outcome.text().strip()
    assert any(
        re.match(rf"hakmem:   \w+: {block} is the start of a free block of 64 bytes[^(]* \(tiny class 4, ", line)
        for line in only_report(outcome)
    ), outcome.errors()


def test_an_address_that_the_processor_does_not_tell(crash: Callable[..., Outcome]) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("other processors tell it")
    outcome = crash("no_address")
    assert "an address that no program can have" in only_report(outcome)[0]
    assert outcome.code == -signal.SIGSEGV


@pytest.mark.parametrize(
    "way,name", [("overflow", "crash"), ("overflow_above", "crash"), ("thread_overflow", "crasher")]
)
def test_a_full_stack_is_named(crash: Callable[..., Outcome], way: str, name: str) -> None:
    report = only_report(crash(way))
    assert f" ({name}) " in report[0]
    assert any(line.startswith("hakmem:   the stack is full: the stack pointer is 0x") for line in report)


def test_no_full_stack_elsewhere(crash: Callable[..., Outcome]) -> None:
    for way in ("null", "in_block", "past_file", "past_stack"):
        assert "the stack is full" not in crash(way).errors()


def test_calls_name_the_file_and_the_place(crash: Callable[..., Outcome], program: Program) -> None:
    """The first is the crash, as addr2line finds it; for a call of address 0 the second is the caller."""
    for way, number, function in [("null", 0, "touch"), ("null_call", 1, "null_call")]:
        line = next(line for line in only_report(crash(way)) if line.startswith(f"hakmem:   #{number} "))
        path, _, offset = line.split()[-1].rpartition("+")
        assert path.endswith(str(program("crash"))[-40:])
        where = int(offset, 16) - number  # a return address is behind its call
        named = subprocess.run(
            ["addr2line", "-f", "-e", program("crash"), hex(where)], capture_output=True, text=True, check=True
        )
        assert named.stdout.splitlines()[0] == function


@pytest.mark.parametrize(
    "flags",
    [
        ["-fno-omit-frame-pointer"],
        ["-fomit-frame-pointer"],
        ["-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"],
    ],
)
@pytest.mark.parametrize("way,caller", [("thread_null", "run_in_thread"), ("low_stack", "on_low_stack")])
def test_calls_are_followed(
    runner: Runner, linked: Callable[..., Path], way: str, caller: str, flags: list[str]
) -> None:
    """By unwind tables, and where there are none by frame pointers. From the report's stack to one below it too."""
    program = linked("crash.c", *flags, "-rdynamic")
    report = only_report(runner.plain([program, way], env={"HAKMEM_CRASH_REPORT": "1"}))
    offsets = [
        line.rpartition("+")[2] for line in report if re.match(r"hakmem:   #\d+ ", line) and program.name in line
    ]
    places = [hex(int(offset, 16) - (number > 0)) for number, offset in enumerate(offsets)]
    named = subprocess.run(["addr2line", "-f", "-e", program, *places], capture_output=True, text=True, check=True)
    assert named.stdout.splitlines()[::2][:3] == ["touch", "null_pointer", caller]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_call_is_left_out(crash: Callable[..., Outcome], way: str) -> None:
    """Without frame pointers the register holds something else."""
    for line in only_report(crash(way)):
        assert "[stack]" not in line and ("(nothing" not in line or line.startswith("hakmem:   #0 "))


def test_a_misuse_is_told_first(crash: Callable[..., Outcome]) -> None:
    """The allocator itself ends the program, in the middle of a request."""
    lines = crash("damage").errors().splitlines()
    assert lines[0].startswith("hakmem: damaged-block: ") and FIRST.fullmatch(lines[1])


def test_a_child_reports_and_its_parent_goes_on(crash: Callable[..., Outcome]) -> None:
    outcome = crash("child")
    assert outcome.code == 0
    assert outcome.text().endswith(f"child ended by {int(signal.SIGSEGV)}\n")
    only_report(outcome)


def test_a_report_in_a_sandbox(crash: Callable[..., Outcome]) -> None:
    outcome = crash("in_sandbox")
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    report = only_report(outcome)
    assert "hakmem:   the rest of this report failed" not in report
    assert any(" is the start of a live block of 64 bytes" in line for line in report)
    assert outcome.code == -signal.SIGSEGV


def test_a_report_that_crashes_itself(crash: Callable[..., Outcome]) -> None:
    outcome = crash("in_report")
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    report = only_report(outcome)
    assert report[-1] == "hakmem:   the rest of this report failed"
    assert outcome.code == -signal.SIGSEGV


def test_threads_give_their_stacks_back(crash: Callable[..., Outcome]) -> None:
    assert crash("lives") == Outcome(0, b"ok\n", b"")


def test_a_signal_from_outside(runner: Runner, program: Program) -> None:
    variables = environment(runner.library, {"HAKMEM_CRASH_REPORT": "1"})
    with subprocess.Popen(
        [program("crash"), "wait"], env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGSEGV)
        _, errors = process.communicate(timeout=60)
    (report,) = reports(errors)
    assert f": sent by process {os.getpid()} (see" in report[0]
    assert process.returncode == -signal.SIGSEGV


# The program's own handlers.


def handled(outcome: Outcome) -> Optional[str]:
    match = re.search(r"^handler (.*)$", outcome.text(), re.MULTILINE)
    return match and re.sub("address 0x[0-9a-f]{6,}", "address far", match[1])


@pytest.mark.parametrize("way", ["null", "in_block", "past_file", "abort", "raise", "thread_null"])
def test_a_handler_installed_later_takes_over(
    crash: Callable[..., Outcome], runner: Runner, program: Program, way: str
) -> None:
    outcome, plain = crash(way, "after"), runner.plain([program("crash"), way, "after"])
    assert (outcome.code, outcome.errors()) == (7, "")
    assert handled(outcome) == handled(plain) is not None


@pytest.mark.parametrize("way", ["null", "in_block", "abort", "raise", "thread_null"])
def test_a_handler_that_calls_ours(crash: Callable[..., Outcome], way: str) -> None:
    outcome = crash(way, "chaining")
    assert "chaining handler" in outcome.text()
    only_report(outcome)
    assert outcome.code == -WAYS[way][0]


@pytest.mark.parametrize("way", ["null", "in_block", "past_file", "abort", "raise", "thread_null"])
def test_a_handler_installed_before_runs_after_the_report(
    runner: Runner, linked: Callable[..., Path], way: str
) -> None:
    command = [linked("crash.c", "-rdynamic"), way, "early"]
    plain = runner.plain(command)
    outcome = runner.plain(command, env={"HAKMEM_CRASH_REPORT": "1"})
    only_report(outcome)
    assert outcome.code == plain.code == 7
    assert handled(outcome) == handled(plain) is not None


def test_an_ignored_signal_stays_ignored(runner: Runner, program: Program) -> None:
    command = ["/bin/sh", "-c", f"trap '' SEGV; {program('crash')} raise"]
    outcome = runner.under(command, env={"HAKMEM_CRASH_REPORT": "1"})
    assert (outcome.code, outcome.errors()) == (2, "")


def test_nothing_with_raised_rights(runner: Runner, linked: Callable[..., Path], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a program that belongs to somebody else")
    program = tmp_path / "crash"
    shutil.copy(linked("crash.c", "-rdynamic"), program)
    asked = {"HAKMEM_CRASH_REPORT": "1"}
    only_report(runner.plain([program, "raise"], env=asked))
    nobody = 65534
    os.chown(program, nobody, nobody)
    program.chmod(0o4755)
    outcome = runner.plain([program, "raise"], env=asked)
    if outcome.errors():
        assert runner.plain(["/usr/bin/findmnt", "-n", "-o", "OPTIONS", "-T", tmp_path]).text().find("nosuid") >= 0
        pytest.skip(f"{tmp_path} is mounted without setuid")
    assert outcome == Outcome(-signal.SIGSEGV, b"", b"")
