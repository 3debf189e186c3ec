#!/usr/bin/env python3
"""Runs clang-tidy on the library's sources as build/release compiled them.

Findings fail with the version of clang-tidy that the configuration is for. Another version has other checks: findings
that only it has are printed and do not fail. Without clang-tidy the check is left out. With --deep the analyzer follows
as many paths as it does by itself.
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
# At how many states the analyzer leaves a function. By itself it does so at 225,000, and takes four times as long; of
# 21 findings in the library this number had 20 (measured with version 14).
NODES = 40_000


def version(tool: str) -> int:
    said = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"version (\d+)", said)
    return int(found[1]) if found else 0


def compiled_sources(build: Path) -> list[str]:
    """The sources below src/ that the build has commands for."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    files = {str((Path(command["directory"]) / command["file"]).resolve()) for command in commands}
    return sorted(file for file in files if file.startswith(f"{ROOT}/src/"))


def analyzer_option(name: str, value: int) -> tuple[str, ...]:
    """The words by which clang hands an option to its analyzer."""
    return ("-Xclang", "-analyzer-config", "-Xclang", f"{name}={value}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="a configured build directory")
    parser.add_argument("--deep", action="store_true", help="follow as many paths as the analyzer does by itself")
    arguments = parser.parse_args()
    build = arguments.build
    depth = [] if arguments.deep else [f"--extra-arg={word}" for word in analyzer_option("max-nodes", NODES)]
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
            *depth,
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
