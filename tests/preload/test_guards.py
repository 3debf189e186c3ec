"""HAKMEM_GUARD: every memory error with a guarded block is found, and told with all that took part in it."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import SKIPPED, Outcome, Runner, with_limit

Program = Callable[[str], Path]

pytestmark = pytest.mark.usefixtures("hakmem_only")

PAGE = resource.getpagesize()
SIZES = [1, 2, 15, 16, 17, 40, 64, 255, 1000, 1024, 2000, 4095, 4096, 4097, 8192, 20000, 32768, 32769, 65536, 100000,
         262144, 1048575, 1048576]  # fmt: skip
# Kind: the word of the report, and the words before the block. Each time the block lies at the other end of its pages.
KINDS = {
    "read_after": ("use-after-free", "a read of"),
    "write_after": ("use-after-free", "a write to"),
    "write_behind": ("overflow", "a write to"),
    "write_before": ("underflow", "a write to"),
    "double_free": ("double-free", "free of"),
    "interior_free": ("invalid-free", "free of"),
    "realloc_after": ("use-after-free", "realloc of"),
}
FIRST = re.compile(
    r"hakmem: (?P<kind>[a-z-]+): (?P<act>[a-z_ ]+) (?P<address>0x[0-9a-f]+), (found at the block's free: )?"
    r"(?P<distance>\d+) bytes? (?P<where>into|before the start of|past the end of) a (?P<state>live|freed) block of "
    r"(?P<bytes>\d+) bytes? at (?P<start>0x[0-9a-f]+) \(see: hakmem help (?P<help>[a-z-]+)\)"
)
CALL = re.compile(r"hakmem:   #\d+ 0x[0-9a-f]+ (?P<path>\S+)\+0x[0-9a-f]+")


@pytest.fixture(autouse=True)
def no_cores() -> None:
    """For this process and what it starts: a crash is meant here."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


@pytest.fixture(scope="session")
def guarded(runner: Runner, program: Program) -> Callable[..., Outcome]:
    def run(name: str, *words: object, rate: int = 1, **options: str) -> Outcome:
        env = {"HAKMEM_GUARD": str(rate), **{f"HAKMEM_{key.upper()}": value for key, value in options.items()}}
        return runner.under([program(name), *map(str, words)], env=env)

    return run


def reports(outcome: Outcome) -> list[list[str]]:
    """The lines of each report."""
    found: list[list[str]] = []
    for line in outcome.errors().splitlines():
        if "weakens the hardened library" in line:
            continue  # HAKMEM_ON_MISUSE=ignore under libhakmem-secure.so
        if line.startswith("hakmem:   "):
            found[-1].append(line)
        else:
            assert FIRST.fullmatch(line), line
            found.append([line])
    return found


def titles(report: list[str]) -> list[str]:
    return [re.sub(r"\d+", "N", line.split("hakmem:   ")[1]) for line in report[1:] if "#" not in line]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_at_every_size_is_found_and_ends_the_program(
    guarded: Callable[..., Outcome], kind: str, size: int
) -> None:
    """With the block at the start of its pages and, where one more block comes before it, at their end."""
    outcome = guarded("guard_errors", kind, size, 1)
    by_fault = outcome.code == -signal.SIGSEGV
    assert by_fault or outcome.code == -signal.SIGABRT, outcome.errors()
    (report,) = reports(outcome)
    first = FIRST.fullmatch(report[0])
    assert first is not None
    assert (first["kind"], first["act"]) == KINDS[kind] and first["help"] == first["kind"]
    assert int(first["bytes"]) == size
    assert b"went on" not in outcome.text().encode()
    if kind in ("read_after", "write_after"):
        assert by_fault and first["state"] == "freed" and first["where"] == "into"
        assert titles(report) == ["touched by thread N (guard_errors) of process N:", "freed by thread N, N ms ago:",
                                  "allocated by thread N, N ms ago:"]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_both_ends_of_a_page(guarded: Callable[..., Outcome], kind: str, size: int) -> None:
    """With `warn` the program goes on, and each of two blocks is found, one at each end."""
    outcome = guarded("guard_errors", kind, size, 2, on_misuse="warn", stats="1")
    assert outcome.code == 0, outcome.errors()
    assert "went on" in outcome.text()
    match = re.search(r"guard_found\s+(\d+)", outcome.errors())
    assert match is not None and int(match[1]) >= 1, outcome.errors()


