"""`hakmem learn merge`: what it makes of records, what it refuses, and that the library goes on from the result."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from typing import List

import pytest
from cli_support import ROOT, Compile, Tool
from hakmem import learn_merge
from hakmem.errors import Failure
from hakmem.learn_record import CANDIDATES, LARGEST, LENGTH, Record, State, parse, timeout_ms
from hakmem.policy_library import NEVER_MS, PolicyLibrary

BALANCED = 250_000


def record(leader: int = 3, stake: int = 1000, epoch: int = 40, state: State = State.LEARNING, **other: int) -> Record:
    """Of a run in which the leader owes least, and its neighbours more by their distance."""
    staked = other.pop("staked", 20 * stake)
    owed = tuple(staked + staked * abs(number - leader) for number in range(CANDIDATES))
    return Record(other.pop("price", BALANCED), state, leader, epoch, stake, staked, staked, staked, owed)


def merged(*records: Record) -> Record:
    learn_merge.check([f"run{number}" for number in range(len(records))], records)
    return learn_merge.merge(records).record


def write(folder: Path, name: str, one: Record) -> Path:
    path = folder / name
    path.write_bytes(one.to_bytes())
    return path


# The format, and the constants of the library.


def test_constants_are_the_librarys() -> None:
    source = (ROOT / "src" / "policy" / "learn.c").read_text()
    for name in ("FORGET_SHARE", "USUAL_EPOCHS", "HYSTERESIS_SHARE"):
        (found,) = re.findall(rf"#define {name} (?:UINT64_C\()?(\d+)", source)
        assert getattr(learn_merge, name) == int(found)


@pytest.mark.parametrize("price", [100, 25_000, 250_000, 2_500_000, 25_000_000])
def test_timeouts_are_the_librarys(library: Path, price: int) -> None:
    if not (library.parent / "libhakmem-policy.so").is_file():
        pytest.skip("libhakmem-policy.so is not built")
    known = PolicyLibrary(str(library.parent / "libhakmem-policy.so")).candidates(price).timeouts_ms
    ours = [timeout_ms(price, number) for number in range(CANDIDATES)]
    assert [NEVER_MS if one is None else one for one in ours] == list(known)


def test_a_record_is_written_as_it_was_read() -> None:
    one = record(5, 77, 3, State.CANARY)
    assert parse(one.to_bytes(), "it") == one and len(one.to_bytes()) == LENGTH


# What a merged record is. hypothesis draws the runs.


def drawn_records() -> object:
    from hypothesis import strategies as draw

    number = draw.integers(0, 1 << 40)
    return draw.builds(
        Record,
        price=draw.just(BALANCED),
        state=draw.sampled_from(State),
        leader=draw.integers(0, CANDIDATES - 1),
        epoch=draw.integers(1, 1 << 20),
        usual_stake=number,
        staked=draw.integers(1, 1 << 44),
        frozen_owed=number,
        frozen_staked=number,
        owed=draw.tuples(*[number] * CANDIDATES),
    )


def test_properties() -> None:
    """Of any runs: one run is itself, their order has no effect, the same runs twice say the same, and a candidate that
    owes less than another in all runs owes no more in the merged record."""
    hypothesis = pytest.importorskip("hypothesis")
    from hypothesis import strategies as draw

    @hypothesis.settings(max_examples=100, deadline=None)
    @hypothesis.given(draw.lists(drawn_records(), min_size=1, max_size=4), draw.randoms())
    def holds(runs: List[Record], random: object) -> None:
        one = runs[0]
        is_sane = all(one.owed[one.leader] * 63 <= owed * 64 for owed in one.owed)
        alone = merged(one)
        assert replace(alone, leader=one.leader, state=one.state) == one
        assert not is_sane or alone == one
        result = merged(*runs)
        shuffled = list(runs)
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        assert merged(*shuffled) == result
        twice = merged(*runs, *runs)
        assert twice.usual_stake == result.usual_stake and twice.staked >= result.staked
        for ours, theirs in zip(twice.owed, result.owed):
            assert abs(ours * result.staked - theirs * twice.staked) <= result.staked + twice.staked
        for left in range(CANDIDATES):
            for right in range(CANDIDATES):
                if all(run.owed[left] <= run.owed[right] for run in runs):
                    assert result.owed[left] <= result.owed[right]
        assert result.owed[result.leader] * 63 <= min(result.owed) * 64 + 64
        assert min(run.staked for run in runs) <= result.staked <= sum(run.staked for run in runs)
        usual = [run.usual_stake for run in runs]
        assert min(usual) <= result.usual_stake <= max(usual)
        assert parse(result.to_bytes(), "it") == result

    holds()


def test_a_run_counts_by_its_evidence() -> None:
    """Short runs do not outvote a long one, and many of them do."""
    short, long = record(2, staked=1000, epoch=2), record(8, staked=20_000, epoch=200)
    assert merged(short, short, long).leader == 8
    assert merged(*[short] * 40, long).leader == 2


def test_a_compromise() -> None:
    """The best for all of them may be no run's own leader."""
    one = replace(record(0), owed=(100, 120, 900, *[1000] * 9))
    other = replace(record(2), owed=(900, 120, 100, *[1000] * 9))
    assert merged(one, other).leader == 1


