"""The live blocks at a program's end, and those that no pointer leads to: of a program that loses known blocks."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import pytest
from preload_runner import Runner
from under_allocator import environment

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cli"))
pytest.importorskip("click", reason="the packages of cli/requirements.txt are missing (./hakmem installs them)")
from hakmem.attach import Refused, attach

pytestmark = pytest.mark.usefixtures("hakmem_only", "checks_only")
Program = Callable[[str], Path]

# leaks.c: how many blocks each place loses, and of how many bytes; the ring is another stack for its first block.
BLOCKS = 8 + 1000 + 10
BYTES = (16 + 100 + 1024 + 5000 + 32768 + 100000 + (1 << 20) + (3 << 20)) + 1000 * 48 + 10 * 200
RING = 10
KEPT = 107


def run(library: Path, *command: object, leaks: str = "scan", **variables: str) -> subprocess.CompletedProcess[str]:
    settings = {"HAKMEM_LEAKS": leaks, "HAKMEM_PROFILE_RATE": "1", **variables}
    return subprocess.run(
        [str(word) for word in command], env=environment(library, settings),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def told(stderr: str, what: str) -> List[Tuple[int, int]]:
    """(bytes, blocks) of each process's line."""
    return [
        (int(one[1]), int(one[2]))
        for one in re.finditer(rf"^hakmem: leaks: (\d+) bytes in (\d+) blocks? {what}$", stderr, re.M)
    ]


LEAKED = "leaked: no pointer leads there"


@pytest.mark.parametrize(("how", "kept"), [("", KEPT), ("threads", KEPT + 8), ("shared", KEPT + 3)])
def test_what_is_unreachable_and_nothing_else(program: Program, runner: Runner, how: str, kept: int) -> None:
    """Finds lists and rings whole; nothing that a global, a stack, a thread-local, a block or a mapping keeps."""
    done = run(runner.library, program("leaks"), how)
    assert done.returncode == 0 and done.stdout == ""
    assert told(done.stderr, LEAKED) == [(BYTES, BLOCKS)]
    ((_, reachable),) = told(done.stderr, "still reachable")
    assert reachable >= kept  # the C library keeps some of its own for threads
    assert "every block since the start is counted" in done.stderr
    assert re.search(r"^  \S*/leaks\+0x[0-9a-f]+$", done.stderr, re.M)
    assert not re.search(r"^  \S*libhakmem", done.stderr, re.M)


def test_what_stacks_below_the_last_ones_keep(program: Program, runner: Runner) -> None:
    """The scan leaves out what its own calls left below its frame, and nothing of the stacks that follow."""
    done = run(runner.library, program("leaks_of_neighbours"))
    assert done.returncode == 0 and told(done.stderr, LEAKED) == []


def test_what_a_waiting_thread_gave_to_the_kernel(program: Program, runner: Runner) -> None:
    """A system call's arguments are roots. The thread's other registers are not known, as docs/leaks.md says."""
    done = run(runner.library, program("leaks"), "call")
    assert done.returncode == 0
    assert told(done.stderr, LEAKED) == [(BYTES + 700, BLOCKS + 1)]


def test_what_lies_below_the_first_threads_frames(program: Program, runner: Runner) -> None:
    """An address that was left there keeps no block, but one in the red zone does."""
    done = run(runner.library, program("leaks"), "first")
    assert done.returncode == 0
    assert told(done.stderr, LEAKED) == [(BYTES + 700, BLOCKS + 1)]


def test_after_the_first_threads_end(program: Program, runner: Runner, tmp_path: Path) -> None:
    """The kernel then shows no memory by the process's number, but by any living thread's."""
    figures = tmp_path / "figures"
    done = run(runner.library, program("leaks"), "over", HAKMEM_STATS_FILE=str(figures))
    assert done.returncode == 0
    ((_, leaked),) = told(done.stderr, LEAKED)
    assert BLOCKS - 8 <= leaked <= BLOCKS  # the thread's end may leave an address on its stack, which is read whole
    ((_, reachable),) = told(done.stderr, "still reachable")
    assert reachable >= KEPT - 1
    assert re.search(r"^  \S*/leaks\+0x[0-9a-f]+$", done.stderr, re.M)
    assert json.loads(figures.read_text())["memory"]["resident"] > 1 << 20


