"""The HTTP server of metrics and profiles: wsgiref's, with a thread for each request and prometheus_client's
application.

prometheus_client's own server would answer any path and any Host, with an unbounded number of threads.
"""

from __future__ import annotations

import errno
import html
import ipaddress
import os
import socket
import threading
import urllib.parse
from dataclasses import dataclass
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

from hakmem.errors import Failure
from hakmem.scrape.families import Source
from hakmem.scrape.heap_profile import HeapProfile
from hakmem.scrape.host import Host

_MOST_REQUESTS = 16  # at once; further ones are closed
_REQUEST_SECONDS = 10.0
# The paths of Go programs; scrapers fetch either, and both have the four sample types.
_PROFILE_PATHS = ("/debug/pprof/heap", "/debug/pprof/allocs")
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")

_StartResponse = Callable[..., Any]
_Application = Callable[[Dict[str, Any], _StartResponse], Iterable[bytes]]

_PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>hakmem: {title}</title>
<h1>{title}</h1>
<p>The statistics of the memory allocator hakmem in this process: <a href="/metrics">metrics</a> for Prometheus,
and where it allocates: <a href="/debug/pprof/heap">the heap profile</a> for Pyroscope, Parca and
<code>go tool pprof</code>.</p>
</html>
"""


_HOST_PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>hakmem</title>
<h1>Processes on hakmem</h1>
<p>The <a href="/metrics">metrics</a> of all of them, for Prometheus.</p>
<ul>
{rows}</ul>
</html>
"""


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


@dataclass(frozen=True)
class OneProcess:
    """The sources for one process."""

    source: Source
    heap: HeapProfile
    title: str


def application(served: OneProcess, address: str) -> _Application:
    """Serves `/`, `/metrics` and the heap profile of one process."""

    def answer(request: Dict[str, Any], start_response: _StartResponse) -> Iterable[bytes]:
        path = request["PATH_INFO"]
        if path == "/metrics":
            return _metrics(served.source, request, start_response)
        if path in _PROFILE_PATHS:
            return _profile(start_response, served.heap)
        if path != "/":
            return _nothing_there(start_response)
        return _page(start_response, _PAGE.format(title=html.escape(served.title)))

    return _for_readers(_for_known_names(answer, address))


def application_of_host(host: Host, address: str) -> _Application:
    """The same of all processes: `?pid=N` chooses one. Without it `/metrics` has all, and a heap profile none."""

    def answer(request: Dict[str, Any], start_response: _StartResponse) -> Iterable[bytes]:
        path = request["PATH_INFO"]
        pid = _pid(request.get("QUERY_STRING", ""))
        if path == "/":
            return _page(start_response, _page_of_host(host))
        if path == "/metrics" and pid is None:
            return _metrics(host, request, start_response)
        if path != "/metrics" and path not in _PROFILE_PATHS:
            return _nothing_there(start_response)
        if pid is None:
            return _text(start_response, "400 Bad Request", f"of which process? {path}?pid=N; / lists the processes\n")
        member = host.one(pid)
        if member is None:
            reason = f"no process {pid} on hakmem here" if pid else "pid is no process's number"
            return _text(start_response, "404 Not Found", f"{reason}; / lists the processes\n")
        if path == "/metrics":
            return _metrics(member, request, start_response)
        if member.heap is None:
            return _text(start_response, "503 Service Unavailable", f"process {pid} does not answer\n")
        return _profile(start_response, member.heap)

    return _for_readers(_for_known_names(answer, address))


def _for_known_names(answer: _Application, address: str) -> _Application:
    """A server that listens on this machine alone answers its names alone: otherwise a web page could make a browser
    here read it, by a name that it points to this machine."""
    names = {*_LOCAL_NAMES, address} if is_loopback(address) else None

    def checked(request: Dict[str, Any], start_response: _StartResponse) -> Iterable[bytes]:
        if names is not None and _host_name(request.get("HTTP_HOST", "localhost")) not in names:
            return _text(start_response, "403 Forbidden", "this server answers to localhost only (the Host header)\n")
        return answer(request, start_response)

    return checked


