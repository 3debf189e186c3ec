"""<hakmem/hakmem.h> with blocks that have no contents yet: the compilers warn of nothing, in C and C++."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include/hakmem/hakmem.h"
# A statement for each function that does not read what its pointer points to; `p` comes from an allocation. Frees end
# a program's use of the block.
CALLS = {
    "hakmem_check_owned": "return hakmem_check_owned(p);",
    "hakmem_describe": "return (int)hakmem_describe(p, line, sizeof line) + line[0];",
    "hakmem_heap_of": "return hakmem_heap_of(p) != NULL;",
    "hakmem_tag_of": "return hakmem_tag_of(p) != NULL;",
    "hakmem_malloc_usable_size": "return (int)hakmem_malloc_usable_size(p);",
    "hakmem_free": "hakmem_free(p); return 0;",
    "hakmem_cfree": "hakmem_cfree(p); return 0;",
    "hakmem_free_sized": "hakmem_free_sized(p, 40); return 0;",
    "hakmem_free_aligned_sized": "hakmem_free_aligned_sized(p, 64, 40); return 0;",
    "hakmem_realloc": "return hakmem_realloc(p, 80) != NULL;",
    "hakmem_reallocarray": "return hakmem_reallocarray(p, 2, 80) != NULL;",
    "hakmem_aligned_realloc": "return hakmem_aligned_realloc(p, 64, 80) != NULL;",
}
ALLOCATIONS = ("malloc(40)", "hakmem_malloc(40)", "aligned_alloc(64, 128)")


def test_every_function_with_a_pointer_is_here() -> None:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    declared = re.findall(r"^HAKMEM_EXPORT [\w\s*]*?\*?(hakmem_\w+)\(((?:const )?void \*(?!\*))", text, re.MULTILINE)
    assert {name for name, _ in declared} == set(CALLS)


@pytest.mark.parametrize("compiler, language", [("gcc", "c"), ("g++", "c++"), ("clang", "c"), ("clang++", "c++")])
def test_no_warning(compiler: str, language: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    functions = [
        f"int use{n}_{name}(void) {{ char line[200] = {{0}}; void *p = {allocation}; (void)line; {call} }}"
        for name, call in CALLS.items()
        for n, allocation in enumerate(ALLOCATIONS)
    ]
    on_stack = [
        "int stack_owned(void) { char area[16]; return hakmem_check_owned(area); }",
        "int stack_described(void) { char area[16]; return (int)hakmem_describe(area, NULL, 0); }",
    ]
    source = tmp_path / ("program.c" if language == "c" else "program.cc")
    declarations = [re.sub(r"\(void\).*", "(void);", line) for line in (*functions, *on_stack)]
    source.write_text(
        "\n".join(("#include <hakmem/hakmem.h>\n#include <stdlib.h>", *declarations, *functions, *on_stack))
    )
    words = ("-O2", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", "-S", "-o", "/dev/null")
    done = subprocess.run([compiler, *words, source], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_warning_exists(tmp_path: Path) -> None:
    """gcc warns where a function may read the block: the test above would notice."""
    source = tmp_path / "program.c"
    source.write_text("#include <stdlib.h>\nint reads(const void *);\nint main(void) { return reads(malloc(40)); }\n")
    words = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-S", "-o", "/dev/null", source]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if "clang" in subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("gcc is clang here")
    assert "-Werror=maybe-uninitialized" in done.stderr


@pytest.mark.parametrize(
    "compiler, standard", [("gcc", "c99"), ("g++", "c++11"), ("clang", "c99"), ("clang++", "c++11")]
)
def test_the_least_language(compiler: str, standard: str) -> None:
    """The header's first sentence names it."""
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    assert standard.upper() in HEADER.read_text().partition("\n")[0]
    kind = "c++" if "+" in standard else "c"
    words = (f"-std={standard}", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}")
    done = subprocess.run(
        [compiler, *words, "-x", kind, "-fsyntax-only", "-"], input="#include <hakmem/hakmem.h>\n",
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


# What a program sees of a glibc before 2.33: no mallinfo2.
OLD_MALLOC_H = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#undef __attr_dealloc
#undef __GLIBC_MINOR__
#define __GLIBC_MINOR__ 31
struct mallinfo { int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost; };
"""


@pytest.mark.parametrize("malloc_h", ["#include_next <malloc.h>\n", OLD_MALLOC_H], ids=["this glibc", "2.31"])
def test_an_old_c_library(tmp_path: Path, malloc_h: str) -> None:
    """Debian 11 and RHEL 8 have one."""
    (tmp_path / "malloc.h").write_text(malloc_h)
    (tmp_path / "program.c").write_text(
        "#include <hakmem/hakmem.h>\nsize_t arena(void) { return hakmem_mallinfo2().arena; }\n"
    )
    words = ["cc", "-std=c11", "-Wall", "-Werror", "-fsyntax-only", f"-I{tmp_path}", f"-I{ROOT / 'include'}"]
    done = subprocess.run([*words, tmp_path / "program.c"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
