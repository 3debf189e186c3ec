"""`hakmem doctor`: the library's file, and what else is preloaded."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Iterable, List

import pytest
from cli_support import Compile
from fake_machine import FakeMachine
from hakmem.doctor import library_checks
from hakmem.doctor.finding import Finding, Level

A_MALLOC = "#include <stddef.h>\nvoid *malloc(size_t n) { (void)n; return NULL; }"
NO_MALLOC = "int nothing(void) { return 0; }"


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path / "machine")


@pytest.fixture
def copied(library: Path, tmp_path: Path) -> Path:
    """The library in a folder that all users may enter, as far as the test sets its mode."""
    folder = tmp_path / "lib"
    folder.mkdir(mode=0o755)
    return Path(shutil.copy(library, folder))


@pytest.fixture
def other(compile_c: Compile) -> Path:
    return compile_c("other_malloc.so", A_MALLOC, "-shared", "-fPIC")


def remarkable(findings: Iterable[Finding]) -> List[Finding]:
    found = [finding for finding in findings if finding.level is not Level.OK]
    assert all(finding.found and finding.why and finding.todo for finding in found)
    return found


def of_file(machine: FakeMachine, library: Path) -> List[Finding]:
    return remarkable(library_checks.check_file(machine.files, library))


def open_to_all(folder: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in [folder, *folder.parents])


def test_a_closed_folder(machine: FakeMachine, copied: Path) -> None:
    copied.parent.chmod(0o700)
    (finding,) = of_file(machine, copied)
    assert finding.level is Level.NOTE and "other users" in finding.found
    if open_to_all(copied.parents[1]):
        assert str(copied.parent) in finding.found


def test_an_open_one(machine: FakeMachine, copied: Path) -> None:
    for folder in copied.parents:
        if folder.stat().st_uid == os.getuid() and folder.stat().st_mode & 0o7777 == 0o700:
            folder.chmod(0o711)
    if not open_to_all(copied.parent):
        pytest.skip("the tests' own folder is closed to others")
    assert of_file(machine, copied) == []
    copied.chmod(0o640)
    (finding,) = of_file(machine, copied)
    assert str(copied) in finding.found.partition("get past ")[2]


def test_unreadable(machine: FakeMachine, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root reads everything: the answer is pretended."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (finding,) = of_file(machine, copied)
    assert finding.level is Level.PROBLEM and "cannot be read" in finding.found


def test_a_name_that_cannot_be_preloaded(machine: FakeMachine, copied: Path) -> None:
    spaced = copied.rename(copied.parent / "lib hakmem.so")
    (finding,) = of_file(machine, spaced)
    assert finding.level is Level.PROBLEM and "cannot be preloaded" in finding.found


@pytest.mark.parametrize("deeper, is_problem", [("rw,noexec", True), ("rw", False)])
def test_a_noexec_mount(machine: FakeMachine, library: Path, deeper: str, is_problem: bool) -> None:
    """The deepest mount counts, and of those at one place the last."""
    lines = [
        f"2 1 0:1 / {library.parent} {'rw' if is_problem else 'rw,noexec'} - tmpfs x rw",
        f"3 1 0:1 / {library.parent} {deeper} - tmpfs x rw",
        f"4 1 0:1 / {library.parent}/other rw,noexec - tmpfs x rw",
        f"5 1 0:1 / {str(library.parent)[:-1]} rw,noexec - tmpfs x rw",
        "1 0 254:0 / / rw,noexec - ext4 x rw",
    ]
    machine.write("/proc/self/mountinfo", "\n".join(lines) + "\n")
    found = [finding for finding in of_file(machine, library) if finding.level is Level.PROBLEM]
    assert [finding.subject for finding in found] == (["library's mount"] if is_problem else [])


def test_a_library_with_a_sanitizer(machine: FakeMachine, compile_c: Compile) -> None:
    library = compile_c("sanitized.so", A_MALLOC, "-shared", "-fPIC", "-fsanitize=address")
    assert "library's build" in [finding.subject for finding in of_file(machine, library)]


def of_preloads(machine: FakeMachine, library: Path | None, preload: str = "") -> List[Finding]:
    environment = {"LD_PRELOAD": preload} if preload else {}
    return remarkable(library_checks.check_preloads(machine.files, environment, library))


def test_another_malloc_comes_first(machine: FakeMachine, library: Path, other: Path) -> None:
    (finding,) = of_preloads(machine, library, f"{library}:{other}")
    assert finding.level is Level.PROBLEM and str(other) in finding.found


def test_what_disturbs_nothing(machine: FakeMachine, library: Path, compile_c: Compile) -> None:
    harmless = compile_c("harmless.so", NO_MALLOC, "-shared", "-fPIC")
    assert of_preloads(machine, library, f"{library} {harmless}") == []
    assert of_preloads(machine, library, "/$LIB/some.so") == []


def test_a_missing_preload(machine: FakeMachine, library: Path) -> None:
    (finding,) = of_preloads(machine, library, "/nowhere/lib.so")
    assert finding.level is Level.NOTE and "does not exist" in finding.found


def test_the_systems_preload(machine: FakeMachine, library: Path, other: Path) -> None:
    machine.write("/etc/ld.so.preload", f"# {other}\n{library}\n")
    assert of_preloads(machine, library) == []
    machine.write("/etc/ld.so.preload", f"{library}:{other} # mine\n")
    (finding,) = of_preloads(machine, library)
    assert finding.level is Level.NOTE and str(other) in finding.found


@pytest.mark.parametrize(
    "variables, told",
    [
        ({}, None),
        ({"GLIBC_TUNABLES": "glibc.rtld.nns=4", "MALLOC_CONF": "x"}, None),
        ({"GLIBC_TUNABLES": "glibc.rtld.nns=4:glibc.malloc.arena_max=1"}, "glibc.malloc.arena_max is set"),
        ({"GLIBC_TUNABLES": "glibc.malloc.a=1", "MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "1"},
         "glibc.malloc.a, MALLOC_ARENA_MAX, MALLOC_TRIM_THRESHOLD_ are set"),
    ],
)  # fmt: skip
def test_settings_of_the_c_librarys_malloc(variables: dict[str, str], told: str | None) -> None:
    found = remarkable(library_checks.check_other_settings(variables))
    assert [finding.found for finding in found] == ([told] if told else [])
