"""Resident memory of a running program and all its descendants, sampled over time.

A sample reads /proc/<pid>/statm of every process of the tree: one short read each, no walk over page tables, so the
program is hardly disturbed. Pages that several processes share count in each of them; with `shared_once` the
proportional size of smaps_rollup is read instead, which is exact there and costs the program more.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Dict, List, Optional, Set

from hakmem.kernel_files import fields
from hakmem.process_files import mapped_files, mappings, thread_folders

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FIRST_INTERVAL = 0.001
_LONGEST_INTERVAL = 0.020
_LONGEST_EXPENSIVE_INTERVAL = 0.5
# A run of any length gets at least about this many samples.
_SAMPLES_WANTED = 200
_MOST_SAMPLES = 4000
# Sampling may take this share of one processor, looking for new processes another.
_SHARE = 0.02
_TREE_INTERVAL = 0.025
_MAPS_TRIES_SECONDS = 2.0
# Before this time, the dynamic linker may not have mapped the library yet.
_SURELY_LOADED_SECONDS = 0.25
# Fewer samples give no mean: they show the program's start.
_FEWEST_FOR_MEAN = 5


@dataclass(frozen=True)
class Sample:
    """Sizes at one moment, `seconds` after the start. `anonymous`: memory of no file, such as heaps and stacks."""

    seconds: float
    resident: int
    anonymous: int


class MemorySampler:
    """Takes samples of one program. `due` is the time of the next one, on time.monotonic()'s clock."""

    def __init__(self, pid: int, library: Optional[str] = None, shared_once: bool = False) -> None:
        self.pid = pid
        self.samples: List[Sample] = []
        self.start = time.monotonic()
        self.due = self.start
        self.most_processes = 1
        self.largest = 0  # of one process
        self.mapped: Optional[bool] = None
        self._library = os.path.realpath(library) if library else None
        self._shared_once = shared_once
        self._statm: Dict[int, int] = {}
        self._tree_due = self.start
        self._cost = 0.0
        self._decimated = 1

    def take(self) -> None:
        """One sample, and the time of the next."""
        now = time.monotonic()
        if now >= self._tree_due:
            self._look_for_processes()
            self._tree_due = now + max(_TREE_INTERVAL, (time.monotonic() - now) / _SHARE)
        if self._library and not self.mapped and now - self.start < _MAPS_TRIES_SECONDS:
            self._look_for_library()
        before = time.monotonic()
        sample = self._measure(before - self.start)
        self._cost = 0.8 * self._cost + 0.2 * (time.monotonic() - before)
        if sample is not None:
            self.samples.append(sample)
            self._thin_out()
        self.due = before + self._interval(before - self.start)

    def _interval(self, elapsed: float) -> float:
        wanted = min(max(elapsed / _SAMPLES_WANTED, _FIRST_INTERVAL), _LONGEST_INTERVAL) * self._decimated
        return min(max(wanted, self._cost / _SHARE), _LONGEST_EXPENSIVE_INTERVAL * self._decimated)

    def _thin_out(self) -> None:
        """Halves the samples of a run of hours: keeps every second one, and takes half as many from now on."""
        if len(self.samples) > _MOST_SAMPLES:
            highest = max(self.samples, key=lambda sample: sample.resident)
            self.samples = sorted({*self.samples[::2], highest}, key=lambda sample: sample.seconds)
            self._decimated *= 2

    def _measure(self, seconds: float) -> Optional[Sample]:
        resident = anonymous = 0
        for pid in list(self._statm):
            sizes = self._read(pid)
            if sizes is None:
                self._forget(pid)
            else:
                resident += sizes[0]
                anonymous += sizes[1]
                self.largest = max(self.largest, sizes[0])
        return Sample(seconds, resident, anonymous) if resident else None

    def _read(self, pid: int) -> Optional[tuple[int, int]]:
        try:
            if self._shared_once:
                return _proportional(pid)
            words = os.pread(self._statm[pid], 128, 0).split()
            resident, of_files = int(words[1]), int(words[2])
        except (OSError, IndexError, ValueError):
            return None
        return resident * PAGE_BYTES, (resident - of_files) * PAGE_BYTES

    def _look_for_processes(self) -> None:
        found = _tree(self.pid)
        for pid in found - set(self._statm):
            try:
                self._statm[pid] = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
        for pid in set(self._statm) - found:
            self._forget(pid)
        self.most_processes = max(self.most_processes, len(self._statm))

    def _forget(self, pid: int) -> None:
        os.close(self._statm.pop(pid))

    def _look_for_library(self) -> None:
        """Whether the program maps the library that should serve its malloc. None where its maps cannot be read."""
        text = mappings(self.pid)
        if text is None:
            return
        if any(path == self._library for _, path in mapped_files(text)):
            self.mapped = True
        elif text and time.monotonic() - self.start > _SURELY_LOADED_SECONDS:
            self.mapped = False

    def processes(self) -> Set[int]:
        """The processes of the tree that were seen."""
        return {self.pid, *self._statm}

    def close(self) -> None:
        """No more samples."""
        for pid in list(self._statm):
            self._forget(pid)

    def peak(self) -> Optional[int]:
        """The highest sampled sum over all processes."""
        return max((sample.resident for sample in self.samples), default=None)

    def peak_together(self, of_largest: int) -> Optional[int]:
        """The peak of all processes; None without a sample. It is no lower than that of the largest process, which the
        kernel counts and the samples may miss. Proportional sizes do not compare with it."""
        highest = self.peak()
        return highest if highest is None or self._shared_once else max(highest, of_largest)

    def peak_anonymous(self) -> Optional[int]:
        """The highest sampled sum of anonymous memory."""
        return max((sample.anonymous for sample in self.samples), default=None)

    def mean(self, begin: float, end: float) -> Optional[float]:
        """The area under the curve from `begin` to `end` seconds, divided by that time."""
        return mean_over(self.samples, begin, end) if len(self.samples) >= _FEWEST_FOR_MEAN else None


def mean_over(samples: List[Sample], begin: float, end: float) -> Optional[float]:
    """Trapezoids between the samples; the first and last value hold to the edges.

    None without a sample in the window.
    """
    inside = [sample for sample in samples if begin <= sample.seconds <= end]
    if not inside:
        return None
    if end <= begin:
        return float(inside[0].resident)
    area = inside[0].resident * (inside[0].seconds - begin) + inside[-1].resident * (end - inside[-1].seconds)
    for left, right in zip(inside, inside[1:]):
        area += (left.resident + right.resident) / 2 * (right.seconds - left.seconds)
    return area / (end - begin)


def _tree(root: int) -> Set[int]:
    """A process and its descendants. Where the kernel does not list children it is the process alone."""
    found: Set[int] = set()
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if pid in found:
            continue
        found.add(pid)
        for thread in thread_folders(pid):
            try:
                waiting.extend(int(word) for word in (thread / "children").read_bytes().split())
            except (OSError, ValueError):
                continue
    return found


def _proportional(pid: int) -> tuple[int, int]:
    """Pss and anonymous Pss of a process, where each shared page counts as its share."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        rows = fields(rollup.read())
    return _bytes(rows["Pss"]), _bytes(rows.get("Pss_Anon", rows["Anonymous"]))


def _bytes(text: str) -> int:
    return int(text.split()[0]) * 1024
