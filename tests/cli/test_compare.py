"""`hakmem compare`: every allocator runs, failures are told and do not stop the others, files are whole or absent."""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Dict, Iterator

import pytest
from cli_support import Tool
from hakmem import option_warnings
from hakmem.allocators import Allocator
from hakmem.commands import compare

pytestmark = pytest.mark.usefixtures("library")
TWO = ("--allocators", "hakmem")


def environment_of_a_user() -> Dict[str, str]:
    """Without variables of the tests, which a note would name."""
    return {name: text for name, text in os.environ.items() if not name.startswith("HAKMEM_")}


def test_the_table(tool: Tool, busy: Path) -> None:
    done = tool("compare", *TWO, "--rounds", "3", "--", busy, "20", "100")
    assert done.returncode == 0, done.stderr
    for text in ("wall time", "CPU time", "peak resident", "mean resident", "minor faults", "75% interval", "× glibc"):
        assert text in done.stdout
    assert "hakmem against glibc: wall time" in done.stdout
    assert "round 3 of 3 done" in done.stderr


def test_quiet(tool: Tool) -> None:
    words = ("compare", *TWO, "--rounds", "1", "-q")
    assert tool(*words, "--", "true", environment=environment_of_a_user()).stderr == ""
    # Only progress is left out: neither a note nor a failure.
    assert "HAKMEM_NOTHING" in tool(*words, "--set", "nothing=1", "--", "true").stderr
    only_glibc = """case "$LD_PRELOAD" in *hakmem*) exit 3; esac"""
    done = tool(*words, "--", "sh", "-c", only_glibc)
    assert done.returncode == 1 and "hakmem, round 1: exit code 3" in done.stderr


def test_json_csv_and_plot(tool: Tool, tmp_path: Path, busy: Path) -> None:
    pytest.importorskip("matplotlib")
    done = tool(
        "compare", *TWO, "--rounds", "2", "--set", "retain=1M", "--json", "all.json", "--csv", "runs.csv",
        "--plot", "plot.svg", "--", busy, "10", "60",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "all.json").read_text())
    assert document["base"] == "glibc" and document["rounds"] == 2
    assert document["hakmem_options"] == {"HAKMEM_RETAIN": "1M"}
    assert len(document["runs"]) == 4 and document["failures"] == []
    run = document["runs"][0]
    assert run["peak_bytes"] > 10 << 20 and run["wall_seconds"] > 0.06 and len(run["resident_over_time"]) > 5
    assert {row["metric"] for row in document["summary"]} >= {"wall_seconds", "cpu_seconds", "peak_bytes", "mean_bytes"}
    served = {one["name"]: one["serves_malloc"] for one in document["allocators"]}
    assert "libc.so" in served["glibc"] and "libhakmem.so" in served["hakmem"]
    rows = list(csv.DictReader((tmp_path / "runs.csv").open()))
    assert [row["allocator"] for row in rows].count("hakmem") == 2
    assert float(rows[0]["wall_seconds"]) > 0.06
    assert ElementTree.parse(tmp_path / "plot.svg").getroot().tag.endswith("svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.json", "plot.svg", "runs.csv"]


