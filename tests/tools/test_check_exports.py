"""tools/check_exports.py sees what a library shows and needs, on small libraries compiled here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKER = Path(__file__).resolve().parents[2] / "tools" / "check_exports.py"
MAP = "V_1 { /* a: b; */ global: hakmem_*; };\n"
NAMES = "# what has no version\nshown\n"
SOURCE = """
#define SHOWN __attribute__((visibility("default")))
SHOWN int shown(void) { return 1; }
SHOWN int hakmem_one(void) { return 2; }
int hidden(void) { return 3; }
"""
FLAGS = ("-fvisibility=hidden", "-Wl,-z,relro")
THROUGH_A_MAP = (*FLAGS, "-Wl,--version-script=exports.map", "-Wl,-soname,libhakmem.so.0")


def run(folder: Path, source: str, *flags: str) -> tuple[int, str]:
    (folder / "library.c").write_text(source)
    (folder / "exports.map").write_text(MAP)
    (folder / "names.txt").write_text(NAMES)
    (folder / "other.map").write_text("V_1 { global: hakmem_*; shown; };")
    for name in ("libhakmem.so", "libhakmem-fast.so", "libhakmem-secure.so"):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", name, "library.c", *flags], cwd=folder, check=True)
    done = subprocess.run(
        [sys.executable, CHECKER, "--build", folder, "--map", folder / "exports.map", "--names", folder / "names.txt"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_good_library_passes(tmp_path: Path) -> None:
    assert run(tmp_path, SOURCE, *THROUGH_A_MAP) == (0, "exports: ok, 2 names\n")


@pytest.mark.parametrize(
    ("source", "flags", "message"),
    [
        (SOURCE, (*THROUGH_A_MAP, "-fvisibility=default"), "libhakmem.so exports hidden, which neither the map nor"),
        ("int hakmem_one;", (*THROUGH_A_MAP, "-fvisibility=default"), "does not export shown"),
        ("int shown;", (*THROUGH_A_MAP, "-fvisibility=default"), "exports nothing that matches hakmem_*"),
        (SOURCE, FLAGS, "exports hakmem_one with no version, not V_1"),
        (SOURCE, (*FLAGS, "-Wl,--version-script=other.map"), "exports shown with V_1, not without one"),
        (SOURCE, FLAGS, "is called nothing, without the number of its interface"),
        (SOURCE, (*THROUGH_A_MAP, "-Wl,-soname,libhakmem.so"), "is called libhakmem.so, without the number"),
        (SOURCE, (*THROUGH_A_MAP, "-Wl,--no-as-needed", "-lm"), "needs libm.so.6"),
        (SOURCE, (*THROUGH_A_MAP, "-Wl,-rpath,/somewhere"), "has a DT_RUNPATH"),
        (SOURCE, (*THROUGH_A_MAP, "-Wl,-z,execstack"), "requires an executable stack"),
        (SOURCE, (*THROUGH_A_MAP, "-Wl,-z,norelro"), "is linked without relro"),
        (
            SOURCE + "int close(int file); int shut(void) { return close(2); }",
            THROUGH_A_MAP,
            "calls close, which may make",
        ),
        (
            SOURCE + "SHOWN _Thread_local char hakmem_much[65];",
            THROUGH_A_MAP,
            "takes 65 bytes of static TLS, more than 64",
        ),
    ],
)
def test_each_fault_is_named(tmp_path: Path, source: str, flags: tuple[str, ...], message: str) -> None:
    code, output = run(tmp_path, source, *flags)
    assert code == 1
    assert message in output