def test_threads_that_run_are_told_of(program: Program, runner: Runner, tmp_path: Path) -> None:
    done = run(runner.library, program("leaks"), "run")
    assert told(done.stderr, LEAKED) == [(BYTES, BLOCKS)]
    found = re.search(r"^hakmem: leaks: of (\d+) other threads (\d+) ran or could not be read", done.stderr, re.M)
    assert found is not None and 1 <= int(found[2]) <= int(found[1])
    assert "could not be read" not in run(runner.library, program("leaks")).stderr
    for how, others, asked in (("", 0, 0), ("run", 1, 0), ("call", 1, 1)):
        file = tmp_path / f"leaks{how}.json"
        run(runner.library, program("leaks"), how, HAKMEM_LEAKS_FILE=str(file))
        threads = json.loads(file.read_text())["threads"]
        assert threads["others"] >= others and threads["asked"] >= asked
        assert threads["others"] - threads["asked"] >= others - asked


def test_a_child_of_fork_tells_of_its_own(program: Program, runner: Runner) -> None:
    done = run(runner.library, program("leaks"), "fork")
    assert sorted(told(done.stderr, LEAKED)) == [(BYTES, BLOCKS), (BYTES + RING * 200, BLOCKS + RING)]


def test_a_stripped_program(program: Program, runner: Runner, tmp_path: Path) -> None:
    stripped = tmp_path / "leaks"
    shutil.copy(program("leaks"), stripped)
    subprocess.run(["strip", stripped], check=True)
    done = run(runner.library, stripped)
    assert told(done.stderr, LEAKED) == [(BYTES, BLOCKS)]
    # Each place's blocks under one stack or a few, which begin in the program.
    assert (48000, 1000) in told(done.stderr, "from")


def test_without_a_scan_all_that_is_live(program: Program, runner: Runner) -> None:
    done = run(runner.library, program("leaks"), leaks="on")
    ((bytes_live, blocks),) = told(done.stderr, "not freed")
    assert blocks == BLOCKS + KEPT
    sites = told(done.stderr, "from")
    assert sites == sorted(sites, key=lambda one: -one[0])
    assert (sum(site[0] for site in sites), sum(site[1] for site in sites)) == (bytes_live, blocks)
    assert " bytes in 1 block from\n" in done.stderr and " 1 blocks " not in done.stderr


def test_an_estimate_is_told_as_one(program: Program, runner: Runner) -> None:
    done = run(runner.library, program("leaks"), leaks="on", HAKMEM_PROFILE_RATE="64K")
    assert re.search(r"about \d+ bytes in about \d+ blocks \(\d+ samples\) not freed", done.stderr)
    assert re.search(r"estimates from \d+ samples, one for each 64\.0 KiB allocated", done.stderr)


def test_nothing_is_said_when_nobody_asks(program: Program, runner: Runner) -> None:
    assert run(runner.library, program("leaks"), leaks="off").stderr == ""


def test_nothing_found(runner: Runner) -> None:
    done = run(runner.library, "true")
    assert f"hakmem: leaks: nothing {LEAKED}\n" in done.stderr


def test_the_file(program: Program, runner: Runner, tmp_path: Path) -> None:
    done = run(runner.library, program("leaks"), "fork", HAKMEM_LEAKS_FILE=f"{tmp_path}/%p.json")
    assert done.stderr == ""
    documents = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    assert sorted(one["unreachable"]["blocks"] for one in documents) == [BLOCKS, BLOCKS + RING]
    for one in documents:
        assert (one["schema"], one["rate"], one["scan"], one["left_out"]) == (1, 1, "done", 0)
        for kind in ("unreachable", "reachable", "unjudged"):
            for field in ("samples", "blocks", "bytes"):
                assert sum(site[kind][field] for site in one["sites"]) == one[kind][field]
        assert any(mapping["path"].endswith("/leaks") for mapping in one["mappings"])