def _for_readers(answer: _Application) -> _Application:
    """Answers HEAD, which monitors send to see whether a server lives, as GET without the content, and refuses all
    other methods."""

    def checked(request: Dict[str, Any], start_response: _StartResponse) -> Iterable[bytes]:
        method = request["REQUEST_METHOD"]
        if method == "GET":
            return answer(request, start_response)
        if method != "HEAD":
            allowed = ("Allow", "GET, HEAD")
            return _text(start_response, "405 Method Not Allowed", "this server answers GET and HEAD\n", allowed)
        begun: List[Any] = []
        content = b"".join(answer({**request, "REQUEST_METHOD": "GET"}, lambda *words: begun.extend(words)))
        status, headers = begun
        others = [(name, value) for name, value in headers if name != "Content-Length"]
        start_response(status, [*others, ("Content-Length", str(len(content)))])
        return []

    return checked


def _metrics(collector: object, request: Dict[str, Any], start_response: _StartResponse) -> Iterable[bytes]:
    """Always all metrics: `name[]` needs a registry with the names known in advance."""
    found: _Application = make_wsgi_app(collector)  # type: ignore[arg-type,unused-ignore]
    return found({**request, "QUERY_STRING": ""}, start_response)


def _pid(query: str) -> Optional[int]:
    """0, the number of no process, for one that makes no sense."""
    words = urllib.parse.parse_qs(query, keep_blank_values=True).get("pid")
    if words is None:
        return None
    return int(words[-1]) if words[-1].isascii() and words[-1].isdecimal() and len(words[-1]) < 10 else 0


def _nothing_there(start_response: _StartResponse) -> List[bytes]:
    return _text(start_response, "404 Not Found", f"here are /, /metrics and {_PROFILE_PATHS[0]}\n")


def _page_of_host(host: Host) -> str:
    rows = "".join(
        f'<li>{html.escape(one.name)}, <a href="/metrics?pid={one.pid}">{one.pid}</a>,'
        f' <a href="{_PROFILE_PATHS[0]}?pid={one.pid}">heap profile</a>\n'
        for one in host.members()
    )
    return _HOST_PAGE.format(rows=rows)


def _text(start_response: _StartResponse, status: str, text: str, *headers: Tuple[str, str]) -> List[bytes]:
    return _answer(start_response, status, text.encode(), "text/plain; charset=utf-8", *headers)


def _page(start_response: _StartResponse, text: str) -> List[bytes]:
    return _answer(start_response, "200 OK", text.encode(), "text/html; charset=utf-8")


def _profile(start_response: _StartResponse, heap: HeapProfile) -> List[bytes]:
    try:
        return _answer(start_response, "200 OK", heap.fetch(), "application/octet-stream")
    except Failure as failure:
        return _text(start_response, "503 Service Unavailable", f"{failure.message}\n")


def _answer(
    start_response: _StartResponse, status: str, body: bytes, kind: str, *headers: Tuple[str, str]
) -> List[bytes]:
    start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body))), *headers])
    return [body]


def _host_name(host: str) -> str:
    """Without its port, and an IPv6 address without its brackets."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
    return name.lower()


class _Handler(WSGIRequestHandler):
    """Prints no log, and bounds the time of a client."""

    timeout = _REQUEST_SECONDS

    def log_message(self, format: str, *arguments: Any) -> None:
        """Prints nothing for a scrape."""


class Server(ThreadingMixIn, WSGIServer):
    """A thread a request, up to a number of them."""

    daemon_threads = True
    # Connections of one moment; the kernel makes further ones try again after a second.
    request_queue_size = 4 * _MOST_REQUESTS

    def __init__(self, *arguments: Any) -> None:
        self._places = threading.BoundedSemaphore(_MOST_REQUESTS)
        super().__init__(*arguments)

    def server_bind(self) -> None:
        """Binds without a look-up of the host's name, which can be slow."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment,unused-ignore]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Called in the thread that listens."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The thread of the request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing for a client that hangs up."""

    @property
    def url(self) -> str:
        """The address of the metrics."""
        address, port = self.server_address[:2]
        text = str(address)
        return f"http://{f'[{text}]' if ':' in text else text}:{port}/metrics"


def listen(address: str, port: int, answer: _Application) -> Server:
    """Returns a server that listens there, or raises a Failure with the reason. Port 0 is a free port."""
    family, where = _resolve(address, port)

    class OfFamily(Server):
        address_family = family

    try:
        return make_server(where, port, answer, OfFamily, _Handler)
    except OSError as error:
        why = f"port {port} is in use" if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0)
        raise Failure(f"cannot listen on {address}: {why}") from None


def _resolve(address: str, port: int) -> Tuple[socket.AddressFamily, str]:
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Failure(f"cannot listen on {address}: {why}") from None
    return found[0][0], str(found[0][4][0])
