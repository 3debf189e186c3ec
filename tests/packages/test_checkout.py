"""The commands of the pages that need a checkout and a compiler: `make run` and `make install`, as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from clean_root import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from documented_commands import commands


def run(*words: str, **variables: str) -> str:
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, **variables}, check=False, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_make_run() -> None:
    """A table with a column for each of both allocators."""
    (line,) = commands("README.md", "test_make_run")
    said = run("bash", "-euc", line)
    assert re.search(r"glibc +hakmem", said) and "MiB" in said, said


def own_usr_local(folder: Path) -> list[str]:
    """Words before a command, which then has a /usr/local of its own, where this machine allows it."""
    for name in ("upper", "work"):
        (folder / name).mkdir()
    layers = f"lowerdir=/usr/local,upperdir={folder}/upper,workdir={folder}/work"
    mount = f'mount -t overlay overlay -o {shlex.quote(layers)} /usr/local && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", mount, "sh"]
    done = subprocess.run([*words, "true"], capture_output=True, check=False)
    if os.geteuid() != 0 or done.returncode != 0:
        pytest.skip("no /usr/local of its own: not root, or no overlays here")
    return words


def test_make_install(tmp_path: Path) -> None:
    """Each line of the page, in a /usr/local and a home of its own. The installed tool runs a program from there."""
    there = own_usr_local(tmp_path)
    home, image = tmp_path / "home", tmp_path / "image"
    home.mkdir()
    lines = commands("docs/installing.md", "test_make_install")
    assert len(lines) == 3
    for line, prefix in zip(lines, ("/usr/local", f"{home}/.local", f"{image}/usr")):
        words = line.replace("/tmp/image", str(image))
        started = f"{shlex.quote(sys.executable)} -I {prefix}/bin/hakmem run -q -- cat /proc/self/maps"
        said = run(*there, "bash", "-euc", f"{words} >/dev/null; {started}", HOME=str(home))
        assert re.search(rf"r-xp .* {re.escape(prefix)}/lib\S*/libhakmem\.so", said), said
