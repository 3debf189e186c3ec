"""A file for the service discovery of Prometheus: a target for each process on hakmem of this host.

Parca, Grafana Alloy and the OpenTelemetry collector read the same form.
"""

from __future__ import annotations

import json
import socket
from typing import List, Sequence

from hakmem.output import reserve
from hakmem.scrape.host import Member

_EVERYWHERE = {"0.0.0.0", "::", "[::]"}


def write(name: str, address: str, members: Sequence[Member]) -> None:
    """Replaces the file in one step, so that no reader finds half of it."""
    with reserve(name) as (output,):
        assert output is not None
        output.write(json.dumps(_groups(address, members), indent=1) + "\n")


def reachable(address: str, port: int) -> str:
    """Where others find a server that listens there."""
    host = socket.gethostname() if address in _EVERYWHERE else address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _groups(address: str, members: Sequence[Member]) -> List[object]:
    """`__param_pid` becomes `?pid=N` of every path that is fetched."""
    return [{"targets": [address], "labels": {"__param_pid": str(one.pid), **one.labels()}} for one in members]
