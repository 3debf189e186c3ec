"""`hakmem doctor`: programs, real ones, and malloc as their dynamic linkers resolve it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, Iterable, List, Optional

import pytest
from cli_support import Compile
from fake_machine import FakeMachine
from hakmem.doctor.examination import Examination, examine
from hakmem.doctor.finding import Finding, Level
from hakmem.program import Program, resolve

CALLS = "#include <stdlib.h>\nint main(void) { void *volatile p = malloc(9); free(p); return 0; }"
NEUTRAL = {"PATH": os.environ.get("PATH", "/bin:/usr/bin")}


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path / "machine")


@pytest.fixture
def calls(compile_c: Compile) -> Path:
    return compile_c("calls", CALLS)


def look(
    machine: FakeMachine, library: Optional[Path], path: Optional[Path], variables: Optional[Dict[str, str]] = None
) -> Examination:
    environment = {**NEUTRAL, **(variables or {})}
    program: Optional[Program] = resolve([str(path)], environment) if path else None
    return examine(machine.files, environment, library, program)


def of_level(examination: Examination, level: Level) -> List[Finding]:
    return [finding for finding in examination.findings if finding.level is level]


def subjects(findings: Iterable[Finding]) -> List[str]:
    return [finding.subject for finding in findings]


def test_a_program_that_works(machine: FakeMachine, library: Path, calls: Path) -> None:
    examination = look(machine, library, calls)
    assert examination.works and not of_level(examination, Level.WARNING)
    found = {finding.subject: finding.found for finding in examination.findings}
    assert found["malloc resolves"].startswith(f"into {library}")
    assert "with hakmem" in found["a program starts"]


def test_without_a_program(machine: FakeMachine, library: Path) -> None:
    examination = look(machine, library, None)
    assert examination.works and examination.program is None
    assert subjects(examination.findings)[-2:] == ["malloc resolves", "a program starts"]


def test_without_a_library(machine: FakeMachine, calls: Path) -> None:
    examination = look(machine, None, calls)
    assert subjects(of_level(examination, Level.PROBLEM)) == ["library"]
    assert "program" in subjects(examination.findings)


def test_a_text_without_an_interpreter_line(machine: FakeMachine, library: Path, tmp_path: Path) -> None:
    """Both names: that of the text, and that of the shell that runs it."""
    text = tmp_path / "text"
    text.write_text("echo hello\n")
    text.chmod(0o755)
    examination = look(machine, library, text)
    assert examination.program == str(text)
    (note,) = [finding for finding in examination.findings if finding.subject == "program"]
    assert note.level is Level.NOTE and note.found == f"{text}, which runs {os.path.realpath('/bin/sh')}"


@pytest.mark.parametrize("flags", [("-static",), ("-static-pie",)])
def test_a_static_program(machine: FakeMachine, library: Path, compile_c: Compile, flags: tuple[str, ...]) -> None:
    examination = look(machine, library, compile_c("calls" + flags[0], CALLS, *flags))
    (problem,) = of_level(examination, Level.PROBLEM)
    assert "statically" in problem.found and "libhakmem.a" in problem.todo
    assert "malloc resolves" not in subjects(examination.findings)


def opens(flags: str, call: str = "dlopen(v[1], {})") -> str:
    return f"""#define _GNU_SOURCE
        #include <dlfcn.h>
        int main(int c, char **v) {{ void *module = {call.format(flags)}; return module == 0 && c > 1; }}"""


@pytest.mark.parametrize(
    "options", [(), ("-O2",), ("-O2", "-fno-plt"), ("-O2", "-fcf-protection=none"), ("-O2", "-no-pie")]
)
@pytest.mark.parametrize("call", ["dlopen(v[1], {})", "dlmopen(LM_ID_BASE, v[1], {})"])
def test_deep_binding(
    machine: FakeMachine, library: Path, compile_c: Compile, call: str, options: tuple[str, ...]
) -> None:
    name = "".join(("deep", call[:5], *options))
    program = compile_c(name, opens("RTLD_LAZY | RTLD_GLOBAL | RTLD_DEEPBIND", call), *options)
    examination = look(machine, library, program)
    (note,) = [finding for finding in examination.findings if finding.subject == "deep binding"]
    assert note.level is Level.NOTE and str(program) in note.found and examination.works
    (problem,) = of_level(look(machine, library, program, {"HAKMEM_DEEPBIND": "On"}), Level.PROBLEM)
    assert problem.subject == "deep binding" and "Unset HAKMEM_DEEPBIND" in problem.todo


def test_deep_binding_with_a_library_that_keeps_the_flag(
    machine: FakeMachine, compile_c: Compile, library: Path
) -> None:
    program = compile_c("deep_older", opens("RTLD_NOW | RTLD_DEEPBIND"))
    other = compile_c("libhakmem-older.so", "int hakmem_version;", "-shared", "-fPIC")
    problems = of_level(look(machine, other, program), Level.PROBLEM)
    assert "deep binding" in subjects(problems)


@pytest.mark.parametrize("flags", ["RTLD_NOW", "RTLD_LAZY | RTLD_GLOBAL", "RTLD_NOW | RTLD_NODELETE"])
def test_no_deep_binding(machine: FakeMachine, library: Path, compile_c: Compile, flags: str) -> None:
    program = compile_c("flat" + flags.replace(" | ", "_"), opens(flags), "-O2")
    assert "deep binding" not in subjects(look(machine, library, program, {"HAKMEM_DEEPBIND": "1"}).findings)


def test_set_user_id(machine: FakeMachine, library: Path, calls: Path, tmp_path: Path, as_root: None) -> None:
    program = tmp_path / "raised"
    program.write_bytes(calls.read_bytes())
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    assert "set-user-ID" in of_level(look(machine, library, program), Level.PROBLEM)[0].found


def test_musl(machine: FakeMachine, library: Path, calls: Path, tmp_path: Path) -> None:
    data = calls.read_bytes()
    start = data.index(b"/lib", 64)
    end = data.index(b"\0", start)
    program = tmp_path / "musl"
    program.write_bytes(data[:start] + b"/lib/ld-musl.so.1".ljust(end - start, b"\0") + data[end:])
    program.chmod(0o755)
    assert "musl" in of_level(look(machine, library, program), Level.PROBLEM)[0].found


def test_no_dynamic_linker(machine: FakeMachine, library: Path, calls: Path, tmp_path: Path) -> None:
    data = calls.read_bytes()
    start = data.index(b"/lib", 64)
    program = tmp_path / "orphan"
    program.write_bytes(data[:start] + b"/not" + data[start + 4 :])
    program.chmod(0o755)
    (problem,) = of_level(look(machine, library, program), Level.PROBLEM)
    assert "does not exist" in problem.found


def test_32_bits(machine: FakeMachine, library: Path, tmp_path: Path) -> None:
    header = b"\x7fELF" + bytes([1, 1, 1]) + bytes(9)
    header += (2).to_bytes(2, "little") + (3).to_bytes(2, "little") + (1).to_bytes(4, "little") + bytes(16)
    program = tmp_path / "small"
    program.write_bytes(header + (52).to_bytes(2, "little") + bytes(10))
    program.chmod(0o755)
    assert "32-bit" in of_level(look(machine, library, program), Level.PROBLEM)[0].found


@pytest.mark.parametrize("name, is_problem", [("address", True), ("leak", True), ("undefined", False)])
def test_sanitizers(machine: FakeMachine, library: Path, compile_c: Compile, name: str, is_problem: bool) -> None:
    examination = look(machine, library, compile_c(f"calls_{name}", CALLS, f"-fsanitize={name}"))
    problems = of_level(examination, Level.PROBLEM)
    assert ["sanitizer" in problem.found for problem in problems] == ([True] if is_problem else [])


def test_an_own_malloc(machine: FakeMachine, library: Path, compile_c: Compile) -> None:
    source = "#include <stddef.h>\nvoid *malloc(size_t n) { (void)n; return NULL; } int main(void) { return 0; }"
    examination = look(machine, library, compile_c("own_malloc", source, "-rdynamic"))
    assert "malloc of its own" in of_level(examination, Level.PROBLEM)[0].found


@pytest.mark.parametrize("name", ["je_malloc", "_rjem_malloc", "mi_malloc", "tc_malloc"])
def test_an_allocator_that_is_built_in(machine: FakeMachine, library: Path, compile_c: Compile, name: str) -> None:
    source = f"static char area[64]; void *{name}(void) {{ return area; }} int main(void) {{ return {name}() == 0; }}"
    examination = look(machine, library, compile_c(f"has_{name}", source))
    (warning,) = of_level(examination, Level.WARNING)
    assert warning.subject == "bundled allocator" and examination.works


def test_an_allocator_that_is_built_in_and_stripped(machine: FakeMachine, library: Path, compile_c: Compile) -> None:
    source = '#include <stdio.h>\nint main(void) { puts("<jemalloc>: Out of memory"); return 0; }'
    examination = look(machine, library, compile_c("stripped", source, "-s"))
    assert "jemalloc" in of_level(examination, Level.WARNING)[0].found


def test_a_built_in_allocator_of_a_library(
    machine: FakeMachine, library: Path, compile_c: Compile, tmp_path: Path
) -> None:
    shared = compile_c("libinner.so", "int mi_malloc(void) { return 1; }", "-shared", "-fPIC")
    program = compile_c(
        "uses_inner", "int main(void) { return 0; }", "-Wl,--no-as-needed", str(shared), f"-Wl,-rpath,{shared.parent}"
    )
    (warning,) = of_level(look(machine, library, program), Level.WARNING)
    assert str(shared) in warning.found and "mimalloc" in warning.found


def linked_with(compile_c: Compile, tag: str, name: str) -> Path:
    """A program that calls a function of a library that is jemalloc by its name."""
    shared = compile_c(f"libjemalloc_{tag}.so", f"int {name}(void) {{ return 0; }}", "-shared", "-fPIC")
    source = f"#include <stdlib.h>\nint {name}(void); int main(void) {{ return {name}() + !malloc(1); }}"
    return compile_c(f"linked_{tag}", source, str(shared), f"-Wl,-rpath,{shared.parent}")


def test_a_linked_allocator(machine: FakeMachine, library: Path, compile_c: Compile) -> None:
    """Asking it about itself is harmless, taking memory from it under its own names is not."""
    examination = look(machine, library, linked_with(compile_c, "asks", "mallctl"))
    assert subjects(of_level(examination, Level.NOTE)) == ["linked allocator"]
    examination = look(machine, library, linked_with(compile_c, "takes", "mallocx"))
    (warning,) = of_level(examination, Level.WARNING)
    assert warning.subject == "linked allocator" and "mallocx" in warning.found


def test_a_runtime_with_a_heap_of_its_own(machine: FakeMachine, library: Path, compile_c: Compile) -> None:
    source = "void *PyObject_Malloc(void) { return 0; } int main(void) { return 0; }"
    (note,) = of_level(look(machine, library, compile_c("snake", source, "-rdynamic")), Level.NOTE)
    assert note.subject == "own heap" and "Python" in note.found


def test_a_preload_that_serves_one_name(machine: FakeMachine, library: Path, compile_c: Compile) -> None:
    """The program's own calls are hakmem's, those of one of its libraries are not."""
    source = "#include <stddef.h>\nvoid *aligned_alloc(size_t a, size_t n) { return a > n ? NULL : NULL; }"
    partial = compile_c("partial.so", source, "-shared", "-fPIC")
    inner = "#include <stdlib.h>\nvoid *inner(void) { return aligned_alloc(64, 64); }"
    shared = compile_c("libaligns.so", inner, "-shared", "-fPIC")
    program = compile_c(
        "aligns", "#include <stdlib.h>\nvoid *inner(void); int main(void) { free(malloc(1)); return inner() != 0; }",
        str(shared), f"-Wl,-rpath,{shared.parent}",
    )  # fmt: skip
    assert not of_level(look(machine, library, program), Level.WARNING)
    (warning,) = of_level(look(machine, library, program, {"LD_PRELOAD": str(partial)}), Level.WARNING)
    assert "aligned_alloc of libaligns.so is partial.so's" in warning.found


def test_an_address_taken_at_a_fixed_place(machine: FakeMachine, library: Path, compile_c: Compile) -> None:
    """The program's entry for malloc then serves all libraries, and still leads to the library."""
    source = "#include <stdlib.h>\nint main(void) { void *(*volatile taken)(size_t) = malloc; return !taken(9); }"
    program = compile_c("fixed", source, "-no-pie", "-fno-pie")
    examination = look(machine, library, program)
    assert examination.works and not of_level(examination, Level.WARNING)


