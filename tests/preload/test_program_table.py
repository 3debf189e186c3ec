"""The quick rows of tests/programs/programs.toml, which tools/real_programs.py runs whole: each gives its result under
glibc, and calls the library's malloc. test_real_programs.py has other programs."""

from __future__ import annotations

from pathlib import Path

import program_rows
import pytest
import real_programs
from preload_runner import Runner

PROGRAMS = [program for program in program_rows.load() if program.quick]


@pytest.fixture(scope="module")
def table(library: Path, tmp_path_factory: pytest.TempPathFactory) -> real_programs.Runner:
    return real_programs.Runner(library, tmp_path_factory.mktemp("programs"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_same_result(runner: Runner, table: real_programs.Runner, program: program_rows.Program) -> None:
    missing = program.missing()
    if missing:
        pytest.skip(f"not here: {', '.join(missing)}")
    without = table.run(program, None)
    assert (without.code, without.stdout != b"") == (0, True), without.stderr.decode(errors="replace")
    for turn in range(runner.repeat):
        with_it = table.run(program, str(runner.library))
        assert with_it.result() == without.result(), (
            f"run {turn + 1} differs: {with_it.stderr.decode(errors='replace')}"
        )
        assert b"hakmem:" not in with_it.stderr
    assert table.malloc_of(program) == "hakmem"
