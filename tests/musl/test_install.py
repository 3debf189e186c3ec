"""The installed libraries for musl: they lie beside those for glibc, and the tool of the same prefix finds them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CLI = Path(__file__).resolve().parents[2] / "cli"
sys.path.insert(0, str(CLI))

from hakmem import musl, paths  # noqa: E402

MACHINE = os.uname().machine


@pytest.fixture
def prefix(build: Path, tmp_path: Path) -> Path:
    if not (build / "libhakmem-secure.so").is_file():
        pytest.skip("not all libraries are built: make musl")
    words = ["cmake", "--install", str(build), "--prefix", str(tmp_path / "prefix")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tmp_path / "prefix"


def test_no_file_takes_the_place_of_one_for_glibc(prefix: Path) -> None:
    assert {entry.name for entry in prefix.iterdir()} == {"include", "lib"}
    assert [entry.name for entry in (prefix / "lib").iterdir()] == [f"{MACHINE}-linux-musl"]
    own = prefix / "lib" / f"{MACHINE}-linux-musl"
    assert (own / "pkgconfig/hakmem.pc").is_file() and (own / "libhakmem-archive.a").is_file()


@pytest.mark.parametrize("folder", ["lib", "lib64", f"lib/{MACHINE}-linux-gnu"])
def test_the_tool_looks_below_its_own_prefix(prefix: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (prefix / folder / "hakmem").mkdir(parents=True)
    package = prefix / "share/hakmem/python/hakmem"
    package.mkdir(parents=True)
    (package / "native").symlink_to(prefix / folder / "hakmem")
    monkeypatch.setattr(paths, "checkout", lambda: None)
    monkeypatch.setattr(paths, "_PACKAGED", package / "native")
    found = musl.library_for(f"/lib/ld-musl-{MACHINE}.so.1")
    assert found == (prefix / f"lib/{MACHINE}-linux-musl/libhakmem.so").resolve()