@pytest.mark.parametrize("size", [16, 48, 1024, 4096, 8192, 65536])
@pytest.mark.parametrize("kind,word", [("read_behind", "overflow"), ("read_before", "underflow")])
def test_reads_outside_are_found_at_one_end(guarded: Callable[..., Outcome], kind: str, word: str, size: int) -> None:
    """A read does no harm to the padding: the guard page finds it for every second block of a call stack, or each that
    fills its pages. So an error that comes twice is found, also when each time another block is allocated before."""
    for where in ("", "beside"):
        outcome = guarded("guard_errors", kind, size, 2, where)
        (report,) = reports(outcome)
        assert report[0].startswith(f"hakmem: {word}: a read of ") and outcome.code == -signal.SIGSEGV


@pytest.mark.parametrize("size", [1, 17, 40, 1000, 5000])
def test_a_read_in_the_padding_is_not_found(guarded: Callable[..., Outcome], size: int) -> None:
    """As docs/guards.md says: it touches neither a guard page nor the pattern."""
    outcome = guarded("guard_errors", "read_padding", size, 10)
    assert (outcome.code, outcome.errors()) == (0, "")


@pytest.mark.parametrize("kind", KINDS)
def test_stacks_lie_in_the_program(guarded: Callable[..., Outcome], kind: str) -> None:
    (report,) = reports(guarded("guard_errors", kind, 40, 1))
    calls = [index for index, line in enumerate(report) if line.startswith("hakmem:   #0 ")]
    assert len(calls) == (2 if kind in ("write_behind", "write_before", "interior_free") else 3)
    for index in calls:
        found = CALL.fullmatch(report[index])
        assert found is not None and found["path"].endswith("/guard_errors"), report[index]


def test_no_error_is_found_where_there_is_none(guarded: Callable[..., Outcome]) -> None:
    for size in SIZES:
        outcome = guarded("guard_errors", "none", size, 20)
        assert (outcome.code, outcome.errors()) == (0, ""), size


def test_warns_once_a_place(guarded: Callable[..., Outcome]) -> None:
    outcome = guarded("guard_errors", "write_after", 40, 50, on_misuse="warn")
    assert outcome.code == 0 and "went on" in outcome.text()
    assert len(reports(outcome)) == 1
    assert reports(guarded("guard_errors", "write_after", 40, 50, on_misuse="ignore")) == []


def test_a_place_is_told_by_its_callers(guarded: Callable[..., Outcome], tmp_path: Path) -> None:
    """Two functions that copy from a freed block: the instruction that reads is the C library's. Both reports come at
    once, and each has a file."""
    files = str(tmp_path / "error.%p.json")
    outcome = guarded("guard_errors", "copy_after", 4000, 20, on_misuse="warn", guard_file=files)
    assert outcome.code == 0 and "went on" in outcome.text()
    assert len(reports(outcome)) == len(list(tmp_path.iterdir())) == 2


def test_a_write_behind_the_guard_page_is_told(guarded: Callable[..., Outcome]) -> None:
    """The next slot was never used."""
    (report,) = reports(guarded("guard_errors", "far_behind", 40, 1))
    assert report[0].startswith("hakmem: overflow: a write to ") and " 5000 bytes past the end of a live " in report[0]


@pytest.mark.parametrize("size", [1001, 30001])
def test_a_block_that_grows_has_no_room_in_a_slot(guarded: Callable[..., Outcome], size: int) -> None:
    """An ordinary block that `realloc` moves has room to grow further. A guarded one ends where it was requested to."""
    outcome = guarded("guard_errors", "grow_behind", size, 300, rate=2)
    (report,) = reports(outcome)
    assert f" 0 bytes past the end of a live block of {size + size // 8} bytes " in report[0], report


def test_an_aligned_block_of_no_bytes(guarded: Callable[..., Outcome]) -> None:
    (report,) = reports(guarded("guard_errors", "free_nothing_twice", 40, 1))
    assert report[0].startswith("hakmem: double-free: ") and " a freed block of 0 bytes at " in report[0], report


def test_damage_is_found_when_a_heap_is_destroyed(guarded: Callable[..., Outcome]) -> None:
    outcome = guarded("guard_errors", "destroy", 40, 1)
    (report,) = reports(outcome)
    assert report[0].startswith("hakmem: overflow: a write to ") and "found at the block's free: " in report[0]
    assert outcome.code == -signal.SIGABRT


