"""The heap profile of real programs, from start to exit, by the library itself and by the tool."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict, List

import pytest
from preload_runner import Outcome, Runner, with_limit
from profile_sums import CLI, allocated, in_use
from under_allocator import environment

assert CLI.is_dir()  # it is on the path from here
from hakmem.profile.read import read  # noqa: E402

pytestmark = [pytest.mark.usefixtures("hakmem_only"), pytest.mark.usefixtures("checks_only")]
Program = Callable[[str], Path]
MIB = 1 << 20
SITES = [f"site_{i}" for i in range(10)]
SIZES = [16, 48, 200, 1000, 5000, 20000, 60000, 300000, 2 * MIB, 10 * MIB]
EACH = 20 * MIB
ESTIMATES = ["requested_estimate", "inside_estimate", "allocated_estimate", "freed_estimate"]
# Some 2,500 samples a site, of which a site's figure has an error of 2%: six times that is never exceeded.
RATE = 8192
NEAR = 0.12
CHURNED = 200000 * 1000
TOOL = f"import sys; sys.path.insert(0, {str(CLI)!r}); from hakmem.main import main; main()"


def is_near(found: Dict[str, int], truth: Dict[str, int], near: float = NEAR) -> bool:
    return all(abs(found.get(name, 0) - bytes_) <= near * bytes_ for name, bytes_ in truth.items())


ALL_SITES = {site: EACH for site in SITES}


def recorded(runner: Runner, folder: Path, command: List[object], **variables: str) -> Outcome:
    """The program, with a profile from start to end."""
    asked = {"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_RATE": str(RATE), **variables}
    asked.setdefault("HAKMEM_PROFILE_FILE", str(folder / "%p.pb.gz"))
    return runner.under(command, env=asked)


def only_file(folder: Path) -> Path:
    (file,) = folder.glob("*.pb.gz")
    return file


def test_stacks_of_coroutines_may_be_unmapped(runner: Runner, program: Program, tmp_path: Path) -> None:
    """A walk on one stack reads nothing of another one that lies above it."""
    for rate in ("512", "65536"):
        found = recorded(runner, tmp_path, [program("coroutine_stacks")], HAKMEM_PROFILE_RATE=rate)
        assert found == Outcome(0, b"", b"")


# ---- At exit.


def test_known_sites_are_found(runner: Runner, program: Program, tmp_path: Path) -> None:
    """Ten sites of 16 bytes to 10 MiB; no stack begins in the library."""
    assert recorded(runner, tmp_path, [program("profile_sites"), "fill"]) == Outcome(0, b"", b"")
    profile = read(str(only_file(tmp_path)))
    assert profile.period == RATE and profile.duration_nanos > 0
    assert only_file(tmp_path).stat().st_mode & 0o777 == 0o600
    for sample in profile.samples:
        mapping = sample.locations[0].mapping
        assert mapping is None or "libhakmem" not in mapping.name, "our own frames are left out"
    assert is_near(in_use(profile), ALL_SITES), in_use(profile)
    assert is_near(allocated(profile), ALL_SITES)


def test_threads_that_reuse_one_block(runner: Runner, program: Program, tmp_path: Path) -> None:
    """All that was allocated counts, and nothing of it is in use at the end."""
    assert recorded(runner, tmp_path, [program("profile_sites"), "threads"]) == Outcome(0, b"", b"")
    profile = read(str(only_file(tmp_path)))
    assert is_near(allocated(profile), {"site_churn": 4 * CHURNED}, 0.04)
    assert in_use(profile).get("site_churn", 0) == 0


def test_children_write_their_own(runner: Runner, program: Program, tmp_path: Path) -> None:
    """What a child allocated is in its file alone; what it has of its parent is in use there, and not allocated."""
    done = recorded(runner, tmp_path, [program("profile_sites"), "fill", "fork"])
    assert (done.code, done.stderr) == (0, b"")
    child = tmp_path / f"{int(done.stdout)}.pb.gz"
    (parent,) = set(tmp_path.glob("*.pb.gz")) - {child}
    of_child, of_parent = read(str(child)), read(str(parent))
    assert is_near(allocated(of_child), {"site_child": 8 * MIB}) and is_near(in_use(of_child), ALL_SITES)
    assert all(allocated(of_child).get(site, 0) == 0 for site in SITES)
    assert "site_child" not in allocated(of_parent) and is_near(in_use(of_parent), ALL_SITES)


def test_one_name_is_the_first_processs(runner: Runner, program: Program, tmp_path: Path) -> None:
    """Without %p a child writes nothing, and does not complain."""
    file = tmp_path / "one.pb.gz"
    done = recorded(runner, tmp_path, [program("profile_sites"), "fill", "fork"], HAKMEM_PROFILE_FILE=str(file))
    assert (done.code, done.stderr) == (0, b"")
    assert is_near(allocated(read(str(file))), ALL_SITES)


def test_code_that_is_gone(runner: Runner, program: Program, shim: Callable[[str], Path], tmp_path: Path) -> None:
    """A library that is loaded and closed over and over leaves blocks behind, and stacks that lead nowhere."""
    done = recorded(runner, tmp_path, [program("profile_sites"), "plugin"], PROFILE_PLUGIN=str(shim("profile_plugin")))
    assert done == Outcome(0, b"", b"")
    profile = read(str(only_file(tmp_path)))
    assert is_near({"all": profile.total("inuse_space")}, {"all": 20 * 1000 * 1000})
    in_use(profile)


def test_code_that_is_rebuilt(library: Path, program: Program, shim: Callable[[str], Path], tmp_path: Path) -> None:
    """A library that was built again gets the addresses of the one that was closed, and has frames of its own."""
    plugin, file = tmp_path / "plugin.so", tmp_path / "heap.pb.gz"
    variables = {"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_RATE": str(RATE), "HAKMEM_PROFILE_FILE": str(file)}
    with subprocess.Popen(
        [program("profile_sites")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**environment(library, None), **variables, "PROFILE_PLUGIN": str(plugin)},
    ) as running:  # fmt: skip
        assert running.stdin is not None and running.stdout is not None
        for name in ("framed_plugin", "framed_plugin_rebuilt"):
            assert running.stdout.readline() == "ok\n"
            shutil.copy(shim(name), tmp_path / "new.so")
            (tmp_path / "new.so").replace(plugin)
            running.stdin.write("plugin\n")
            running.stdin.flush()
        assert running.stdout.readline() == "ok\n"
        running.stdin.close()
    assert running.returncode == 0
    profile = read(str(file))
    column = profile.column("inuse_space")
    # Both have the same addresses, and so the same stack.
    assert is_near({"one": max(one.values[column] for one in profile.samples)}, {"one": 2 * 20 * 1000 * 1000})


@pytest.mark.parametrize("prefix", ["", "-"])
def test_files_that_cannot_be_made(runner: Runner, program: Program, tmp_path: Path, prefix: str) -> None:
    """One line, at the start where it shows then; what stands there stays; a `-` says nothing."""
    there = tmp_path / "there"
    there.write_text("mine")
    for file, reason in ((there, "exists"), (tmp_path / "no" / "folder", "No such|no such|not there|folder")):
        done = recorded(runner, tmp_path, [program("profile_sites"), "churn"], HAKMEM_PROFILE_FILE=f"{prefix}{file}")
        assert (done.code, done.stdout) == (0, b"")
        lines = done.errors().splitlines()
        assert len(lines) == (0 if prefix else 1)
        assert all("HAKMEM_PROFILE_FILE" in line and re.search(reason, line) for line in lines), lines
    assert there.read_text() == "mine"


def test_no_room_for_the_file(runner: Runner, program: Program, tmp_path: Path) -> None:
    """A disk that is full, and a limit on files: one line, nothing is left behind, and the program ends as ever."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = [program("profile_sites"), "fill"]
    limited = recorded(runner, folder, list(with_limit("-f", 0, command)))
    assert (limited.code, list(folder.iterdir())) == (0, [])
    assert len(limited.errors().splitlines()) == 1 and "HAKMEM_PROFILE_FILE" in limited.errors()
    fill = 'mount -t tmpfs -o size=4k none "$1" && head -c 4096 /dev/zero > "$1/full"'
    script = f'{fill} && folder=$1 && shift && env "$@" && ls "$folder"'
    words = ["unshare", "-rm", "sh", "-c", script, "sh", folder]
    variables = [f"LD_PRELOAD={runner.library}", "HAKMEM_PROFILE=1", f"HAKMEM_PROFILE_FILE={folder}/p.pb.gz"]
    full = runner.plain([*words, *variables, *command])
    if "unshare" in full.errors() or "mount" in full.errors():
        pytest.skip("no mounts of one's own here")
    assert full.code == 0 and full.stdout == b"full\n", "nothing is left behind"
    assert len(full.errors().splitlines()) == 1 and "no space is left" in full.errors(), full.errors()