def test_one_file_is_its_first_processs(program: Program, runner: Runner, tmp_path: Path) -> None:
    """A child that ends sooner must not take it."""
    file = tmp_path / "leaks.json"
    done = run(runner.library, program("leaks"), "fork", HAKMEM_LEAKS_FILE=str(file))
    assert done.stderr == ""
    assert json.loads(file.read_text())["unreachable"]["blocks"] == BLOCKS


def test_of_any_name(program: Program, runner: Runner, tmp_path: Path) -> None:
    """A path stays in its line, and in JSON each of its bytes can be read back."""
    copy = tmp_path / os.fsdecode(b'caf\xc3\xa9"\r\x1b\\\xff')
    shutil.copy(program("leaks"), copy)
    assert r'/café"\x0d\x1b\\\xff+0x' in run(runner.library, copy).stderr
    file = tmp_path / "leaks.json"
    run(runner.library, copy, HAKMEM_LEAKS_FILE=str(file))
    mappings = json.loads(file.read_bytes().decode("utf-8"))["mappings"]
    assert str(copy) in [mapping["path"] for mapping in mappings]


def test_in_a_deep_folder(program: Program, runner: Runner, tmp_path: Path) -> None:
    """A line of the list of mappings is then longer than the part that is read. The roots and stacks are the same."""
    deep = tmp_path.joinpath(*("d" * 250 for _ in range(5)))
    deep.mkdir(parents=True)
    shutil.copy(program("leaks"), deep)
    done = run(runner.library, deep / "leaks")
    assert told(done.stderr, LEAKED) == [(BYTES, BLOCKS)]
    assert (48000, 1000) in told(done.stderr, "from")
    assert re.search(r"^  \S*d\+0x[0-9a-f]+$", done.stderr, re.M)


def test_files_of_other_names(program: Program, runner: Runner, tmp_path: Path) -> None:
    """The library's data are no roots under any name, and those of a program with a name like the library's are."""
    library, named = tmp_path / "allocator.so", tmp_path / "libhakmem-user"
    shutil.copy(runner.library, library)
    shutil.copy(program("leaks"), named)
    for file, command in ((library, program("leaks")), (runner.library, named)):
        assert told(run(file, command).stderr, LEAKED) == [(BYTES, BLOCKS)]


def test_a_disk_that_is_full(program: Program, runner: Runner, tmp_path: Path) -> None:
    """As good as full: the user may write no file. One line, and the program's own end."""
    settings = {"HAKMEM_LEAKS": "scan", "HAKMEM_LEAKS_FILE": f"{tmp_path}/leaks.json"}
    for dash, lines in (("", 1), ("-", 0)):
        settings["HAKMEM_LEAKS_FILE"] = f"{dash}{tmp_path}/leaks.json"
        done = subprocess.run(
            [program("leaks")], env=environment(runner.library, settings), capture_output=True, text=True, timeout=120,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)), check=False,
        )  # fmt: skip
        assert done.returncode == 0
        assert done.stderr.count("\n") == lines and ("HAKMEM_LEAKS_FILE" in done.stderr) == bool(lines)
        assert list(tmp_path.iterdir()) == []


REAL: Dict[str, List[str]] = {
    "sqlite3": [
        *("sqlite3", ":memory:"),
        "create table t(a); insert into t values (zeroblob(100000)); select count(*) from t",
    ],
    "python": [sys.executable, "-I", "-c", "import json, threading; print(len([str(i) for i in range(20000)]))"],
}  # fmt: skip


