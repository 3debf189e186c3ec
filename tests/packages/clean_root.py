"""Clean roots: file systems with the smallest set of a distribution's packages, and commands in them.

debootstrap makes one for each release that a test needs, which stays in build/clean-root; a test has a copy of it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Sequence

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "build/clean-root"
# This machine's certificate authorities, for a network that has some of its own, and its way to the registries.
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
THERE = "/etc/ssl/machine"
NETWORK = {name: f"{THERE}/{CERTIFICATES.name}" for name in ("PIP_CERT", "CARGO_HTTP_CAINFO")}
KEPT = ("PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "http_proxy", "https_proxy")
USER = 1000
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class NoRoot(Exception):
    """The reason why this machine can make no clean root."""


class CleanRoot:
    """A root file system, and commands in it, in mount and process namespaces of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, *command: str, user: int = 0, cwd: str = "/", **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command as that user, in that folder of the root, with a clean environment and those variables."""
        network = {name: os.environ[name] for name in KEPT if name in os.environ}
        if (self.folder / NETWORK["PIP_CERT"].lstrip("/")).exists():
            network.update(NETWORK)
        enter = ("unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={self.folder}/proc")
        clean = {"PATH": PATH, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", **network, **variables}
        who = (f"--userspec={user}:{user}",) if user else ()
        there = ("env", "-C", cwd)
        return subprocess.run(
            [*enter, "chroot", *who, str(self.folder), *there, *command], env=clean, check=False, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900,
        )  # fmt: skip

    def run(self, *command: str, fails: bool = False, user: int = 0, cwd: str = "/", **variables: str) -> str:
        """Asserts that the command succeeds, or that it fails, and returns what it prints."""
        done = self.start(*command, user=user, cwd=cwd, **variables)
        assert (done.returncode != 0) == fails, f"{' '.join(command)}: {done.returncode}\n{done.stdout[-4000:]}"
        return done.stdout

    def install(self, *packages: str) -> None:
        """Installs packages of the distribution, or files of packages by their path in the root."""
        self.run("apt-get", "-qq", "install", "--no-install-recommends", *packages)

    def take(self, *files: Path, to: str) -> list[str]:
        """Copies files into a folder of the root; returns their paths there."""
        folder = self.folder / to.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        return [f"{to}/{Path(shutil.copy(file, folder)).name}" for file in files]

    def empty_folder(self, path: str) -> Path:
        """Makes a folder of the ordinary user; returns its path outside the root."""
        folder = self.folder / path.lstrip("/")
        folder.mkdir(parents=True)
        os.chown(folder, USER, USER)
        return folder


def this_release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}


def base(distribution: str, release: str) -> Path:
    """The root of that release that the others are copies of; made where it is not there yet."""
    if os.geteuid() != 0 or shutil.which("debootstrap", path="/usr/sbin:/usr/bin") is None:
        raise NoRoot("only root can make a clean root, by debootstrap (package debootstrap)")
    if distribution not in ("debian", "ubuntu"):
        raise NoRoot(f"debootstrap makes no root of {distribution}")
    folder = BASE / release
    BASE.mkdir(parents=True, exist_ok=True)
    with (BASE / "lock").open("w") as lock:  # two suites may start at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        return folder if folder.exists() else make_base(folder, distribution)


def make_base(folder: Path, distribution: str) -> Path:
    """Makes that root by debootstrap."""
    components = "main,universe" if distribution == "ubuntu" else "main"
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    words = ("debootstrap", "--variant=minbase", f"--components={components}")
    done = subprocess.run([*words, folder.name, unfinished], env={"PATH": PATH}, capture_output=True, check=False)
    if done.returncode != 0:
        raise NoRoot(f"debootstrap made no root here: {done.stdout[-300:].decode(errors='replace')}")
    return unfinished.rename(folder)


def copy(folder: Path, sources: Sequence[str] = ()) -> CleanRoot:
    """Makes a root of its own in that folder, with fresh lists of packages and an ordinary user."""
    release = this_release()
    source = base(release.get("ID", "this system"), release.get("VERSION_CODENAME", ""))
    subprocess.run(["cp", "-a", "--reflink=auto", source, folder], check=True)
    root = CleanRoot(folder)
    listed = folder / "etc/apt/sources.list"
    listed.write_text(listed.read_text() + "".join(f"{line}\n" for line in sources))
    if CERTIFICATES.exists():
        root.take(CERTIFICATES, to=THERE)
    root.run("apt-get", "-qq", "update")
    root.run("useradd", "--create-home", "--uid", str(USER), "user")
    return root
