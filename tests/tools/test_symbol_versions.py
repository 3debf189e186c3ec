"""The versions of the library's names keep no program from being bound to it, preloaded or linked."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("HAKMEM_TEST_BUILD_DIR", ROOT / "build/release"))
NAMES = set(re.sub(r"#.*", "", (ROOT / "src/override/standard_names.txt").read_text()).split())
# Some of the names have a version of the C library's or the C++ runtime's where this is linked without hakmem.
PROGRAM = """
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <new>
#include <string>
int main() {
  void *volatile blocks[] = {malloc(1), calloc(1, 1), realloc(nullptr, 1), memalign(64, 1), aligned_alloc(64, 64),
                             valloc(1), pvalloc(1), reallocarray(nullptr, 1, 1)};
  void *aligned = nullptr;
  if (posix_memalign(&aligned, 64, 1) != 0 || malloc_usable_size(aligned) == 0) return 1;
  free(aligned);
  for (void *block : blocks) free(block);
  ::operator delete(::operator new(1, std::nothrow));
  ::operator delete(::operator new(128, std::align_val_t(64)), std::align_val_t(64));
  delete[] new std::string[2];
  malloc_trim(0);
  mallopt(M_TRIM_THRESHOLD, 1);
  prctl(PR_GET_DUMPABLE);
  syscall(0, -1, nullptr, 0);
  return dlopen(nullptr, RTLD_NOW) == nullptr;
}
"""
LEAST = {"malloc", "free", "calloc", "realloc", "memalign", "dlopen", "prctl", "syscall", "_Znam", "_ZdlPv"}
VERSIONED = """
#include <hakmem/hakmem.h>
int main(void) { return hakmem_version()[0] != '0'; }
"""


def run(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **variables}, check=False, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def bindings(program: Path, **variables: str) -> list[tuple[str, str, str, str]]:
    """From which file to which one, the name, and the version that the reference has."""
    told = run(program, LD_DEBUG="bindings", LD_BIND_NOW="1", **variables)
    pattern = r"binding file (\S+) \[0\] to (\S+) \[0\]: normal symbol `(\w+)'(?: \[(\S+)\])?"
    return [(Path(one).name, Path(two).name, name, version) for one, two, name, version in re.findall(pattern, told)]


def compiled(folder: Path, text: str, *flags: str | Path) -> Path:
    (folder / "program.cc").write_text(text)
    run("c++", "-O0", "-fno-builtin", "-std=c++17", "-o", folder / "program", folder / "program.cc", *flags)
    return folder / "program"


@pytest.mark.parametrize("variant", ["libhakmem", "libhakmem-fast", "libhakmem-secure"])
@pytest.mark.parametrize("way", ["preload", "link"])
def test_every_reference_is_bound_to_hakmem(tmp_path: Path, way: str, variant: str) -> None:
    """The program's references, and those of the C library and the C++ runtime themselves."""
    if way == "preload":
        found = bindings(compiled(tmp_path, PROGRAM), LD_PRELOAD=str(BUILD / f"{variant}.so"))
    else:
        link = ("-L", BUILD, f"-l{variant.removeprefix('lib')}", f"-Wl,-rpath,{BUILD}")
        found = bindings(compiled(tmp_path, PROGRAM, *link))
    ours = [one for one in found if one[2] in NAMES and not one[0].startswith("libhakmem")]
    assert [one for one in ours if not one[1].startswith(f"{variant}.so")] == []
    assert {name for program, _, name, _ in ours if program == "program"} >= LEAST
    assert {"libc.so.6", "libstdc++.so.6"} <= {one[0] for one in ours}
    # A program that was linked without the library refers to a version that the library does not define. (The dynamic
    # linker refers to the C library's version in any case, in the program's name.)
    versions = {version for program, _, name, version in ours if (program, name) == ("program", "_Znam")}
    assert all(version.startswith("GLIBCXX_") for version in versions) if way == "preload" else versions == {""}


def test_hakmem_names_have_a_version(tmp_path: Path) -> None:
    """A program that is linked with the library needs the version, and the library by the number of its interface."""
    include = ("-I", ROOT / "include", "-L", BUILD, "-lhakmem", f"-Wl,-rpath,{BUILD}")
    program = compiled(tmp_path, VERSIONED, *include)
    assert ("program", "libhakmem.so.0", "hakmem_version", "HAKMEM_0.1") in bindings(program)
    assert "Shared library: [libhakmem.so.0]" in run("readelf", "-d", program)
    assert re.search(r"File: libhakmem.so.0 .*\n.*Name: HAKMEM_0.1", run("readelf", "-V", program))


@pytest.mark.parametrize("variant", ["libhakmem", "libhakmem-fast", "libhakmem-secure"])
def test_names_of_the_files(variant: str) -> None:
    """What programs name leads to what they are bound to, and that to the file with the whole version."""
    header = (ROOT / "include/hakmem/hakmem.h").read_text()
    version = ".".join(re.findall(r"#define HAKMEM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    assert os.readlink(BUILD / f"{variant}.so") == f"{variant}.so.0"
    assert os.readlink(BUILD / f"{variant}.so.0") == f"{variant}.so.{version}"
    assert f"soname: [{variant}.so.0]" in run("readelf", "-d", BUILD / f"{variant}.so")
