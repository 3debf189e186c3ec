#!/usr/bin/env python3
"""Checks src/ against the layer table in src/README.md.

An include may name a folder that the including file's layer may know, an earlier module of its own folder, or its own
module. Every source file is in the table and every module of the table has a file. File names are unique in the tree.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE_SUFFIXES = {".c", ".cc", ".cpp", ".h", ".hpp", ".def", ".map"}
# Folders whose file names may not repeat each other.
UNIQUE_NAME_FOLDERS = ("src", "include", "tests", "bench")
# These folders implement the public headers; no folder below includes them.
PUBLIC_FOLDER = "hakmem"
PUBLIC_KNOWN_TO = {"api", "inspect", "report", "serve", "override"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<(hakmem/[^>]+)>)', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
RANGE = re.compile(r"L(\d+)(?:\s*[–-]\s*L(\d+))?")


@dataclass(frozen=True)
class Folder:
    """One row of the table."""

    name: str
    layer: int
    may_know: frozenset[int]
    modules: tuple[str, ...]


def read_table(readme: str) -> dict[str, Folder]:
    """The rows that begin with `| L<number> |`, by folder."""
    folders: dict[str, Folder] = {}
    for line in readme.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 4 or not re.fullmatch(r"L\d+", cells[0]):
            continue
        name = cells[1].strip("`")
        known: set[int] = set()
        for first, last in RANGE.findall(cells[2]):
            known.update(range(int(first), int(last or first) + 1))
        folders[name] = Folder(name, int(cells[0][1:]), frozenset(known), tuple(re.findall(r"`([^`]+)`", cells[3])))
    return folders


def included_paths(text: str) -> list[tuple[int, str]]:
    """(line number, path) of every quoted include and of every include of a public header."""
    text = COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text)
    return [(text.count("\n", 0, found.start()) + 1, found[1] or found[2]) for found in INCLUDE.finditer(text)]


def include_error(folders: dict[str, Folder], folder: Folder, module: str, path: str) -> str | None:
    """Returns why `module` of `folder` may not include `path`; None when it may."""
    target_folder, slash, target_file = path.partition("/")
    if not slash or "/" in target_file:
        return f'"{path}": write it as "folder/file"'
    if target_folder == PUBLIC_FOLDER:
        return (
            None if folder.name in PUBLIC_KNOWN_TO else f"{path}: only {', '.join(sorted(PUBLIC_KNOWN_TO))} may know it"
        )
    target = folders.get(target_folder)
    if target is None:
        return f'"{path}": src/README.md knows no folder `{target_folder}`'
    target_module = target_file.split(".")[0]
    if target_module not in target.modules:
        return f'"{path}": src/README.md has no `{target_module}` in `{target_folder}`'
    if target != folder:
        if target.layer in folder.may_know:
            return None
        return f'"{path}": L{folder.layer} `{folder.name}` may not know L{target.layer} `{target_folder}`'
    if folder.modules.index(target_module) <= folder.modules.index(module):
        return None
    return f'"{path}": `{target_module}` comes after `{module}` in src/README.md'


def check_sources(src: Path) -> list[str]:
    """Every violation of the table below `src`."""
    folders = read_table((src / "README.md").read_text(encoding="utf-8"))
    if not folders:
        return [f"{src / 'README.md'}: no layer table"]
    errors: list[str] = []
    present: set[tuple[str, str]] = set()
    for file in sorted(path for path in src.rglob("*") if path.is_file() and path.suffix in SOURCE_SUFFIXES):
        folder = folders.get("/".join(file.relative_to(src).parts[:-1]))
        if folder is None:
            errors.append(f"{file}: src/README.md does not know its folder")
            continue
        module = file.name.split(".")[0]
        # A linker script is named after the library, not after a module.
        if file.suffix != ".map":
            present.add((folder.name, module))
            if module not in folder.modules:
                errors.append(f"{file}: missing in the row of `{folder.name}` in src/README.md")
                continue
            for line, path in included_paths(file.read_text(encoding="utf-8")):
                error = include_error(folders, folder, module, path)
                if error:
                    errors.append(f"{file}:{line}: {error}")
    for folder in folders.values():
        for module in folder.modules:
            if (folder.name, module) not in present:
                errors.append(f"{src / 'README.md'}: `{folder.name}` lists `{module}`, which has no file")
    return errors


def check_unique_names(root: Path) -> list[str]:
    """Every source file name that occurs twice."""
    seen: dict[str, Path] = {}
    errors: list[str] = []
    for folder in UNIQUE_NAME_FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.is_file() and file.suffix in SOURCE_SUFFIXES:
                first = seen.setdefault(file.name, file)
                if first != file:
                    errors.append(f"{file}: {first} has the same name")
    return errors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout")
    root = parser.parse_args().root
    errors = check_sources(root / "src") + check_unique_names(root)
    for error in errors:
        print(error.replace(f"{root}/", ""))
    print(f"layers: {f'{len(errors)} errors' if errors else 'ok'}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