def test_no_file_is_named(runner: Runner, program: Program) -> None:
    """A message says that, but not with `-`: then a reading while the program runs is expected."""
    command = [program("profile_sites"), "churn"]
    (line,) = runner.under(command, env={"HAKMEM_PROFILE": "1"}).errors().splitlines()
    assert "HAKMEM_PROFILE_FILE names none" in line
    assert runner.under(command, env={"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_FILE": "-"}) == Outcome(0, b"", b"")


def test_go_reads_a_real_program(runner: Runner, tmp_path: Path) -> None:
    """`go tool pprof -top` of the Python interpreter, where go is."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        pytest.skip("no go here")
    script = "kept = [bytes(1000) for _ in range(50000)]; print(len(kept))"
    done = recorded(runner, tmp_path, [sys.executable, "-c", script], PYTHONMALLOC="malloc")
    assert done == Outcome(0, b"50000\n", b"")
    for kind in ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space"):
        command = [go, "tool", "pprof", "-top", f"-sample_index={kind}", only_file(tmp_path)]
        top = subprocess.run(
            command, env={**os.environ, "PPROF_TMPDIR": str(tmp_path)},
            capture_output=True, text=True, timeout=600, check=False,  # go builds its pprof at the first use
        )  # fmt: skip
        assert top.returncode == 0, top.stderr
        assert f"Type: {kind}" in top.stdout and re.search(r"\d+(\.\d+)?% +\S", top.stdout), top.stdout
        assert "hakmem" not in top.stdout


def test_linked_with_the_archive(linked: Callable[..., Path], tmp_path: Path) -> None:
    """Our frames are in the file there, and the tool leaves them out."""
    variables = {
        "HAKMEM_PROFILE": "1",
        "HAKMEM_PROFILE_RATE": str(RATE),
        "HAKMEM_PROFILE_FILE": str(tmp_path / "%p.pb.gz"),
    }
    program = linked("profile_sites.c", "-ldl")
    done = subprocess.run(
        [program, "fill"], env=environment(None, variables), capture_output=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert is_near(in_use(read(str(only_file(tmp_path)))), ALL_SITES)


# ---- By the tool.


def tool(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-c", TOOL, "profile", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_tool_profiles_a_program(runner: Runner, program: Program, tmp_path: Path) -> None:
    """From start to end; and one without symbols, whose place in the file is told."""
    words = ["--library", runner.library, "--rate", RATE, "--"]
    done = tool(*words, program("profile_sites"), "fill")
    assert done.returncode == 0 and done.stdout == ""
    assert all(re.search(rf"  {site}$", done.stderr, re.MULTILINE) for site in SITES), done.stderr
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, program("profile_sites")], check=True, timeout=60)
    done = tool(*words, stripped, "fill")
    assert done.returncode == 0
    assert re.search(r"  stripped\+0x[0-9a-f]+$", done.stderr, re.MULTILINE), done.stderr
    assert "note: " in done.stderr
