"""`hakmem bench` after plain `make`: it builds the missing workloads, or names the command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Tuple

import hakmem.commands.bench as bench_command
import pytest
from cli_support import ROOT, Tool
from click.testing import CliRunner
from hakmem import bench_build
from hakmem.errors import Failure


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which `cmake` writes down its words, and ends as the file `code` says."""
    script = tmp_path / "bin" / "cmake"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\necho "$@" >>words\necho "the end of its output"\nexit "$(cat code)"\n')
    script.chmod(0o755)
    (tmp_path / "code").write_text("0")
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    return tmp_path


def test_it_builds(checkout: Path) -> None:
    bench_build.build(checkout)
    configured, built = (checkout / "words").read_text().splitlines()
    assert (configured, built) == ("--preset release", "--build build/release --target bench_programs hakmem_count")
    (checkout / "build" / "release").mkdir(parents=True)
    (checkout / "build" / "release" / "CMakeCache.txt").touch()
    bench_build.build(checkout)
    assert (checkout / "words").read_text().splitlines()[2:] == [built]


def test_a_build_that_fails_is_told(checkout: Path) -> None:
    (checkout / "code").write_text("2")
    with pytest.raises(Failure, match=r"cmake --preset release.*make bench") as caught:
        bench_build.build(checkout)
    assert caught.value.below[-1] == "the end of its output"


def test_without_cmake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failure, match=r"tools/bootstrap\.sh build"):
        bench_build.build(tmp_path)


def test_the_targets_are_those_of_make_bench() -> None:
    (recipe,) = (ROOT / "Makefile").read_text().split("\nbench: lib ")[1:]
    assert recipe.split("--target ")[1].splitlines()[0].split() == bench_build.COMMAND.split()[-2:]


@pytest.fixture
def unbuilt(tool: Tool, tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """`hakmem bench` where no workload is built: returns how it fails, at the build at the latest."""

    def build(_root: Path) -> None:
        raise Failure("it builds")

    def run(*words: str) -> str:
        done = CliRunner().invoke(bench_command.bench, ["--only", "micro", *words], standalone_mode=False)
        assert isinstance(done.exception, Failure), done.exception
        return done.exception.message

    places = bench_command.default_places
    monkeypatch.chdir(tool.folder)
    monkeypatch.setattr(bench_command, "default_places", lambda root, given, _: places(root, given, str(tmp_path)))
    monkeypatch.setattr(bench_build, "build", build)
    return run


@pytest.mark.parametrize("words", [("--out", "/proc/none"), ("--out", ".", "--json", "/proc/none/file")])
def test_what_cannot_be_written_is_refused_before_a_build(unbuilt: Callable[..., str], words: Tuple[str, ...]) -> None:
    assert "/proc/none" in unbuilt(*words)


def test_a_cost_without_hakmem_is_refused_before_a_build(unbuilt: Callable[..., str]) -> None:
    told = unbuilt("--out", ".", "--cost", "--allocators", "hakmem-fast")
    assert told == "--cost needs hakmem among the allocators"


def test_a_folder_of_results_that_has_a_folder_results_is_taken(unbuilt: Callable[..., str]) -> None:
    """As `--out bench` in the checkout."""
    Path("results").mkdir()
    assert unbuilt("--out", ".") == "it builds"


def test_wrong_usage_makes_no_folder(unbuilt: Callable[..., str]) -> None:
    assert "nonsense" in unbuilt("--out", "new", "--only", "nonsense") and not Path("new").exists()


def test_a_folder_of_ones_own_is_not_built(tool: Tool, tmp_path: Path, library: Path) -> None:
    done = tool("bench", "--only", "micro", "--programs", tmp_path, "--out", tmp_path)
    assert done.returncode == 125 and f"`{bench_build.COMMAND}`" in done.stderr