def test_a_thread_and_a_child_of_fork(guarded: Callable[..., Outcome]) -> None:
    outcome = guarded("guard_errors", "write_after", 40, 1, "thread")
    assert outcome.code == -signal.SIGSEGV and len(reports(outcome)) == 1
    outcome = guarded("guard_errors", "write_after", 40, 1, "child")
    assert outcome.code == 0, outcome.errors()
    assert f"child ended by {signal.SIGSEGV.value}" in outcome.text() and len(reports(outcome)) == 1


def test_few_slots_are_used_again(guarded: Callable[..., Outcome]) -> None:
    """The oldest first: the block that was freed last is still protected."""
    for size in (40, 5000):
        outcome = guarded("guard_errors", "none", size, 1000, guard_slots="2")
        assert (outcome.code, outcome.errors()) == (0, "")
        assert len(reports(guarded("guard_errors", "read_after", size, 1, guard_slots="2"))) == 1


def test_json_for_machines(guarded: Callable[..., Outcome], tmp_path: Path) -> None:
    outcome = guarded("guard_errors", "write_after", 40, 1, guard_file=str(tmp_path / "error.%p.json"))
    (file,) = tmp_path.iterdir()
    told = json.loads(file.read_text())
    (report,) = reports(outcome)
    first = FIRST.fullmatch(report[0])
    assert first is not None
    assert (told["kind"], told["act"], told["block"]["state"]) == ("use-after-free", "write", "freed")
    assert told["address"] == first["address"] and told["block"]["address"] == first["start"]
    assert told["block"]["bytes"] == 40 and told["block"]["offset"] == 39
    for part in ("touched", "freed", "allocated"):
        assert told[part]["frames"][0]["module"].endswith("/guard_errors") and told[part]["thread"] == told["process"]


def test_json_of_any_name(runner: Runner, program: Program, tmp_path: Path) -> None:
    """A program's name may be any bytes: UTF-8 or not, and quotes."""
    copy = tmp_path / os.fsdecode(b'caf\xc3\xa9"\xff')
    shutil.copy(program("guard_errors"), copy)
    file = tmp_path / "error.json"
    runner.under([copy, "write_after", "40", "1"], env={"HAKMEM_GUARD": "1", "HAKMEM_GUARD_FILE": str(file)})
    told = json.loads(file.read_text())
    assert told["touched"]["name"] == 'caf\u00e9"\u00ff'
    assert told["freed"]["frames"][0]["module"].endswith('/caf\u00e9"\u00ff')


def test_no_name_forges_a_line(runner: Runner, program: Program, tmp_path: Path) -> None:
    """The thread's name is that of the program; the kernel writes a newline in a path as \\012."""
    copy = tmp_path / os.fsdecode(b"a\nhakmem: b\r\x1b\\\xff")
    shutil.copy(program("guard_errors"), copy)
    (report,) = reports(runner.under([copy, "write_after", "40", "1"], env={"HAKMEM_GUARD": "1"}))
    assert r" (a\x0ahakmem: b\x0d\x1b\\\xff) of process " in report[1], report
    calls = [line for line in report if r"/a\\012hakmem: b\x0d\x1b\\\xff+0x" in line]
    assert len(calls) >= 3 and "".join(report).isprintable(), report


@pytest.mark.parametrize("way", ["", "chain", "jump", "stack", "saved", "signal"])
def test_the_programs_handler_gets_its_own_faults(guarded: Callable[..., Outcome], way: str) -> None:
    """Installed after hakmem's, which is put before it again; the fault in a slot is told, and goes on to it too."""
    outcome = guarded("guard_signals", way)
    (report,) = reports(outcome)
    assert report[0].startswith("hakmem: use-after-free: a write to "), report
    assert outcome.text() == "own page\n" * 3 + "other address\n"
    assert outcome.code == -signal.SIGSEGV


def test_a_report_fits_on_a_small_alternate_stack(guarded: Callable[..., Outcome], tmp_path: Path) -> None:
    """With the file, whose path alone takes more than the stack has."""
    outcome = guarded("guard_signals", "least", on_misuse="warn", guard_file=str(tmp_path / "error.%p.json"))
    assert outcome.code == 0 and outcome.text() == "own page\n" * 3 + "went on\n", outcome.errors()
    assert len(reports(outcome)) == len(list(tmp_path.iterdir())) == 1


def test_a_signal_that_was_sent_reaches_the_handler(guarded: Callable[..., Outcome]) -> None:
    outcome = guarded("guard_signals", "send")
    assert outcome.text().startswith("own page\n" * 3 + "other address\n")
    assert outcome.code == -signal.SIGSEGV


