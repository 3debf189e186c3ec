"""Removes what the last `cmake --install` of a build installed: the files of its manifest, what Python has compiled of
them, and the folders that are empty then."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path


def installed(manifest: Path, destdir: str) -> list[Path]:
    return [Path(destdir + line) for line in manifest.read_text().splitlines() if line]


def remove_empty(folder: Path) -> None:
    """The folder, and those that hold it, as far as they are empty."""
    try:
        while True:
            folder.rmdir()
            folder = folder.parent
    except OSError:
        return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    options = parser.parse_args()
    manifest = options.build / "install_manifest.txt"
    if not manifest.exists():
        print(f"uninstall: {manifest} is not there: this build has installed nothing", file=sys.stderr)
        return 1
    files = installed(manifest, os.environ.get("DESTDIR", ""))
    folders = {file.parent for file in files}
    for file in files:
        file.unlink(missing_ok=True)
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        remove_empty(folder)
    manifest.unlink()
    print(f"uninstall: removed {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
