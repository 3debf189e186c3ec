"""An installed hakmem can be found and linked: find_package from a C-only project, pkg-config, shared and static."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HAKMEM_TEST_BUILD_DIR", str(ROOT / "build/release"))
PROGRAM = """
#include <hakmem/hakmem.h>
#include <stdlib.h>

int main(void) {
  void *block = malloc(100);
  bool ours = hakmem_check_owned(block);
  free(block);
  return ours ? EXIT_SUCCESS : EXIT_FAILURE;
}
"""
# Programs that name nothing of the library: the first allocates by new, in the others only the libraries allocate.
CXX = """
#include <stdio.h>
#include <new>
#include <vector>
int main(void) {
  std::vector<int> numbers;
  for (int i = 0; i < 1000; i++) numbers.push_back(i);
  try {
    std::vector<char> all(size_t{1} << 60);
    return 1;
  } catch (const std::bad_alloc &) {
    return puts("ok") < 0;
  }
}
"""
CXX_STRINGS = """
#include <iostream>
#include <string>
int main(void) {
  std::string text(1000, 'x');
  for (int i = 0; i < 100; i++) text += text.substr(0, 10);
  std::cout << (text.size() == 2000 ? "ok\\n" : "no\\n");
}
"""
C = """
#define _GNU_SOURCE
#include <stdio.h>
int main(void) {
  char *line = 0;
  size_t room = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  while (getline(&line, &room, file) > 0) {}
  return puts("ok") < 0;
}
"""
SILENT = {"cxx.cc": CXX, "cxx_strings.cc": CXX_STRINGS, "c.c": C}
PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(consumer C)
find_package(hakmem 0.1 REQUIRED)
foreach(kind IN ITEMS hakmem hakmem_static hakmem_fast hakmem_secure)
  add_executable(with_${kind} program.c)
  target_link_libraries(with_${kind} PRIVATE hakmem::${kind})
endforeach()
"""
SILENT_PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(consumer C CXX)
find_package(hakmem 0.1 REQUIRED)
set(CMAKE_EXE_LINKER_FLAGS "-Wl,--as-needed ${CMAKE_EXE_LINKER_FLAGS}")
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
foreach(source IN ITEMS cxx.cc cxx_strings.cc c.c)
  foreach(kind IN ITEMS hakmem hakmem_static hakmem_fast hakmem_secure)
    add_executable(${kind}_${source} ${source})
    target_link_libraries(${kind}_${source} PRIVATE hakmem::${kind})
  endforeach()
  add_executable(all_static_${source} ${source})
  target_link_libraries(all_static_${source} PRIVATE hakmem::hakmem_static -static)
  add_executable(lto_${source} ${source})
  set_property(TARGET lto_${source} PROPERTY INTERPROCEDURAL_OPTIMIZATION ON)
  target_link_libraries(lto_${source} PRIVATE hakmem::hakmem_static)
endforeach()
"""
PKG_CONFIG_PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(consumer C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HAKMEM REQUIRED IMPORTED_TARGET hakmem)
add_executable(target c.c)
target_link_libraries(target PRIVATE PkgConfig::HAKMEM)
add_executable(flags c.c)
target_link_libraries(flags PRIVATE ${HAKMEM_LDFLAGS})
"""
KINDS = ("hakmem", "hakmem_static", "hakmem_fast", "hakmem_secure", "all_static", "lto")


