"""A process's statistics as families of metrics with labels for the process.

prometheus_client, which the Prometheus project maintains, reads and writes OpenMetrics and the older format.
"""

from __future__ import annotations

import re
import threading
from concurrent.futures import Future
from typing import Dict, Iterator, List, Optional

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from hakmem import own_memory
from hakmem.errors import Failure
from hakmem.followed import Followed

# Prometheus gives up after 10 seconds by default.
_ANSWER_SECONDS = 3.0
_RESIDENT, _PEAK = "hakmem_memory_resident_bytes", "hakmem_memory_peak_bytes"
_PART = re.compile("hakmem_parts_(.*)_bytes")
_NOT_MALLOC = "hakmem_parts_not_malloc_bytes"


def up_family(is_up: int, labels: Dict[str, str]) -> Metric:
    """Whether a process answered."""
    up = GaugeMetricFamily("hakmem_up", "Whether the process answered.", labels=list(labels))
    up.add_metric(list(labels.values()), is_up)
    return up


class Source:
    """The collector of prometheus_client, which calls it from several threads at once."""

    def __init__(self, process: Followed) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._under_way: Optional[Future[List[Metric]]] = None

    def collect(self) -> Iterator[Metric]:
        """The process's metrics, or only `hakmem_up` 0 when it does not answer."""
        families: List[Metric] = []
        try:
            families = self.look()
            is_up = 1
        except Failure:
            is_up = 0
        labels = self._labels()
        yield up_family(is_up, labels)
        yield from families

    def look(self) -> List[Metric]:
        """Returns the process's metrics, or raises a Failure. Requests of the same moment share one answer."""
        with self._lock:
            under_way = self._under_way
            if under_way is None:
                mine: Future[List[Metric]] = Future()
                self._under_way = mine
        if under_way is not None:
            return under_way.result()
        try:
            mine.set_result(self._ask())
        except BaseException as error:
            mine.set_exception(error)
        finally:
            with self._lock:
                self._under_way = None
        return mine.result()

    def _complete(self, families: List[Metric]) -> None:
        """Adds the resident memory of a process that cannot read its own."""
        values = {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}
        if values.get(_RESIDENT) != 0 or (sizes := own_memory.of_process(self._process.pid)) is None:
            return
        named = ((_PART.fullmatch(name), value) for name, value in values.items())
        parts = {match.group(1): value for match, value in named if match is not None}
        found = {_RESIDENT: sizes[0], _PEAK: sizes[1], _NOT_MALLOC: own_memory.not_malloc(sizes[0], parts)}
        for family in families:
            family.samples = [one._replace(value=found.get(one.name, one.value)) for one in family.samples]

    def _labels(self) -> Dict[str, str]:
        return {"pid": str(self._process.pid), "program": self._process.name}

    def _ask(self) -> List[Metric]:
        self._process.require_alive()
        text = self._process.ask("stats openmetrics", _ANSWER_SECONDS).decode(errors="replace")
        try:
            families = list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call,unused-ignore]
        except ValueError as error:
            raise Failure(f"process {self._process.pid} answers what is no OpenMetrics: {error}") from None
        self._complete(families)
        labels = self._labels()
        for family in families:
            family.samples = [sample._replace(labels={**sample.labels, **labels}) for sample in family.samples]
        return families