def test_goes_on_behind_a_programs_handler(guarded: Callable[..., Outcome]) -> None:
    outcome = guarded("guard_signals", "", on_misuse="warn")
    assert outcome.code == 0 and outcome.text() == "own page\n" * 3 + "went on\n"
    assert len(reports(outcome)) == 1


def test_together_with_the_profile_and_the_crash_report(guarded: Callable[..., Outcome]) -> None:
    outcome = guarded("guard_errors", "none", 40, 3000, profile="1", profile_rate="1", profile_file="-")
    assert (outcome.code, outcome.errors()) == (0, "")
    outcome = guarded("guard_errors", "write_after", 40, 1, crash_report="1")
    assert outcome.code == -signal.SIGSEGV
    assert "hakmem: use-after-free: " in outcome.errors() and "hakmem: crash: SIGSEGV" in outcome.errors()


# ---- Threads, processes, signal handlers and coroutines.


def told_numbers(outcome: Outcome) -> dict[str, int]:
    """The numbers that the program prints."""
    return {name: int(number) for name, number in re.findall(r"^(\w+) (\d+)$", outcome.text(), re.MULTILINE)}


@pytest.mark.parametrize("way", ["child_frees", "use_in_handler", "coroutine"])
@pytest.mark.parametrize("rate", [1, 3])
def test_no_error_in_unusual_places(guarded: Callable[..., Outcome], way: str, rate: int) -> None:
    """Blocks that parent and child of a fork each free, of a signal handler, and of a coroutine on a page."""
    outcome = guarded("guard_places", way, rate=rate)
    assert (outcome.code, outcome.errors()) == (0, "") and outcome.text().endswith("went on\n")


@pytest.mark.parametrize("rate", [20, 200])
def test_a_child_of_fork_with_holes_in_its_memory(guarded: Callable[..., Outcome], rate: int) -> None:
    outcome = guarded("fork_holes", rate=rate)
    assert (outcome.code, outcome.errors(), outcome.text()) == (0, "", "ok\n")


def test_a_block_outlives_its_thread(guarded: Callable[..., Outcome]) -> None:
    outcome = guarded("guard_places", "after_the_thread")
    (report,) = reports(outcome)
    told = told_numbers(outcome)
    assert outcome.code == -signal.SIGSEGV and told["allocated"] != told["freed"]
    assert f"hakmem:   freed by thread {told['freed']}, " in "\n".join(report)
    assert f"hakmem:   allocated by thread {told['allocated']}, " in "\n".join(report)


def test_a_child_of_fork_is_told_as_the_child(guarded: Callable[..., Outcome]) -> None:
    """It touches its copy of its parent's block; the parent's stays live."""
    outcome = guarded("guard_places", "child_faults")
    assert outcome.code == 0 and outcome.text().endswith("went on\n"), outcome.errors()
    (report,) = reports(outcome)
    told = told_numbers(outcome)
    assert told["freed"] != told["process"]
    assert report[1] == f"hakmem:   touched by thread {told['freed']} (guard_places) of process {told['freed']}:"
    assert f"hakmem:   allocated by thread {told['process']}, " in "\n".join(report)


@pytest.mark.parametrize("way", ["fault_in_handler", "fault_in_coroutine"])
def test_a_fault_in_an_unusual_place_is_told(guarded: Callable[..., Outcome], way: str) -> None:
    """In a signal handler; on a stack of a page, where the thread has an alternate one."""
    outcome = guarded("guard_places", way)
    (report,) = reports(outcome)
    assert report[0].startswith("hakmem: use-after-free: a write to ") and outcome.code == -signal.SIGSEGV


def test_a_program_that_jumps_out_of_its_handler_goes_on(guarded: Callable[..., Outcome]) -> None:
    outcome = guarded("guard_places", "jump_out")
    assert outcome.code == 0 and outcome.text().endswith("went on\n"), outcome.errors()
    assert len(reports(outcome)) == 20


# ---- Limits: guards give up, and no request fails.


def missed_and_guarded(outcome: Outcome) -> tuple[int, int]:
    found = dict(re.findall(r"(guard_missed|guarded)\s+(\d+)", outcome.errors()))
    return int(found["guard_missed"]), int(found["guarded"])


def test_no_addresses_for_slots(runner: Runner, program: Program) -> None:
    """Told once, and the program runs without guards."""
    guards = ["env", "HAKMEM_GUARD=1", "HAKMEM_GUARD_SLOTS=30000"]  # of the program, not of the shell
    outcome = runner.under(with_limit("-v", 65536, [*guards, program("guard_errors"), "none", 40, 1000]))
    assert (outcome.code, outcome.text()) == (0, "went on\n")
    (line,) = outcome.errors().splitlines()
    assert line.startswith("hakmem: warning: HAKMEM_GUARD=1 is not used: the system refuses the addresses"), line


