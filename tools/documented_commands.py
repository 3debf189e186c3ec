#!/usr/bin/env python3
"""The commands of the pages by which users begin, and the tests that run them.

    tools/documented_commands.py            checks that a test runs each command, and each row of WAYS
    tools/documented_commands.py --list     prints the commands with their tests

Pages are README.md, docs/installing.md and docs/recipes. A comment names the test of the shell blocks below it, up to
the next such comment:

    <!-- test: tests/packages/test_first_use.py::test_wheel -->

A page of docs/recipes without one is a script as a whole, which RECIPES runs. A test takes its commands from the page,
by commands(). A comment may name a file of the project before the test, such as .ci/run: it runs the commands that
stand in it.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECIPES = "tests/tools/test_recipes.py::test_page"
WAYS = "docs/installing.md"
WAYS_COUNT = 24

_PART = re.compile(r"^<!-- test: (?P<tests>[^>]+) -->$|^ *```(?P<kind>\w*)[^\n]*\n(?P<code>.*?)^ *```$", re.M | re.S)
_TEST = re.compile(r"`((?:tests|\.ci|\.github)/[^`]+)`")
_SHELL = ("sh", "bash", "console", "")


@dataclass(frozen=True)
class Block:
    """Shell commands of a page with the same test, which is empty where no comment and no rule names one."""

    page: str
    test: str
    lines: list[str]


def lines_of(code: str) -> list[str]:
    """The commands without their comments; a line that goes on below is one."""
    lines = [re.sub(r"(^|\s+)# .*", "", line).strip() for line in re.sub(r"\\\n\s*", "", code).splitlines()]
    return [line for line in lines if line]


def pages(root: Path = ROOT) -> list[str]:
    recipes = sorted((root / "docs/recipes").glob("*.md"))
    return ["README.md", WAYS, *(str(path.relative_to(root)) for path in recipes)]


def blocks(page: str, root: Path = ROOT) -> list[Block]:
    """All shell blocks of the page."""
    found = []
    tests = [RECIPES if page.startswith("docs/recipes/") else ""]
    for part in _PART.finditer(read(root, page)):
        if part["tests"]:
            tests = part["tests"].split()
        elif part["kind"] in _SHELL:
            lines = lines_of(part["code"])
            for file in tests[:-1]:
                text = read(root, file) if (root / file).is_file() else ""
                found.append(Block(page, file, [line for line in lines if line in text]))
                lines = [line for line in lines if line not in text]
            found.append(Block(page, tests[-1], lines))
    return [block for block in found if block.lines]


def runs_whole(path: Path) -> bool:
    """Whether RECIPES runs all of that page of docs/recipes."""
    return "<!-- test: " not in path.read_text(encoding="utf-8")


def commands(page: str, test: str) -> list[str]:
    """Returns the commands of the page that name this test."""
    found = [line for block in blocks(page) if block.test.endswith(f"::{test}") for line in block.lines]
    assert found, f"{page} has no commands for {test}"
    return found


def why_no_test(name: str, root: Path = ROOT) -> str:
    """Why this is not the name of a test; empty where it is one."""
    file, _, function = name.partition("::")
    function = function.partition("[")[0]
    if not (root / file).is_file():
        return f"there is no {file}"
    if not function:
        return "" if not file.startswith("tests/") else f"{name} names no test of the file"
    return "" if f"\ndef {function}(" in "\n" + read(root, file) else f"{file} has no {function}"


def read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def untested(block: Block, root: Path = ROOT) -> str:
    """Why no test runs the block; empty where one does."""
    if not block.test:
        return "no test is named"
    reason = why_no_test(block.test, root)
    if reason:
        return reason
    file, _, function = block.test.partition("::")
    source = read(root, file)
    if not function:
        absent = [line for line in block.lines if line not in source]
        return f"{file} has no {absent[0]!r}" if absent else ""
    path = Path(block.page)
    if path.name in source or block.test == RECIPES:
        return ""
    return f"{file} does not read {path.name}"


def ways(root: Path = ROOT) -> list[tuple[str, str, list[str]]]:
    """The rows of the table of WAYS: the name, the command, and the tests."""
    rows = []
    for line in read(root, WAYS).splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if len(cells) == 3 and (_TEST.search(cells[2])):
            rows.append((cells[0], cells[1], _TEST.findall(cells[2])))
    return rows


def findings(root: Path = ROOT) -> list[str]:
    found = []
    for page in pages(root):
        for block in blocks(page, root):
            reason = untested(block, root)
            if reason:
                found.append(f"{page}: `{block.lines[0]}`: {reason}")
        if page in ("README.md", WAYS) and re.search(r"^$\n {4}\S", read(root, page), re.M):
            found.append(f"{page}: an indented block: a fence says that it is of the shell, or that it is not")
    rows = ways(root)
    if len(rows) != WAYS_COUNT:
        found.append(f"{WAYS}: the table of ways has {len(rows)} rows with a test instead of {WAYS_COUNT}")
    for name, command, tests in rows:
        if "`" not in command:
            found.append(f"{WAYS}: {name}: no command")
        found += [f"{WAYS}: {name}: {reason}" for reason in (why_no_test(test, root) for test in tests) if reason]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the commands with their tests")
    if parser.parse_args().list:
        for page in pages():
            for block in blocks(page):
                for line in block.lines:
                    print(f"{page}\t{block.test or '-'}\t{line}")
    found = findings()
    for line in found:
        print(line, file=sys.stderr)
    print(f"commands: {f'{len(found)} without a test' if found else 'ok'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
