"""Fixtures of the tests of the benchmarks: the built programs and libraries, and how a workload is run."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Callable, List, Optional, Sequence

import pytest
from bench_support import BUILD, Run
from under_allocator import environment


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the built workloads. The tests' build has them; one by hand may not."""
    folder = BUILD / "bench"
    if not (folder / "pair").exists():
        subprocess.run(["cmake", "--build", str(BUILD), "--target", "bench_programs"], check=True)
    return folder


@pytest.fixture(scope="session")
def hakmem() -> Path:
    library = (BUILD / "libhakmem.so").resolve()
    assert library.exists(), f"{library} is not built"
    return library


@pytest.fixture(scope="session")
def run(programs: Path) -> Run:
    """run(program, *arguments, library=None): a workload, to its end."""

    def run_workload(program: str, *arguments: str, library: Optional[Path] = None) -> subprocess.CompletedProcess[str]:
        command: List[str] = [str(programs / program), *arguments]
        return subprocess.run(
            command, env=environment(library), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip

    return run_workload


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, Sequence[str]], Path]:
    """compile_c(source, flags): what cc makes of one file."""

    def compiled(source: Path, flags: Sequence[str]) -> Path:
        output = tmp_path_factory.mktemp("compiled") / source.stem
        subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", *flags, "-o", str(output), str(source)], check=True)
        return output

    return compiled
