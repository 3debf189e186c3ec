"""The Debian packages: lintian accepts them, and in a clean root they do what the README says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from clean_root import ROOT, CleanRoot
from conftest import PACKAGES

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


def field(package: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "-f", package, name], capture_output=True, text=True, check=True).stdout.strip()


def contents(package: Path) -> list[str]:
    told = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True).stdout
    return [line.split(maxsplit=5)[5] for line in told.splitlines()]


# ---- The packages themselves.


def test_versions_are_those_of_the_header(packages: dict[str, Path]) -> None:
    header = (ROOT / "include/hakmem/hakmem.h").read_text()
    version = ".".join(re.findall(r"#define HAKMEM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    assert {field(path, "Version") for path in packages.values()} == {version}


def test_the_tool_depends_on_the_distribution_alone(packages: dict[str, Path]) -> None:
    """Every module that cli/requirements.txt names, except those that Debian has not and the tool can do without."""
    depends = field(packages["hakmem-tools"], "Depends")
    text = (ROOT / "cli/requirements.txt").read_text()
    modules = set(re.findall(r"^([\w-]+)", text, re.MULTILINE)) - {"rust-demangler", "tomli", "matplotlib"}
    assert {f"python3-{name}" for name in modules} <= set(re.findall(r"python3-[\w-]+", depends))
    assert "libhakmem0 (= " in depends and "python3:any" in depends


def test_the_library_has_a_list_of_symbols(packages: dict[str, Path]) -> None:
    """By which dpkg-shlibdeps finds the least version that a package needs."""
    symbols = subprocess.run(
        ["dpkg-deb", "-I", packages["libhakmem0"], "symbols"], capture_output=True, text=True, check=True
    ).stdout
    assert " hakmem_stats_get@HAKMEM_0.1 0.1.0\n" in symbols and " malloc@Base 0.1.0\n" in symbols


def test_pages_lead_to_each_other(packages: dict[str, Path], tmp_path: Path) -> None:
    """debhelper would compress the long ones, and a link to such a page leads nowhere."""
    subprocess.run(["dpkg-deb", "-x", packages["hakmem-tools"], tmp_path], check=True)
    pages = list((tmp_path / "usr/share/doc/hakmem-tools").rglob("*.md"))
    assert len(pages) > 50
    for page in pages:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        links = {link for link in re.findall(r"\]\(([^)#\s]+)", text) if ":" not in link}
        assert not {link for link in links if not (page.parent / link).exists()}, page


@pytest.mark.skipif(shutil.which("lintian") is None, reason="lintian is not installed")
def test_lintian_accepts_the_packages(packages: dict[str, Path], tmp_path: Path) -> None:
    words = ["lintian", "--allow-root", "--fail-on", "error,warning", *packages.values()]
    folder = {**os.environ, "TMPDIR": str(tmp_path)}  # lintian leaves files there
    done = subprocess.run(words, env=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


# ---- In a clean root. First without a compiler, then with the development package.


def test_a_program_runs_under_hakmem(clean_root: CleanRoot) -> None:
    """Without a compiler, a checkout or a home that can be written to."""
    assert clean_root.run("sh", "-c", "command -v cc gcc", fails=True) == ""
    told = clean_root.run("env", "HOME=/nonexistent", "hakmem", "run", "--", "ls", "/usr")
    assert "\nlib\n" in told and "hakmem" in told.replace("\nlib\n", "")
    maps = clean_root.run("hakmem", "run", "--quiet", "--", "cat", "/proc/self/maps")
    assert re.search(r" r-xp .*/usr/lib/\S+/libhakmem\.so\.\d+\.\d+\.\d+\n", maps)
    assert "libhakmem-fast" in clean_root.run(
        "sh", "-c", "LD_PRELOAD=$(echo /usr/lib/*/libhakmem-fast.so.0) cat /proc/self/maps"
    )


def test_as_another_user(clean_root: CleanRoot) -> None:
    """A service user has no shell, and no home."""
    told = clean_root.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "hakmem", "run", "--", "id")
    assert "uid=65534" in told


def test_the_tool_looks_inside_and_compares(clean_root: CleanRoot) -> None:
    script = (
        "LD_PRELOAD=$(echo /usr/lib/*/libhakmem.so.0) sleep 60 & "
        "until grep -q libhakmem /proc/$!/maps; do :; done; sleep 0.2; "
        "hakmem stats $! && hakmem explain $! && hakmem profile --seconds 0.1 $!; code=$?; kill $!; exit $code"
    )
    assert "resident" in clean_root.run("sh", "-c", script)
    assert "glibc" in clean_root.run("hakmem", "compare", "--rounds", "1", "--", "true")
    clean_root.run("sh", "-c", "hakmem doctor -- ls || [ $? = 125 ]")
    assert "hakmem, version " in clean_root.run("hakmem", "--version")


def test_a_plot_names_the_package_that_it_needs(clean_root: CleanRoot) -> None:
    """Which is large, and a suggestion only."""
    said = clean_root.run("hakmem", "compare", "--rounds", "1", "--plot", "/x.svg", "--", "true", fails=True)
    assert "install the distribution's python3-matplotlib\n" in said


def test_every_command_starts(clean_root: CleanRoot) -> None:
    """With the distribution's versions of the packages."""
    for path in sorted((ROOT / "cli/hakmem/commands").glob("[a-z]*.py")):
        assert "Usage: hakmem" in clean_root.run("hakmem", path.stem, "--help")


