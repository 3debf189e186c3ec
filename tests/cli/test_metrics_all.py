"""`hakmem metrics --all`: one exporter for all processes on hakmem of a host.

The host is a PID namespace of the test's own: an exporter outside would attach to the processes of other tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import pytest
from cli_support import ROOT, Compile, Tool
from hakmem.profile.read import parse
from hakmem.scrape.host import joined
from hakmem.scrape.targets import reachable
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from watched_support import DEADLINE_SECONDS, plain, wait_until

MONITORING = ROOT / "packaging" / "monitoring"
OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0"}

# Prints its number, as the namespace has it, and ends at the end of its stdin. Its argument: blocks of 48,000 bytes.
HOLDER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  alarm(100);
  for (int count = atoi(argv[argc - 1]); count > 0; count--) {
    char *volatile block = malloc(48000);
    memset(block, 1, 48000);
  }
  printf("%d\n", getpid());
  fflush(stdout);
  while (getchar() != EOF) {
  }
  return 0;
}
"""


class Host:
    """Runs commands in the namespace."""

    def __init__(self) -> None:
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self.process = subprocess.Popen([*unshare, "sh", "-c", "echo; read line"], stdin=-1, stdout=-1, stderr=-1)
        assert self.process.stdout is not None and self.process.stderr is not None
        if self.process.stdout.readline() != b"\n":
            pytest.skip(f"no PID namespace here: {self.process.stderr.read().decode().strip()}")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.enter = ["nsenter", "--target", children[0], "--pid", "--mount", "--wd=."]

    def start(self, command: List[str], **options: object) -> subprocess.Popen[str]:
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            [*self.enter, *command], stdin=-1, stdout=-1, stderr=-1, text=True, **options
        )


@pytest.fixture
def host() -> Iterator[Host]:
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("nsenter"):
        pytest.skip("needs root and unshare")
    one = Host()
    with one.process:
        try:
            yield one
        finally:
            one.process.kill()


class Holder:
    """A program on hakmem on that host."""

    def __init__(
        self, host: Host, program: Path, library: Path, blocks: int, as_whom: Sequence[str] = (), **options: str
    ) -> None:
        words = [*as_whom, "env", f"LD_PRELOAD={library}", *(f"{name}={text}" for name, text in options.items())]
        self.process = host.start([*words, str(program), str(blocks)])
        assert self.process.stdout is not None
        self.pid = int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate(timeout=DEADLINE_SECONDS)


