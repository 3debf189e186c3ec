"""The package's own files agree with each other."""

from __future__ import annotations

import re
from typing import Dict

import click
import hakmem
from cli_support import CLI, ROOT
from hakmem.main import cli


def all_commands() -> Dict[str, click.Command]:
    context = click.Context(cli)
    found = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    assert set(found) == {file.stem for file in (CLI / "hakmem" / "commands").glob("[a-z]*.py")}
    return {name: command for name, command in found.items() if command is not None}


def requirements(text: str) -> set[str]:
    return set(re.findall(r'"([a-z-]+[<>=][^"]+)"', text))


def test_the_two_lists_of_requirements_are_the_same() -> None:
    project = (CLI / "pyproject.toml").read_text()
    listed = (CLI / "requirements.txt").read_text().splitlines()
    lines = {line for line in listed if line and not line.startswith("#")}
    assert requirements(project) - {">=3.9", "setuptools>=77"} == lines


def test_versions() -> None:
    assert f'version = "{hakmem.__version__}"' in (CLI / "pyproject.toml").read_text()
    header = (ROOT / "include" / "hakmem" / "hakmem.h").read_text()
    assert ".".join(re.findall(r"#define HAKMEM_VERSION_\w+ (\d+)", header)) == hakmem.__version__


def test_the_list_of_packages_is_whole() -> None:
    project = (CLI / "pyproject.toml").read_text()
    folders = {file.parent.relative_to(CLI) for file in (CLI / "hakmem").rglob("__init__.py")}
    assert all(f'"{".".join(folder.parts)}"' in project for folder in folders)


def test_every_option_and_command_has_help() -> None:
    commands = all_commands()
    while commands:
        name, command = commands.popitem()
        assert command.get_short_help_str(), name
        commands.update({f"{name} {inner}": one for inner, one in getattr(command, "commands", {}).items()})
        for parameter in command.params:
            if parameter.opts[0].startswith("-"):
                assert getattr(parameter, "help", None), f"{name} {parameter.opts}"


def test_every_option_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    for name, command in all_commands().items():
        section = text.split(f"## hakmem {name}")[1].split("\n## ")[0]
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or f"`{option}" in section, f"{name} {option}"
