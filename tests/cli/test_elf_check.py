"""Finds programs that take no preload: static, foreign, musl, raised rights, an own malloc, scripts before them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cli_support import ROOT, Compile, Tool
from hakmem import elf_check, preload_plan
from hakmem.allocators import GLIBC, HAKMEM, Allocator
from hakmem.elf_check import Chain, follow
from hakmem.kernel_files import KernelFiles
from hakmem.program import resolve

PLAIN = "int main(void) { return 0; }"
WRAPPER = ROOT / "tests/preload/wraps_malloc.c"
_MACHINE_OFFSET = 18
_AARCH64 = (183).to_bytes(2, "little")


@pytest.fixture
def plain(compile_c: Compile) -> Path:
    return compile_c("plain", PLAIN)


def kind(chain: Chain, library: Path) -> str | None:
    obstacle = elf_check.find_obstacle(chain, str(library))
    return obstacle.kind if obstacle else None


def examine(path: Path, library: Path) -> str | None:
    return kind(follow(str(path), os.environ), library)


def script(path: Path, line: str) -> Path:
    path.write_text(f"{line}\necho hello\n")
    path.chmod(0o755)
    return path


def patched(plain: Path, target: Path, old: bytes, new: bytes) -> Path:
    data = plain.read_bytes()
    assert data.count(old) >= 1 and len(old) == len(new)
    target.write_bytes(data.replace(old, new))
    target.chmod(0o755)
    return target


def test_a_plain_program_has_no_obstacle(plain: Path, library: Path) -> None:
    assert examine(plain, library) is None


def test_static(compile_c: Compile, library: Path) -> None:
    assert examine(compile_c("static", PLAIN, "-static"), library) == "static"


def test_static_pie(compile_c: Compile, library: Path) -> None:
    assert examine(compile_c("static_pie", PLAIN, "-static-pie"), library) == "static"


def test_the_dynamic_linker_itself_is_no_static_program(library: Path, plain: Path) -> None:
    executable = elf_check.read_executable(str(plain))
    assert executable is not None and executable.interpreter is not None
    assert examine(Path(executable.interpreter), library) is None


def test_another_machine(plain: Path, library: Path, tmp_path: Path) -> None:
    data = bytearray(plain.read_bytes())
    data[_MACHINE_OFFSET : _MACHINE_OFFSET + 2] = (
        _AARCH64 if data[_MACHINE_OFFSET] != _AARCH64[0] else (62).to_bytes(2, "little")
    )
    foreign = tmp_path / "foreign"
    foreign.write_bytes(data)
    assert examine(foreign, library) == "architecture"


def test_32_bits(library: Path, tmp_path: Path) -> None:
    """A hand-made header of a 32-bit i386 program, with no program headers."""
    header = b"\x7fELF" + bytes([1, 1, 1]) + bytes(9)
    header += (2).to_bytes(2, "little") + (3).to_bytes(2, "little") + (1).to_bytes(4, "little") + bytes(12)
    header += bytes(4) + (52).to_bytes(2, "little") + bytes(10)
    program = tmp_path / "small"
    program.write_bytes(header)
    assert examine(program, library) == "architecture"


def test_musl(plain: Path, library: Path, tmp_path: Path) -> None:
    executable = elf_check.read_executable(str(plain))
    assert executable is not None and executable.interpreter is not None
    old = executable.interpreter.encode()
    new = b"/lib/ld-musl.so.1".ljust(len(old), b"\0")
    assert examine(patched(plain, tmp_path / "musl", old, new), library) == "musl"


@pytest.mark.parametrize("bit", [stat.S_ISUID, stat.S_ISGID])
def test_raised_rights(plain: Path, library: Path, tmp_path: Path, as_root: None, bit: int) -> None:
    program = patched(plain, tmp_path / "raised", b"\x7fELF", b"\x7fELF")
    os.chown(program, 65534, 65534)
    program.chmod(0o755 | bit)
    assert examine(program, library) == "raised-rights"


def test_set_user_id_of_the_caller_itself_raises_nothing(plain: Path, library: Path, tmp_path: Path) -> None:
    program = patched(plain, tmp_path / "own", b"\x7fELF", b"\x7fELF")
    program.chmod(0o4755)
    assert examine(program, library) is None


def test_capabilities(plain: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a privileged process can set them, so the attribute is faked."""
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getxattr", lambda path, name: b"\1" if name == "security.capability" else b"")
    assert examine(plain, library) == "raised-rights"