@pytest.mark.parametrize("size", [40, 5000, 40000, 400000, 4000000])
def test_few_addresses(runner: Runner, program: Program, size: int) -> None:
    """The addresses that freed blocks keep go back before a request fails."""
    command = ["env", "HAKMEM_GUARD=1", program("guard_errors"), "none", size, 1000]
    outcome = runner.under(with_limit("-v", 40000, command))
    assert (outcome.code, outcome.text(), outcome.errors()) == (0, "went on\n", "")


def test_no_mappings_left(guarded: Callable[..., Outcome]) -> None:
    outcome = guarded("map_exhaustion", stats="1")
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    assert (outcome.code, outcome.text()) == (0, "ok\n")
    missed, in_slots = missed_and_guarded(outcome)
    assert missed > 0 and in_slots > 0, outcome.errors()


def test_the_program_keeps_half_of_the_mappings(guarded: Callable[..., Outcome]) -> None:
    """Each block takes two of them, and there are slots for all."""
    limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    if limit > 100000:
        pytest.skip(f"30,000 slots do not reach a limit of {limit} mappings")
    outcome = guarded("guard_places", "live_for_ever", guard_slots="30000", stats="1")
    assert outcome.code == 0 and outcome.text().endswith("went on\n"), outcome.errors()
    missed, _ = missed_and_guarded(outcome)
    mappings = re.search(r"mappings\s+(\d+)", outcome.errors())
    assert missed > 0 and mappings is not None and int(mappings[1]) < limit * 0.52


def test_all_slots_in_use(guarded: Callable[..., Outcome]) -> None:
    """Further blocks are ordinary ones, and counted."""
    outcome = guarded("guard_places", "live_together", guard_slots="10", stats="1")
    assert outcome.code == 0 and outcome.text().endswith("went on\n"), outcome.errors()
    missed, in_slots = missed_and_guarded(outcome)
    assert missed >= 90 and in_slots >= 10


@pytest.mark.parametrize("words", [("malloc", "prctl", "fresh"), ("malloc", "syscall", "threads"),
                                   ("sshd", "prctl", "used"), ("threads", "tsync", "used"),
                                   ("proven", "alone", "-")])  # fmt: skip
@pytest.mark.parametrize("rate", [1, 7])
def test_under_a_filter_that_kills(guarded: Callable[..., Outcome], words: tuple[str, ...], rate: int) -> None:
    """Under the program's own filter guards make no call that an allocator does not make. Under one that it was started
    with they are refused, and the program is told so."""
    outcome = guarded("kill_filter", *words, rate=rate)
    if outcome.code == SKIPPED:
        pytest.skip(outcome.text())
    assert (outcome.code, outcome.text()) == (0, "done\n"), outcome.errors()
    refused = f"hakmem: warning: HAKMEM_GUARD={rate} is not used: a system call filter may kill for a signal handler"
    assert outcome.errors().count(refused) == (1 if words[0] == "proven" else 0)


@pytest.mark.parametrize("rate", [1, 5])
def test_under_a_limit_on_memory(guarded: Callable[..., Outcome], rate: int) -> None:
    outcome = guarded("guard_errors", "none", 100000, 3000, rate=rate, memory_limit="8M")
    assert (outcome.code, outcome.text(), outcome.errors()) == (0, "went on\n", "")


@pytest.mark.parametrize("rate", [1, 3])
def test_a_tag_counts_each_block_once(guarded: Callable[..., Outcome], rate: int) -> None:
    """Also one that was chosen for a guard slot while none was free."""
    outcome = guarded("tag_counts_guarded", rate=rate, guard_slots="64")
    assert (outcome.code, outcome.text(), outcome.errors()) == (0, "", "")


@pytest.mark.parametrize("rate", [1, 3, 100])
def test_real_programs_run_on_guards(runner: Runner, rate: int) -> None:
    """Every request of a program at rate 1, and all that it does with its blocks."""
    code = "import json, re; x = [str(i) * 50 for i in range(3000)]; print(len(json.dumps(x)), sorted(x)[0][:3])"
    command = ["python3", "-I", "-c", code]
    outcome = runner.under(command, env={"HAKMEM_GUARD": str(rate), "HAKMEM_GUARD_SLOTS": "4000"})
    assert (outcome.code, outcome.errors()) == (0, "")
    assert outcome.text() == runner.plain(command).text()
