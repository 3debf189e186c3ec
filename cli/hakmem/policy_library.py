"""libhakmem-policy.so: the library's own learner with a simulated clock (cli/replay/replay.c)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Optional, Sequence

from hakmem import paths
from hakmem.errors import EXIT_USAGE, Failure, shown
from hakmem.level_trace import Trace

LIBRARY = "libhakmem-policy.so"
HOW_TO_BUILD = "cmake --build build/release --target hakmem_policy"
MODES = ("fast", "balanced", "lean")
NEVER_MS = (1 << 64) - 1

_CANDIDATES = 64  # more than there are
_LOG_BYTES = 8192
_NUMBER = ctypes.c_uint64
_NUMBERS = ctypes.POINTER(_NUMBER)
_FUNCTIONS = {
    "hk_replay_price_of_mode": ([ctypes.c_char_p], _NUMBER),
    "hk_replay_price_limit": ([ctypes.c_int], _NUMBER),
    "hk_replay_candidates": ([_NUMBER, _NUMBERS, ctypes.POINTER(ctypes.c_int)], ctypes.c_int),
    "hk_replay_fixed": (
        [_NUMBERS, _NUMBERS, ctypes.c_size_t, _NUMBER, ctypes.c_int, _NUMBERS, ctypes.c_size_t, _NUMBERS], _NUMBER,
    ),
    "hk_replay_learner": (
        [
            _NUMBERS, _NUMBERS, ctypes.c_size_t, _NUMBER, _NUMBERS, _NUMBERS, _NUMBERS,
            ctypes.POINTER(ctypes.c_size_t), ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int64),
        ],
        _NUMBER,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Epoch:
    """The learner at the end of one of its epochs: the bytes in use from then on, and the costs up to then."""

    end_ms: int
    timeout_ms: int
    cost_ns: int


@dataclass(frozen=True)
class Learned:
    """The learner's result for a trace."""

    cost_ns: int
    epochs: Sequence[Epoch]
    decisions: Sequence[str]
    ratings: Sequence[int]


@dataclass(frozen=True)
class Candidates:
    """The candidates' time-outs; the last is never."""

    timeouts_ms: Sequence[int]
    break_even: int


class PolicyLibrary:
    """The loaded library."""

    def __init__(self, given: Optional[str] = None) -> None:
        self._library = _load(_find(given))

    def price(self, mode: Optional[str], price: Optional[int]) -> int:
        """Returns the price of a mode, or a given price if it is valid."""
        if price is None:
            return int(self._library.hk_replay_price_of_mode((mode or "balanced").encode()))
        least, most = (int(self._library.hk_replay_price_limit(limit)) for limit in (0, 1))
        if not least <= price <= most:
            raise Failure(f"--price {price}: expected {least} to {most} ns of CPU for a MiB-second", EXIT_USAGE)
        return price

    def candidates(self, price: int) -> Candidates:
        """The candidates at this price."""
        timeouts, break_even = (_NUMBER * _CANDIDATES)(), ctypes.c_int()
        count = self._library.hk_replay_candidates(price, timeouts, ctypes.byref(break_even))
        return Candidates(list(timeouts[:count]), break_even.value)

    def fixed(self, trace: Trace, price: int, candidate: int, stops_ms: Sequence[int]) -> tuple[int, List[int]]:
        """The cost of one candidate for the trace in ns, and its cost up to each stop."""
        costs = (_NUMBER * max(1, len(stops_ms)))()
        times, in_use = _numbers(trace.times_ms), _numbers(trace.in_use_bytes)
        total = self._library.hk_replay_fixed(
            times, in_use, len(times), price, candidate, _numbers(stops_ms), len(stops_ms), costs
        )
        return int(total), list(costs[: len(stops_ms)])

    def learner(self, trace: Trace, price: int) -> Learned:
        """Runs the learner over the trace. An epoch takes at least one record."""
        times, in_use = _numbers(trace.times_ms), _numbers(trace.in_use_bytes)
        room = max(1, len(times))
        ends, timeouts, costs = ((_NUMBER * room)() for _ in range(3))
        count, log, ratings = ctypes.c_size_t(room), ctypes.create_string_buffer(_LOG_BYTES), (ctypes.c_int64 * 64)()
        total = self._library.hk_replay_learner(
            times, in_use, len(times), price, ends, timeouts, costs, ctypes.byref(count), log, _LOG_BYTES, ratings
        )
        epochs = [Epoch(*values) for values in zip(ends[: count.value], timeouts[: count.value], costs[: count.value])]
        candidates = len(self.candidates(price).timeouts_ms)
        return Learned(int(total), epochs, log.value.decode().splitlines(), list(ratings[:candidates]))


def _numbers(values: Sequence[int]) -> Any:
    return (_NUMBER * len(values))(*values)


def _find(given: Optional[str]) -> Path:
    if given is not None:
        if not Path(given).is_file():
            raise Failure(f"no library {shown(given)}")
        return Path(given).resolve()
    found = paths.find_library(LIBRARY)
    if found is None:
        raise Failure(f"{LIBRARY} was not found: build it with `{HOW_TO_BUILD}`, or name it by --library")
    return found


def _load(path: Path) -> Any:
    try:
        library = ctypes.CDLL(str(path))
        for name, (arguments, result) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, result
    except (OSError, AttributeError) as error:
        raise Failure(f"{path} is no {LIBRARY} that this tool knows: {error}") from None
    return library
