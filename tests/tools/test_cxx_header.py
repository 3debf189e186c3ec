"""<hakmem/hakmem.hpp> in the oldest and newest standards, and without exceptions; tests/consumers has all others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "consumers"))
import consumer


@pytest.mark.parametrize("flags", ["-std=c++17", "-std=c++2b", "-std=c++20 -fno-exceptions -fno-rtti"])
def test_containers(tmp_path: Path, flags: str) -> None:
    assert consumer.compile_containers(tmp_path / "containers", "c++", *flags.split()) == "ok\n"


@pytest.mark.parametrize("flags", ["", "-fno-exceptions"])
def test_no_memory_and_no_exceptions(tmp_path: Path, flags: str) -> None:
    """bad_alloc has no catcher here: both programs abort, the one by std::terminate, the other by itself."""
    source = tmp_path / "program.cc"
    source.write_text("#include <hakmem/hakmem.hpp>\nint main() { hakmem::allocator<char>().allocate(1ul << 60); }\n")
    words = ("-std=c++17", *flags.split(), f"-I{consumer.ROOT / 'include'}", "-o", tmp_path / "program", source)
    consumer.run("c++", "-Wno-unused-result", *words, consumer.BUILD / "libhakmem.a")
    done = subprocess.run([tmp_path / "program"], check=False, capture_output=True, text=True)
    assert done.returncode == -6
    assert ("bad_alloc" in done.stderr) == (not flags)


def test_an_older_standard_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "program.cc"
    source.write_text("#include <hakmem/hakmem.hpp>\n")
    words = ["c++", "-std=c++14", f"-I{consumer.ROOT / 'include'}", "-fsyntax-only", str(source)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode != 0 and "hakmem.hpp needs C++17 or later" in done.stderr