@pytest.mark.parametrize("name", list(REAL))
def test_real_programs_leak_next_to_nothing(runner: Runner, name: str) -> None:
    """A scan that misses roots would report most of what they have."""
    if shutil.which(REAL[name][0]) is None:
        pytest.skip(f"no {name}")
    done = run(runner.library, *REAL[name])
    assert done.returncode == 0 and done.stdout.strip() in ("1", "20000")
    ((kept, _),) = told(done.stderr, "still reachable")
    leaked = sum(one for one, _ in told(done.stderr, LEAKED))
    assert leaked <= kept // 20


@pytest.fixture
def waiting(program: Program, runner: Runner) -> Iterator[Callable[..., int]]:
    started = []

    def start(how: str = "wait", **variables: str) -> int:
        process = subprocess.Popen(
            [program("leaks"), how], env=environment(runner.library, variables),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        return process.pid

    yield start
    for process in started:
        with process:
            process.kill()


def asked(pid: int, command: str) -> Any:
    with attach(pid) as attached:
        return json.loads(attached.ask(command, 60.0))


def test_on_demand(waiting: Callable[..., int]) -> None:
    """The same while it runs, by the tool's socket, and again."""
    pid = waiting(HAKMEM_PROFILE="1", HAKMEM_PROFILE_RATE="1", HAKMEM_PROFILE_FILE="-")
    assert asked(pid, "leaks")["unjudged"]["blocks"] == BLOCKS + KEPT
    for _ in range(2):
        answer = asked(pid, "leaks scan")
        # A call of main may have left an address deeper on its stack, which leads to a block and to all behind it.
        assert BLOCKS - 32 <= answer["unreachable"]["blocks"] <= BLOCKS
        assert answer["unreachable"]["blocks"] + answer["reachable"]["blocks"] == BLOCKS + KEPT
        assert answer["unjudged"]["blocks"] == 0


def test_memory_that_was_not_touched(waiting: Callable[..., int]) -> None:
    """A scan makes nothing of it resident, and no page tables for it, and finds what its few pages keep."""
    pid = waiting("sparse", HAKMEM_PROFILE="1", HAKMEM_PROFILE_RATE="1", HAKMEM_PROFILE_FILE="-")
    answer = asked(pid, "leaks scan")
    assert answer["unreachable"]["blocks"] <= BLOCKS and answer["unjudged"]["blocks"] == 0
    assert answer["unreachable"]["blocks"] + answer["reachable"]["blocks"] == BLOCKS + KEPT + 3
    status = Path(f"/proc/{pid}/status").read_text()
    found = {name: int(re.search(rf"^{name}:\s*(\d+) kB$", status, re.M)[1]) for name in ("RssShmem", "VmPTE")}
    assert found["RssShmem"] < 1024 and found["VmPTE"] < 2048, found


def test_while_threads_allocate_and_free(waiting: Callable[..., int]) -> None:
    """Slabs come and go under the scan. Blocks lost before stay lost, and the program goes on."""
    pid = waiting("churn", HAKMEM_PROFILE="1", HAKMEM_PROFILE_RATE="1")
    for _ in range(5):
        answer = asked(pid, "leaks scan")
        assert answer["scan"] == "done"
        lists = [site["unreachable"]["blocks"] for site in answer["sites"]]
        assert 1000 - 8 <= max(lists) <= 1000
    assert Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] in "RS"


def test_a_scan_interrupts_nobody(waiting: Callable[..., int]) -> None:
    """The program ends at once if epoll_wait returns, as it would after a signal to that thread."""
    pid = waiting("epoll", HAKMEM_PROFILE="1", HAKMEM_PROFILE_RATE="1")
    for _ in range(3):
        threads = asked(pid, "leaks scan")["threads"]
        assert threads["asked"] >= 1
    assert Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] in "RS"


def test_on_demand_without_samples(waiting: Callable[..., int]) -> None:
    pid = waiting()
    with attach(pid) as attached:
        with pytest.raises(Refused, match="the heap profile is off"):
            attached.ask("leaks scan")
        with pytest.raises(Refused, match="no argument but scan"):
            attached.ask("leaks everything")
