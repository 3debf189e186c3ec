"""`hakmem env`: each form says the same to its reader."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List

import pytest
from cli_support import Compile, Tool
from hakmem.paths import FAST_LIBRARY, find_library, lasting


@pytest.fixture
def odd(tmp_path: Path, library: Path) -> Path:
    """The library at a path with all that a form has to quote."""
    folder = tmp_path / "a'b\"c%h\\d"
    folder.mkdir()
    return Path(shutil.copy(library, folder / "libhakmem.so"))


def clean(**variables: str) -> Dict[str, str]:
    return {"PATH": os.environ["PATH"], **variables}


def lines(tool: Tool, *arguments: object, **variables: str) -> str:
    done = tool("env", *arguments, environment=clean(**variables))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def after_eval(text: str, variable: str) -> str:
    """The variable's value in a shell that takes the lines in."""
    words = ["sh", "-c", f'eval "$1"; exec printenv {variable}', "sh", text]
    return subprocess.run(words, env=clean(), capture_output=True, text=True, check=True).stdout.rstrip("\n")


def test_a_shell_puts_programs_on_hakmem(tool: Tool, library: Path) -> None:
    words = ["sh", "-c", 'eval "$1"; exec cat /proc/self/maps', "sh", lines(tool)]
    maps = subprocess.run(words, env=clean(), capture_output=True, text=True, check=True).stdout
    assert str(library) in maps


def test_shells(tool: Tool, odd: Path) -> None:
    text = lines(tool, "--library", odd, "--set", "stats_file=/tmp/it's $HOME", "--shell")
    assert after_eval(text, "LD_PRELOAD") == str(odd)
    assert after_eval(text, "HAKMEM_STATS_FILE") == "/tmp/it's $HOME"
    assert lines(tool, "--library", odd, "--set", "stats_file=/tmp/it's $HOME") == text
    if shutil.which("fish"):
        text = lines(tool, "--library", odd, "--fish")
        done = subprocess.run(["fish", "-c", text + "printenv LD_PRELOAD"], capture_output=True, text=True, check=True)
        assert done.stdout == f"{odd}\n"
    assert lines(tool, "--library", odd, "--fish").startswith("set -gx LD_PRELOAD '")


def test_other_preloads_of_a_shell_stay_and_other_allocators_do_not(
    tool: Tool, library: Path, compile_c: Compile
) -> None:
    other = compile_c("libother.so", "int other;", "-shared", "-fPIC")
    allocator = shutil.copy(other, other.with_name("libjemalloc.so.2"))
    said = lines(tool, LD_PRELOAD=f"{allocator}:{other}")
    assert after_eval(said, "LD_PRELOAD") == f"{other}:{lasting(library)}"
    assert lines(tool, LD_PRELOAD=after_eval(said, "LD_PRELOAD")) == said
    assert lines(tool, "--plain", LD_PRELOAD=str(other)) == f"LD_PRELOAD={lasting(library)}\n"


def test_systemd_and_docker_quote(tool: Tool, odd: Path) -> None:
    (line,) = lines(tool, "--library", odd, "--systemd").splitlines()
    name, _, value = line.partition("=")
    assert name == "Environment"
    # Inside double quotes systemd reads a backslash as C does, and two percent signs as one.
    assert shlex.split(value) == [f"LD_PRELOAD={odd}".replace("%", "%%")]
    (line,) = lines(tool, "--library", odd, "--docker").splitlines()
    assert line.startswith("ENV LD_PRELOAD=")
    assert shlex.split(line) == ["ENV", f"LD_PRELOAD={odd}"]
    both = lines(tool, "--docker", "--set", "mode=lean", "--set", "output=$x").splitlines()
    assert both[1:] == ['ENV HAKMEM_MODE="lean"', 'ENV HAKMEM_OUTPUT="\\$x"']


