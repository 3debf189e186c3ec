"""The Rust crate hakmem-alloc: its own tests with each feature, and its package, built without a network in a clean
folder by the commands of the documents. tools/run_tests.py runs it in `make test-ci`, where cargo is installed."""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATE = ROOT / "bindings/rust"
TARGET = ROOT / "build/crate-test"
README = ROOT / "README.md"
RECIPE = ROOT / "docs/recipes/rust.md"
# Each set compiles other C sources, or other lines of them.
FEATURES = ("", "override", "fast,override")
# The command line tool, without the launcher, which would build the library.
TOOL = f"import sys; sys.path.insert(0, '{ROOT / 'cli'}'); from hakmem.main import main; main()"
NO_STD = """
#![no_std]
#![no_main]
extern crate alloc;

use alloc::{format, vec::Vec};
use core::ffi::{c_char, c_int};

#[global_allocator]
static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;

extern "C" {
    fn puts(text: *const c_char) -> c_int;
    fn abort() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { abort() }
}

// The compiled `alloc` refers to both, where no optimisation at link time removes it.
#[no_mangle]
pub extern "C" fn rust_eh_personality() {}
#[no_mangle]
pub extern "C" fn _Unwind_Resume() {}

#[no_mangle]
pub extern "C" fn main() -> c_int {
    let numbers: Vec<u64> = (0..1000).collect();
    let text = format!("{} {}\\0", numbers.iter().sum::<u64>(), hakmem_alloc::owns(numbers.as_ptr()));
    unsafe { puts(text.as_ptr().cast()) };
    c_int::from(hakmem_alloc::stats().is_err())
}
"""


CDYLIB = """
#[global_allocator]
static ALLOCATOR: hakmem_alloc::Hakmem = hakmem_alloc::Hakmem;

#[no_mangle]
pub extern "C" fn work() -> u64 {
    let allocate = || (0..10_000).map(|n| vec![1_u8; n % 500].len()).sum::<usize>();
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(allocate)).collect();
    let sum: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(hakmem_alloc::owns(Box::new(sum).as_ref()));
    sum as u64
}
"""


def run(*command: str | Path, cwd: Path = ROOT, status: int = 0, **variables: str) -> str:
    """Runs a command, and returns what it printed on either stream."""
    environment = {**os.environ, **variables}
    if shutil.which("ccache") and "CC" not in environment:
        environment["CC"] = "ccache cc"
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == status, done.stdout
    return done.stdout


def cargo(*words: str | Path, cwd: Path = CRATE, **variables: str) -> str:
    return run("cargo", *words, cwd=cwd, **variables)


def shell_lines(page: Path, after: str) -> list[str]:
    """The commands of the first shell block behind a text of the page, without their comments."""
    _, _, rest = page.read_text().partition(after)
    block = re.search(r"```sh\n(.*?)```", rest, re.DOTALL)
    assert block, f"{page} has no commands behind {after!r}"
    return [re.sub(r"\s+# .*", "", line).strip() for line in block[1].splitlines() if line.strip()]


def rust_block(page: Path, after: str) -> str:
    _, _, rest = page.read_text().partition(after)
    block = re.search(r"```rust\n(.*?)```", rest, re.DOTALL)
    assert block, f"{page} has no Rust code behind {after!r}"
    return block[1]


# ---- The crate in the repository.


@pytest.mark.parametrize("features", FEATURES)
def test_its_own_tests(features: str) -> None:
    """Unit, integration and documentation tests."""
    said = cargo("test", "--locked", "--target-dir", TARGET, "--features", features)
    passed = [int(count) for count in re.findall(r"^test result: ok\. (\d+) passed", said, re.MULTILINE)]
    assert sum(passed) >= 25, said


def test_formatting_and_lints() -> None:
    for tool, command in {
        "cargo-fmt": ("fmt", "--check"),
        "cargo-clippy": ("clippy", "--all-targets", "--target-dir", TARGET, "--", "-D", "warnings"),
    }.items():
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
        cargo(*command)


def test_documentation_has_no_warnings() -> None:
    cargo("doc", "--no-deps", "--target-dir", TARGET, RUSTDOCFLAGS="-D warnings")


def compiled_build_script() -> Path:
    """The program of build.rs as it is now: the folder may have those of earlier ones and of other features too."""
    said = cargo("build", "--quiet", "--locked", "--target-dir", TARGET, "--message-format=json")
    artefacts = [json.loads(line) for line in said.splitlines() if line.startswith('{"reason":"compiler-artifact"')]
    (script,) = (
        one["filenames"][0]
        for one in artefacts
        if one["target"]["kind"] == ["custom-build"] and Path(one["target"]["src_path"]) == CRATE / "build.rs"
    )
    return Path(script)


