"""tools/check_abi.py accepts what keeps linked programs running, and names what does not; on small libraries."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKER = Path(__file__).resolve().parents[2] / "tools" / "check_abi.py"
HEADER = """
typedef struct { unsigned long version; unsigned long filled; } hakmem_stats_t;
typedef struct { int first; } hakmem_other_t;
extern int hakmem_one(int number);
extern int hakmem_stats_get(hakmem_stats_t *out, unsigned long size);
extern int hakmem_use(hakmem_other_t *other);
"""
SOURCE = """
#include "hakmem.h"
int hakmem_one(int number) { return number; }
int hakmem_stats_get(hakmem_stats_t *out, unsigned long size) { return out->version == size; }
int hakmem_use(hakmem_other_t *other) { return other->first; }
"""
needs_abidiff = pytest.mark.skipif(shutil.which("abidiff") is None, reason="abigail-tools is not installed")


def check(folder: Path, header: str, source: str, *flags: str) -> tuple[int, str]:
    (folder / "hakmem.h").write_text(header)
    (folder / "library.c").write_text(source)
    library = folder / "libhakmem.so"
    soname = "-Wl,-soname,libhakmem.so.0"
    subprocess.run(["cc", "-g", "-shared", "-fPIC", soname, "-o", library, folder / "library.c"], check=True)
    words = ("--library", library, "--headers", folder, "--description", folder / "library.abi", *flags)
    done = subprocess.run([sys.executable, CHECKER, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@needs_abidiff
def test_what_keeps_programs_running(tmp_path: Path) -> None:
    """Another body, a new function, and a figure at the end of a struct whose size the caller passes."""
    assert check(tmp_path, HEADER, SOURCE, "--renew") == (0, "abi: renewed\n")
    assert check(tmp_path, HEADER, SOURCE.replace("return number", "return 2 * number")) == (0, "abi: ok\n")
    header = HEADER.replace("filled; }", "filled; unsigned long refill; }") + "extern int hakmem_new(void);\n"
    assert check(tmp_path, header, SOURCE + "int hakmem_new(void) { return 1; }\n") == (0, "abi: ok\n")


@needs_abidiff
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("hakmem_one(int number)", "hakmem_two(int number)", "1 Removed"),
        ("hakmem_one(int number)", "hakmem_one(long number)", "parameter 1 of type 'int' changed"),
        ("unsigned long version; ", "unsigned long first; unsigned long version; ", "hakmem_stats_t"),
        ("{ int first; }", "{ int first; int second; }", "hakmem_other_t"),
    ],
)
def test_what_breaks_programs(tmp_path: Path, old: str, new: str, words: str) -> None:
    check(tmp_path, HEADER, SOURCE, "--renew")
    code, output = check(tmp_path, HEADER.replace(old, new), SOURCE.replace(old, new))
    assert code == 1 and words in output, output


def test_without_a_description(tmp_path: Path) -> None:
    """Another machine's interface is compared on that machine."""
    code, output = check(tmp_path, HEADER, SOURCE)
    assert code == 0 and output.startswith("abi: left out: no ")
