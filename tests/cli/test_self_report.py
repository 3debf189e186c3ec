"""What the allocator itself counted, as `hakmem run` tells it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Dict

import pytest
from cli_support import Compile, Tool
from hakmem.private_folder import PrivateFolder
from hakmem.self_report import VARIABLE, SelfReports, summary

pytestmark = pytest.mark.usefixtures("library")

# Frees in another thread, asks for what cannot be had, keeps a large block; then ends as it is told.
WORKS = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *blocks[1000];
static void *free_all(void *unused) {
  for (int i = 0; i < 1000; i++) free(blocks[i]);
  return unused;
}
int main(int argc, char **argv) {
  pthread_t thread;
  for (int i = 0; i < 1000; i++) blocks[i] = malloc(100);
  pthread_create(&thread, NULL, free_all, NULL);
  pthread_join(thread, NULL);
  void *volatile big = malloc(5 << 20);
  void *volatile none = malloc(PTRDIFF_MAX);
  if (big == NULL || none != NULL) return 1;
  if (!strcmp(argv[1], "_exit")) _exit(3);
  if (!strcmp(argv[1], "chroot")) return chroot("/usr") != 0;
  if (!strcmp(argv[1], "abort")) abort();
  for (int i = 0; i < atoi(argv[1]); i++) {
    if (fork() == 0) exit(0);
    wait(NULL);
  }
  return 7;
}
"""


@pytest.fixture
def works(compile_c: Compile) -> Path:
    return compile_c("works", WORKS, "-pthread", "-fno-builtin")


def allocator_line(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.startswith("hakmem: ")]
    assert len(lines) == 5, stderr
    return lines[4]


def no_folder_is_left(folder: Path) -> bool:
    return not list(folder.glob("hakmem-run-*"))


@pytest.fixture
def temporary(tmp_path: Path) -> Dict[str, str]:
    """An environment whose temporary folder, with a percent sign in its name, is the test's."""
    folder = tmp_path / "100%p"
    folder.mkdir()
    return {**os.environ, "TMPDIR": str(folder)}


def test_the_line_says_what_it_did(tool: Tool, works: Path, temporary: Dict[str, str]) -> None:
    done = tool("run", "-v", "--", works, "0", environment=temporary)
    line = allocator_line(done.stderr)
    assert done.returncode == 7
    assert "served malloc" in line and "held at exit" in line
    # The thread's own few blocks may be among them.
    assert "1,000 remote frees" in line or "1,001 remote frees" in line
    assert "1 large block, 1 failed request, no misuse" in line
    held = float(line.split(": ")[-1].split(" MiB held")[0])
    assert 5 <= held < 10
    assert no_folder_is_left(Path(temporary["TMPDIR"]))


def test_processes_are_summed_up(tool: Tool, works: Path) -> None:
    done = tool("run", "--json", "-", "--", works, "3")
    told = json.loads(done.stderr)["allocator"]
    assert told["processes"] == 4 and told["no_report"] is None
    # A child of fork counts from its fork: what its parent did is not told twice.
    assert told["own"]["events"]["out_of_memory"] == told["sums"]["events"]["out_of_memory"] == 1
    assert told["sums"]["memory"]["in_use"] > told["own"]["memory"]["in_use"]
    line = allocator_line(tool("run", "-v", "--", works, "3").stderr)
    assert "served malloc in 4 processes" in line and "held at exit; together" in line


def test_a_short_program_is_seen_by_its_report(tool: Tool) -> None:
    done = tool("run", "--json", "-", "--", "/bin/true")
    verdict = json.loads(done.stderr)
    assert verdict["library_mapped"] is True and verdict["allocator"]["own"]["pid"] > 0


@pytest.mark.parametrize(
    ("how", "code", "reason"),
    [
        ("_exit", 3, "it ended by _exit, past its exit handlers, or as another program (exec) without the library"),
        ("abort", 134, "it was killed by SIGABRT"),
    ],
)
def test_no_report_is_said(
    tool: Tool, works: Path, temporary: Dict[str, str], how: str, code: int, reason: str
) -> None:
    done = tool("run", "-v", "--", works, how, environment=temporary)
    assert done.returncode == code
    line = allocator_line(done.stderr)
    assert f"; no report: {reason}" in line and "held" not in line
    assert no_folder_is_left(Path(temporary["TMPDIR"]))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for chroot")
def test_a_program_that_could_not_write_is_told(tool: Tool, works: Path) -> None:
    """In its new root, as for another user, there is no folder to write to."""
    told = "it could not write there any more (setuid, chroot)"
    done = tool("run", "-v", "--", works, "chroot")
    assert done.returncode == 0 and told in allocator_line(done.stderr)
    for command in ("profile", "leaks"):
        done = tool(command, "--", works, "chroot")
        assert done.returncode == 125 and told in done.stderr


