"""docs/recipes/cxx.md, command by command: its blocks are the files that they name, and shell commands."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path

import consumer
import pytest

PAGE = consumer.ROOT / "docs" / "recipes" / "cxx.md"
CLIENTS = {"meson": "mesonbuild", "conan": "conan"}


def sections() -> dict[str, list[tuple[str, str]]]:
    """The blocks of each section, in order: language and text."""
    parts = re.split(r"^## (.*)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    blocks = {
        title: re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL) for title, text in pairs(parts)
    }
    return {title: found for title, found in blocks.items() if found}


def pairs(parts: list[str]) -> list[tuple[str, str]]:
    return list(zip(parts[::2], parts[1::2]))


def write_files(home: Path, blocks: list[tuple[str, str]]) -> None:
    for language, text in blocks:
        if language != "sh":
            name = re.match(r"(?:#|//) (\S+)\n", text)
            assert name, f"a block of {language} has to name its file in its first line"
            (home / name[1]).parent.mkdir(exist_ok=True)
            (home / name[1]).write_text(text)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the checkout, and the page's program."""
    (tmp_path / "hakmem").symlink_to(consumer.ROOT)
    write_files(tmp_path, sections()["Three commands"])
    return tmp_path


@pytest.mark.parametrize("title", sections())
def test_section(home: Path, title: str) -> None:
    blocks = sections()[title]
    commands = "".join(text for language, text in blocks if language == "sh")
    for client, module in CLIENTS.items():
        if re.search(rf"^{client} ", commands, re.MULTILINE) and importlib.util.find_spec(module) is None:
            pytest.skip(f"{client} is not installed")
    if "pkg-config" in commands and shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    write_files(home, blocks)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if "conan " in commands:
        consumer.run("conan", "profile", "detect", HOME=str(home), PATH=path)
        consumer.run("conan", "remote", "disable", "*", HOME=str(home), PATH=path)
    # The checkout's build calls ccache in its own way. With another launcher it would compile every file again.
    commands = re.sub(r"^make ", "env -u CMAKE_C_COMPILER_LAUNCHER -u CMAKE_CXX_COMPILER_LAUNCHER make ", commands)
    said = consumer.run("bash", "-euc", commands, cwd=home, HOME=str(home), PATH=path)
    assert ("all of it is hakmem's" in said) if title != "Conan" else (said.count("\n0.1.0\n") == 4), said
