"""`hakmem doctor` reads the global allocator of a Rust program from its file. Programs of C have the symbols of what
rustc compiles, and rustc compiles real ones where it is installed; tests/crate has those with crates."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import List

import pytest
from cli_support import Compile
from hakmem.doctor import bundled
from hakmem.doctor.finding import Finding, Level

# As rustc 1.95 names them; older ones have plain names.
PREFIX = "_RNvCsfLfy6EI15iL_7___rustc"
CALLED, SYSTEM, SHIM = (
    PREFIX + "12___rust_alloc",
    PREFIX + "11___rdl_alloc",
    PREFIX + "35___rust_no_alloc_shim_is_unstable_v2",
)
CHOSEN = (Level.NOTE, "a global allocator of its own choice")
NONE = (Level.OK, "none was found")


def findings(path: Path) -> List[Finding]:
    return list(bundled.check(str(path), ()))


def one(path: Path) -> Finding:
    (finding,) = findings(path)
    return finding


def with_symbols(compile_c: Compile, name: str, *symbols: str, text: str = "", flags: tuple[str, ...] = ()) -> Path:
    functions = "".join(f"void {symbol}(void) {{}}\n" for symbol in symbols)
    source = f'{functions}const char *volatile text = "{text}"; const char *volatile std = "RUST_BACKTRACE";\n'
    return compile_c(name, f"{source}int main(void) {{ return text == std; }}", *flags)


@pytest.mark.parametrize(
    "symbols, expected",
    [
        ((CALLED, SYSTEM, SHIM), NONE),
        ((CALLED, SHIM), CHOSEN),
        ((CALLED,), NONE),  # optimised at link time
        (("__rust_alloc", "__rdl_alloc", "__rust_no_alloc_shim_is_unstable"), NONE),
        (("__rust_alloc", "__rg_alloc"), CHOSEN),
        ((), NONE),
    ],
    ids=["system", "own", "lto", "older system", "older own", "stripped"],
)
def test_the_choice_by_symbols(compile_c: Compile, symbols: tuple[str, ...], expected: tuple[Level, str]) -> None:
    finding = one(with_symbols(compile_c, f"rust{len(symbols)}{'_'.join(symbols)[:40]}", *symbols))
    assert finding.level is expected[0] and expected[1] in finding.found


@pytest.mark.parametrize(
    "allocator, text",
    [
        ("jemalloc", "<jemalloc>: %s"),
        ("mimalloc", "mimalloc: error: "),
        ("snmalloc", "Failed to initialise snmalloc."),
    ],
)
def test_a_known_allocator(compile_c: Compile, allocator: str, text: str) -> None:
    chosen = one(with_symbols(compile_c, f"chosen_{allocator}", CALLED, SHIM, text=text))
    assert chosen.level is Level.WARNING and f"Rust with {allocator} as its global allocator" in chosen.found
    assert "hakmem_alloc::Hakmem" in chosen.todo
    stripped = one(with_symbols(compile_c, f"stripped_{allocator}", CALLED, SHIM, text=text, flags=("-s",)))
    assert f"Rust with {allocator} as its probable global allocator" in stripped.found
    inside = one(with_symbols(compile_c, f"inside_{allocator}", CALLED, SYSTEM, SHIM, text=text))
    assert f"has {allocator} in it" in inside.found and "Rust" not in inside.found


@pytest.mark.parametrize("flags", [(), ("-s",)], ids=["named", "stripped"])
def test_hakmem_as_the_choice(compile_c: Compile, flags: tuple[str, ...]) -> None:
    mark = "hakmem: this process answers, protocol 1"
    finding = one(with_symbols(compile_c, f"rust_hakmem{len(flags)}", CALLED, SHIM, text=mark, flags=flags))
    assert finding.level is Level.NOTE and "Rust with hakmem as its global allocator" in finding.found


def test_names_in_debug_information_are_no_functions(compile_c: Compile) -> None:
    """The standard library's debug information describes __rdl_alloc also in a program that does not have it."""
    source = f"""struct __rdl_alloc {{ int x; }} here; const char *volatile std = "RUST_BACKTRACE";
        void {CALLED}(void) {{}} void {SHIM}(void) {{}} int main(void) {{ return here.x; }}"""
    program = compile_c("described", source, "-g")
    assert b"__rdl_alloc\0" in program.read_bytes()
    assert CHOSEN[1] in one(program).found


CHOICES = {
    "default": ("", NONE),
    "system": ("#[global_allocator] static A: std::alloc::System = std::alloc::System;", CHOSEN),
    "wrapper": (
        """use std::alloc::{GlobalAlloc, Layout, System}; struct Own;
        unsafe impl GlobalAlloc for Own {
            unsafe fn alloc(&self, l: Layout) -> *mut u8 { System.alloc(l) }
            unsafe fn dealloc(&self, p: *mut u8, l: Layout) { System.dealloc(p, l) }
        }
        #[global_allocator] static A: Own = Own;""",
        CHOSEN,
    ),
}


@pytest.mark.skipif(shutil.which("rustc") is None, reason="there is no rustc")
@pytest.mark.parametrize("choice", CHOICES)
def test_programs_of_rustc(choice: str, tmp_path: Path) -> None:
    allocator, expected = CHOICES[choice]
    source, program = tmp_path / "main.rs", tmp_path / choice
    source.write_text(f'{allocator}\nfn main() {{ println!("{{}}", [1, 2].map(|n| n.to_string()).concat()); }}')
    subprocess.run(["rustc", "-O", "-o", program, source], check=True, timeout=120)
    finding = one(program)
    assert finding.level is expected[0] and expected[1] in finding.found
    subprocess.run(["strip", program], check=True)
    assert one(program).found == NONE[1]  # what a stripped file says is the same for each of them
