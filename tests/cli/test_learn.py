"""`hakmem learn replay`: the learner's worth on the published traces, and the messages when something is wrong."""

from __future__ import annotations

import json
import math
import os
import random
import struct
import sys
import zlib
from pathlib import Path
from typing import Callable, Dict, List, Tuple

import pytest
from cli_support import ROOT, Tool
from hakmem import level_trace, paths
from hakmem.commands.learn import learn
from hakmem.errors import Failure
from hakmem.learn_replay import Replay, replay
from hakmem.level_trace import Trace
from hakmem.policy_library import LIBRARY, NEVER_MS, PolicyLibrary

TRACES = sorted((ROOT / "bench" / "learn_traces").glob("*.level"))
NAMES = [trace.stem for trace in TRACES]
MIB = 1 << 20

# What the learner may cost, to the best time-out in hindsight.
USUAL_LIMIT = 1.03
HARD_LIMIT = 1.10
HARD = {"heavy_tail", "switching_fast", "switching_slow"}
# Each single time-out costs more than the learner by this, in the mean of all traces.
MARGIN = 1.05

sys.path.insert(0, str(ROOT / "bench" / "learn_traces"))
import more_kinds  # noqa: E402

SEEDS = (101, 202, 303)
# The geometric mean over three traces of each kind, at each price: what was measured, and one in a hundred.
MORE_LIMITS = {
    ("CHOSEN_BY", "fast"): 1.065, ("CHOSEN_BY", "balanced"): 0.963, ("CHOSEN_BY", "lean"): 0.981,
    ("HELD_OUT", "fast"): 1.052, ("HELD_OUT", "balanced"): 1.011, ("HELD_OUT", "lean"): 1.0,
}  # fmt: skip
# One gap that is many times larger than any before, of a learner that is frozen.
LARGE_STAKES = ("frozen_long", "frozen_then_large", "rare_large_long")
LARGE_LIMITS = {"fast": 1.10, "balanced": 1.03, "lean": 1.03}


def _find_library() -> Path:
    folder = os.environ.get("HAKMEM_TEST_BUILD_DIR")
    found = Path(folder) / LIBRARY if folder else paths.find_library(LIBRARY)
    if found is None or not found.is_file():
        pytest.skip(f"{LIBRARY} is not built")
    return found


@pytest.fixture(scope="module")
def library_file() -> Path:
    return _find_library()


@pytest.fixture(scope="module")
def policy(library_file: Path) -> PolicyLibrary:
    return PolicyLibrary(str(library_file))


@pytest.fixture(scope="module")
def replays(policy: PolicyLibrary) -> Dict[Tuple[str, str], Replay]:
    """Every published trace at the two prices that promises are made for."""
    return {
        (mode, file.stem): replay(policy, level_trace.read(str(file)), policy.price(mode, None))
        for mode in ("balanced", "lean")
        for file in TRACES
    }


