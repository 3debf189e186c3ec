#!/usr/bin/env python3
"""Runs clang-tidy on the library's sources as build/release compiled them.

Findings fail with the version of clang-tidy that the configuration is for. Another version has other checks: findings
that only it has are printed and do not fail. Without clang-tidy the check is left out.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHOSEN_WITH_VERSION = 14


def version(tool: str) -> int:
    said = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"version (\d+)", said)
    return int(found[1]) if found else 0


def compiled_sources(build: Path) -> list[str]:
    """The sources below src/ that the build has commands for."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    files = {str((Path(command["directory"]) / command["file"]).resolve()) for command in commands}
    return sorted(file for file in files if file.startswith(f"{ROOT}/src/"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="a configured build directory")
    build = parser.parse_args().build
    tool = shutil.which("clang-tidy")
    if tool is None:
        print("tidy: left out: clang-tidy is not installed")
        return 0

    def run(file: str) -> subprocess.CompletedProcess[str]:
        # Warnings about flags that only the build's compiler has are no findings.
        command = [
            tool,
            "-p",
            str(build),
            "--quiet",
            "--extra-arg=-Wno-unknown-warning-option",
            "--extra-arg=-Wno-ignored-optimization-argument",
            file,
        ]
        return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)

    files = compiled_sources(build)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = [(done.stdout + done.stderr) for done in pool.map(run, files) if done.returncode]
    for finding in findings:
        print(finding)
    fails = bool(findings) and version(tool) == CHOSEN_WITH_VERSION
    print(f"tidy: {f'{len(findings)} of {len(files)} files with findings' if findings else f'ok, {len(files)} files'}")
    return 1 if fails else 0


if __name__ == "__main__":
    sys.exit(main())
