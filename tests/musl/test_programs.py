"""Programs of musl on hakmem: linked with the archive, static and static-pie, and with the library preloaded."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Callable, Mapping

Start = Callable[..., list[str]]
SECONDS = 60


def run(command: list[str], library: Path, variables: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    """Runs a program. A dynamic one gets the preload, and a static one does not read it."""
    environment = {**os.environ, **variables, "LD_PRELOAD": str(library)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_every_block_is_hakmems(start: Start, library: Path) -> None:
    done = run(start("names"), library)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


def test_threads_forks_and_ends(start: Start, library: Path) -> None:
    rounds = max(2, int(20 * float(os.environ.get("HAKMEM_TEST_SCALE") or 1)))
    done = run(start("threads", str(rounds)), library, {"HAKMEM_STATS": "1"})
    assert (done.returncode, done.stdout) == (0, "wrong 0, failed children 0\nexit\n"), done.stderr
    heaps = re.findall(r"^  heaps +(\d+) ", done.stderr, re.MULTILINE)
    assert heaps and max(map(int, heaps)) <= 12, "threads that ended gave their heaps back"


def test_the_user_changes_beside_the_librarys_threads(start: Start, library: Path, tmp_path: Path) -> None:
    """musl's setuid sends a signal to every thread, and waits until each has handled it. One thread purges, another one
    writes the file."""
    variables = {"HAKMEM_STATS_INTERVAL": "1", "HAKMEM_STATS_FILE": str(tmp_path / "stats")}
    done = run(start("threads", "2"), library, variables)
    assert done.returncode == 0, done.stderr


def test_a_double_free_ends_the_program(start: Start, library: Path) -> None:
    done = run(start("double_free"), library)
    assert done.returncode == -6
    assert "hakmem: double-free: " in done.stderr and "is a block of 112 bytes that is free already" in done.stderr


def test_a_static_program_has_no_second_allocator(build: Path, compiled: Callable[..., Path]) -> None:
    """The archive's malloc and its relatives come together, so the linker takes none of musl's."""
    program = compiled("names", "-static", str(build / "libhakmem.a"))
    map_of_names = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    for name in ("malloc", "calloc", "realloc", "free", "posix_memalign"):
        assert re.search(rf" T {name}$", map_of_names, re.MULTILINE), name
    for name in ("aligned_alloc", "memalign", "malloc_usable_size"):  # musl's are not weak
        assert re.search(rf" W {name}$", map_of_names, re.MULTILINE), name
    assert " hakmem_check_owned\n" in map_of_names
