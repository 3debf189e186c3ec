"""The Debian packages of dist/, and a clean root of the same release that they are installed in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Iterator

import clean_root as roots
import pytest
from clean_root import ROOT, CleanRoot

PACKAGES = ("libhakmem0", "libhakmem-dev", "hakmem-tools")


@pytest.fixture(scope="session")
def packages() -> dict[str, Path]:
    """The packages that `make deb` has left."""
    found = {name: next(iter((ROOT / "dist").glob(f"{name}_*.deb")), None) for name in PACKAGES}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)} in dist/ (make deb)")
    return {name: path for name, path in found.items() if path is not None}


@pytest.fixture(scope="session")
def clean_root(packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[CleanRoot]:
    """A root with the smallest set of packages, where hakmem-tools was installed by apt-get with what it depends on."""
    try:
        root = roots.copy(tmp_path_factory.mktemp("clean") / "root")
    except roots.NoRoot as reason:
        pytest.skip(str(reason))
    files = root.take(*packages.values(), to="/packages")
    root.install(*(file for file in files if "libhakmem-dev" not in file))
    yield root
    shutil.rmtree(root.folder, ignore_errors=True)
