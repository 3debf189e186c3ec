"""`hakmem metrics`: the samples, the clients that get them, Prometheus itself as a reader, and the heap profile."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import hakmem.commands.metrics as metrics_command
import pytest
from cli_support import Compile, Tool
from click.testing import CliRunner
from free_port import free_port
from hakmem.profile.live import asker
from hakmem.profile.model import names_of
from hakmem.profile.read import parse
from hakmem.profile.schema import profile_class
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from watched_support import BLOCK_BYTES, DEADLINE_SECONDS, SOURCE, Watched, wait_until

OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}
MOST_REQUESTS = 16


class Served:
    """The tool, and its server."""

    def __init__(self, tool: Tool, pid: int, *words: object) -> None:
        self.process = tool.start("metrics", *words, pid)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        where = urllib.parse.urlsplit(self.url)
        assert where.path == "/metrics" and where.hostname is not None and where.port is not None, self.ended()
        self.address = (where.hostname, where.port)

    def fetch(self, path: str = "/metrics", **headers: str) -> Tuple[int, str, str]:
        """Status, kind and text."""
        status, kind, content = self.fetch_bytes(path, **headers)
        return status, kind, content.decode()

    def fetch_bytes(self, path: str, **headers: str) -> Tuple[int, str, bytes]:
        """The same, with the content as bytes."""
        connection = http.client.HTTPConnection(*self.address, timeout=DEADLINE_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type") or "", answer.read()

    def families(self) -> Dict[str, Metric]:
        return {family.name: family for family in read_text(self.fetch()[2])}

    def ended(self) -> Tuple[int, str]:
        """Exit code and stderr."""
        errors = self.process.communicate(timeout=DEADLINE_SECONDS)[1]
        return self.process.returncode, errors


@contextlib.contextmanager
def serving(tool: Tool, pid: int, *words: object) -> Iterator[Served]:
    served = Served(tool, pid, *words)
    with served.process:
        try:
            yield served
        finally:
            served.process.kill()


@pytest.fixture
def served(tool: Tool, watched: Watched) -> Iterator[Served]:
    with serving(tool, watched.pid) as one:
        yield one


def value(families: Dict[str, Metric], name: str, **labels: str) -> float:
    samples = [sample for family in families.values() for sample in family.samples if sample.name == name]
    (found,) = (sample.value for sample in samples if labels.items() <= sample.labels.items())
    return found


# The answers.


def test_both_formats(served: Served, watched: Watched) -> None:
    """Each client gets its own format; every sample names its process."""
    status, kind, text = served.fetch()
    assert status == 200 and kind.startswith("text/plain; version=0.0.4")
    old = {family.name: family for family in read_text(text)}
    status, kind, text = served.fetch(**OPENMETRICS)
    assert status == 200 and kind.startswith("application/openmetrics-text; version=1.0.0") and text.endswith("# EOF\n")
    new = {family.name: family for family in read_openmetrics(text)}
    whose = {"pid": str(watched.pid), "program": "holder"}
    for families in (old, new):
        assert len(families) > 60
        assert all(whose.items() <= one.labels.items() for family in families.values() for one in family.samples)
        assert value(families, "hakmem_up") == 1
        assert value(families, "hakmem_refill_total") > 0
        assert value(families, "hakmem_band_live_blocks", band="run") >= 0
        assert value(families, "hakmem_build_info", version="0.1.0") == 1


def test_it_says_what_is_now(served: Served, watched: Watched) -> None:
    before = value(served.families(), "hakmem_band_live_blocks", band="run")
    watched.do("grow 100")
    assert value(served.families(), "hakmem_band_live_blocks", band="run") == before + 100


def test_promtool_finds_nothing_to_say(served: Served) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool (package prometheus)")
    text = served.fetch()[2]
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_several_at_once(served: Served) -> None:
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: served.fetch(), range(50)))
    assert all(status == 200 and "\nhakmem_live_blocks{" in text for status, _, text in answers)


def test_too_many_at_once(served: Served) -> None:
    """A silent client takes a place. The server hangs up on others, and serves them when places are free again."""
    idle = [socket.create_connection(served.address) for _ in range(MOST_REQUESTS)]
    with pytest.raises((ConnectionError, http.client.BadStatusLine)):
        served.fetch("/")
    for one in idle:
        one.close()

    def is_served() -> bool:
        with contextlib.suppress(ConnectionError, http.client.BadStatusLine):
            return served.fetch("/")[0] == 200
        return False

    wait_until(is_served)


def test_other_paths(served: Served, watched: Watched) -> None:
    status, kind, text = served.fetch("/")
    assert status == 200 and kind == "text/html; charset=utf-8"
    assert f"<h1>holder ({watched.pid})</h1>" in text and 'href="/metrics"' in text
    assert served.fetch("/favicon.ico")[0] == 404 and served.fetch("/metrics/..")[0] == 404
    assert "hakmem_live_blocks" in served.fetch("/metrics?name[]=nothing")[2]


def test_head(served: Served) -> None:
    """A monitor sees that the server lives, without the content."""
    for path in ("/", "/metrics", "/absent"):
        status, kind, content = served.fetch_bytes(path)
        with contextlib.closing(socket.create_connection(served.address, DEADLINE_SECONDS)) as raw:
            raw.sendall(f"HEAD {path} HTTP/1.0\r\n\r\n".encode())
            head, _, behind = b"".join(iter(lambda: raw.recv(65536), b"")).partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.0 {status} ".encode()) and behind == b""
        assert f"Content-Type: {kind}".encode() in head
        length = int(head.partition(b"Content-Length: ")[2].split()[0])
        assert path == "/metrics" or length == len(content)  # the figures change


def test_other_methods(served: Served) -> None:
    for method in ("POST", "DELETE", "OPTIONS"):
        for path in ("/", "/metrics", "/debug/pprof/heap", "/absent"):
            with contextlib.closing(http.client.HTTPConnection(*served.address, DEADLINE_SECONDS)) as connection:
                connection.request(method, path)
                answer = connection.getresponse()
                assert (answer.status, answer.getheader("Allow")) == (405, "GET, HEAD")


def test_the_programs_name_is_its_own(tool: Tool, compile_c: Compile, library: Path) -> None:
    """The kernel doubles a backslash, and the form of the samples doubles it once more, for the reader to undo."""
    program = Watched(compile_c("a\\b", SOURCE), library)
    with program.process:
        try:
            with serving(tool, program.pid) as served:
                assert value(served.families(), "hakmem_up", program="a\\b") == 1
        finally:
            program.process.kill()


# To whom.


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "", "10.0.0.1", "[::2]:80"]
)
def test_a_page_on_the_web_cannot_read_it(served: Served, host: str) -> None:
    """By a name of its own that points here."""
    for path in ("/", "/metrics", "/debug/pprof/heap"):
        status, _, text = served.fetch(path, Host=host)
        assert (status, text) == (403, "this server answers to localhost only (the Host header)\n")


def test_names_of_this_machine(served: Served) -> None:
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:1234", "[::1]", "[::1]:80"):
        assert served.fetch("/", Host=host)[0] == 200, host


def test_it_listens_for_this_machine_alone(served: Served) -> None:
    listening = {line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]}
    assert f"0100007F:{served.address[1]:04X}" in listening and served.address[0] == "127.0.0.1"
    assert f"00000000:{served.address[1]:04X}" not in listening


def test_for_others_too(tool: Tool, watched: Watched) -> None:
    """Only when it is said, and with a warning."""
    with serving(tool, watched.pid, "--bind", "0.0.0.0") as one:
        assert one.url.startswith("http://0.0.0.0:")
        assert one.fetch("/metrics", Host="server.example")[0] == 200
        one.process.terminate()
        code, errors = one.ended()
    assert code == 0 and errors.startswith("hakmem: warning: whoever reaches 0.0.0.0 can read these metrics")


def test_ipv6(tool: Tool, watched: Watched) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with serving(tool, watched.pid, "--bind", "::1") as one:
        assert one.url.startswith("http://[::1]:")
        with urllib.request.urlopen(one.url, timeout=DEADLINE_SECONDS) as answer:
            assert b"hakmem_up{" in answer.read()
        one.process.terminate()
        assert one.ended() == (0, "")


# How it ends, and what it does when the process does not answer.


def test_a_port_in_use(tool: Tool, watched: Watched) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = tool("metrics", "--port", port, watched.pid)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr == f"hakmem: cannot listen on 127.0.0.1: port {port} is in use\n"
    with serving(tool, watched.pid, "--port", port) as one:
        assert one.url == f"http://127.0.0.1:{port}/metrics"


def test_a_process_that_answers_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool says so at the start, not to the first client."""

    class Stranger:
        name, pid = "stranger", 7

        def __init__(self, pid: int) -> None: ...

        def require_alive(self) -> None: ...

        def ask(self, command: str, seconds: float) -> bytes:
            assert command == "stats openmetrics"
            return b"hello\n"

    monkeypatch.setattr(metrics_command, "Followed", Stranger)
    monkeypatch.setattr(metrics_command, "_wait_for_end", lambda process: None)
    done = CliRunner().invoke(metrics_command.metrics, ["7"])
    assert done.exit_code == 125 and "process 7 answers what is no OpenMetrics" in done.output + done.stderr