def test_another_preload_wins(machine: FakeMachine, library: Path, calls: Path, compile_c: Compile) -> None:
    source = "#include <stddef.h>\nvoid *malloc(size_t n) { (void)n; return NULL; }"
    other = compile_c("first_malloc.so", source, "-shared", "-fPIC")
    examination = look(machine, library, calls, {"LD_PRELOAD": str(other)})
    problems = of_level(examination, Level.PROBLEM)
    assert subjects(problems)[:2] == ["LD_PRELOAD", "malloc resolves"] and "first_malloc.so" in problems[1].found


def test_a_library_that_is_none(machine: FakeMachine, calls: Path, tmp_path: Path) -> None:
    """The variable would be set all the same: only the probe tells."""
    library = tmp_path / "libhakmem.so"
    library.write_text("no library\n")
    problems = of_level(look(machine, library, calls), Level.PROBLEM)
    assert {"malloc resolves", "a program starts"} <= set(subjects(problems))


def test_a_missing_library(machine: FakeMachine, library: Path, compile_c: Compile) -> None:
    shared = compile_c("libgone.so", "int gone(void) { return 0; }", "-shared", "-fPIC")
    program = compile_c("lacks", "int gone(void); int main(void) { return gone(); }", str(shared))
    shared.unlink()
    moved = program.with_name("lacks_it")
    moved.write_bytes(program.read_bytes().replace(str(shared).encode(), b"/" + b"x" * (len(str(shared)) - 1)))
    moved.chmod(0o755)
    assert subjects(of_level(look(machine, library, moved), Level.PROBLEM)) == ["libraries"]


def test_a_shell_script(machine: FakeMachine, library: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    (note,) = of_level(look(machine, library, script), Level.NOTE)
    assert str(script) in note.found and "examined the shell" in note.why


def test_what_cannot_be_examined(machine: FakeMachine, library: Path, tmp_path: Path) -> None:
    script = tmp_path / "odd"
    script.write_text("#!/usr/bin/env no-such-program-anywhere\n")
    script.chmod(0o755)
    (note,) = of_level(look(machine, library, script), Level.NOTE)
    assert "could not be examined" in note.found


def test_what_the_library_says(machine: FakeMachine, library: Path) -> None:
    (note,) = of_level(look(machine, library, None, {"HAKMEM_NO_SUCH_THING": "1"}), Level.NOTE)
    assert note.subject == "messages" and "HAKMEM_NO_SUCH_THING" in note.found


def test_an_interpreter_that_is_missing(machine: FakeMachine, library: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/nowhere/at/all\n")
    script.chmod(0o755)
    (problem,) = of_level(look(machine, library, script), Level.PROBLEM)
    assert problem.found == f"{script} needs the interpreter /nowhere/at/all, which does not exist"
