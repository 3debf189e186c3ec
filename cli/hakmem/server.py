"""One measured run of a server: start it, wait for its port, drive a load, let it rest, stop it.

Only the server is measured; the load runs without any preload. Wall time is the load's.
"""

from __future__ import annotations

import errno
import signal
import socket
import time
from dataclasses import dataclass
from typing import Callable, Mapping, Optional

from hakmem.allocators import GLIBC, Allocator
from hakmem.engine import Child, Watch
from hakmem.errors import STOPPING_SIGNALS, Failure
from hakmem.measure import Run, Streams, Task, figures_of, stop
from hakmem.metrics import AFTER, WALL
from hakmem.preload_plan import Prepared
from hakmem.program import Program

_CONNECT_SECONDS = 0.2
_KNOCK_INTERVAL = 0.01
_PORT_FREE_SECONDS = 10.0


@dataclass(frozen=True)
class Service:
    """A server and its load. `task.program` is the server; its timeout is the load's."""

    task: Task
    load: Program
    load_environment: Mapping[str, str]
    host: str
    port: int
    ready_seconds: float = 30.0
    stop_seconds: float = 10.0
    settle_seconds: float = 0.0


def accepts(host: str, port: int) -> bool:
    """Whether a process listens there."""
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_SECONDS):
            return True
    except UnicodeError:  # an empty label, or one that is too long
        raise Failure(f"unknown host {host}: this is no name of a host") from None
    except OSError as error:
        if isinstance(error, socket.gaierror):
            raise Failure(f"unknown host {host}: {error.strerror}") from None
        if error.errno in (errno.EADDRNOTAVAIL, errno.ENETUNREACH):
            raise Failure(f"cannot connect to {host}: {error.strerror}") from None
        return False


def wait_until_free(host: str, port: int) -> None:
    """Raises a Failure when another process has the port."""
    deadline = time.monotonic() + _PORT_FREE_SECONDS
    while accepts(host, port):
        if time.monotonic() > deadline:
            raise Failure(
                f"port {port} of {host} is in use already: stop the process that listens there, or use another --port"
            )
        time.sleep(0.1)


def run_service(service: Service, prepared: Prepared, number: int, on_tick: Callable[[], None]) -> Run:
    """The server, from its start to its end."""
    run = Run(prepared.allocator.name, number)
    task = service.task
    wait_until_free(service.host, service.port)
    plain = Prepared(Allocator(GLIBC, None), service.load_environment, None)
    with Streams(task, merge_output=True) as streams, Streams(Task(service.load), merge_output=True) as load_streams:
        with Watch(STOPPING_SIGNALS, stop, on_tick) as watch:
            server = watch.start(streams.launch(task.program, prepared))
            assert server.sampler is not None
            if _wait_for_port(watch, server, service, run):
                begin = time.monotonic()
                load = watch.start(load_streams.launch(service.load, plain, sample=False))
                _wait_for_load(watch, server, load, task.timeout, run)
                end = time.monotonic()
                watch.until(lambda: server.ended is not None, end + service.settle_seconds)
                if server.ended is None:
                    server.sampler.take()
                    run.figures[AFTER.key] = _last(server)
                if load.ended is not None:
                    run.figures[WALL.key] = load.ended.wall_seconds
                if run.failure is not None and run.failure.startswith("load"):
                    run.detail = load_streams.tail()
                _stop(watch, server, service.stop_seconds)
                _finish(run, server, begin, end)
        if run.failure is not None and not run.detail:
            run.detail = streams.tail()
    return run


def _wait_for_port(watch: Watch, server: Child, service: Service, run: Run) -> bool:
    next_knock = 0.0

    def ready() -> bool:
        nonlocal next_knock
        now = time.monotonic()
        if server.ended is not None:
            return True
        if now < next_knock:
            return False
        next_knock = now + _KNOCK_INTERVAL
        return accepts(service.host, service.port)

    if not watch.until(ready, time.monotonic() + service.ready_seconds):
        run.failure = f"the server did not open port {service.port} within {service.ready_seconds:g} s"
    elif server.ended is not None:
        run.failure = f"the server ended before it opened port {service.port}: {server.ended.describe()}"
    return run.failure is None


def _wait_for_load(watch: Watch, server: Child, load: Child, timeout: Optional[float], run: Run) -> None:
    deadline = time.monotonic() + timeout if timeout else None
    in_time = watch.until(lambda: load.ended is not None or server.ended is not None, deadline)
    if server.ended is not None:
        run.failure = f"the server ended during the load: {server.ended.describe()}"
    elif not in_time:
        run.failure = f"load timed out after {timeout:g} s"
    elif load.ended is not None and load.ended.exit_code != 0:
        run.failure = f"load failed: {load.ended.describe()}"
    if load.ended is None:
        load.kill_all()
        watch.until(lambda: load.ended is not None)


def _stop(watch: Watch, server: Child, seconds: float) -> None:
    server.signal(signal.SIGTERM)
    if not watch.until(lambda: server.ended is not None, time.monotonic() + seconds):
        server.kill_all()
        watch.until(lambda: server.ended is not None)


def _finish(run: Run, server: Child, begin: float, end: float) -> None:
    assert server.ended is not None and server.sampler is not None
    start = server.sampler.start
    run.figures.update(figures_of(server, server.ended, begin - start, end - start))
    run.exit_code = 0 if run.failure is None else server.ended.exit_code
    run.mapped = server.sampler.mapped
    run.samples = server.sampler.samples
    run.peak_of_all = server.sampler.peak_together(server.ended.peak_bytes)


def _last(server: Child) -> Optional[float]:
    samples = server.sampler.samples if server.sampler else []
    return float(samples[-1].resident) if samples else None
