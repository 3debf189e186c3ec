#!/usr/bin/env python3
"""Builds the RPM packages or the Arch package into dist/, by the recipes of packaging/ (make rpm, make arch).

    tools/build_recipe.py rpm|arch

Builds from an archive of the sources, as a release has one. The managers' check of what a build needs is left out: on
another distribution than its own a manager finds no package. `tools/bootstrap.sh test-all` installs rpmbuild and
makepkg on Debian.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Callable

from build_deb import ROOT, copy_sources

NOBODY = 65534
PRODUCTS = {"rpm": "*.rpm", "arch": "*.pkg.tar.*"}
TOOLS = {"rpm": "rpmbuild", "arch": "makepkg"}
PACKAGES = {"rpm": "rpm-build has it, on Debian and Ubuntu rpm", "arch": "pacman has it, on Debian and Ubuntu makepkg"}


def version() -> str:
    header = (ROOT / "include/hakmem/hakmem.h").read_text(encoding="utf-8")
    return ".".join(re.findall(r"#define HAKMEM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))


def archive(work: Path) -> Path:
    """The archive of the sources, in a folder that is empty otherwise."""
    name = f"hakmem-{version()}"
    copy_sources(work / name)
    with tarfile.open(work / f"{name}.tar.gz", "w:gz", compresslevel=1) as out:
        out.add(work / name, arcname=name)
    shutil.rmtree(work / name)
    return work / f"{name}.tar.gz"


def build_rpm(work: Path) -> list[str]:
    """The command that leaves the packages in work/RPMS."""
    places = ("--define", f"_topdir {work}", "--define", f"_sourcedir {work}")
    return ["rpmbuild", "-bb", "--nodeps", *places, str(ROOT / "packaging/rpm/hakmem.spec")]


def build_arch(work: Path) -> list[str]:
    """The command that leaves the package in the folder. makepkg refuses to run as root."""
    shutil.copy(ROOT / "packaging/arch/PKGBUILD", work)
    words = ["makepkg", "--nodeps", "--nocheck"]
    # makepkg asks pacman for the installed packages, and Debian's comes without one: there the list is empty.
    if shutil.which("pacman") is None:
        words = ["env", "PACMAN=true", *words]
    if os.geteuid() != 0:
        return words
    for path in (work, *work.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", f"HOME={work}", *words]


BUILDS: dict[str, Callable[[Path], list[str]]] = {"rpm": build_rpm, "arch": build_arch}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(BUILDS))
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder for the packages")
    arguments = parser.parse_args()
    if shutil.which(TOOLS[arguments.kind]) is None:
        tool, packages = TOOLS[arguments.kind], PACKAGES[arguments.kind]
        print(f"{arguments.kind}: there is no {tool}: the package {packages}", file=sys.stderr)
        return 1
    # Where the user that makepkg needs gets to.
    with tempfile.TemporaryDirectory(prefix="hakmem-", dir="/var/tmp") as name:
        work = Path(name)
        archive(work)
        command = BUILDS[arguments.kind](work)
        if subprocess.run(command, cwd=work, stdin=subprocess.DEVNULL, check=False).returncode != 0:
            return 1
        arguments.out.mkdir(parents=True, exist_ok=True)
        # Documents install all of them, so none of another version may stay.
        for old in arguments.out.glob(f"hakmem-{PRODUCTS[arguments.kind]}"):
            old.unlink()
        for product in sorted(work.rglob(PRODUCTS[arguments.kind])):
            shutil.copyfile(product, arguments.out / product.name)
            print(f"{arguments.kind}: {arguments.out / product.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