def geometric_mean(values: List[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def test_there_are_enough_traces() -> None:
    assert len(NAMES) >= 12
    assert set(NAMES) >= HARD


@pytest.mark.parametrize("mode", ["balanced", "lean"])
@pytest.mark.parametrize("name", NAMES)
def test_regret(replays: Dict[Tuple[str, str], Replay], mode: str, name: str) -> None:
    limit = HARD_LIMIT if name in HARD else USUAL_LIMIT
    assert replays[mode, name].regret <= limit


@pytest.mark.parametrize("mode", ["balanced", "lean"])
def test_in_the_mean_it_is_as_good_as_hindsight(replays: Dict[Tuple[str, str], Replay], mode: str) -> None:
    assert geometric_mean([replays[mode, name].regret for name in NAMES]) <= 1.0


@pytest.mark.parametrize("mode", ["balanced", "lean"])
def test_no_single_timeout_comes_near(replays: Dict[Tuple[str, str], Replay], mode: str) -> None:
    results = [replays[mode, name] for name in NAMES]
    ours = geometric_mean([result.regret for result in results])
    for number in range(len(results[0].fixed_ns)):
        assert geometric_mean([result.relative(result.fixed_ns[number]) for result in results]) >= MARGIN * ours


@pytest.fixture(scope="module")
def more_regrets(policy: PolicyLibrary) -> Dict[Tuple[str, str], Dict[str, List[float]]]:
    """The regrets of the kinds that are not stored, by half and price."""
    found: Dict[Tuple[str, str], Dict[str, List[float]]] = {}
    for half, mode in MORE_LIMITS:
        kinds = getattr(more_kinds, half)
        found[half, mode] = {
            name: [_regret(policy, kind, seed, mode) for seed in SEEDS] for name, kind in kinds.items()
        }
    return found


def _regret(policy: PolicyLibrary, kind: Callable[[int], more_kinds.Program], seed: int, mode: str) -> float:
    records = kind(seed).end()
    trace = Trace("", [time_ms for time_ms, _ in records], [in_use for _, in_use in records])
    return replay(policy, trace, policy.price(mode, None)).regret


@pytest.mark.parametrize(("half", "mode"), MORE_LIMITS)
def test_more_kinds_cost_little(
    more_regrets: Dict[Tuple[str, str], Dict[str, List[float]]], half: str, mode: str
) -> None:
    regrets = [regret for of_kind in more_regrets[half, mode].values() for regret in of_kind]
    assert geometric_mean(regrets) <= MORE_LIMITS[half, mode]


def test_a_large_stake_thaws_a_frozen_learner(more_regrets: Dict[Tuple[str, str], Dict[str, List[float]]]) -> None:
    for (_, mode), by_name in more_regrets.items():
        for name in LARGE_STAKES:
            assert max(by_name.get(name, [0])) <= LARGE_LIMITS[mode], (name, mode)


def slow_cost(trace: Trace, timeout_ms: int, price: int) -> float:
    """In ns: every slab-sized level on its own, which is kept for the time-out and then given back."""
    purge_ms, fault_ms = (ns * 1000 // price for ns in (90_000, 360_000))
    unit = level_trace.UNIT_BYTES
    since: Dict[int, int] = {}
    kept_ms, units_in_use = 0, 0
    for time_ms, in_use in zip(trace.times_ms, trace.in_use_bytes):
        units = in_use // unit
        for number in range(units, units_in_use):
            since[number] = time_ms
        for number in range(units_in_use, units):
            if number in since:
                gap_ms = time_ms - since.pop(number)
                kept_ms += gap_ms if gap_ms <= timeout_ms else timeout_ms + purge_ms + fault_ms
        units_in_use = units
    for start_ms in since.values():
        age_ms = trace.times_ms[-1] - start_ms
        kept_ms += age_ms if age_ms <= timeout_ms else timeout_ms + purge_ms
    return kept_ms * unit / MIB / 1000 * price


@pytest.mark.parametrize("seed", range(5))
def test_the_replay_pays_what_each_level_pays(policy: PolicyLibrary, seed: int) -> None:
    draw = random.Random(seed)
    times, in_use, now = [], [], 0
    for _ in range(60):
        now += draw.choice((0, draw.randrange(50), draw.randrange(8000)))
        times.append(now)
        in_use.append(draw.randrange(400) * level_trace.UNIT_BYTES)
    trace = Trace("random", times, in_use)
    for price in (25_000, 250_000, 2_500_000):
        result = replay(policy, trace, price)
        for timeout_ms, cost_ns in zip(result.candidates.timeouts_ms, result.fixed_ns):
            # A time-out that passes between two ms passes at the next.
            assert cost_ns == pytest.approx(slow_cost(trace, timeout_ms, price), rel=0.02, abs=2e6 * price / 250_000)


def test_epochs_sum_up(tool: Tool, library_file: Path) -> None:
    done = tool("learn", "replay", "--json", "-", "--library", library_file, TRACES[NAMES.index("two_phase")])
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    epochs = found["learner"]["epochs"]
    assert len(epochs) > 50
    assert 0 < sum(epoch["learner_ns"] for epoch in epochs) <= found["learner"]["cost_ns"]
    for number, candidate in enumerate(found["candidates"]):
        assert 0 < sum(epoch["candidates_ns"][number] for epoch in epochs) <= candidate["cost_ns"]
    assert found["best"]["cost_ns"] == min(candidate["cost_ns"] for candidate in found["candidates"])
    assert found["candidates"][-1]["timeout_ms"] is None
    assert found["price_ns_per_mib_second"] == 250_000


def test_table(tool: Tool, library_file: Path) -> None:
    done = tool("learn", "replay", "--mode", "lean", "--library", library_file, TRACES[NAMES.index("bursts_60s")])
    assert done.returncode == 0, done.stderr
    assert "2,500,000 ns of CPU for a MiB-second" in done.stdout
    for text in ("learned", "break-even", "best in hindsight", "never", "instead of 180 ms"):
        assert text in done.stdout


def test_the_next_command_keeps_the_options(tool: Tool, library_file: Path, tmp_path: Path) -> None:
    (tmp_path / "-t.level").write_bytes(TRACES[NAMES.index("bursts_1s")].read_bytes())
    for given in ("--mode lean", "--price 300"):
        done = tool("learn", "replay", *given.split(), "--library", library_file, "--", "-t.level")
        tip = f"next: hakmem learn replay --plot learned.svg {given} --library {library_file} ./-t.level"
        assert done.stdout.splitlines()[-1] == tip


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_plot(tool: Tool, library_file: Path, tmp_path: Path, suffix: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"picture.{suffix}"
    done = tool("learn", "replay", "--plot", picture, "--library", library_file, TRACES[NAMES.index("bursts_1s")])
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(start)


def test_options_are_documented() -> None:
    section = (ROOT / "docs" / "cli.md").read_text().split("## hakmem learn")[1].split("\n## ")[0]
    for command in learn.commands.values():
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or f"`{option}" in section, option


@pytest.mark.parametrize("price", ["0", "-5", "99", "25000001"])
def test_a_price_that_makes_no_sense(tool: Tool, library_file: Path, price: str) -> None:
    done = tool("learn", "replay", "--price", price, "--library", library_file, TRACES[0])
    assert (done.returncode, done.stdout) == (2, "")
    told = f"hakmem: --price {price}: expected 100 to 25000000 ns of CPU for a MiB-second"
    assert done.stderr == f"{told} (see: hakmem help learn replay)\n"


def test_wrong_usage(tool: Tool, library_file: Path) -> None:
    assert tool("learn", "replay", "--price", "much", TRACES[0]).returncode == 2
    assert tool("learn", "replay", "--mode", "greedy", TRACES[0]).returncode == 2
    assert tool("learn", "replay").returncode == 2
    done = tool("learn", "replay", "--mode", "lean", "--price", "1000", "--library", library_file, TRACES[0])
    told = "hakmem: --mode and --price are two prices (see: hakmem help learn replay)\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_a_library_that_is_missing_or_another(tool: Tool, tmp_path: Path) -> None:
    done = tool("learn", "replay", "--library", "/no/such.so", TRACES[0])
    assert (done.returncode, done.stderr) == (125, "hakmem: no library /no/such.so\n")
    (tmp_path / "text.so").write_text("no library")
    done = tool("learn", "replay", "--library", "text.so", TRACES[0])
    assert done.returncode == 125
    assert f"is no {LIBRARY} that this tool knows" in done.stderr


def test_a_library_that_was_never_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "find_library", lambda _name: None)
    with pytest.raises(Failure, match="was not found: build it with"):
        PolicyLibrary()


def test_a_trace_that_is_missing_or_none(tool: Tool, library_file: Path, tmp_path: Path) -> None:
    done = tool("learn", "replay", "--library", library_file, "no.level")
    assert (done.returncode, done.stderr) == (125, "hakmem: cannot read no.level: No such file or directory\n")
    (tmp_path / "text").write_text("a text that is long enough to be a header of a trace")
    done = tool("learn", "replay", "--library", library_file, "text")
    assert done.returncode == 125
    assert "is no trace of bytes in use" in done.stderr
    level_trace.write(tmp_path / "one.level", [(0, MIB)])
    done = tool("learn", "replay", "--library", library_file, "one.level")
    assert (done.returncode, "nothing to replay" in done.stderr) == (125, True)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A trace of two chunks."""
    file = tmp_path / "small.level"
    level_trace.write(file, [(number * 7, number % 90 * MIB) for number in range(5000)])
    return file


def test_a_trace_is_read_as_it_was_written(small: Path, tmp_path: Path) -> None:
    trace = level_trace.read(str(small))
    assert list(trace.times_ms) == [number * 7 for number in range(5000)]
    assert list(trace.in_use_bytes) == [number % 90 * MIB for number in range(5000)]
    large = tmp_path / "large.level"
    level_trace.write(large, [(0, 1), (1 << 39, 1 << 46), (1 << 40, 0)], unit_bytes=4096, price=1234)
    found = level_trace.read(str(large))
    assert (list(found.times_ms), list(found.in_use_bytes)) == ([0, 1 << 39, 1 << 40], [4096, 1 << 46, 0])
    assert found.price == 1234


def test_every_damaged_byte_is_noticed(small: Path) -> None:
    good = small.read_bytes()
    for at in [*range(60), *range(60, len(good), 97), len(good) - 1]:
        small.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        with pytest.raises(Failure):
            level_trace.read(str(small))


def test_every_cut_is_noticed(small: Path) -> None:
    """But one between two chunks: a program that was killed has written those."""
    good = small.read_bytes()
    first_end = 28 + 12 + struct.unpack_from("<I", good, 28)[0]
    for length in [*range(60), *range(60, len(good), 97), first_end - 1, first_end + 1]:
        if length not in (28, first_end):
            small.write_bytes(good[:length])
            with pytest.raises(Failure):
                level_trace.read(str(small))
    small.write_bytes(good[:first_end])
    assert len(level_trace.read(str(small)).times_ms) == 4096


def test_damage_is_named_with_its_place(tool: Tool, library_file: Path, small: Path) -> None:
    good = small.read_bytes()
    second = 28 + 12 + struct.unpack_from("<I", good, 28)[0]
    small.write_bytes(good[: second + 40] + b"\xff" + good[second + 41 :])
    done = tool("learn", "replay", "--library", library_file, small)
    assert (done.returncode, done.stdout) == (125, "")
    assert f"{small} is damaged at byte {second}: the checksum of the chunk that begins here is wrong" in done.stderr
    small.write_bytes(good[:-3])
    done = tool("learn", "replay", "--library", library_file, small)
    assert f"is damaged at byte {second}: the chunk that begins here lacks 3 of its" in done.stderr


@pytest.mark.parametrize(
    ("payload", "records", "what"),
    [
        (b"\x00\x01", 1, "damaged at byte 40: -65536 bytes in use"),
        (b"\x00\x02\x00", 1, "damaged at byte 42: 1 bytes behind the chunk's last point"),
        (b"\x00\x80\x80", 1, "damaged at byte 41: a number that does not end"),
        (b"\x00", 1, "damaged at byte 41: a number that does not end"),
        (b"\x80\x80\x80\x80\x80\x80\x01\x00", 1, "damaged at byte 40: a time of 4398046511104 ms"),
        (b"\x00\x80\x80\x80\x80\x80\x80\x02", 1, "damaged at byte 40: "),
    ],
)
def test_nonsense_with_a_right_checksum(small: Path, payload: bytes, records: int, what: str) -> None:
    sizes = struct.pack("<II", len(payload), records)
    chunk = sizes + struct.pack("<I", zlib.crc32(sizes + payload)) + payload
    small.write_bytes(small.read_bytes()[:28] + chunk)
    with pytest.raises(Failure) as failure:
        level_trace.read(str(small))
    assert what in str(failure.value)


def test_a_later_version_of_the_format(small: Path) -> None:
    good = bytearray(small.read_bytes())
    good[8] = 2
    small.write_bytes(bytes(good))
    with pytest.raises(Failure, match="version 2 of the format; this tool knows version 1"):
        level_trace.read(str(small))


def test_never_is_never(policy: PolicyLibrary) -> None:
    candidates = policy.candidates(250_000)
    assert candidates.timeouts_ms[-1] == NEVER_MS
    assert candidates.timeouts_ms[candidates.break_even] == 1800
    assert list(candidates.timeouts_ms) == sorted(candidates.timeouts_ms)
