"""The dynamic linker's own word on the library that serves a function."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_support import Compile
from hakmem import dynamic_linker
from hakmem.elf_check import Executable, read_executable

PLAIN = "int main(void) { return 0; }"


@pytest.fixture
def plain(compile_c: Compile) -> Path:
    return compile_c("plain", PLAIN)


def executable_of(path: Path) -> Executable:
    found = read_executable(str(path))
    assert found is not None
    return found


def test_who_serves_malloc(plain: Path, library: Path) -> None:
    executable = executable_of(plain)
    without = dynamic_linker.bind(executable, {})
    assert without is not None and "libc.so" in str(without.server())
    preloaded = dynamic_linker.bind(executable, {"LD_PRELOAD": str(library)})
    assert preloaded is not None and preloaded.server() == str(library)


def test_what_the_linker_complains_about_is_kept(plain: Path) -> None:
    executable = executable_of(plain)
    binding = dynamic_linker.bind(executable, {"LD_PRELOAD": "/nowhere/libnothing.so"})
    assert binding is not None and "libnothing.so" in binding.complaint


CALLS = "#include <stdlib.h>\nint main(void) { void *volatile p = malloc(9); free(p); return 0; }"


def servers(path: Path, environment: dict[str, str], name: str) -> dict[str, str]:
    traced = dynamic_linker.trace(executable_of(path), environment)
    assert traced is not None
    return {one.file: one.server for one in traced.calls(frozenset({name}))}


def test_every_name_is_traced(compile_c: Compile, library: Path) -> None:
    program = compile_c("calls", CALLS)
    without = servers(program, {}, "malloc")
    assert "libc.so" in without[str(program)]
    preloaded = servers(program, {"LD_PRELOAD": str(library)}, "malloc")
    assert preloaded[str(program)] == str(library)
    assert len(set(preloaded.values())) == 1


def test_nothing_of_the_program_runs(compile_c: Compile, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    source = f"""
#include <fcntl.h>
__attribute__((constructor)) static void early(void) {{ open("{mark}", O_CREAT | O_WRONLY, 0600); }}
int main(void) {{ return 0; }}
"""
    program = compile_c(f"marks{tmp_path.name}", source)
    assert servers(program, {}, "open") != {}
    assert not mark.exists()


def test_what_is_said_goes_nowhere_else(compile_c: Compile, tmp_path: Path) -> None:
    program = compile_c("calls", CALLS)
    assert servers(program, {"LD_DEBUG_OUTPUT": str(tmp_path / "out")}, "malloc") != {}
    assert list(tmp_path.iterdir()) == []


def test_another_c_librarys_linker_is_not_asked(plain: Path, tmp_path: Path) -> None:
    """It would take no notice of the question, and run the program."""
    mark = tmp_path / "mark"
    linker = tmp_path / "ld-musl-x86_64.so.1"
    linker.write_text(f"#!/bin/sh\ntouch {mark}\n")
    linker.chmod(0o755)
    found = executable_of(plain)
    assert dynamic_linker.trace(Executable(found.path, found.machine, found.bits, str(linker)), {}) is None
    assert not mark.exists()


def test_a_program_that_lacks_a_library(compile_c: Compile, tmp_path: Path) -> None:
    lost = tmp_path / "liblost.so"
    compiled = compile_c("lost.so", "int lost(void) { return 0; }", "-shared", "-fPIC")
    lost.write_bytes(compiled.read_bytes())
    program = compile_c(
        f"loses{tmp_path.name}", "int lost(void); int main(void) { return lost(); }", f"-L{tmp_path}", "-llost"
    )
    assert dynamic_linker.bind(executable_of(program), {}) is None
    traced = dynamic_linker.trace(executable_of(program), {})
    assert traced is not None and traced.missing == ["liblost.so"]
