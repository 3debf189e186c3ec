"""A port for a server of a test, for the suites that put this folder on their path."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

_LEAST = 1 << 14  # below lie the ports that services are known by


def free_port() -> int:
    """One that is free, outside those that the kernel gives to sockets without a port of their own: between this test
    and its server no other process gets it by chance. On a machine that leaves none it is one of those."""
    least, most = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = [*range(_LEAST, least), *range(most + 1, 1 << 16)] or [*range(_LEAST, 1 << 16)]
    for port in random.sample(ports, len(ports)):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("no port is free")