def test_refuses_other_systems() -> None:
    """By a sentence, before anything is compiled: build.rs runs by itself."""
    script = compiled_build_script()
    said = run(
        script, status=101, CARGO_CFG_TARGET_OS="windows", CARGO_CFG_TARGET_POINTER_WIDTH="64", TARGET="x86_64-windows"
    )
    assert "hakmem-alloc runs on 64-bit Linux only, and the target is x86_64-windows" in said


def build_script(**variables: str) -> list[str]:
    """Runs build.rs in a folder of its own; returns the files that it leaves there."""
    folder = Path(variables["OUT_DIR"])
    machine = platform.machine()
    of_cargo = {
        "OS": "linux",
        "POINTER_WIDTH": "64",
        "ARCH": machine,
        "ENV": "gnu",
        "FAMILY": "unix",
        "VENDOR": "unknown",
    }
    environment = {f"CARGO_CFG_TARGET_{name}": value for name, value in of_cargo.items()}
    triple = f"{machine}-unknown-linux-gnu"
    environment |= {
        "TARGET": triple,
        "HOST": triple,
        "OPT_LEVEL": "2",
        "DEBUG": "false",
        "CARGO_MANIFEST_DIR": str(CRATE),
    }
    run(compiled_build_script(), cwd=CRATE, **{**environment, **variables})
    return sorted(file.name for file in folder.iterdir())


def test_no_compiler_for_the_documentation(tmp_path: Path) -> None:
    """docs.rs builds it for arm64 too."""
    assert build_script(OUT_DIR=str(tmp_path), DOCS_RS="1", CC="/bin/false") == []


@pytest.mark.skipif(shutil.which("musl-gcc") is None, reason="musl-gcc is not installed")
def test_musl_gcc_compiles_the_sources(tmp_path: Path) -> None:
    """Debian's has no headers of the kernel."""
    triple = f"{platform.machine()}-unknown-linux-musl"
    left = build_script(OUT_DIR=str(tmp_path), TARGET=triple, CARGO_CFG_TARGET_ENV="musl", CC="musl-gcc")
    assert "libhakmem.a" in left


@pytest.mark.skipif(shutil.which("musl-gcc") is None, reason="musl-gcc is not installed")
def test_the_kernels_headers_are_the_targets(tmp_path: Path) -> None:
    """Where a multilib gcc has the build machine's in /usr/include/asm too; and in place of what another build left."""
    machine = platform.machine()
    own = Path(f"/usr/include/{machine}-linux-gnu/asm")
    if not own.exists():
        pytest.skip("the machine's headers have no folder of their own")
    headers = tmp_path / "kernel-headers"
    headers.mkdir()
    (headers / "asm").symlink_to("/nonexistent")
    (headers / "linux").symlink_to("/usr/include/asm-generic")
    triple = f"{machine}-unknown-linux-musl"
    build_script(OUT_DIR=str(tmp_path), TARGET=triple, CARGO_CFG_TARGET_ENV="musl", CC="musl-gcc")
    assert (headers / "asm").readlink() == own
    assert (headers / "linux").readlink() == Path("/usr/include/linux")


@pytest.mark.parametrize("name", ["CFLAGS", "HOST_CFLAGS"])
def test_link_time_optimisation_of_the_environment(tmp_path: Path, name: str) -> None:
    """As the builds of Arch have it: the objects have code, and the symbols that assembly defines."""
    build_script(OUT_DIR=str(tmp_path), **{name: "-O2 -flto"})
    sections = run("readelf", "-SW", tmp_path / "libhakmem.a")
    assert ".text" in sections and ".gnu.lto" not in sections


# ---- The package.


@pytest.fixture(scope="module")
def package() -> Path:
    run("make", "crate")
    version = re.search(r'^version = "(.*)"', (CRATE / "Cargo.toml").read_text(), re.MULTILINE)
    assert version
    return ROOT / f"dist/hakmem-alloc-{version[1]}.crate"


def test_the_package_has_the_sources(package: Path) -> None:
    with tarfile.open(package) as archive:
        members = {member.name.split("/", 1)[1]: member for member in archive.getmembers()}
    assert all(member.isfile() for member in members.values()), "no link into the repository"
    wanted = {f"csrc/src/{file.relative_to(ROOT / 'src')}" for file in (ROOT / "src").rglob("*.[chd]*")}
    wanted -= {name for name in wanted if not name.endswith((".c", ".h", ".def"))}
    assert wanted <= set(members), wanted - set(members)
    assert {"csrc/include/hakmem/hakmem.h", "csrc/crate.c", "LICENSE", "README.md", "Cargo.lock"} <= set(members)
    assert package.stat().st_size < 1 << 20