def test_png(tool: Tool, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert tool("compare", *TWO, "--rounds", "1", "-q", "--plot", "p.png", "--", "true").returncode == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_json_on_stdout_replaces_the_table(tool: Tool) -> None:
    done = tool("compare", *TWO, "--rounds", "1", "--json", "-", "--", "true")
    assert json.loads(done.stdout)["command"] == ["true"]


def test_the_programs_output_is_not_mixed_in(tool: Tool) -> None:
    done = tool("compare", *TWO, "--rounds", "1", "-q", "--", "sh", "-c", "echo NOISE; echo NOISE >&2")
    assert "NOISE" not in done.stdout.replace("echo NOISE", "") + done.stderr
    shown = tool("compare", *TWO, "--rounds", "1", "-q", "--show-output", "--", "echo", "NOISE")
    assert shown.stderr.count("NOISE\n") == 3


def test_options_are_for_each_of_hakmems_libraries(tool: Tool) -> None:
    names = ["hakmem", "hakmem-fast", "hakmem-secure"]
    listed = tool("compare", "--list").stdout
    if "\nhakmem-secure: " not in listed:
        pytest.skip("hakmem-secure is not built")
    present = [name for name in names if f"\n{name}: " in listed]
    script = 'echo "<$HAKMEM_RETAIN>" >&2'
    words = ["--warmup", "0", "--rounds", "1", "-q", "--show-output", "--set", "retain=1M", "--", "sh", "-c", script]
    done = tool("compare", "--allocators", ",".join(present), *words, environment=environment_of_a_user())
    assert sorted(done.stderr.split()) == ["<1M>"] * len(present) + ["<>"]


def test_options_that_hakmem_does_not_take_are_noted(tool: Tool, tmp_path: Path) -> None:
    """Its own warning would be discarded with the program's output."""
    wrong = ["--set", "no_such=1", "--env", "HAKMEM_RETAIN=-1", "--set", "stats_file=s"]
    done = tool("compare", *TWO, "--rounds", "1", "--json", "j", *wrong, "--", "sh", "-c", "kill -9 $$")
    for told in ("HAKMEM_NO_SUCH is no option", "HAKMEM_RETAIN=-1 is not accepted"):
        assert done.stderr.count(told) == 1
        assert any(told in note for note in json.loads((tmp_path / "j").read_text())["notes"])
    assert not (tmp_path / "s").exists()
    assert "HAKMEM_RETAIN" not in tool("compare", *TWO, "--rounds", "1", "--set", "retain=1M", "--", "true").stderr


def test_each_library_of_ours_is_started_for_its_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(option_warnings, "of", lambda library, variables: ["of both", f"of {library}"])
    ours = [Allocator("hakmem", "a"), Allocator("hakmem@lean", "a", mode="lean"), Allocator("hakmem-secure", "b")]
    chosen = [Allocator("glibc", None), Allocator("other", "c"), *ours]
    assert compare._warnings(chosen, {"HAKMEM_RETAIN": "x"}) == ["of both", "of a", "of b"]
    assert compare._warnings(chosen, {"LANG": "C"}) == []


def test_input_from_a_file(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "input").write_text("ok\n")
    script = 'read -r word; [ "$word" = ok ]'
    assert (
        tool(
            "compare", *TWO, "--rounds", "1", "--stdin", "input", "--", "sh", "-c", f"{script} || kill -9 $$"
        ).returncode
        == 0
    )
    piped = ["bash", "-c", '"$@" --stdin <(echo ok) -- true', "bash", *tool.words("compare", *TWO, "-q")]
    done = subprocess.run(piped, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (125, "")
    assert "is a pipe: only the first run could read it" in done.stderr
    for name, told in (("missing", "No such file"), (".", "it is a directory"), ("-", "--stdin takes a file")):
        done = tool("compare", *TWO, "-q", "--rounds", "1", "--stdin", name, "--", "true")
        assert done.returncode == 125 and f"cannot read {name}: {told}" in done.stderr


def test_a_crash_under_one(tool: Tool, tmp_path: Path, fails: Path) -> None:
    done = tool("compare", *TWO, "--rounds", "3", "--json", "j", "--", fails, "libhakmem", "abort")
    assert done.returncode == 1
    assert "hakmem: FAILED in round 1: killed by SIGABRT" in done.stdout
    assert "about to abort" in done.stdout
    document = json.loads((tmp_path / "j").read_text())
    assert [failure["allocator"] for failure in document["failures"]] == ["hakmem"]
    assert [run["allocator"] for run in document["runs"]].count("glibc") == 3
    assert [run["allocator"] for run in document["runs"]].count("hakmem") == 1


def test_a_time_out_under_one(tool: Tool, fails: Path) -> None:
    done = tool("compare", *TWO, "--rounds", "2", "--timeout", "0.5", "--", fails, "libhakmem", "sleep")
    assert done.returncode == 1
    assert "hakmem: FAILED in round 1: timed out after 0.5 s" in done.stdout
    assert "wall time" in done.stdout


def test_another_exit_code_under_one(tool: Tool, fails: Path) -> None:
    done = tool("compare", *TWO, "--rounds", "1", "--", fails, "libhakmem", "exit", "3")
    assert done.returncode == 1
    assert "exit code 3, not 0 as under the base" in done.stdout


def test_the_same_exit_code_under_all_is_no_failure(tool: Tool) -> None:
    done = tool("compare", *TWO, "--rounds", "1", "--", "sh", "-c", "exit 3")
    assert done.returncode == 0
    assert "exit code 3" in done.stdout


def test_a_failure_under_all(tool: Tool, tmp_path: Path) -> None:
    done = tool("compare", *TWO, "--rounds", "2", "--plot", "p.svg", "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == 1
    assert "glibc: FAILED in the warm-up: killed by SIGKILL" in done.stdout
    assert "next:" not in done.stdout  # a profile of it has nothing to show
    assert list(tmp_path.iterdir()) == []


def test_the_next_command_of_a_program_whose_name_is_a_number(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hakmem profile` takes the number for a process, and the path for the program."""
    (tool.folder / "8").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{tool.folder}:{os.environ['PATH']}")
    done = tool("compare", *TWO, "--rounds", "1", "-q", "--", "8")
    assert done.stdout.splitlines()[-1] == f"next: hakmem profile -- {tool.folder}/8"


def test_the_next_command_has_the_input_and_the_environment(tool: Tool) -> None:
    (tool.folder / "my input").write_text("b\na\n")
    done = tool(
        "compare", *TWO, "--rounds", "1", "-q", "--stdin", "my input", "--set", "retain=1M", "--env", "LC_ALL=C",
        "--", "sort",
    )  # fmt: skip
    told = done.stdout.splitlines()[-1]
    assert told == "next: env LC_ALL=C hakmem profile --set retain=1M -- sort <'my input'"


def test_unknown_allocator(tool: Tool) -> None:
    done = tool("compare", "--allocators", "hakmem,nothing", "--", "true")
    assert done.returncode == 2
    assert "unknown allocator 'nothing'" in done.stderr and "glibc" in done.stderr and "hakmem" in done.stderr
    assert tool("compare", "--base", "nothing", "--", "true").returncode == 2


def test_program_not_found(tool: Tool) -> None:
    assert tool("compare", "--", "no-such-program").returncode == 127
    assert tool("compare", "--", "/etc").returncode == 126


@pytest.mark.parametrize(
    "words",
    [
        [], ["--rounds", "0", "--", "true"], ["--rounds", "x", "--", "true"], ["--timeout", "0", "--", "true"],
        ["--plot", "plot.pdf", "--", "true"], ["--json", "-", "--csv", "-", "--", "true"],
        ["--setup", "true", "--", "true"], ["--load", "true", "--", "true"], ["--port", "80", "--", "true"],
        ["--setup", "true"], ["--setup", "'", "--load", "true", "--port", "80"], ["--no-such", "--", "true"],
        ["--env", "x", "--", "true"], ["--settle", "3", "--", "true"], ["--host", "127.0.0.1", "--", "true"],
    ],
)  # fmt: skip
def test_wrong_words(tool: Tool, words: list[str]) -> None:
    done = tool("compare", *words)
    assert done.returncode == 2
    assert done.stderr and not done.stdout


def test_unwritable_files_are_refused_before_anything_runs(tool: Tool, tmp_path: Path) -> None:
    done = tool("compare", *TWO, "--csv", "ok.csv", "--json", "no/such/folder.json", "--", "touch", "ran")
    assert done.returncode == 125
    assert "cannot write no/such/folder.json" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_matplotlib_missing(tool: Tool, tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['matplotlib'] = None; "
    words = tool.words("compare", *TWO, "--plot", "p.svg", "--", "true")
    words[3] = hidden + words[3]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 125
    assert "plots need matplotlib" in done.stderr


def test_static_programs_are_refused(tool: Tool, compile_c) -> None:  # type: ignore[no-untyped-def]
    program = compile_c("static_true", "int main(void) { return 0; }", "-static")
    done = tool("compare", *TWO, "--", program)
    assert done.returncode == 125
    assert "linked statically" in done.stderr
    assert tool("compare", *TWO, "--rounds", "1", "--force", "--", program).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing_behind(tool: Tool, tmp_path: Path, number: int) -> None:
    seconds = f"54.{number:03}"  # the other signal's test may run beside this one
    process = tool.start(
        "compare", *TWO, "--json", "all.json", "--", "sh", "-c", f"touch {tmp_path}/ran; sleep {seconds}"
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "ran").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "stopped by" in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["ran"]
    time.sleep(0.1)
    assert seconds.encode() not in b"".join(_command_lines())


def _command_lines() -> list[bytes]:
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(entry.read_bytes())
        except OSError:
            continue
    return lines


# ---- Servers.

SERVER = """
import signal, socket, sys
mode, port = sys.argv[1], int(sys.argv[2])
if mode == 'dies': sys.exit('cannot start')
if mode == 'stubborn': signal.signal(signal.SIGTERM, signal.SIG_IGN)
listener = socket.create_server(('127.0.0.1', port), reuse_port=True)
if mode == 'deaf': listener.close()
hoard = []
while True:
    if mode == 'deaf': signal.pause()
    peer, _ = listener.accept()
    word = peer.recv(10)
    if word == b'load':
        if mode == 'crashes': import os; os.abort()
        hoard.append(bytearray(30 << 20))
        peer.send(b'done')
    peer.close()
"""
LOAD = """
import socket, sys, time
time.sleep(0.2)
peer = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
peer.send(b'load')
sys.exit(0 if peer.recv(10) == b'done' else 'no answer')
"""


@pytest.fixture
def port() -> Iterator[int]:
    """One that stays bound, so that no other process gets it: only a server that shares it (SO_REUSEPORT) listens."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


def serve(tool: Tool, port: int, mode: str, load: str | None = None, rounds: int = 1):  # type: ignore[no-untyped-def]
    (tool.folder / "server.py").write_text(SERVER)
    (tool.folder / "load.py").write_text(LOAD)
    python = sys.executable
    return tool(
        "compare", *TWO, "--rounds", rounds, "--json", "all.json", "--port", port, "--settle", "0.1",
        "--setup", f"{python} server.py {mode} {{port}}", "--load", load or f"{python} load.py {{port}}",
    )  # fmt: skip


def test_a_server_is_measured_under_its_load(tool: Tool, port: int, tmp_path: Path) -> None:
    done = serve(tool, port, "works", rounds=2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resident after the load" in done.stdout
    runs = json.loads((tmp_path / "all.json").read_text())["runs"]
    assert len(runs) == 4
    assert all(run["after_bytes"] > 30 << 20 and 0.2 < run["wall_seconds"] < 60 for run in runs)


@pytest.mark.parametrize(
    ("mode", "load", "message"),
    [
        ("dies", None, "the server ended before it opened port"),
        ("crashes", None, "the server ended during the load: killed by SIGABRT"),
        ("works", "sh -c 'echo sorry >&2; exit 3'", "load failed: exit code 3"),
    ],
)
def test_servers_and_loads_that_fail(tool: Tool, port: int, mode: str, load: str | None, message: str) -> None:
    done = serve(tool, port, mode, load)
    assert done.returncode == 1
    assert message in done.stdout
    if load:
        assert "sorry" in done.stdout


def test_a_load_that_is_not_found(tool: Tool, port: int) -> None:
    assert serve(tool, port, "works", "no-such-load").returncode == 127


def test_a_port_in_use(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    from hakmem import server
    from hakmem.errors import Failure

    monkeypatch.setattr(server, "_PORT_FREE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Failure, match="in use already"):
        server.wait_until_free("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("host", ["shop..example", "x" * 64])
def test_a_host_that_is_no_name(tool: Tool, port: int, host: str) -> None:
    words = ("compare", *TWO, "-q", "--host", host, "--port", port, "--load", "true", "--", "sleep", "9")
    done = tool(*words, environment=environment_of_a_user())
    assert done.returncode == 125
    assert done.stderr == f"hakmem: unknown host {host}: this is no name of a host\n"


def test_a_server_that_does_not_stop_or_open_its_port(
    tool: Tool, port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from hakmem.allocators import Allocator
    from hakmem.measure import Task
    from hakmem.preload_plan import Prepared
    from hakmem.program import Program
    from hakmem.server import Service, run_service

    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "load.py").write_text(LOAD)

    def run(mode: str):  # type: ignore[no-untyped-def]
        program = Program(sys.executable, (sys.executable, str(tmp_path / "server.py"), mode, str(port)))
        load = Program(sys.executable, (sys.executable, str(tmp_path / "load.py"), str(port)))
        service = Service(Task(program), load, os.environ, "127.0.0.1", port, ready_seconds=2, stop_seconds=0.3)
        return run_service(service, Prepared(Allocator("glibc", None), os.environ, None), 1, lambda: None)

    stubborn = run("stubborn")
    assert stubborn.failure is None and stubborn.figures["peak_bytes"] > 30 << 20
    assert run("deaf").failure == f"the server did not open port {port} within 2 s"