@pytest.mark.parametrize("address", ["192.0.2.1", "no such name"])
def test_no_such_address(tool: Tool, watched: Watched, address: str) -> None:
    done = tool("metrics", "--bind", address, watched.pid)
    assert done.returncode == 125 and done.stderr.startswith(f"hakmem: cannot listen on {address}: ")
    assert "Errno" not in done.stderr


def test_the_program_ends(served: Served, watched: Watched) -> None:
    watched.end()
    assert served.ended() == (0, f"hakmem: process {watched.pid} (holder) has ended\n")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGHUP, 128 + signal.SIGHUP)]
)
def test_it_is_stopped(served: Served, watched: Watched, number: signal.Signals, code: int) -> None:
    served.fetch()
    served.process.send_signal(number)
    assert served.ended()[0] == code
    watched.end()


def test_a_process_that_does_not_answer(served: Served, watched: Watched) -> None:
    """That is a metric, not an error; and all is back when it goes on."""
    os.kill(watched.pid, signal.SIGSTOP)
    wait_until(lambda: "State:\tT" in Path(f"/proc/{watched.pid}/status").read_text())
    with ThreadPoolExecutor(3) as pool:  # they share the wait
        answers = list(pool.map(lambda _: served.families(), range(3)))
    assert all(families.keys() == {"hakmem_up"} and value(families, "hakmem_up") == 0 for families in answers)
    os.kill(watched.pid, signal.SIGCONT)
    wait_until(lambda: value(served.families(), "hakmem_up") == 1)
    assert value(served.families(), "hakmem_live_blocks") > 0