def test_another_allocator_writes_no_report(tool: Tool, compile_c: Compile) -> None:
    other = compile_c("libno-memory.so", "void *malloc(unsigned long n) { (void)n; return 0; }\n", "-shared", "-fPIC")
    line = allocator_line(tool("run", "-v", "--force", "--library", other, "--", "true").stderr)
    assert "libno-memory.so " in line and "; no report: a library of another allocator writes none" in line


def test_reports_of_others_where_the_program_itself_has_none(tool: Tool, works: Path) -> None:
    """A shell ends by _exit, as many do, or becomes its last command."""
    line = allocator_line(tool("run", "-v", "--", "sh", "-c", f"{works} 0; kill -9 $$").stderr)
    assert "1 failed request" in line and "no report of the program itself: it was killed by SIGKILL" in line


def test_the_environment_gains_one_variable_and_no_more(tool: Tool, library: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "LANG": "C", "TMPDIR": tempfile.gettempdir()}
    done = tool("run", "--", "env", "-0", environment=environment)
    found = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
    assert found.pop(VARIABLE).startswith(f"-{tempfile.gettempdir()}/hakmem-run-")
    assert found == {**environment, "LD_PRELOAD": str(library)}


def test_the_callers_own_file_is_left_to_the_caller(tool: Tool, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    line = allocator_line(tool("run", "-v", "--set", f"stats_file={file}", "--", "/bin/ls", "/").stderr)
    assert f"no report: {VARIABLE} was set already: the report goes to {file}" in line
    assert json.loads(file.read_text())["events"]["refill"] > 0
    file.unlink()
    (line,) = tool("run", "--", "true", environment={**os.environ, VARIABLE: str(file)}).stderr.splitlines()
    assert f", the report goes to {file} (-v says more)" in line
    assert "report" not in tool("run", "--", "true").stderr


def test_without_a_temporary_folder(tool: Tool, works: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> str:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    with SelfReports() as reports:
        assert reports.ask({"A": "b"}) == {"A": "b"}
        assert reports.absent is not None and "Permission denied" in reports.absent


def document(pid: int, schema: int = 2, **events: int) -> str:
    memory = {"in_use": 1 << 20, "dirty_slabs": 0, "large_blocks": 0, "large_dirty": 0}
    return json.dumps({"schema": schema, "version": "9.8.7", "pid": pid, "memory": memory, "events": events})


def test_half_written_and_foreign_files_are_no_reports() -> None:
    with SelfReports() as reports:
        folder = Path(reports.ask({})[VARIABLE][1:]).parent
        (folder / "1").write_text(document(1, refill=2)[:-5])
        (folder / "2").write_text(document(2, refill=3))
        (folder / "3").write_text('{"schema": 99}')
        (folder / "4").write_text("[]")
        reports.collect()
        assert [one["pid"] for one in reports.documents] == [2]
        (folder / "1").write_text(document(1, refill=2))
        reports.collect()
        assert reports.total("events", "refill") == 5 and reports.sums()["events"] == {"refill": 5}
        assert reports.of(1) is not None and reports.of(7) is None
        assert list(folder.iterdir()) == []
    assert not folder.exists()


def test_both_schemas_are_read() -> None:
    with SelfReports() as reports:
        folder = Path(reports.ask({})[VARIABLE][1:]).parent
        for schema in (1, 2, 3):
            (folder / str(schema)).write_text(document(schema, schema, refill=schema))
        reports.collect()
        assert sorted(one["schema"] for one in reports.documents) == [1, 2]
        assert reports.total("events", "refill") == 3


def test_the_summary_in_words() -> None:
    reports = SelfReports(documents=[json.loads(document(1, purged=3 << 20, remote_free=12345, large_alloc=1))])
    assert summary(reports, 1) == (
        "1.00 MiB held at exit, 3.00 MiB purged, 12,345 remote frees, 1 large block, no failed request, no misuse"
    )


def test_two_processes_with_one_number_have_two_files() -> None:
    """Of different pid namespaces: the library puts the time behind the number of the second one."""
    with PrivateFolder("test", ".json") as folder:
        place = Path(folder.pattern[1:]).parent
        for name in ("1.json", "1-1764057600123.json", "22.json", "3.json.part", "x-4.json"):
            (place / name).touch()
        found = {file.name: number for number, file in folder.files()}
    assert found == {"1.json": 1, "1-1764057600123.json": 1, "22.json": 22}
