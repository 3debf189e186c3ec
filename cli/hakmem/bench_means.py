"""The geometric means of one run of the standard set, from its JSON, of a stored run or a new one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from hakmem import bench_json, bounded
from hakmem.allocators import HAKMEM
from hakmem.bench_results import Results
from hakmem.errors import Failure
from hakmem.json_text import decode
from hakmem.metrics import PEAK
from hakmem.statistics import geometric_mean

Document = Mapping[str, Any]
_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Means:
    """Of each allocator: time to the best peer's and peak resident memory to the median peer's, over the same
    workloads."""

    places: Dict[str, Tuple[float, float]]
    workload_count: int
    settings: Mapping[str, Any]


def read(name: str) -> Document:
    """Returns a file of results, or the latest of a folder. A file with prices is no run of the standard set."""
    is_folder = os.path.isdir(name)
    documents = [_load(str(file)) for file in (sorted(Path(name).glob("*.json")) if is_folder else [name])]
    if is_folder:
        documents = [document for document in documents if not document.get("prices")]
    if not documents:
        raise Failure(f"{name}: no results of the standard set")
    return max(documents, key=lambda document: str(document["settings"]["time_utc"]))


def _load(file: str) -> Document:
    try:
        document: Document = decode(bounded.read_file(file, _MOST_BYTES))
        document["settings"]["time_utc"], document["workloads"]
    except (ValueError, KeyError, TypeError):
        raise Failure(f"{file}: no results of hakmem bench") from None
    return document


def of_stored(name: str) -> Optional[Means]:
    """The means of a file of results, or of the latest in a folder; None as below."""
    document = read(name)
    try:
        return means(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Failure(f"{name} is damaged: {type(error).__name__} {error!s:.60}") from None


def of_results(results: Results) -> Means:
    """The means of a run that has just ended; empty where no workload ended under every allocator."""
    document = decode(bench_json.as_json(results))
    return means(document) or Means({}, 0, document["settings"])


def means(document: Document) -> Optional[Means]:
    """The ratios of the page's tables, over the workloads that every allocator ended.

    None when there is no such workload.
    """
    names = [allocator["name"] for allocator in document["allocators"]]
    rows = [row for workload in document["workloads"] if (row := _ratios(workload, names))]
    if not rows:
        return None
    places = {name: (_mean([row[name][0] for row in rows]), _mean([row[name][1] for row in rows])) for name in names}
    return Means(places, len(rows), document["settings"])


def _mean(ratios: Sequence[float]) -> float:
    return geometric_mean(ratios) or 0.0


def _ratios(workload: Mapping[str, Any], names: Sequence[str]) -> Optional[Dict[str, Tuple[float, float]]]:
    """Time and memory of each allocator in one workload; None where one has no figure."""
    times = _medians(workload, workload["time_metric"], names)
    memories = _medians(workload, PEAK.key, names)
    best = workload["best_peer"]
    if len(times) < len(names) or len(memories) < len(names) or best not in times or workload["failures"]:
        return None
    median_memory = median(value for name, value in memories.items() if not name.startswith(HAKMEM))
    return {name: (times[name] / times[best], memories[name] / median_memory) for name in names}


def _medians(workload: Mapping[str, Any], key: str, names: Sequence[str]) -> Dict[str, float]:
    figures: Dict[str, List[float]] = {name: workload["figures"].get(name, {}).get(key, []) for name in names}
    return {name: median(values) for name, values in figures.items() if values and median(values) > 0}
