"""The C library's names under preload, and linked with the archive."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Callable

import pytest
from preload_runner import Outcome, Runner


def test_every_name_comes_from_the_library(runner: Runner, program: Callable[[str], Path]) -> None:
    outcome = runner.under([program("where_is_malloc")])
    found = dict(line.split() for line in outcome.text().splitlines())
    assert len(found) == 17
    assert {name: Path(file).resolve() for name, file in found.items()} == dict.fromkeys(found, runner.library)


def test_without_preload_they_do_not(runner: Runner, program: Callable[[str], Path]) -> None:
    """The helper that runs programs plainly must really do so."""
    assert str(runner.library) not in runner.plain([program("where_is_malloc")]).text()


def test_names_mean_what_they_should(runner: Runner, program: Callable[[str], Path], tmp_path: Path) -> None:
    report = tmp_path / "malloc_info.xml"
    runner.expect([program("libc_names"), report], "ok\n")
    assert ElementTree.parse(report).getroot().tag == "malloc"


def test_test_program_is_right_about_glibc(runner: Runner, program: Callable[[str], Path], tmp_path: Path) -> None:
    """The requirements hold for the C library too."""
    assert runner.plain([program("libc_names"), tmp_path / "malloc_info.xml"]) == Outcome(0, b"ok\n", b"")


def test_corners_are_those_of_glibc(runner: Runner, program: Callable[[str], Path]) -> None:
    """Results, errno and alignment of 2,400 calls with unusual sizes and alignments."""
    ours, glibcs = (run([program("corner_cases")]) for run in (runner.under, runner.plain))
    assert (ours.code, glibcs.code) == (0, 0)
    assert len(glibcs.text().splitlines()) > 2000
    assert ours.text().splitlines() == glibcs.text().splitlines()


@pytest.mark.parametrize("flags", [(), ("-static",)], ids=["archive", "static"])
def test_names_when_linked(runner: Runner, linked: Callable[..., Path], tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Also in a program without a dynamic linker."""
    program = linked("libc_names.c", *flags)
    assert runner.plain([program, tmp_path / "malloc_info.xml"]) == Outcome(0, b"ok\n", b"")


def test_blocks_cross_the_border_to_the_c_library(runner: Runner, program: Callable[[str], Path]) -> None:
    runner.expect([program("libc_blocks")], "ok\n")


def test_a_program_that_wraps_malloc(runner: Runner, program: Callable[[str], Path]) -> None:
    """It calls the C library's functions by `__libc_malloc` and the like, and frees by them what it has from others."""
    assert runner.plain([program("wraps_malloc")]) == Outcome(0, b"ok\n", b"")
    runner.expect([program("wraps_malloc")], "ok\n")


def test_malloc_stats_goes_to_stderr(runner: Runner, program: Callable[[str], Path]) -> None:
    outcome = runner.under([program("malloc_stats")])
    assert (outcome.code, outcome.stdout) == (0, b"ok\n")
    assert len(outcome.errors().splitlines()) >= 3


def test_copies_of_what_was_never_set(runner: Runner, program: Callable[[str], Path]) -> None:
    """Stale contents may hold what a free block holds: freeing a copy of it is no mistake."""
    runner.expect([program("stale_contents")], "ok\n")