# The heap profile.

GROWN_BLOCKS = 2000


def is_running(pid: int) -> bool:
    running: bool = json.loads(asker(pid)("profile state"))["running"]
    return running


def test_a_profile_as_scrapers_want_it(tool: Tool, watched: Watched) -> None:
    """With names, with all figures until now, of this moment, and of no stretch of time."""
    with serving(tool, watched.pid, "--profile") as one:
        watched.do(f"grow {GROWN_BLOCKS}")
        begin = time.time_ns()
        status, kind, content = one.fetch_bytes("/debug/pprof/heap")
        assert (status, kind) == (200, "application/octet-stream")
        profile = parse(content, "the answer")
        # The library's clock goes in steps.
        assert begin - 1e9 < profile.time_nanos < time.time_ns() + 1e9 and profile.duration_nanos == 0
        assert [name for name, _ in profile.sample_types] == [
            "alloc_objects",
            "alloc_space",
            "inuse_objects",
            "inuse_space",
        ]
        expected = GROWN_BLOCKS * BLOCK_BYTES
        for sample_type in ("alloc_space", "inuse_space"):
            assert 0.5 * expected < profile.total(sample_type) < 1.5 * expected
        assert all(location.frames for location in profile.locations)
        assert "main" in {name for sample in profile.samples for name in names_of(sample)}
        assert parse(one.fetch_bytes("/debug/pprof/allocs")[2], "").total("alloc_space") == profile.total("alloc_space")


