"""`hakmem metrics`: what the allocator of a running program counts, over HTTP for Prometheus, and its heap profile."""

from __future__ import annotations

import contextlib
import signal
import threading

import click

from hakmem.errors import Interrupted, say
from hakmem.followed import Followed

LOOPBACK = "127.0.0.1"


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Where to listen; 0, the default: a free port.",
)
@click.option(
    "--bind", "address", default=LOOPBACK, metavar="ADDRESS", help="Listen there, instead of for this machine alone."
)
@click.option(
    "--profile", "wants_profile", is_flag=True, help="Start a heap profile where none runs; it ends with this."
)
@click.argument("pid", type=click.IntRange(min=1), metavar="PID")
def metrics(port: int, address: str, wants_profile: bool, pid: int) -> None:
    """Serve what the allocator of the running program PID counts, over HTTP for Prometheus, and its heap profile.

    Prints the address, and goes on until PID ends or it is stopped. The program needs no option for it.
    """
    # Here, for other commands shall not wait for it.
    from hakmem.profile import live
    from hakmem.scrape.families import Source
    from hakmem.scrape.heap_profile import HeapProfile
    from hakmem.scrape.http_server import application, is_loopback, listen

    process = Followed(pid)
    source = Source(process)
    # What will not work says so now, in words, not at the first scrape.
    source.look()
    with contextlib.ExitStack() as stack:
        heap = stack.enter_context(HeapProfile(process))
        server = stack.enter_context(
            listen(address, port, application(source, heap, f"{process.name} ({pid})", address))
        )
        if wants_profile and not live.state(heap.ask).running:
            stack.enter_context(live.started(heap.ask, live.DEFAULT_RATE))
        if not is_loopback(address):
            say(
                f"warning: whoever reaches {address} can read these metrics: there is neither encryption nor a password"
            )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        click.echo(server.url)
        _wait_for_end(process)
        server.shutdown()


def _wait_for_end(process: Followed) -> None:
    """Until the process ends, or we shall."""
    try:
        while process.lasts(1.0):
            pass
        say(f"process {process.pid} ({process.name}) has ended")
    except Interrupted as interrupted:
        # Being stopped is how it ends for others, a service manager among them.
        if interrupted.signal_number not in (signal.SIGINT, signal.SIGTERM):
            raise