def test_evidence_adds_up_to_what_one_learner_remembers() -> None:
    weak, strong = record(3, 1000, staked=3000), record(3, 1000, staked=20_000)
    assert merged(weak, weak).staked == 6000
    assert merged(*[strong] * 50).staked == 20_000
    assert merged(*[strong] * 50).owed == strong.owed


def test_states() -> None:
    frozen = record(3, state=State.FROZEN)
    assert merged(frozen, frozen).state == State.FROZEN
    assert merged(frozen, record(3)).state == State.LEARNING
    assert merged(frozen, record(9, state=State.FROZEN)).state == State.LEARNING
    assert merged(frozen, replace(record(9), staked=0, owed=(0,) * CANDIDATES)).state == State.FROZEN


def test_numbers_at_their_limit() -> None:
    largest = replace(record(3), staked=LARGEST, usual_stake=LARGEST, epoch=LARGEST, owed=(LARGEST,) * CANDIDATES)
    result = merged(largest, largest)
    assert result.staked == LARGEST and result.owed == largest.owed and result.epoch == LARGEST
    assert parse(result.to_bytes(), "it") == result


# What the command says, and refuses.


def test_the_command(tool: Tool, tmp_path: Path) -> None:
    files = [write(tmp_path, f"{number}.learned", record(2 + number)) for number in range(3)]
    done = tool("learn", "merge", "-o", "all", "--json", "-", *files)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert parse((tmp_path / "all").read_bytes(), "all") == merged(record(2), record(3), record(4))
    assert (
        told["merged"]["timeout_ms"] == timeout_ms(BALANCED, 3)
        and [run["share"] for run in told["runs"]] == [1 / 3] * 3
    )
    assert "3 runs" in done.stderr and "33.3%" in done.stderr
    quiet = subprocess.run(tool.words("learn", "merge", "-q", *files), capture_output=True, check=False)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, (tmp_path / "all").read_bytes(), b"")


def test_names_of_any_characters(tool: Tool, tmp_path: Path) -> None:
    names = ["shop[red].learned", "a[/b]", "it\x1b[31m"]
    (tmp_path / "a[").mkdir()
    for name in names:
        write(tmp_path, name, record())
    done = tool("learn", "merge", "-o", "all", *names)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stderr.splitlines()[2:5]] == [*names[:2], r"it\x1b[31m"]


def test_a_file_that_is_named_twice(tool: Tool, tmp_path: Path) -> None:
    write(tmp_path, "a", record(2))
    (tmp_path / "b").symlink_to("a")
    done = tool("learn", "merge", "-q", "-o", "all", "a", "b", "a")
    assert done.stderr.splitlines() == [
        "hakmem: b is the same file as a: it counts once",
        "hakmem: a is the same file as a: it counts once",
    ]
    assert parse((tmp_path / "all").read_bytes(), "all") == record(2)


def with_checksum(content: bytes) -> bytes:
    return content[:-4] + struct.pack("<I", zlib.crc32(content[:-4]))