@pytest.fixture(scope="module")
def clean(package: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a cargo without a network and with a home of its own, whose crates.io is a folder: the package, and
    the crates that compile it."""
    home = tmp_path_factory.mktemp("cargo-home")
    vendor = home / "vendor"
    run("tar", "xf", package, "-C", home)
    unpacked = home / package.stem
    cargo("vendor", "--quiet", "--locked", vendor, cwd=unpacked)
    (unpacked / ".cargo-checksum.json").write_text('{"files": {}, "package": null}')
    unpacked.rename(vendor / package.stem)
    (home / "config.toml").write_text(
        f'[source.crates-io]\nreplace-with = "vendor"\n[source.vendor]\ndirectory = "{vendor}"\n[net]\noffline = true\n'
    )
    return {"CARGO_HOME": str(home), "CARGO_TARGET_DIR": str(home / "target"), "PACKAGE": str(vendor / package.stem)}


def run_lines(lines: list[str], cwd: Path, variables: dict[str, str]) -> str:
    return run("bash", "-euxc", "\n".join(lines), cwd=cwd, **variables)


def test_the_crates_readme(clean: dict[str, str], tmp_path: Path) -> None:
    """Its first lines make a program, from an empty folder; its malloc is hakmem."""
    page = Path(clean["PACKAGE"]) / "README.md"
    cargo("init", "--quiet", "--vcs", "none", "--name", "program", cwd=tmp_path, **clean)
    run_lines(shell_lines(page, "# hakmem-alloc"), tmp_path, clean)
    (tmp_path / "src/main.rs").write_text(rust_block(page, "# hakmem-alloc"))
    said = cargo("run", "--quiet", cwd=tmp_path, HAKMEM_STATS="1", **clean)
    assert re.match(r"3 words, \d+ bytes in use\n", said), said
    assert "\nhakmem: " in said, "the options of the environment work"


def test_the_readme(clean: dict[str, str], tmp_path: Path) -> None:
    """By the checkout's path, without the package."""
    after = "**5. Linked into Rust.**"
    (tmp_path / "src").mkdir()
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "program"\nversion = "0.1.0"\nedition = "2021"\n')
    (tmp_path / "src/main.rs").write_text(rust_block(README, after) + '\nfn main() { println!("{:?}", vec![1]); }\n')
    lines = [line.replace("/path/to/hakmem", str(ROOT)) for line in shell_lines(README, after)]
    assert any("cargo add" in line for line in lines)
    run_lines(lines, tmp_path, clean)
    said = cargo("run", "--quiet", cwd=tmp_path, HAKMEM_STATS="1", **clean)
    assert said.startswith("[1]\nhakmem: "), said


RECIPE_PROGRAM = """
#[inline(never)]
fn remember() -> Vec<Vec<u8>> {
    (0..1000).map(|_| vec![1; 20_000]).collect()
}

fn main() {
    let blocks = remember();
    println!("{} blocks", blocks.len());
    std::mem::forget(blocks);
}
"""


def test_the_recipe(clean: dict[str, str], tmp_path: Path) -> None:
    """All commands of docs/recipes/rust.md, with `hakmem` on the PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/hakmem").write_text(f'#!/bin/sh\nexec {sys.executable} -I -c "{TOOL}" "$@"\n')
    (tmp_path / "bin/hakmem").chmod(0o755)
    variables = {**clean, "CARGO_TARGET_DIR": "target", "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    cargo("init", "--quiet", "--vcs", "none", "--name", "program", cwd=tmp_path, **clean)
    main = tmp_path / "src/main.rs"
    main.write_text(RECIPE_PROGRAM)
    cargo("build", "--quiet", "--release", cwd=tmp_path, **variables)
    said = run_lines(shell_lines(RECIPE, "First without a change"), tmp_path, variables)
    assert "1000 blocks" in said
    run_lines(shell_lines(RECIPE, "**Then for good.**"), tmp_path, variables)
    main.write_text(rust_block(RECIPE, "Two lines") + RECIPE_PROGRAM)
    said = run_lines(shell_lines(RECIPE, "**Where its memory is.**"), tmp_path, variables)
    assert "1000 blocks" in said and "\nhakmem: " in said, said
    assert re.search(r"MiB.*remember", said), said


def test_a_program_without_std(clean: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.rs").write_text(NO_STD)
    profiles = "".join(f'[profile.{name}]\npanic = "abort"\n' for name in ("dev", "release"))
    (tmp_path / "Cargo.toml").write_text(
        '[package]\nname = "program"\nversion = "0.1.0"\nedition = "2021"\n'
        f'[dependencies]\nhakmem-alloc = "0.1"\n{profiles}'
    )
    cargo("build", "--quiet", cwd=tmp_path, **clean)
    assert run(Path(clean["CARGO_TARGET_DIR"]) / "debug/program") == "499500 true\n"


def test_a_library_that_another_program_loads(clean: dict[str, str], tmp_path: Path) -> None:
    """An extension of Python. It does not change malloc for its host, and stays loaded."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/lib.rs").write_text(CDYLIB)
    (tmp_path / "Cargo.toml").write_text(
        '[package]\nname = "extension"\nversion = "0.1.0"\nedition = "2021"\n'
        '[lib]\ncrate-type = ["cdylib"]\n[dependencies]\nhakmem-alloc = "0.1"\n'
    )
    cargo("build", "--quiet", cwd=tmp_path, **clean)
    library = Path(clean["CARGO_TARGET_DIR"]) / "debug/libextension.so"
    assert not re.search(r" (malloc|free|hakmem_malloc)$", run("nm", "-D", "--defined-only", library), re.MULTILINE)
    program = f"import ctypes, _ctypes; it = ctypes.CDLL('{library}'); print(it.work()); _ctypes.dlclose(it._handle)"
    assert run(sys.executable, "-c", program) == f"{4 * sum(n % 500 for n in range(10_000))}\n"


