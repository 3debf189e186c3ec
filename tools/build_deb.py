#!/usr/bin/env python3
"""Builds the Debian packages libhakmem0, libhakmem-dev and hakmem-tools into dist/, from debian/ (make deb).

Builds a copy of the sources in build/deb, so that debhelper leaves nothing here. Needs debhelper, dh-python and
dpkg-dev (tools/bootstrap.sh deb).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_SOURCES = ("build", "dist", "target", ".git", ".cache", "__pycache__", ".venv", "node_modules")
PRODUCTS = ("*.deb", "*.changes", "*.buildinfo")


def source_files() -> list[str]:
    """The files that git knows or would add; of an unpacked archive, all but the products of builds."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]
    names: list[str] = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_SOURCES]
        names += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files]
    return names


def copy_sources(folder: Path) -> None:
    shutil.rmtree(folder.parent, ignore_errors=True)
    for name in source_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


def sign_by_maintainer(debian: Path) -> None:
    """Names debian/control's maintainer in the newest entry of the changelog, so that one place has the address."""
    found = re.search(r"^Maintainer: (.+)$", (debian / "control").read_text(), re.MULTILINE)
    if found is None:
        sys.exit("deb: debian/control names no maintainer")
    changelog = debian / "changelog"
    text = re.sub(r"^ -- .*?  ", lambda _: f" -- {found[1]}  ", changelog.read_text(), count=1, flags=re.MULTILINE)
    changelog.write_text(text)


def keep(product: Path, out: Path) -> Path:
    """Copies a package into a folder, in the place of those of other versions: documents install `dist/NAME_*.deb`."""
    name, _, rest = product.name.partition("_")
    for old in out.glob(f"{name}_*_{rest.rpartition('_')[2]}"):
        old.unlink()
    return Path(shutil.copy2(product, out))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder for the packages")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if shutil.which("dpkg-buildpackage") is None or shutil.which("dh") is None:
        print("deb: no dpkg-buildpackage, or no debhelper (tools/bootstrap.sh deb)", file=sys.stderr)
        return 1
    work = ROOT / "build/deb/hakmem"
    copy_sources(work)
    sign_by_maintainer(work / "debian")
    command = ["dpkg-buildpackage", "--build=binary", "--no-sign", f"--jobs={arguments.jobs}"]
    if subprocess.run(command, cwd=work, stdin=subprocess.DEVNULL, check=False).returncode != 0:
        return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    for pattern in PRODUCTS:
        for product in sorted(work.parent.glob(pattern)):
            print(f"deb: {keep(product, arguments.out)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
