"""The counts of hakmem's counting build in each own workload: no figure here depends on how busy the machine is.

Each workload runs once under libhakmem-count.so, which is never timed. With one thread two runs count the same, except
for purged bytes, which depend on time, and for a few system calls that depend on where the kernel puts mappings. Huge
pages are off, because hakmem advises them only while the machine makes them quickly.
"""

from __future__ import annotations

import copy
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from hakmem import paths
from hakmem.allocators import Allocator
from hakmem.errors import Failure
from hakmem.explain.snapshot import with_new_names
from hakmem.measure import Task, run_program
from hakmem.metrics import TIME_PER_OPERATION, size
from hakmem.metrics import count as count_text
from hakmem.preload_plan import Prepared
from hakmem.program import resolve
from hakmem.self_report import SelfReports
from hakmem.workload_runner import read_result
from hakmem.workloads import Places, Workload

LIBRARY = "libhakmem-count.so"
HOW_TO_BUILD = "cmake --build --preset count"
_NAME = "hakmem-count"
_REPEATABLE = {"HAKMEM_HUGE_PAGES": "never"}
_SOURCES = (".c", ".cc", ".h", ".def")
_MILLION = 1e6


@dataclass(frozen=True)
class Counted:
    """One workload. `figures` has every counter by name; it is empty when `failure` has a reason."""

    workload: str
    threads: int
    operations: int
    figures: Mapping[str, int]
    failure: Optional[str] = None

    def per_million(self, name: str) -> float:
        """A counter for each million operations."""
        return self.figures.get(name, 0) * _MILLION / self.operations


@dataclass(frozen=True)
class Column:
    """One figure of the table: how it is computed and written."""

    title: str
    value: Callable[[Counted], float]
    text: Callable[[float], str]


def _rate(title: str, name: str) -> Column:
    return Column(title, lambda counted: counted.per_million(name), rate_text)


def rate_text(value: float) -> str:
    """Three significant figures: 0, 0.0123, 12.3, 12,345."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _per_operation(name: str) -> Callable[[Counted], float]:
    return lambda counted: counted.figures.get(name, 0) / counted.operations


def _blocks_per_batch(counted: Counted) -> float:
    batches = counted.figures.get("remote_batch", 0)
    return counted.figures.get("remote_free", 0) / batches if batches else 0.0


# Rates are per million operations; other units are named.
COLUMNS: Tuple[Column, ...] = (
    Column("operations", lambda counted: counted.operations, count_text),
    _rate("refills", "refill"),
    _rate("locks taken", "lock_take"),
    _rate("lock waits", "lock_wait"),
    _rate("shared updates", "shared_update"),
    _rate("system calls", "system_call"),
    _rate("remote batches", "remote_batch"),
    Column("blocks a batch", _blocks_per_batch, rate_text),
    _rate("spans acquired", "slab_acquire"),
    _rate("spans released", "slab_release"),
    _rate("spans moved", "slab_move"),
    Column("bytes requested an operation", _per_operation("bytes_requested"), rate_text),
    Column("most in use", lambda counted: counted.figures.get("peak_in_use", 0), size),
    Column("most held", lambda counted: counted.figures.get("peak_held", 0), size),
)


def find_library() -> Optional[Path]:
    """The path of the counting build."""
    return paths.find_library(LIBRARY)


def require_library() -> Path:
    """The counting build, or a Failure that says how to get it."""
    library = find_library()
    if library is None:
        raise Failure(f"{LIBRARY} was not found: build it with `{HOW_TO_BUILD}` (`make bench` does)")
    return paths.preloadable(library)


def is_stale(library: Path) -> bool:
    """Whether a source has changed since it was built."""
    root = paths.checkout()
    if root is None:
        return False
    built = library.stat().st_mtime
    return any(
        file.stat().st_mtime > built for file in (root / "src").rglob("*") if file.suffix in _SOURCES and file.is_file()
    )


def count(
    workload: Workload,
    places: Places,
    library: Path,
    environment: Mapping[str, str],
    timeout: float,
    tick: Callable[[], None],
) -> Counted:
    """One run."""
    with SelfReports() as reports:
        variables = reports.ask(
            {**environment, **_REPEATABLE, **dict(workload.environment), "LD_PRELOAD": str(library)}
        )
        task = Task(resolve(places.fill_all(workload.command), variables), timeout=timeout, keep_output=True)
        run = run_program(task, Prepared(Allocator(_NAME, str(library)), variables, str(library)), 1, tick)
        reports.collect()
    operations = 0
    if run.failure is None:
        read_result(run)
    if run.failure is None:
        operations = int(json.loads(run.output.strip().splitlines()[-1])["ops"])
        run.figures.pop(TIME_PER_OPERATION.key)  # meaningless here: counting costs time
    figures = _figures(reports.documents)
    failure = run.failure
    if failure is None and "refill" not in figures:
        failure = "the counting build left no report"
    if failure is None and "shared_update" not in figures:
        failure = f"{library.name} counts no costs: it is not the counting build"
    return Counted(workload.name, workload.threads, operations, figures if failure is None else {}, failure)


# The names of sums in the results: over every lock, and over every kind of system call.
_SUMS = {
    "lock_take": re.compile(r"lock_\w+_take"),
    "lock_wait": re.compile(r"lock_\w+_wait"),
    "system_call": re.compile(r"system_call_\w+"),
}


def _figures(documents: Sequence[Mapping[str, Any]]) -> Dict[str, int]:
    if not documents:
        return {}
    events = with_new_names(copy.deepcopy(dict(documents[-1]))).get("events", {})
    sums = {
        name: sum(value for key, value in events.items() if pattern.fullmatch(key)) for name, pattern in _SUMS.items()
    }
    return {**events, **sums, **documents[-1].get("costs", {})}


def as_entries(counted: Sequence[Counted]) -> List[Dict[str, Any]]:
    """Every counter of each workload, for the JSON."""
    return [
        {
            "name": one.workload,
            "threads": one.threads,
            "operations": one.operations,
            "failure": one.failure,
            "counters": dict(one.figures),
        }
        for one in counted
    ]


def rows(counted: Sequence[Counted]) -> List[List[str]]:
    """The table's cells, the workload's name and threads first."""
    return [
        [one.workload, str(one.threads), *(column.text(column.value(one)) for column in COLUMNS)]
        for one in counted
        if one.failure is None
    ]
