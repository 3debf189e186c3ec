"""Common parts of the tests of this folder, which build hakmem as a part of other projects and run their programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("HAKMEM_TEST_BUILD_DIR", str(ROOT / "build/release"))).resolve()
WARNINGS = (
    *("-Werror", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wundef"),
    *("-Wold-style-cast", "-Wnon-virtual-dtor", "-Woverloaded-virtual", "-Wzero-as-null-pointer-constant"),
)
NOT_SOURCES = {"build", "dist", "target", "__pycache__", "node_modules"}


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """Runs a command that has to succeed; returns what it prints."""
    environment = {**os.environ, **variables}
    if shutil.which("ccache"):
        environment.setdefault("CMAKE_C_COMPILER_LAUNCHER", "ccache")
        environment.setdefault("CMAKE_CXX_COMPILER_LAUNCHER", "ccache")
    done = subprocess.run(
        command, cwd=cwd, env=environment, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def version() -> str:
    return run("cmake", "-P", ROOT / "cmake" / "version.cmake").strip()


def source_archive(folder: Path) -> Path:
    """An archive of the checkout, as a release has one."""
    name = f"hakmem-{version()}"

    def keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        parts = Path(member.name).parts[1:]
        hidden = bool(parts) and parts[0].startswith(".")
        return None if hidden or not NOT_SOURCES.isdisjoint(parts) else member

    archive = folder / f"{name}.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as out:
        out.add(ROOT, arcname=name, filter=keep)
    return archive


def compile_containers(program: Path, *words: str, warnings: tuple[str, ...] = WARNINGS) -> str:
    """Compiles standard_containers.cc with the static library of the build, runs it, and returns what it prints."""
    run(
        *words,
        *warnings,
        f"-I{ROOT / 'include'}",
        HERE / "standard_containers.cc",
        BUILD / "libhakmem.a",
        "-o",
        program,
    )
    return run(program)
