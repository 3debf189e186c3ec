"""`hakmem metrics`: serves a running program's statistics and heap profile over HTTP."""

from __future__ import annotations

import contextlib
import json
import signal
import threading

import click

from hakmem.errors import Interrupted, say
from hakmem.followed import Followed
from hakmem.process_or_program import PID
from hakmem.schemas import SCHEMAS

LOOPBACK = "127.0.0.1"


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port to listen on; 0, the default, is a free port.",
)
@click.option(
    "--bind", "address", default=LOOPBACK, metavar="ADDRESS", help="The address to listen on, instead of 127.0.0.1."
)
@click.option(
    "--profile", "wants_profile", is_flag=True, help="Start a heap profile where none runs; it ends with the server."
)
@click.option("--json", "is_json", is_flag=True, help="Print the address as JSON.")
@click.argument("pid", type=PID, metavar="PID")
def metrics(port: int, address: str, wants_profile: bool, is_json: bool, pid: int) -> None:
    """Serve the statistics of the running program PID over HTTP for Prometheus, and its heap profile.

    Prints the address, and runs until PID or the server ends. The program needs no option for it.
    """
    # Imported here, so that other commands do not wait for it.
    from hakmem.profile import live
    from hakmem.scrape.families import Source
    from hakmem.scrape.heap_profile import HeapProfile
    from hakmem.scrape.http_server import application, is_loopback, listen

    process = Followed(pid)
    source = Source(process)
    # Report failures now, not at the first scrape.
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
        click.echo(json.dumps({"schema": SCHEMAS["metrics"], "pid": pid, "url": server.url}) if is_json else server.url)
        _wait_for_end(process)
        server.shutdown()


def _wait_for_end(process: Followed) -> None:
    """Serves until the process ends, or a signal stops the server."""
    try:
        while process.lasts(1.0):
            pass
        say(f"process {process.pid} ({process.name}) has ended")
    except Interrupted as interrupted:
        # A signal is the usual end, for instance from a service manager.
        if interrupted.signal_number not in (signal.SIGINT, signal.SIGTERM):
            raise
