"""`hakmem metrics`: serves the statistics and heap profiles of running programs over HTTP."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
from typing import TYPE_CHECKING, List, Optional

import click

from hakmem import next_step
from hakmem.errors import EXIT_USAGE, Failure, Interrupted, say
from hakmem.followed import Followed
from hakmem.process_or_program import PID
from hakmem.schemas import SCHEMAS
from hakmem.seconds import Time

if TYPE_CHECKING:
    from hakmem.scrape.host import Host

LOOPBACK = "127.0.0.1"
_PAUSE_SECONDS = 5.0


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
    "--profile", "with_profile", is_flag=True, help="Start a heap profile where none runs; it ends with the server."
)
@click.option("--all", "of_all", is_flag=True, help="All processes on hakmem of this host, also later ones.")
@click.option(
    "--targets",
    metavar="FILE",
    help="With --all: keep FILE up to date, a target for each process, for service discovery by file.",
)
@click.option(
    "--every",
    "pause_seconds",
    type=Time(0.1),
    metavar="SECONDS",
    help="With --all: seconds between two looks for processes; default 5.",
)
@click.option("--json", "is_json", is_flag=True, help="Print the address as JSON.")
@click.argument("pid", type=PID, metavar="[PID]", required=False)
def metrics(
    port: int,
    address: str,
    with_profile: bool,
    of_all: bool,
    targets: Optional[str],
    pause_seconds: Optional[float],
    is_json: bool,
    pid: Optional[int],
) -> None:
    """Serve the statistics of running programs over HTTP for Prometheus, and their heap profiles.

    Of the program PID, until it or the server ends, or with --all of all programs on hakmem of this host. Prints the
    address. The programs need no option for it.
    """
    if of_all == (pid is not None):
        raise Failure("which process? Either a PID, or --all", EXIT_USAGE)
    if targets is not None and not of_all:
        raise Failure("--targets lists the processes of --all", EXIT_USAGE)
    if pause_seconds is not None and not of_all:
        raise Failure("--every is the time between two looks of --all", EXIT_USAGE)
    if pid is not None:
        _serve_one(port, address, with_profile, is_json, pid)
    else:
        _serve_all(port, address, with_profile, is_json, targets, pause_seconds or _PAUSE_SECONDS)


def _print_address(url: str, pid: Optional[int], is_json: bool) -> None:
    """`pid` None: the server is for all processes."""
    click.echo(json.dumps({"schema": SCHEMAS["metrics"], "pid": pid, "url": url}) if is_json else url)
    if not is_json and sys.stdout.isatty():
        next_step.tell(f"curl {url}", on_stderr=True)


def _serve_one(port: int, address: str, with_profile: bool, is_json: bool, pid: int) -> None:
    # Imported here, so that other commands do not wait for it.
    from hakmem.scrape.families import Source
    from hakmem.scrape.heap_profile import HeapProfile
    from hakmem.scrape.http_server import OneProcess, application, listen

    process = Followed(pid)
    source = Source(process)
    # Report failures now, not at the first scrape.
    source.look()
    with contextlib.ExitStack() as stack:
        heap = stack.enter_context(HeapProfile(process))
        served = OneProcess(source, heap, f"{process.name} ({pid})")
        server = stack.enter_context(listen(address, port, application(served, address)))
        if with_profile:
            heap.start(stack)
        _warn_of(address)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _print_address(server.url, pid, is_json)
        _wait_for_end(process)
        server.shutdown()


def _serve_all(
    port: int, address: str, with_profile: bool, is_json: bool, targets: Optional[str], pause_seconds: float
) -> None:
    from hakmem.scrape import targets as target_file
    from hakmem.scrape.host import Host, Member
    from hakmem.scrape.http_server import application_of_host, listen

    def tell(members: List[Member]) -> None:
        if targets is not None:
            target_file.write(targets, target_file.reachable(address, server.server_port), members)

    with Host(with_profile, tell) as host, listen(address, port, application_of_host(host, address)) as server:
        host.look()
        _warn_of(address)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _print_address(server.url, None, is_json)
        try:
            _look_again_and_again(host, pause_seconds)
        finally:
            server.shutdown()
            # No process is served any more.
            tell([])


def _look_again_and_again(host: Host, pause_seconds: float) -> None:
    pause = threading.Event()
    try:
        while not pause.wait(pause_seconds):
            try:
                host.look()
            except (Failure, OSError) as failure:
                say(f"the next look follows: {failure}")
    except Interrupted as interrupted:
        _pass_on_unusual(interrupted)


def _warn_of(address: str) -> None:
    from hakmem.scrape.http_server import is_loopback

    if not is_loopback(address):
        say(f"warning: whoever reaches {address} can read these metrics: there is neither encryption nor a password")


def _wait_for_end(process: Followed) -> None:
    """Serves until the process ends, or a signal stops the server."""
    try:
        while process.lasts(1.0):
            pass
        say(f"process {process.pid} ({process.name}) has ended")
    except Interrupted as interrupted:
        _pass_on_unusual(interrupted)


def _pass_on_unusual(interrupted: Interrupted) -> None:
    """A signal is the usual end, for instance from a service manager."""
    if interrupted.signal_number not in (signal.SIGINT, signal.SIGTERM):
        raise interrupted
