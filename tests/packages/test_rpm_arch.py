"""The RPM packages of `make rpm` and the Arch package of `make arch`: built, installed by their managers in a clean
root, used there, and removed, by the commands of docs/installing.md. The root is Debian's, whose packages bring the
tool's Python modules. So the managers' own check of dependencies is left out; test_the_recipes looks at them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import clean_root
import pytest
from clean_root import ROOT, USER, CleanRoot

sys.path.insert(0, str(ROOT / "tools"))
import build_recipe
from documented_commands import commands

OLDER = {"rpm": "hakmem-0.0.9-1.x86_64.rpm", "arch": "hakmem-0.0.9-1-x86_64.pkg.tar.zst"}
MANAGERS = ("rpm", "pacman-package-manager")
PROGRAM = """
#include <hakmem/hakmem.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  void *block = malloc(100);
  printf("%s %s\\n", hakmem_check_owned(block) ? "ours" : "foreign", hakmem_version());
  free(block);
}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CleanRoot]:
    """A root with both managers, a compiler, and what the tool imports."""
    try:
        made = clean_root.copy(tmp_path_factory.mktemp("managers") / "root")
    except clean_root.NoRoot as reason:
        pytest.skip(str(reason))
    made.install("gcc", "libc6-dev", "pkg-config", *MANAGERS, *(f"python3-{name}" for name in modules()))
    # pacman measures the space of mounted file systems, and this root is none.
    made.run("sed", "-i", "/^CheckSpace/d", "/etc/pacman.conf")
    (made.folder / "program.c").write_text(PROGRAM)
    yield made
    shutil.rmtree(made.folder, ignore_errors=True)


def modules() -> list[str]:
    """The packages that cli/requirements.txt names and that the tool cannot do without."""
    text = (ROOT / "cli/requirements.txt").read_text()
    found = set(re.findall(r"^([\w-]+)", text, re.MULTILINE)) - {"rust-demangler", "tomli", "matplotlib"}
    return sorted(found)


def build(kind: str, line: str) -> list[Path]:
    """Runs the page's first command; returns the packages."""
    if shutil.which(build_recipe.TOOLS[kind]) is None:
        pytest.skip(f"there is no {build_recipe.TOOLS[kind]}")
    assert line == f"make {kind}"
    older = ROOT / "dist" / OLDER[kind]
    older.parent.mkdir(exist_ok=True)
    older.write_text("")
    # makepkg runs as a user that may not write to root's cache of compilers.
    launcher = {"CMAKE_C_COMPILER_LAUNCHER": "ccache"} if kind == "rpm" and shutil.which("ccache") else {}
    try:
        done = subprocess.run(
            line.split(), cwd=ROOT, env={**os.environ, **launcher}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        assert not older.exists(), "the page's next command would install it too"
    finally:
        older.unlink(missing_ok=True)
    return sorted((ROOT / "dist").glob(f"hakmem-{build_recipe.PRODUCTS[kind]}"))


def use(root: CleanRoot, kind: str, unchecked: str, libraries: str, remove: str) -> None:
    """Installs the packages, runs a preloaded and a linked program as an ordinary user, and removes them."""
    first, install, *lines = commands("docs/installing.md", f"test_{kind}")
    root.take(*build(kind, first), to="/dist")
    words = install.removeprefix("sudo ").split()
    root.run("sh", "-c", " ".join([*words[:2], unchecked, *words[2:]]))
    assert [line.split()[:2] for line in lines] == [["hakmem", "run"]]
    for line in lines:
        said = root.run("sh", "-c", line.replace("your-program", "cat /proc/self/maps"), user=USER)
        assert re.search(rf"r-xp .*{libraries}/libhakmem\.so\.\d+\.\d+\.\d+\n", said), said
    # Debian's linker does not look into Fedora's lib64 by itself.
    there = {"LD_LIBRARY_PATH": libraries, "PKG_CONFIG_PATH": f"{libraries}/pkgconfig"}
    for way in ("", "-static"):
        flags = f"{way} $(pkg-config {'--static' if way else ''} --cflags --libs hakmem)"
        root.run("sh", "-c", f"cc -O2 -o /program{way} /program.c {flags}", **there)
        assert root.run(f"/program{way}", user=USER, **there) == f"ours {build_recipe.version()}\n"
    assert root.run("sh", "-c", "ls /usr/share/man/man1/hakmem-run.1*")
    root.run("sh", "-c", remove)
    # Empty folders may stay.
    assert root.run("sh", "-c", "find /usr /etc -name '*hakmem*' ! -type d") == ""


def test_rpm(root: CleanRoot) -> None:
    use(root, "rpm", "--nodeps", "/usr/lib64", "rpm -e hakmem hakmem-devel hakmem-tools")


def test_arch(root: CleanRoot) -> None:
    use(root, "arch", "-dd --noconfirm", "/usr/lib", "pacman -R --noconfirm hakmem")


def test_the_recipes() -> None:
    """Both have the header's version, and name each module that the tool imports."""
    spec = (ROOT / "packaging/rpm/hakmem.spec").read_text()
    recipe = (ROOT / "packaging/arch/PKGBUILD").read_text()
    assert re.search(rf"^Version: +{re.escape(build_recipe.version())}$", spec, re.MULTILINE)
    assert re.search(rf"^pkgver={re.escape(build_recipe.version())}$", recipe, re.MULTILINE)
    names = {name.replace("-", "_") for name in modules()}
    assert names <= {name.replace("-", "_") for name in re.findall(r"^Requires: +python3-(\S+)$", spec, re.MULTILINE)}
    depends = re.search(r"^depends=\((.*)\)$", recipe, re.MULTILINE)
    assert depends and names <= {name.replace("-", "_") for name in re.findall(r"python-(\S+)", depends[1])}
    # CMake's project has both languages. Arch has their compilers wherever packages are made.
    needed = set(re.findall(r"^BuildRequires: +(\S+)", spec, re.MULTILINE))
    assert {"gcc", "gcc-c++", "cmake", "ninja-build"} <= needed