# Crate and type of global allocators, and what `hakmem doctor` says of a program that has them. jemalloc is left out:
# its build takes minutes.
CHOICES = {
    "mimalloc": ("mimalloc", "MiMalloc", "warning", "Rust with mimalloc as its global allocator"),
    "snmalloc": ("snmalloc-rs", "SnMalloc", "warning", "Rust with snmalloc as its global allocator"),
    "hakmem": ("hakmem-alloc", "Hakmem", "note", "Rust with hakmem as its global allocator"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_doctor_knows_the_global_allocator(name: str, tmp_path: Path) -> None:
    """As the compiler leaves the program, and stripped."""
    crate, kind, level, text = CHOICES[name]
    cargo("init", "--quiet", "--vcs", "none", "--name", "program", cwd=tmp_path)
    cargo("add", "--quiet", *(["--path", CRATE] if name == "hakmem" else [crate]), cwd=tmp_path)
    path = f"{crate.replace('-', '_')}::{kind}"
    (tmp_path / "src/main.rs").write_text(
        f'#[global_allocator]\nstatic A: {path} = {path};\nfn main() {{ println!("{{:?}}", vec![1]); }}\n'
    )
    cargo("build", "--quiet", "--target-dir", TARGET / "choices", cwd=tmp_path)
    program = TARGET / "choices/debug/program"
    for wanted in (text, text.replace("as its global", "as its (probable )?global")):
        said = json.loads(tool("doctor", "--json", "-", "--", program))
        found = [one for one in said["findings"] if one["subject"] == "bundled allocator"]
        assert [one["level"] for one in found] == [level] and re.search(wanted, found[0]["found"]), found
        run("strip", program)


# ---- Looking into a program: the example, and the tool's recipe.


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=30) as answer:
        content: bytes = answer.read()
        return content


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[str, int]]:
    """The example's address and process."""
    cargo("build", "--quiet", "--locked", "--target-dir", TARGET, "--example", "service")
    process = subprocess.Popen(
        [TARGET / "debug/examples/service", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert process.stdout
    line = process.stdout.readline()
    found = re.fullmatch(r"listening on (http://\S+)\n", line)
    assert found, line
    yield found[1], process.pid
    process.terminate()
    process.wait(10)


def tool(*words: str | Path) -> str:
    return run(sys.executable, "-I", "-c", TOOL, *words)


def test_the_service_answers(service: tuple[str, int], tmp_path: Path) -> None:
    address, _ = service
    stats = fetch(f"{address}/stats").decode()
    live = re.search(r"live_bytes: (\d+)", stats)
    assert live and int(live[1]) > 20_000_000, stats
    profile = fetch(f"{address}/debug/pprof/heap")
    assert b"inuse_space" in gzip.decompress(profile)
    (tmp_path / "heap.pb.gz").write_bytes(profile)
    table = tool("profile", "--input", tmp_path / "heap.pb.gz")
    assert "remember_session" in table, table
    assert "went back" in fetch(f"{address}/collect").decode()


def test_the_tool_looks_inside(service: tuple[str, int]) -> None:
    """hakmem's serve thread is there without the feature `override` too."""
    _, pid = service
    for _ in range(50):
        snapshot = json.loads(tool("stats", "--json", str(pid)))
        if snapshot["live"]["bytes"] > 20_000_000:
            break
        time.sleep(0.1)
    assert snapshot["live"]["bytes"] > 20_000_000
    assert "resident" in tool("explain", str(pid))
