"""The Debian packages of dist/, and a clean root of the same release that they are installed in."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("libhakmem0", "libhakmem-dev", "hakmem-tools")


class CleanRoot:
    """A root file system, and commands in it, in mount and process namespaces of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *command: str, fails: bool = False) -> str:
        enter = ("unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={self.folder}/proc")
        clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            [*enter, "chroot", str(self.folder), *command], env=clean, check=False, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
        )  # fmt: skip
        assert (done.returncode != 0) == fails, f"{' '.join(command)}: {done.returncode}\n{done.stdout[-4000:]}"
        return done.stdout


def this_release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}


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
    if os.geteuid() != 0 or shutil.which("debootstrap", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("only root can make a clean root, by debootstrap")
    release = this_release()
    if release.get("ID") not in ("debian", "ubuntu"):
        pytest.skip(f"the packages are of {release.get('ID')}, for which debootstrap makes no root")
    components = "main,universe" if release["ID"] == "ubuntu" else "main"
    folder = tmp_path_factory.mktemp("clean") / "root"
    words = ["debootstrap", "--variant=minbase", f"--components={components}", release["VERSION_CODENAME"], str(folder)]
    done = subprocess.run(words, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"debootstrap made no root here: {done.stdout[-300:].decode(errors='replace')}")
    root = CleanRoot(folder)
    (folder / "packages").mkdir()
    for path in packages.values():
        shutil.copy(path, folder / "packages")
    root.run("apt-get", "-qq", "update")
    install = ("apt-get", "-qq", "install", "--no-install-recommends")
    root.run(*install, *(f"/packages/{packages[name].name}" for name in ("libhakmem0", "hakmem-tools")))
    yield root
    shutil.rmtree(folder, ignore_errors=True)