def test_completions_and_pages_are_where_they_are_looked_for(clean_root: CleanRoot, packages: dict[str, Path]) -> None:
    names = contents(packages["hakmem-tools"])
    for name in ("bash-completion/completions/hakmem", "zsh/vendor-completions/_hakmem"):
        assert f"./usr/share/{name}" in names
    for name in ("fish/vendor_completions.d/hakmem.fish", "man/man1/hakmem-run.1.gz", "man/man7/hakmem-options.7.gz"):
        assert f"./usr/share/{name}" in names
    assert any(
        name.startswith("./usr/share/man/man3/hakmem_good_size.3.gz") for name in contents(packages["libhakmem-dev"])
    )
    script = (
        "source /usr/share/bash-completion/completions/hakmem; COMP_WORDS=(hakmem r); COMP_CWORD=1; "
        '_hakmem_completion hakmem; echo "${COMPREPLY[@]}"'
    )
    assert "run" in clean_root.run("bash", "-c", script).split()


def test_gdb_finds_its_script(packages: dict[str, Path]) -> None:
    """Under the path that the library has there."""
    names = contents(packages["libhakmem0"])
    library = next(name for name in names if re.search(r"/libhakmem\.so\.\d+\.\d+\.\d+$", name))
    assert f"./usr/share/gdb/auto-load{library[1:]}-gdb.py" in names


def test_a_linked_program(clean_root: CleanRoot, packages: dict[str, Path]) -> None:
    """By pkg-config, shared and static. The program runs where the development package is gone."""
    clean_root.install("gcc", "libc6-dev", "pkg-config", f"/packages/{packages['libhakmem-dev'].name}")
    (clean_root.folder / "program.c").write_text(PROGRAM)
    for way in ("", "-static"):
        flags = f"{way} $(pkg-config {'--static' if way else ''} --cflags --libs hakmem)"
        clean_root.run("sh", "-c", f"cc -O2 -o /program{way} /program.c {flags}")
        assert clean_root.run(f"/program{way}").startswith("ours ")
    clean_root.run("apt-get", "-qq", "remove", "libhakmem-dev")
    assert clean_root.run("/program").startswith("ours ")


def test_nothing_is_left(clean_root: CleanRoot) -> None:
    """After a purge, the last test."""
    clean_root.run("apt-get", "-qq", "purge", *(name for name in PACKAGES if name != "libhakmem-dev"))
    assert clean_root.run("sh", "-c", "find /usr /etc /var/lib/python -name '*hakmem*' 2>/dev/null || :") == ""