def test_numbers_without_a_gap(tool: Tool, watched: Watched) -> None:
    """Parca refuses others: those of the process itself, and those that are served."""
    with serving(tool, watched.pid, "--profile") as one:
        watched.do(f"grow {GROWN_BLOCKS}")
        for content in (asker(watched.pid)("profile pprof"), one.fetch_bytes("/debug/pprof/heap")[2]):
            message = profile_class()()
            message.ParseFromString(gzip.decompress(content))
            for table in (message.mapping, message.location, message.function):
                assert len(table) > 1 and [row.id for row in table] == list(range(1, len(table) + 1))


def test_no_profile_runs(served: Served, watched: Watched) -> None:
    status, _, text = served.fetch("/debug/pprof/heap")
    assert (status, text) == (
        503,
        f"no heap profile runs in process {watched.pid} (holder): "
        "start it with HAKMEM_PROFILE=1, or this server with --profile\n",
    )
    assert not is_running(watched.pid)


@pytest.mark.parametrize("was_running", [False, True])
def test_what_it_leaves(tool: Tool, watched: Watched, was_running: bool) -> None:
    """Its own profile ends with it, another one does not."""
    if was_running:
        asker(watched.pid)("profile start 65536 stay")
    with serving(tool, watched.pid, "--profile") as one:
        assert one.fetch_bytes("/debug/pprof/heap")[0] == 200
        assert is_running(watched.pid)
        one.process.terminate()
        assert one.ended() == (0, "")
    assert is_running(watched.pid) == was_running


# A real Prometheus.


class Prometheus:
    """One of our own, which scrapes this every second."""

    def __init__(self, program: str, folder: Path, target: str) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": [{"job_name": "hakmem", "static_configs": [{"targets": [target]}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML too
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={urllib.parse.urlsplit(self.url).netloc}",
                ],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def query(self, expression: str) -> List[Any]:
        """The results, as its own interface has them; none while it is not there yet."""
        assert self.process.poll() is None, self.log.read_text()
        url = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as answer:
                document = json.load(answer)
        except OSError:
            return []
        assert document["status"] == "success"
        results: List[Any] = document["data"]["result"]
        return results


@pytest.fixture
def prometheus(served: Served, tmp_path: Path) -> Iterator[Prometheus]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus (package prometheus)")
    one = Prometheus(program, tmp_path, "%s:%d" % served.address)
    with one.process:
        try:
            yield one
        finally:
            one.process.kill()


def test_prometheus_has_what_the_process_says(
    prometheus: Prometheus, served: Served, watched: Watched, tool: Tool
) -> None:
    """Read back through its query interface: the figures of `hakmem stats --json` of a program that rests."""
    watched.do("grow 123")
    told = json.loads(tool("stats", "--json", watched.pid).stdout)
    band = f'hakmem_band_live_blocks{{band="run",pid="{watched.pid}"}}'
    # A scrape may be of the time before.
    wait_until(
        lambda: [one["value"][1] for one in prometheus.query(band)] == [str(told["bands"]["run"]["live_blocks"])]
    )
    figures = {
        "hakmem_up": 1,
        "up": 1,
        "hakmem_live_bytes": told["live"]["bytes"],
        "hakmem_band_live_bytes{band='run'}": told["bands"]["run"]["live_bytes"],
        "hakmem_memory_in_use_bytes": told["memory"]["in_use"],
        "hakmem_run_alloc_total": told["events"]["run_alloc"],
        "hakmem_learning_break_even_seconds * 1000": told["learning"]["break_even_ms"],
        "count(hakmem_class_live_blocks)": len(told["classes"]),
        "sum(hakmem_heap_live_bytes)": sum(told["bands"][band]["live_bytes"] for band in ("tiny", "mid")),
    }
    for expression, expected in figures.items():
        (result,) = prometheus.query(expression)
        assert float(result["value"][1]) == expected, expression
    (result,) = prometheus.query("hakmem_live_blocks")
    assert result["metric"]["program"] == "holder" and result["metric"]["pid"] == str(watched.pid)
