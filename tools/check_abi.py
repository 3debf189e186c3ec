#!/usr/bin/env python3
"""Checks that programs which are linked with the last release run with the built library: libabigail compares them.

tools/abi/libhakmem-<machine>.abi is what libabigail's abidw read from the last release, tools/abi/accepted.abignore
says which changes keep programs running. Added names pass. The commit of a release renews the description:

    make lib && python3 tools/check_abi.py --renew
    cmake --preset arm64 -DHK_TESTS=OFF && cmake --build --preset arm64 --target hakmem
    python3 tools/check_abi.py --renew --machine aarch64

A change that breaks programs raises HK_SOVERSION (cmake/HakmemLibraries.cmake) and renews the description at once: the
library has another name then. libhakmem-fast.so has the same interface (tools/check_exports.py). Needs abigail-tools
(Debian), and debug information in the library.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ABI = ROOT / "tools/abi"
# The presets that build for another processor than this machine's: libabigail reads files of any.
CROSS = {"aarch64": "arm64"}
# Types of the library's own sources are not part of the interface, and places in them only make the file longer.
WRITE = ("abidw", "--exported-interfaces-only", "--drop-private-types", "--no-corpus-path", "--no-comp-dir-path")
WRITE += ("--no-show-locs", "--no-parameter-names", "--no-elf-needed", "--type-id-style", "hash")


def describe(library: Path, headers: Path, description: Path) -> str | None:
    """Writes the description of a library, without the checkout's place; returns what went wrong."""
    command = [*WRITE, "--headers-dir", str(headers), "--out-file", str(description), str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stderr.strip()
    description.write_text(description.read_text().replace(f"'{ROOT}/", "'"))
    return None


def compare(library: Path, headers: Path, description: Path) -> str | None:
    """Compares a library with a description; returns the changes, or what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        new = Path(folder) / "new.abi"
        error = describe(library, headers, new)
        if error:
            return error
        command = ["abidiff", "--no-added-syms", "--suppressions", str(ABI / "accepted.abignore")]
        done = subprocess.run([*command, str(description), str(new)], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip() if done.returncode else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = platform.machine()
    parser.add_argument("--machine", choices=sorted(CROSS | {here: ""}), default=here, help="of the built library")
    parser.add_argument("--library", type=Path, help="the built library")
    parser.add_argument("--headers", type=Path, default=ROOT / "include/hakmem", help="the public headers")
    parser.add_argument("--description", type=Path, help="of the last release")
    parser.add_argument("--renew", action="store_true", help="describe the built library instead")
    arguments = parser.parse_args()
    build = "release" if arguments.machine == here else CROSS[arguments.machine]
    library = arguments.library or ROOT / f"build/{build}/libhakmem.so"
    description = arguments.description or ABI / f"libhakmem-{arguments.machine}.abi"
    if shutil.which("abidiff") is None:
        print("abi: left out: no abidiff (tools/bootstrap.sh test-all)")
        return 0
    if not arguments.renew and not description.is_file():
        print(f"abi: left out: no description {description}")
        return 0
    work = describe if arguments.renew else compare
    error = work(library.resolve(), arguments.headers, description)
    print(error or f"abi: {'renewed' if arguments.renew else 'ok'}")
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main())