class Exporter:
    """The tool on that host."""

    def __init__(self, host: Host, tool: Tool, library: Path, *words: object, as_whom: Sequence[str] = ()) -> None:
        clean = {name: value for name, value in plain(library).items() if name != "LD_PRELOAD"}
        self.process = host.start(
            [*as_whom, *tool.words("metrics", "--all", "--every", "0.2", *words)], cwd=tool.folder, env=clean
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.process.communicate()

    def end(self, number: signal.Signals, said: str = "") -> None:
        """The tool is a child of nsenter, which ends as the tool does. `said` is its stderr, as a pattern."""
        nsenter = self.process.pid
        for child in Path(f"/proc/{nsenter}/task/{nsenter}/children").read_text().split():
            os.kill(int(child), number)
        result, notes = self.process.communicate(timeout=DEADLINE_SECONDS)
        assert result == "" and re.fullmatch(said, notes), notes
        assert self.process.returncode == 0

    def fetch(self, path: str = "/metrics", **headers: str) -> Tuple[int, bytes]:
        request = urllib.request.Request(self.url.replace("/metrics", path), headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def values(self, name: str, path: str = "/metrics", **labels: str) -> Dict[Optional[str], float]:
        """By the process's number."""
        families = read_text(self.fetch(path)[1].decode())
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return {one.labels.get("pid"): one.value for one in samples if labels.items() <= one.labels.items()}


@pytest.fixture
def exporter(host: Host, tool: Tool, library: Path, holders: List[Holder], tmp_path: Path) -> Iterator[Exporter]:
    one = Exporter(host, tool, library, "--targets", tmp_path / "targets.json", "--profile")
    with one.process:
        try:
            yield one
        finally:
            one.process.kill()


@pytest.fixture
def holders(host: Host, compile_c: Compile, library: Path) -> Iterator[List[Holder]]:
    """Two processes: 100 and 200 blocks."""
    made = [Holder(host, compile_c("holds", HOLDER), library, blocks) for blocks in (100, 200)]
    try:
        yield made
    finally:
        for one in made:
            with contextlib.suppress(ProcessLookupError):
                one.process.kill()
            one.process.communicate()


def test_all_processes(
    exporter: Exporter, holders: List[Holder], host: Host, compile_c: Compile, library: Path
) -> None:
    """Each with its labels, in one answer that two readers accept; later ones too, and none that has ended."""
    band = {"band": "run", "program": "holds"}
    one, other = (str(holder.pid) for holder in holders)
    assert exporter.values("hakmem_up") == {one: 1, other: 1}
    blocks = exporter.values("hakmem_band_live_blocks", **band)
    assert 100 <= blocks[one] < 110 and blocks[other] == blocks[one] + 100
    assert exporter.values("hakmem_exporter_processes") == {None: 2}
    assert exporter.values("hakmem_up", f"/metrics?pid={other}") == {other: 1}
    assert exporter.fetch("/metrics?pid=1") == (404, b"no process 1 on hakmem here; / lists the processes\n")
    for wrong in ("x", "-1", "9" * 30):
        assert exporter.fetch(f"/metrics?pid={wrong}") == (404, b"pid is no process's number; / lists the processes\n")
    content = exporter.fetch(**OPENMETRICS)[1].decode()
    names = [family.name for family in read_openmetrics(content)]
    assert len(names) == len(set(names)) > 60 and content.endswith("# EOF\n")
    page = exporter.fetch("/")[1].decode()
    assert f"/debug/pprof/heap?pid={one}" in page and f"/metrics?pid={other}" in page

    holders[0].end()
    assert exporter.values("hakmem_up") == {other: 1}, "at once"
    holders.append(Holder(host, compile_c("holds", HOLDER), library, 300))
    wait_until(lambda: exporter.values("hakmem_up") == {other: 1, str(holders[2].pid): 1})


def test_promtool_accepts_them(exporter: Exporter) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool (package prometheus)")
    done = subprocess.run([promtool, "check", "metrics"], input=exporter.fetch()[1], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_shipped_queries_name_what_is_served(exporter: Exporter) -> None:
    """The rules and the dashboard of packaging/monitoring."""
    served = {sample.name for family in read_text(exporter.fetch()[1].decode()) for sample in family.samples}
    for name in ("hakmem.rules.yml", "grafana-dashboard.json"):
        used = set(re.findall(r"(?<![\w:])hakmem_\w+", (MONITORING / name).read_text()))
        assert len(used) > 10 and used - served == set()


def test_the_file_of_targets(exporter: Exporter, holders: List[Holder], tmp_path: Path) -> None:
    """A group for each process; fewer when one ends, none when the exporter ends."""

    def read() -> Dict[str, object]:
        groups = json.loads((tmp_path / "targets.json").read_text())
        assert all(group["targets"] == [exporter.url.split("/")[2]] for group in groups)
        assert all(group["labels"]["pid"] == group["labels"]["__param_pid"] for group in groups)
        return {group["labels"]["pid"]: group["labels"]["program"] for group in groups}

    one, other = (str(holder.pid) for holder in holders)
    assert read() == {one: "holds", other: "holds"}
    holders[0].end()
    wait_until(lambda: read() == {other: "holds"})
    exporter.end(signal.SIGTERM)
    assert read() == {}


def test_profiles(exporter: Exporter, holders: List[Holder]) -> None:
    status, content = exporter.fetch(f"/debug/pprof/heap?pid={holders[1].pid}")
    assert status == 200
    assert parse(content, "the answer").sample_types[0][0] == "alloc_objects"
    assert exporter.fetch("/debug/pprof/heap") == (
        400,
        b"of which process? /debug/pprof/heap?pid=N; / lists the processes\n",
    )
    assert exporter.fetch("/debug/pprof/heap?pid=1")[0] == 404


def test_a_process_that_does_not_answer(host: Host, tool: Tool, compile_c: Compile, library: Path) -> None:
    """It is there, with `hakmem_up` 0."""
    silent = Holder(host, compile_c("holds", HOLDER), library, 1, HAKMEM_ATTACH_SIGNAL="0")
    exporter = Exporter(host, tool, library)
    with silent.process, exporter.process:
        try:
            assert exporter.values("hakmem_up") == {str(silent.pid): 0}
            assert exporter.fetch(f"/debug/pprof/heap?pid={silent.pid}")[0] == 503
        finally:
            exporter.process.kill()
            silent.process.kill()


def test_a_process_whose_library_has_no_profiles(host: Host, tool: Tool, compile_c: Compile, library: Path) -> None:
    """Its metrics are served all the same."""
    fast = library.parent / "libhakmem-fast.so"
    if not fast.exists():
        pytest.skip("libhakmem-fast.so is not built")
    quick = Holder(host, compile_c("holds", HOLDER), fast, 1)
    exporter = Exporter(host, tool, library, "--profile")
    with quick.process, exporter.process:
        try:
            assert exporter.values("hakmem_up") == {str(quick.pid): 1}
            status, text = exporter.fetch(f"/debug/pprof/heap?pid={quick.pid}")
            assert status == 503 and b"this variant has no heap profile" in text
            exporter.end(
                signal.SIGTERM, rf"hakmem: no profile was started: process {quick.pid} \(holds\) .* variant.*\n"
            )
        finally:
            exporter.process.kill()
            quick.process.kill()


def test_with_the_rights_of_the_shipped_service(host: Host, tool: Tool, compile_c: Compile, library: Path) -> None:
    """Root with few capabilities answers for another user's process; a plain user sees its own alone."""
    unit = (MONITORING / "hakmem-exporter.service").read_text()
    (line,) = re.findall(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)
    rights = ",".join(f"+{word.lower().removeprefix('cap_')}" for word in line.split())
    as_user = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    program = compile_c("holds", HOLDER)
    for folder in (program, *program.parents):
        if folder.stat().st_mode & 0o001 == 0 and str(folder).startswith("/tmp/pytest"):
            folder.chmod(0o755)
    others = Holder(host, program, library, 1, as_user)
    roots = Holder(host, program, library, 1)
    few = ["setpriv", f"--bounding-set=-all,{rights}"]
    with others.process, roots.process:
        try:
            for as_whom, wanted in ((few, {str(others.pid), str(roots.pid)}), (as_user, {str(others.pid)})):
                exporter = Exporter(host, tool, library, as_whom=as_whom)
                with exporter.process:
                    try:
                        assert exporter.values("hakmem_up") == {pid: 1 for pid in wanted}
                    finally:
                        exporter.process.kill()
        finally:
            others.process.kill()
            roots.process.kill()


def test_wrong_usage(tool: Tool) -> None:
    assert tool("metrics").stderr == "hakmem: which process? Either a PID, or --all (see: hakmem help metrics)\n"
    assert tool("metrics", "--all", 1).returncode == 2
    told = "hakmem: --targets lists the processes of --all (see: hakmem help metrics)\n"
    assert tool("metrics", "--targets", "file", 1).stderr == told
    done = tool("metrics", "--every", 5, 1)
    assert done.returncode == 2 and "--every is the time between two looks of --all" in done.stderr


def test_a_web_page_cannot_read_it(exporter: Exporter) -> None:
    for path in ("/", "/metrics", "/debug/pprof/heap"):
        assert exporter.fetch(path, Host="evil.example")[0] == 403


def test_families_of_two_versions_join() -> None:
    """By their names; of two kinds the first."""
    gauges = [GaugeMetricFamily("a", "A.", value) for value in (1, 2)]
    (one,) = joined([[gauges[0]], [gauges[1]], [CounterMetricFamily("a", "A.", 3)]])
    assert [sample.value for sample in one.samples] == [1, 2]


def test_where_others_find_it() -> None:
    assert reachable("127.0.0.1", 1) == "127.0.0.1:1" and reachable("::1", 1) == "[::1]:1"
    assert not reachable("0.0.0.0", 1).startswith("0.0.0.0")
