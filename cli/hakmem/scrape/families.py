"""A process's statistics as families of metrics that say whose they are.

Reading OpenMetrics and writing it, and the older format, is prometheus_client's business, which Prometheus's own people keep.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Dict, Iterator, List, Optional

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from hakmem.errors import Failure
from hakmem.followed import Ended, Followed

# Prometheus gives up after 10 seconds where it was not told otherwise.
_ANSWER_SECONDS = 3.0


class Source:
    """What prometheus_client asks for metrics, from several threads at once."""

    def __init__(self, process: Followed) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._under_way: Optional[Future[List[Metric]]] = None

    def collect(self) -> Iterator[Metric]:
        """The process's metrics, or, when it does not answer, only that it does not."""
        families: List[Metric] = []
        try:
            families = self.look()
            is_up = 1
        except Failure:
            is_up = 0
        up = GaugeMetricFamily("hakmem_up", "Whether the process answered.", labels=list(self._labels()))
        up.add_metric(list(self._labels().values()), is_up)
        yield up
        yield from families

    def look(self) -> List[Metric]:
        """The process's metrics, or a Failure. Who comes while it is asked shares the answer."""
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

    def _labels(self) -> Dict[str, str]:
        return {"pid": str(self._process.pid), "program": self._process.name}

    def _ask(self) -> List[Metric]:
        if self._process.has_ended():
            raise Ended(f"process {self._process.pid} has ended")
        text = self._process.ask("stats openmetrics", _ANSWER_SECONDS).decode(errors="replace")
        try:
            families = list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call,unused-ignore]
        except ValueError as error:
            raise Failure(f"process {self._process.pid} answers what is no OpenMetrics: {error}") from None
        labels = self._labels()
        for family in families:
            family.samples = [sample._replace(labels={**sample.labels, **labels}) for sample in family.samples]
        return families
