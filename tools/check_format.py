#!/usr/bin/env python3
"""Checks the formatting of C, C++ and Python sources; with --fix, mends it.

Uses the versions pinned in tools/requirements.txt (build/venv). Without them the check is left out, because
another version of clang-format breaks lines in other places.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_OURS = {".git", "build", "dist", "target", "__pycache__", ".venv"}
C_SUFFIXES = (".c", ".cc", ".cpp", ".h", ".hpp")


def sources(suffixes: tuple[str, ...]) -> list[str]:
    """The sources of every folder except build folders. Uses no git: an unpacked archive has none."""
    folders = [folder for folder in ROOT.iterdir() if folder.is_dir() and folder.name not in NOT_OURS]
    files = [file for folder in folders for file in folder.rglob("*") if file.suffix in suffixes and file.is_file()]
    names = (file.relative_to(ROOT) for file in files)
    return sorted(str(name) for name in names if NOT_OURS.isdisjoint(name.parts))


def pinned_version(package: str) -> str:
    for line in (ROOT / "tools/requirements.txt").read_text(encoding="utf-8").splitlines():
        name, _, version = line.partition("==")
        if name == package:
            return version
    raise LookupError(f"tools/requirements.txt pins no {package}")


def find_tool(name: str) -> str | None:
    """The tool in the pinned version, from beside this interpreter or from PATH."""
    for candidate in (str(Path(sys.executable).parent / name), shutil.which(name)):
        if candidate and Path(candidate).exists():
            said = subprocess.run([candidate, "--version"], check=False, capture_output=True, text=True).stdout
            if pinned_version(name) in said:
                return candidate
    print(f"format: left out: {name} {pinned_version(name)} is not installed (tools/bootstrap.sh test)")
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", action="store_true", help="rewrite unformatted files")
    fix = parser.parse_args().fix
    commands: list[list[str]] = []
    if clang_format := find_tool("clang-format"):
        commands.append([clang_format, "-i" if fix else "--dry-run", "-Werror", "--style=file", *sources(C_SUFFIXES)])
    if ruff := find_tool("ruff"):
        python = sources((".py",))
        commands.append([ruff, "check", "--quiet", "--no-cache", *(["--fix"] if fix else []), *python])
        commands.append([ruff, "format", "--quiet", "--no-cache", *([] if fix else ["--diff"]), *python])
    failed = [command[0] for command in commands if subprocess.run(command, cwd=ROOT, check=False).returncode]
    print("format: ok" if not failed else "format: not clean (make format mends most of it)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