def test_where_no_program_gains_rights(
    plain: Path, library: Path, tmp_path: Path, as_root: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no_new_privs the kernel overlooks the bit, and the dynamic linker heeds LD_PRELOAD."""
    program = patched(plain, tmp_path / "raised", b"\x7fELF", b"\x7fELF")
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    assert examine(program, library) == "raised-rights"
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "status").write_text("NoNewPrivs:\t1\n")
    monkeypatch.setattr(elf_check, "KernelFiles", lambda: KernelFiles(str(tmp_path)))
    assert examine(program, library) is None


@pytest.mark.parametrize(
    "name, found", [("address", "asan"), ("thread", "tsan"), ("leak", "lsan"), ("undefined", None)]
)
def test_sanitizers(compile_c: Compile, library: Path, name: str, found: str | None) -> None:
    program = compile_c(f"plain_{name}", PLAIN, f"-fsanitize={name}")
    assert elf_check.sanitizer_of(str(program)) == found
    assert examine(program, library) == ("sanitizer" if found else None)


@pytest.mark.parametrize("name", ["asan", "hwasan", "msan", "tsan", "lsan"])
def test_sanitizers_that_are_linked_in(compile_c: Compile, library: Path, name: str) -> None:
    source = f"void __{name}_init(void) {{}} {PLAIN}"
    assert examine(compile_c(f"has_{name}", source, "-rdynamic"), library) == "sanitizer"


def test_own_malloc(compile_c: Compile, library: Path) -> None:
    source = "#include <stddef.h>\nvoid *malloc(size_t n) { (void)n; return NULL; } int main(void) { return 0; }"
    assert examine(compile_c("own_malloc", source, "-rdynamic"), library) == "own-malloc"


def test_a_wrapper_of_the_c_librarys_malloc(compile_c: Compile, library: Path, tool: Tool) -> None:
    """Its malloc calls the library's by glibc's other name."""
    program = compile_c("wraps_malloc", WRAPPER.read_text(), f"-I{WRAPPER.parent}")
    assert elf_check.defines(str(program), "malloc") and examine(program, library) is None
    done = tool("run", "-v", "--", program)
    assert (done.returncode, done.stdout) == (0, "ok\n") and "served malloc" in done.stderr, done.stderr
    done = tool("doctor", "--", program)
    assert "through the program's own malloc" in " ".join(done.stdout.split()), done.stdout


def test_a_wrapper_and_a_library_without_glibcs_other_name(compile_c: Compile, library: Path, tool: Tool) -> None:
    """The C library serves the wrapper's requests. The other allocators are compared."""
    program = compile_c("wraps_malloc", WRAPPER.read_text(), f"-I{WRAPPER.parent}")
    other = compile_c("libempty.so", "int other;", "-shared", "-fPIC")
    done = tool("run", "--library", other, "--", program)
    assert done.returncode == 125 and "malloc would be served by" in done.stderr, done.stderr
    done = tool("doctor", "--library", other, "--", program)
    assert "__libc_malloc of wraps_malloc is libc.so.6's" in " ".join(done.stdout.split()), done.stdout
    allocators = [Allocator(GLIBC, None), Allocator("other", str(other)), Allocator(HAKMEM, str(library))]
    found = preload_plan.plan(resolve([str(program)], os.environ), allocators, os.environ, {}, force=False)
    assert [one.allocator.name for one in found.prepared] == [GLIBC, HAKMEM]
    assert "libc.so" in str(found.prepared[0].serves) and found.prepared[1].serves == str(library)
    assert len(found.notes) == 1 and found.notes[0].startswith("left out: other: malloc would be served by")


def test_scripts_are_followed(compile_c: Compile, library: Path, tmp_path: Path) -> None:
    static = compile_c("static", PLAIN, "-static")
    assert examine(script(tmp_path / "direct", f"#!{static} -x"), library) == "static"
    assert examine(script(tmp_path / "twice", f"#! {tmp_path / 'direct'}"), library) == "static"
    assert examine(script(tmp_path / "shell", "#!/bin/sh"), library) is None


@pytest.mark.parametrize("words", ["", "-S ", "A=1 ", "-S -u HOME B=2 "])
def test_env_in_a_script_is_followed(compile_c: Compile, library: Path, tmp_path: Path, words: str) -> None:
    static = compile_c("static", PLAIN, "-static")
    program = script(tmp_path / "by_env", f"#!/usr/bin/env {words}{static.name}")
    chain = follow(str(program), {"PATH": str(static.parent)})
    assert kind(chain, library) == "static"
    assert len(chain.files) == 3


def test_env_that_empties_the_environment(plain: Path, library: Path, tmp_path: Path) -> None:
    program = script(tmp_path / "empty", f"#!/usr/bin/env -S -i {plain}")
    assert examine(program, library) == "environment"


@pytest.mark.parametrize(
    "content", ["#!", "#!\n", "#!/nowhere/at/all\n", "#!/usr/bin/env\n", "#!/usr/bin/env no-such-program\n"]
)
def test_what_cannot_be_followed_is_unknown(tmp_path: Path, content: str) -> None:
    program = tmp_path / "odd"
    program.write_text(content)
    assert follow(str(program), os.environ).executable is None


def test_a_script_of_itself_ends(tmp_path: Path) -> None:
    program = tmp_path / "loop"
    program.write_text(f"#!{program}\n")
    assert follow(str(program), os.environ).executable is None


@pytest.mark.parametrize(
    "content", [b"", b"\x7fEL", b"\x7fELF", b"\x7fELF" + bytes(60), b"\x7fELF\2\1\1" + b"\xff" * 100]
)
def test_damaged_files_are_unknown(tmp_path: Path, content: bytes) -> None:
    program = tmp_path / "damaged"
    program.write_bytes(content)
    follow(str(program), os.environ)
    assert not elf_check.defines(str(program), "malloc")


def test_definitions(library: Path) -> None:
    assert elf_check.defines(str(library), "malloc")
    assert not elf_check.defines(str(library), "no_such_function")