def run(*command: str | Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix that hakmem was installed to and then moved from, so that no path of it can be baked in."""
    installed = tmp_path_factory.mktemp("install") / "first"
    run("cmake", "--install", BUILD, "--prefix", installed)
    return installed.rename(installed.with_name("moved"))


def test_find_package(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    for kind in ("hakmem", "hakmem_static", "hakmem_fast", "hakmem_secure"):
        run(tmp_path / "build" / f"with_{kind}")
    assert "stdc++" not in run("readelf", "-d", tmp_path / "build" / "with_hakmem_static")
    # Which have functions that the library calls before glibc 2.34.
    for described in ("hakmem-targets.cmake", "hakmem.pc", "libhakmem.a"):
        text = next(prefix.rglob(described)).read_text()
        assert "-ldl" in text and "pthread" in text, described


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is not installed")
def test_pkg_config(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(PROGRAM)
    description = next(prefix.rglob("hakmem.pc"))
    flags = run("pkg-config", "--cflags", "--libs", "hakmem", PKG_CONFIG_PATH=str(description.parent)).split()
    run("cc", "-o", tmp_path / "program", tmp_path / "program.c", *flags)
    run(tmp_path / "program", LD_LIBRARY_PATH=str(description.parent.parent))


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is not installed")
def test_pkg_config_of_a_sysroot(tmp_path: Path) -> None:
    """Each path lies in the sysroot, also where pkg-config leaves the sysroot out of the file's own place."""
    run("cmake", "--install", BUILD, "--prefix", tmp_path / "usr")
    (tmp_path / "program.c").write_text(PROGRAM)
    folder = next(tmp_path.rglob("hakmem.pc")).parent
    variables = {"PKG_CONFIG_SYSROOT_DIR": str(tmp_path), "PKG_CONFIG_LIBDIR": str(folder)}
    flags = run("pkg-config", "--cflags", "--libs", "hakmem", **variables).split()
    run("cc", "-o", tmp_path / "program", tmp_path / "program.c", *flags)
    run(tmp_path / "program", LD_LIBRARY_PATH=str(folder.parent))
    prefix = run("pkg-config", "--variable=prefix", "hakmem", PKG_CONFIG_PATH=str(folder)).strip()
    assert os.path.samefile(prefix, tmp_path / "usr")


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is not installed")
def test_pkg_check_modules(prefix: Path, tmp_path: Path) -> None:
    """CMake takes pkg-config's words apart, and looks for each library itself."""
    (tmp_path / "c.c").write_text(C)
    (tmp_path / "CMakeLists.txt").write_text(PKG_CONFIG_PROJECT)
    folder = next(prefix.rglob("hakmem.pc")).parent
    variables = {"PKG_CONFIG_PATH": str(folder)}
    run("cmake", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "build", **variables)
    run("cmake", "--build", tmp_path / "build")
    for name in ("target", "flags"):
        expect_ours(tmp_path / "build" / name, LD_LIBRARY_PATH=str(folder.parent))


# ---- Linking is enough.


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs that name nothing of the library."""
    folder = tmp_path_factory.mktemp("silent")
    for name, text in SILENT.items():
        (folder / name).write_text(text)
    (folder / "CMakeLists.txt").write_text(SILENT_PROJECT)
    return folder


def expect_ours(program: Path, **variables: str) -> None:
    """The program's malloc is hakmem: it reads options, and counts allocations."""
    done = subprocess.run(
        [program],
        env={**os.environ, "HAKMEM_STATS": "1", **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert done.stderr.startswith("hakmem: "), "the statistics are the library's word"


def link(source: Path, program: Path, *flags: str | Path) -> str:
    return run("c++" if source.suffix == ".cc" else "cc", "-O0", "-o", program, source, *flags)


@pytest.mark.parametrize(
    "flags", ["", "-static", "-static-pie", "-O2 -flto", "-O2 -flto -static", "-Wl,--gc-sections,--as-needed"]
)
@pytest.mark.parametrize("name", SILENT)
def test_by_hand(prefix: Path, silent: Path, tmp_path: Path, name: str, flags: str) -> None:
    """As the file, and by -L and -l; nothing is warned of."""
    library = next(prefix.rglob("libhakmem.a"))
    assert link(silent / name, tmp_path / "file", *flags.split(), library) == ""
    expect_ours(tmp_path / "file")
    (tmp_path / "lib").mkdir()
    for file in ("libhakmem.a", "libhakmem-archive.a", "hakmem-link.o"):  # a folder without the shared one
        shutil.copy(library.with_name(file), tmp_path / "lib")
    assert link(silent / name, tmp_path / "name", *flags.split(), "-L", tmp_path / "lib", "-lhakmem") == ""
    expect_ours(tmp_path / "name")


@pytest.mark.parametrize("linker", ["gold", "lld"])
@pytest.mark.parametrize("name", SILENT)
def test_other_linkers(prefix: Path, silent: Path, tmp_path: Path, name: str, linker: str) -> None:
    if shutil.which(f"ld.{linker}") is None:
        pytest.skip(f"{linker} is not installed")
    link(silent / name, tmp_path / "program", f"-fuse-ld={linker}", next(prefix.rglob("libhakmem.a")))
    expect_ours(tmp_path / "program")


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
@pytest.mark.parametrize("name", SILENT)
def test_no_linker_drops_the_shared_library(prefix: Path, silent: Path, tmp_path: Path, name: str, linker: str) -> None:
    """Where unused sections and unused shared libraries go, the reference of hakmem-link.o stays."""
    if shutil.which(f"ld.{linker}") is None:
        pytest.skip(f"{linker} is not installed")
    folder = next(prefix.rglob("hakmem-link.o")).parent
    flags = (f"-fuse-ld={linker}", "-Wl,--gc-sections,--as-needed", f"-Wl,-rpath,{folder}")
    link(silent / name, tmp_path / "program", *flags, folder / "hakmem-link.o", f"-L{folder}", "-lhakmem")
    expect_ours(tmp_path / "program")


def test_the_archive_alone(prefix: Path, silent: Path, tmp_path: Path) -> None:
    """By `new` the C library's names come too, and by -u where a program names nothing."""
    archive = next(prefix.rglob("libhakmem-archive.a"))
    link(silent / "cxx.cc", tmp_path / "new", archive)
    expect_ours(tmp_path / "new")
    link(silent / "c.c", tmp_path / "nothing", "-Wl,-u,malloc", archive)
    expect_ours(tmp_path / "nothing")


# Each name of the C library that is weak in the archive, as the program's own with -DOWN=1.
EXTRAS = """
#define _GNU_SOURCE
#include <hakmem/hakmem.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);
void cfree(void *block);
static int own;
#if OWN
static void *from_posix(size_t alignment, size_t size) {
  void *block = NULL;
  own++;
  return posix_memalign(&block, alignment, size) == 0 ? block : NULL;
}
void *reallocarray(void *block, size_t count, size_t size) { own++; return realloc(block, count * size); }
void *aligned_alloc(size_t alignment, size_t size) { return from_posix(alignment, size); }
void *memalign(size_t alignment, size_t size) { return from_posix(alignment, size); }
void *valloc(size_t size) { return from_posix(4096, size); }
void *pvalloc(size_t size) { return from_posix(4096, size); }
void free_sized(void *block, size_t size) { (void)size; own++; free(block); }
void free_aligned_sized(void *block, size_t alignment, size_t size) { (void)alignment; free_sized(block, size); }
void cfree(void *block) { own++; free(block); }
size_t malloc_usable_size(void *block) { (void)block; own++; return 7; }
int malloc_trim(size_t pad) { (void)pad; own++; return 7; }
struct mallinfo mallinfo(void) { own++; return (struct mallinfo){0}; }
struct mallinfo2 mallinfo2(void) { own++; return (struct mallinfo2){0}; }
int malloc_info(int options, FILE *stream) { (void)options; (void)stream; own++; return 7; }
void malloc_stats(void) { own++; }
int mallopt(int parameter, int value) { (void)parameter; (void)value; own++; return 7; }
#endif
static void *expect(void *block) {
  if (!hakmem_check_owned(block)) abort();
  return block;
}
int main(void) {
  free(expect(malloc(10)));
  free(expect(calloc(1, 10)));
  free(expect(realloc(NULL, 10)));
  free(expect(reallocarray(NULL, 10, 10)));
  free(expect(memalign(64, 10)));
  free(expect(valloc(10)));
  free(expect(pvalloc(10)));
  free_sized(expect(malloc(10)), 10);
  cfree(expect(malloc(10)));
  void *block = expect(aligned_alloc(64, 64));
  if (malloc_usable_size(block) < (OWN ? 7 : 64)) abort();
  free_aligned_sized(block, 64, 64);
  malloc_trim(0);
  if (mallinfo().uordblks < 0 || mallinfo2().arena == 1) abort();
  if (malloc_info(0, fopen("/dev/null", "w")) != (OWN ? 7 : 0)) abort();
  malloc_stats();
  mallopt(M_ARENA_MAX, 1);
  puts(own == (OWN ? 15 : 0) ? "ok" : "not the program's own");
  return 0;
}
"""


@pytest.mark.parametrize("flags", ["", "-static", "-static-pie", "-O2 -flto", "gold", "lld", "mold"])
@pytest.mark.parametrize("own", [0, 1])
def test_names_of_the_program(prefix: Path, tmp_path: Path, own: int, flags: str) -> None:
    """A program may define the rarer names of the C library itself, as with glibc; the others are then hakmem's."""
    if flags[:1] not in ("", "-"):
        if shutil.which(f"ld.{flags}") is None:
            pytest.skip(f"{flags} is not installed")
        flags = f"-fuse-ld={flags}"
    (tmp_path / "program.c").write_text(EXTRAS)
    archive = next(prefix.rglob("libhakmem-archive.a"))
    quiet = ("-fno-builtin", "-Wno-deprecated-declarations")
    words = (*flags.split(), *quiet, f"-DOWN={own}", f"-I{prefix / 'include'}")
    link(tmp_path / "program.c", tmp_path / "program", *words, archive.with_name("hakmem-link.o"), archive)
    expect_ours(tmp_path / "program")


@pytest.mark.skipif(shutil.which("rustc") is None, reason="rustc is not installed")
@pytest.mark.parametrize("library", ["static=hakmem-archive", "hakmem"])
def test_rust(prefix: Path, tmp_path: Path, library: str) -> None:
    """Without the crate: Rust's standard allocator calls malloc."""
    (tmp_path / "main.rs").write_text('fn main() { let text = vec![String::from("ok")]; println!("{}", text[0]); }\n')
    folder = next(prefix.rglob("libhakmem.a")).parent
    words = ("-L", f"native={folder}", "-l", library, "-o", tmp_path / "program", tmp_path / "main.rs")
    done = subprocess.run(["rustc", *words], capture_output=True, text=True, check=False)
    if "no default toolchain" in done.stderr or "no override" in done.stderr:
        pytest.skip("rustup has no toolchain")
    assert done.returncode == 0, done.stderr
    expect_ours(tmp_path / "program", LD_LIBRARY_PATH=str(folder))


def test_find_package_of_what_names_nothing(prefix: Path, silent: Path, tmp_path: Path) -> None:
    """Under --as-needed, static, and optimised at link time."""
    run("cmake", "-G", "Ninja", "-S", silent, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path)
    for kind in KINDS:
        for name in SILENT:
            expect_ours(tmp_path / f"{kind}_{name}")


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="pkg-config is not installed")
@pytest.mark.parametrize("flags", ["-Wl,--as-needed", "-static", "-static-pie", "-O2 -flto -static"])
@pytest.mark.parametrize("name", SILENT)
def test_pkg_config_of_what_names_nothing(prefix: Path, silent: Path, tmp_path: Path, name: str, flags: str) -> None:
    description = next(prefix.rglob("hakmem.pc"))
    is_static = ["--static"] if "static" in flags else []
    asked = run("pkg-config", *is_static, "--cflags", "--libs", "hakmem", PKG_CONFIG_PATH=str(description.parent))
    link(silent / name, tmp_path / "program", *flags.split(), *asked.split())
    expect_ours(tmp_path / "program", LD_LIBRARY_PATH=str(description.parent.parent))


@pytest.mark.parametrize("ipo, flags", [("ON", ""), ("OFF", "-flto")])
def test_a_build_with_optimisation_at_link_time(tmp_path: Path, ipo: str, flags: str) -> None:
    """The library's own objects take no part in it: the linker finds the symbols that assembly in them defines."""
    options = (f"-DCMAKE_INTERPROCEDURAL_OPTIMIZATION={ipo}", "-DHK_TESTS=OFF", "-DHK_BENCH=OFF")
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path, *options, CFLAGS=flags, CXXFLAGS=flags)
    run("cmake", "--build", tmp_path, "--target", "hakmem_override")
    for source, symbol in {"dlopen.c": "hk_own_dlopen", "seccomp.c": "syscall"}.items():
        symbols = run("nm", "--defined-only", next(tmp_path.rglob(f"hakmem_override.dir/**/{source}.o")))
        assert symbol in symbols.split()


@pytest.mark.parametrize("name", ["a,b", "a b", "o'brien", "c++", "a(b)", "a&b"])
def test_a_checkout_of_that_name(name: str, tmp_path: Path) -> None:
    """The linker finds both of its scripts. A link without objects shows it, and takes no time."""
    checkout, build = tmp_path / name / "checkout", tmp_path / name / "build"
    checkout.parent.mkdir()
    checkout.symlink_to(ROOT)
    run("cmake", "-G", "Ninja", "-S", checkout, "-B", build, "-DHK_TESTS=OFF", "-DHK_BENCH=OFF")
    commands = run("ninja", "-C", build, "-t", "commands", "libhakmem.so").splitlines()
    linked = next(line for line in commands if " -shared " in line)
    assert "hakmem-order-" in linked, "the linker did not take the script that orders code and data"
    without_objects = re.sub(r"\S+\.o\b", "", linked)
    run("bash", "-euc", f"cd {shlex.quote(str(build))}; {without_objects}")
    assert next(build.glob("libhakmem.so.*")).is_file()


@pytest.mark.parametrize("letter", list('$#";<>|*?[]'))
def test_a_checkout_that_cannot_be_built_is_refused(letter: str, tmp_path: Path) -> None:
    """At once, and by the letter in its path."""
    folder = tmp_path / f"a{letter}b"
    folder.mkdir()
    (folder / "checkout").symlink_to(ROOT)
    for source, build in ((folder / "checkout", tmp_path / "build"), (ROOT, folder / "build")):
        words = ("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DHK_TESTS=OFF", "-DHK_BENCH=OFF")
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        said = " ".join(done.stderr.split())
        assert done.returncode != 0 and f"in a folder whose path has {letter}: " in said, said
        assert said.count("CMake Error at") == 1, said


@pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed")
def test_a_build_where_ccache_cannot_write(tmp_path: Path) -> None:
    """As in a container whose user has no home: there ccache compiles nothing."""
    without_links = [folder for folder in os.environ["PATH"].split(":") if "ccache" not in folder]
    variables = {"CCACHE_DIR": "/proc/no/folder", "PATH": ":".join(without_links)}
    said = run("cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path, "-DHK_TESTS=OFF", **variables)
    assert "compiling without it" in said
    run("cmake", "--build", tmp_path, "--target", "hakmem_link", **variables)
