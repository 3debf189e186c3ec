"""Servers that read what `hakmem metrics` serves, with the configurations of packaging/monitoring: Parca and an
OpenTelemetry collector, where tools/servers/build.sh has built them or they are on PATH."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Iterator, List

import pytest
from cli_support import ROOT, Tool
from free_port import free_port
from test_metrics import serving
from watched_support import Watched, wait_until

MONITORING = ROOT / "packaging" / "monitoring"
SERVERS = ROOT / "build" / "servers"
TARGETS = "/run/hakmem/targets.json"


def program(name: str) -> str:
    found = shutil.which(name, path=f"{SERVERS}:{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"no {name} (tools/servers/build.sh {name})")
    return found


def started(folder: Path, *words: object, **variables: str) -> "subprocess.Popen[bytes]":
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [str(word) for word in words], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, **variables},
        )  # fmt: skip


@pytest.fixture
def targets(tool: Tool, watched: Watched, tmp_path: Path) -> Iterator[Path]:
    """The file of targets of an exporter that has one process."""
    with serving(tool, watched.pid, "--profile") as one:
        watched.do("grow 2000")
        labels = {"pid": str(watched.pid), "program": "holder", "__param_pid": str(watched.pid)}
        path = tmp_path / "targets.json"
        path.write_text(json.dumps([{"targets": ["%s:%d" % one.address], "labels": labels}]))
        yield path


def configuration(name: str, targets: Path) -> str:
    """The shipped file, for this test's targets and times."""
    text = (MONITORING / name).read_text()
    assert TARGETS in text
    for seconds in ("15s", "30s"):
        text = text.replace(f": {seconds}", ": 1s")
    return text.replace(TARGETS, str(targets))


def test_parca(targets: Path, watched: Watched, tmp_path: Path) -> None:
    """It has the profile of the process, under its labels."""
    (tmp_path / "parca.yaml").write_text(configuration("parca.yaml", targets))
    address = f"127.0.0.1:{free_port()}"
    server = started(
        tmp_path, program("parca"), "--config-path=parca.yaml", f"--http-address={address}", "--log-level=debug"
    )
    with server:
        try:
            wait_until(lambda: server.poll() is not None or "holder" in values(address, "program"))
            assert server.poll() is None, (tmp_path / "log").read_text()
            assert str(watched.pid) in values(address, "pid")
        finally:
            server.kill()


def values(address: str, label: str) -> str:
    """Parca's values for a label, by gRPC over HTTP: a request with that name, an answer with strings among bytes."""
    message = b"\x0a" + bytes([len(label)]) + label.encode()
    request = urllib.request.Request(
        f"http://{address}/parca.query.v1alpha1.QueryService/Values",
        data=b"\x00" + len(message).to_bytes(4, "big") + message,
        headers={"Content-Type": "application/grpc-web+proto", "X-Grpc-Web": "1"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return str(answer.read().decode(errors="replace"))
    except OSError:
        return ""


def test_collector(targets: Path, watched: Watched, tmp_path: Path) -> None:
    """It reads the figures, and passes them on by OTLP with the process's labels."""
    otelcol = program("otelcol")
    received: List[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            """Prints nothing."""

    with HTTPServer(("127.0.0.1", 0), Receiver) as backend:
        threading.Thread(target=backend.serve_forever, daemon=True).start()
        text = configuration("otel-collector.yaml", targets)
        assert "    endpoint: ${env:OTEL_EXPORTER_OTLP_ENDPOINT" in text
        # Plain bytes, so that the test finds the names in them; and no port for the collector's own metrics.
        text = text.replace("  otlphttp:\n", "  otlphttp:\n    compression: none\n")
        text = text.replace("service:\n", "service:\n  telemetry: {metrics: {level: none}}\n")
        (tmp_path / "otel.yaml").write_text(text)
        where = f"http://127.0.0.1:{backend.server_address[1]}"
        server = started(tmp_path, otelcol, "--config=file:otel.yaml", OTEL_EXPORTER_OTLP_ENDPOINT=where)
        with server:
            try:
                wait_until(lambda: server.poll() is not None or b"hakmem_memory_resident" in b"".join(received))
                assert server.poll() is None, (tmp_path / "log").read_text()
                content = b"".join(received)
                assert str(watched.pid).encode() in content and b"holder" in content
            finally:
                server.kill()
                backend.shutdown()
