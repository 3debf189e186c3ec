"""Names of stripped programs: from a debuginfod server, here one on this machine, else the package that has them."""

from __future__ import annotations

import http.server
import shutil
import socketserver
import subprocess
import threading
from pathlib import Path
from typing import Dict, Iterator, List

import pytest
from cli_support import Compile, Tool
from hakmem.profile import debuginfod, symbol_package
from hakmem.profile.module import ElfModule

SOURCE = r"""
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static void *fill_the_cache(void) { return memset(malloc(3000000), 1, 3000000); }
static void *volatile kept;
int main(void) { kept = fill_the_cache(); return 0; }
"""


class Served:
    """A server of debug files by build ID, and the paths that clients requested."""

    def __init__(self) -> None:
        self.files: Dict[str, bytes] = {}
        self.asked: List[str] = []
        self.status = 404
        self.breaks_off = False
        self.answer = b""  # instead of one by HTTP
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                if outer.answer:
                    self.wfile.write(outer.answer)
                    return
                data = outer.files.get(self.path)
                self.send_response(200 if data is not None else outer.status)
                if data is not None:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write((data or b"")[: 100 if outer.breaks_off else None])

            def log_message(self, *_: object) -> None:
                pass

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def stripped(compile_c: Compile, tmp_path: Path, served: Served) -> Path:
    """A program without symbols, whose debug file the server has."""
    whole = compile_c("for_debuginfod", SOURCE, "-g", "-Wl,--build-id=sha1")
    program, debug = tmp_path / "stripped", tmp_path / "debug"
    if shutil.which("objcopy") is None:
        pytest.skip("no objcopy")
    subprocess.run(["objcopy", "--only-keep-debug", whole, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", whole, program], check=True)
    module = ElfModule(str(program))
    served.files[f"/buildid/{module.build_id}/debuginfo"] = debug.read_bytes()
    module.close()
    debug.unlink()
    return program


def environment(tmp_path: Path, *urls: str) -> Dict[str, str]:
    # Of other programs' variables, such as proxies, none.
    return {
        "PATH": "/usr/bin:/bin",
        "DEBUGINFOD_URLS": " ".join(urls),
        "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache"),
    }


def test_names_come_from_the_server_and_stay(tool: Tool, stripped: Path, served: Served, tmp_path: Path) -> None:
    words = ("profile", "--rate", "1", "--by", "alloc", "--folded", "stacks", "--", stripped)
    done = tool(*words, environment=environment(tmp_path, served.url))
    assert done.returncode == 0 and "fill_the_cache" in done.stderr, done.stderr
    assert f"{stripped}: " not in done.stderr
    assert "fill_the_cache" in (tmp_path / "stacks").read_text()
    asked = [path for path in served.asked if path in served.files]
    assert len(asked) == 1
    # Now from the cache, also without the server.
    done = tool("leaks", "--", stripped, environment=environment(tmp_path, "http://127.0.0.1:9"))
    assert "nothing" in done.stderr or "fill_the_cache" in done.stderr
    assert len([path for path in served.asked if path in served.files]) == 1


def test_without_a_server_nothing_is_asked(tool: Tool, stripped: Path, served: Served, tmp_path: Path) -> None:
    words = ("profile", "--rate", "1", "--by", "alloc", "--", stripped)
    done = tool(*words, environment=environment(tmp_path))
    assert served.asked == [] and "fill_the_cache" not in done.stderr
    assert f"{stripped}: no debug information" in done.stderr and "set DEBUGINFOD_URLS (build ID " in done.stderr


def test_a_server_that_has_nothing(tool: Tool, stripped: Path, served: Served, tmp_path: Path) -> None:
    served.files.clear()
    done = tool(
        "profile", "--rate", "1", "--by", "alloc", "--", stripped, environment=environment(tmp_path, served.url)
    )
    assert done.returncode == 0 and "no server of DEBUGINFOD_URLS has build ID" in done.stderr


# The answers of a mail server, and of a web server that ends within a piece.
ANSWERS = {"no HTTP": b"220 mail\r\n", "a piece": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc"}


@pytest.mark.parametrize("trouble", ["500", "broken off", "no listener", *ANSWERS])
def test_a_server_that_fails_is_a_note(
    stripped: Path, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """One note for a server, which gets no further request."""
    url = "http://127.0.0.1:9" if trouble == "no listener" else served.url
    for name, value in environment(tmp_path, url).items():
        monkeypatch.setenv(name, value)
    (path,) = served.files
    build_id = path.split("/")[2]
    served.breaks_off = trouble == "broken off"
    served.answer = ANSWERS.get(trouble, b"")
    if trouble == "500":
        served.files.clear()
        served.status = 500
    client = debuginfod.Client()
    assert client.fetch(build_id) is None and client.fetch("0" * 40) is None
    (told,) = client.troubles
    assert told.startswith(f"the debuginfod server {url.rstrip('/')} gives no debug information: ")
    assert len(served.asked) == (0 if trouble == "no listener" else 1)
    assert list((tmp_path / "cache").rglob("debuginfo*")) == []


def test_another_programs_file_is_not_taken(tool: Tool, stripped: Path, served: Served, tmp_path: Path) -> None:
    served.files = dict.fromkeys(served.files, Path("/bin/true").read_bytes())
    done = tool(
        "profile", "--rate", "1", "--by", "alloc", "--", stripped, environment=environment(tmp_path, served.url)
    )
    assert done.returncode == 0 and "fill_the_cache" not in done.stderr and "Traceback" not in done.stderr


def test_a_cache_that_cannot_be_written(
    served: Served, stripped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").touch()
    for name, value in environment(tmp_path, served.url).items():
        monkeypatch.setenv(name, value)
    (path,) = served.files
    client = debuginfod.Client()
    found = client.fetch(path.split("/")[2])
    assert found is not None and Path(found).read_bytes() == served.files[path]
    client.close()
    assert not Path(found).exists()
    assert client.fetch("../../etc/passwd") is None  # no build ID


def test_the_package_with_the_symbols(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Debian's own database; and by one of rpm's."""
    if shutil.which("dpkg-query") is not None:
        symbol_package.advice.cache_clear()
        assert symbol_package.advice("/usr/bin/ls") == "install coreutils-dbgsym"
        assert symbol_package.advice(str(tmp_path)) == ""
    (tmp_path / "rpm").write_text('#!/bin/sh\n[ "$4" = /usr/bin/ls ] && echo coreutils\n')
    (tmp_path / "rpm").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    symbol_package.advice.cache_clear()
    assert symbol_package.advice("/usr/bin/ls") == "run debuginfo-install coreutils"
    symbol_package.advice.cache_clear()