BAD = {
    "empty": (lambda good: b"", "is no record of what was learned"),
    "text": (lambda good: b"hello, world of text", "is no record of what was learned"),
    "version": (
        lambda good: with_checksum(good[:8] + b"\x02" + good[9:]),
        "has version 2 of the format: this tool reads version 1",
    ),
    "cut": (lambda good: good[:-1], "is damaged"),
    "longer": (lambda good: good + b"\0", "is damaged"),
    "changed": (lambda good: good[:40] + b"\xff" + good[41:], "is damaged"),
    "leader": (lambda good: with_checksum(good[:15] + b"\x0c" + good[16:]), "is damaged"),
    "state": (lambda good: with_checksum(good[:14] + b"\x03" + good[15:]), "is damaged"),
    "price": (lambda good: with_checksum(good[:16] + bytes(8) + good[24:]), "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("how", BAD)
def test_a_file_of_no_use(tool: Tool, tmp_path: Path, how: str) -> None:
    make, said = BAD[how]
    good = write(tmp_path, "good", record())
    (tmp_path / "bad").write_bytes(make(good.read_bytes()))
    done = tool("learn", "merge", "-o", "all", "good", "bad")
    assert (done.returncode, done.stdout, done.stderr) == (125, "", f"hakmem: bad {said}\n")
    assert not (tmp_path / "all").exists()


def test_what_does_not_belong_together(tool: Tool, tmp_path: Path) -> None:
    write(tmp_path, "balanced", record())
    write(tmp_path, "lean", record(price=2_500_000))
    done = tool("learn", "merge", "-o", "all", "balanced", "lean")
    assert (done.returncode, done.stderr) == (
        125,
        "hakmem: lean was learned at a price of 2,500,000 ns for a MiB-second, balanced at 250,000: "
        "runs of one price and mode belong together\n",
    )


def test_runs_that_learned_nothing() -> None:
    with pytest.raises(Failure, match="nothing was learned in these runs"):
        merged(record(7, 0, 0), record(7, 0, 0))


def test_wrong_usage(tool: Tool, tmp_path: Path) -> None:
    write(tmp_path, "good", record())
    assert tool("learn", "merge").returncode == 2
    assert tool("learn", "merge", "--json", "-", "good").returncode == 2
    assert tool("learn", "merge", "-o", "all", "missing").stderr == (
        "hakmem: cannot read missing: No such file or directory\n"
    )
    assert tool("learn", "merge", "-o", "all", ".").stderr == "hakmem: cannot read .: Is a directory\n"
    assert tool("learn", "merge", "-o", "no/such/folder", "good").returncode == 125


def test_of_pipes(tool: Tool, tmp_path: Path) -> None:
    """As a shell's `<(...)` names them."""
    write(tmp_path, "good", record())
    words = ["bash", "-c", '"$@" <(cat good) <(cat good)', "bash", *tool.words("learn", "merge", "-q", "-o", "all")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "all").stat().st_size == (tmp_path / "good").stat().st_size


# The library itself.

# Frees and takes megabytes: argv[1] times, argv[2] ms between.
BREATHES = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  for (int turn = atoi(argv[1]); turn > 0; turn--) {
    char *volatile block = malloc(3 << 20);
    memset(block, 1, 3 << 20);
    free(block);
    usleep(1000 * atoi(argv[2]));
  }
  return argc != 3;
}
"""


def test_the_library_goes_on_from_a_merged_file(tool: Tool, compile_c: Compile, library: Path, tmp_path: Path) -> None:
    """Two runs of a real program, one file, and a third run that begins with it, without a warning."""
    program = compile_c("breathes", BREATHES)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HAKMEM_")}

    def run(path: Path, turns: int = 12) -> Record:
        environment = {**clean, "LD_PRELOAD": str(library), "HAKMEM_LEARN_FILE": str(path)}
        done = subprocess.run(
            [str(program), str(turns), "20"], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return parse(path.read_bytes(), path.name)

    runs = [run(tmp_path / name) for name in ("one", "two")]
    assert all(one.staked > 0 and one.price == BALANCED for one in runs)
    done = tool("learn", "merge", "-o", "all", "one", "two")
    assert done.returncode == 0, done.stderr
    both = parse((tmp_path / "all").read_bytes(), "all")
    assert both == merged(*runs) and both.epoch == runs[0].epoch + runs[1].epoch
    after = run(tmp_path / "all", 40)  # a later epoch ends after 16 gaps
    assert after.epoch > both.epoch, "the third run went on where the two were"
