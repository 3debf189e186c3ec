"""tools/real_programs.py notices a different result, a message of the library, and a malloc that is not hakmem."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import program_rows
import programs_document
import real_programs

MALLOC = """
#include <stddef.h>
#include <string.h>
static _Alignas(16) char room[32 << 20];
static size_t used;
void *malloc(size_t n) {
  n = (n + 31) & ~(size_t)15;
  void *p = room + used + 16;
  memcpy(room + used, &n, sizeof n);
  used += n;
  return p;
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) {
  void *q = malloc(n);
  size_t m = 16;
  if (p) memcpy(&m, (char *)p - 16, sizeof m);
  if (p) memcpy(q, p, m - 16 < n ? m - 16 : n);
  return q;
}
"""
ROW = '[[program]]\nname = "row"\ngroup = "Group"\npackages = ["bash"]\nneeds = []\nwhat = "what"\n'
# A script that sees whether the library is preloaded.
DIFFERS = """run = '''
case "${LD_PRELOAD:-}" in ?*) echo other ;; *) echo one ;; esac
'''"""


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> real_programs.Runner:
    library = tmp_path / "liballocator.so"
    source = tmp_path / "allocator.c"
    source.write_text(MALLOC)
    subprocess.run(["cc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setattr(real_programs, "DIFFERENCES", tmp_path / "differences")
    return real_programs.Runner(library.resolve(), tmp_path / "work")


def row(tmp_path: Path, text: str) -> program_rows.Program:
    file = tmp_path / "programs.toml"
    file.write_text(ROW + text)
    return program_rows.load(file)[0]


def test_the_same_result(runner: real_programs.Runner, tmp_path: Path) -> None:
    program = row(tmp_path, 'prepare = "echo input >file"\nrun = "cat \\"$INPUT/file\\""')
    verdict = real_programs.judge(runner, program, 4)
    assert (verdict.matched, verdict.runs, verdict.is_steady, verdict.malloc) == (4, 4, True, "hakmem")
    assert verdict.is_good() and verdict.plain_kib > 0 and verdict.ours_kib > 0
    assert real_programs.is_done(verdict, runner, 4) and not real_programs.is_done(verdict, runner, 5)


def test_another_result(runner: real_programs.Runner, tmp_path: Path) -> None:
    verdict = real_programs.judge(runner, row(tmp_path, DIFFERS), 2)
    assert (verdict.matched, verdict.is_steady, verdict.is_good()) == (0, True, False)
    assert (tmp_path / "differences" / "row.differs").read_text().startswith("other")


def test_a_message_of_the_library(runner: real_programs.Runner, tmp_path: Path) -> None:
    text = """run = '''
echo one
case "${LD_PRELOAD:-}" in ?*) echo 'hakmem: warning: something' >&2 ;; esac
'''"""
    assert real_programs.judge(runner, row(tmp_path, text), 2).matched == 0


def test_a_program_that_fails_without_it(runner: real_programs.Runner, tmp_path: Path) -> None:
    verdict = real_programs.judge(runner, row(tmp_path, 'run = "echo one; exit 3"'), 1)
    assert (verdict.is_steady, verdict.is_good()) == (False, False)


def test_a_malloc_that_is_not_the_librarys(runner: real_programs.Runner, tmp_path: Path) -> None:
    program = row(tmp_path, 'run = "unset LD_PRELOAD; ls /"')
    assert "libc" in runner.malloc_of(program)
    served = row(tmp_path, 'own_malloc = true\nrun = "echo one"\ncheck = "ls /"')
    assert runner.malloc_of(served) == "hakmem after all"


def test_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "programs.toml"
    file.write_text(ROW.replace("needs = []", 'needs = ["sh", "no-such-program", "/no/such/file"]') + 'run = "true"')
    assert program_rows.load(file)[0].missing() == ["no-such-program", "/no/such/file"]


def test_the_document(tmp_path: Path) -> None:
    program = row(tmp_path, 'run = "true"')
    verdict = program_rows.Verdict("row", "1.2", 20, 20, True, "hakmem", 10240, 11264, "sum", "a machine", "2026-01-02")
    file = tmp_path / "tested.md"
    programs_document.write(file, [program], {"row": verdict})
    assert "| row | 1.2 | what | 20 of 20 | 10.0 | 11.0 | 1.10 |\n" in file.read_text()