def test_json_and_path(tool: Tool, library: Path) -> None:
    found = json.loads(lines(tool, "--json", "--set", "mode=lean"))
    assert found == {"schema": 1, "variables": {"LD_PRELOAD": str(lasting(library)), "HAKMEM_MODE": "lean"}}
    fast = find_library(FAST_LIBRARY)
    assert fast and lines(tool, "--path", "--fast") == f"{lasting(fast)}\n"


def test_the_line_outlives_an_update(tool: Tool, library: Path, tmp_path: Path) -> None:
    """The next release replaces the file, and the link that leads to it stays."""
    old, new, link = (tmp_path / f"libhakmem.so.{version}" for version in ("0.1.0", "0.1.1", "0"))
    shutil.copy(library, old)
    link.symlink_to(old.name)
    line = lines(tool, "--plain", "--library", link)
    old.rename(new)
    link.unlink()
    link.symlink_to(new.name)
    words = ["env", line.rstrip("\n"), "cat", "/proc/self/maps"]
    done = subprocess.run(words, env=clean(), capture_output=True, text=True, check=True)
    assert str(new) in done.stdout and done.stderr == ""


def test_a_named_library_keeps_its_name(tool: Tool, library: Path, tmp_path: Path) -> None:
    """A link to the newest of several releases, and one without a space to a folder that has one."""
    folder = tmp_path / "of release 1"
    folder.mkdir()
    shutil.copy(library, folder / "libhakmem.so.0.1.0")
    (folder / "libhakmem.so.0").symlink_to("libhakmem.so.0.1.0")
    newest = tmp_path / "newest"
    newest.symlink_to(folder)
    for name in ("libhakmem.so.0", "libhakmem.so.0.1.0"):
        assert lines(tool, "--path", "--library", newest / name) == f"{newest}/libhakmem.so.0\n"


def test_a_link_to_another_file_is_not_taken(tool: Tool, library: Path, tmp_path: Path) -> None:
    """Two versions side by side: the link leads to the newer one, and the older one was named."""
    old, new = (Path(shutil.copy(library, tmp_path / f"libhakmem.so.{version}")) for version in ("0.1.0", "0.1.1"))
    (tmp_path / "libhakmem.so.0").symlink_to(new.name)
    assert lines(tool, "--path", "--library", old) == f"{old}\n"


def on_a_terminal(tool: Tool, *arguments: object) -> List[str]:
    words = shlex.join(tool.words("env", *arguments))
    done = subprocess.run(
        ["script", "-qec", f"stty cols 200; exec {words}", "/dev/null"],
        env=clean(TERM="xterm"), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_the_next_command_keeps_the_options(tool: Tool, library: Path) -> None:
    """The command that sets the same variables."""
    assert on_a_terminal(tool)[-1] == 'next: eval "$(hakmem env)"'
    for words in (["--secure"], ["--set", "mode=lean", "--set", "decay=5", "--fast"], ["--library", str(library)]):
        assert on_a_terminal(tool, *words)[-1] == f'next: eval "$(hakmem env {" ".join(words)})"'
    assert on_a_terminal(tool, "--set", "stats_file=a b")[-1] == "next: eval \"$(hakmem env --set 'stats_file=a b')\""


@pytest.mark.parametrize(
    "arguments, code, reason",
    [
        (["--path", "--set", "mode=lean"], 2, "no place for --set"),
        (["--fast", "--library", "x.so"], 2, "both name a library"),
        (["--shell", "--fish"], 2, "--shell or --fish: one of them"),
        (["--path", "--json"], 2, "--json or --path: one of them"),
        (["--fast", "--secure"], 2, "--fast and --secure both name a library"),
        (["--docker", "--set", "mode=a\nb"], 2, "has a line break"),
        (["--library", "/nonexistent.so"], 125, "no library"),
    ],
)
def test_refusals(tool: Tool, library: Path, arguments: list[str], code: int, reason: str) -> None:
    done = tool("env", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert reason in done.stderr and done.stderr.count("hakmem:") == 1
