"""A page of docs/recipes as a script: its shell blocks in order, and what stands in its comments.

Comments that begin with a word and a colon are for the test, and readers of the site do not see them:

    needs: COMMAND (PACKAGE), ...   what has to be installed; without it the test is skipped and says the package
    works: COMMAND (PACKAGE)        a command that has to succeed; without it the same
    rest: REASON                    the page runs in `make test-ci` alone
    network: REASON                 the page needs the machine's network instead of one of its own
    user: NAME                      the user that runs it, where the test runs as root
    setup: SCRIPT                   what the reader has already: a program that runs, for instance
    wait: COMMAND                   repeat the command until it succeeds
    expect: PATTERN                 a regular expression that the output up to here has to match

A block that has a title, as ```ini title="shop.service", is a file of that name.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Tuple

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "docs" / "recipes"

_PART = re.compile(
    r"^<!-- (?P<word>needs|works|rest|network|user|setup|wait|expect):\s(?P<value>.*?)\s*-->$"
    r"|^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_PRELUDE = """
until_ok() {
  tries=0
  until "$@" >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 2000 ] || { echo "no answer: $*"; exit 1; }
    sleep 0.05
  done
}
"""
_MARK = "---- the test looks here: "
# Ports and process names are the page's own there.
_NAMESPACES = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
# Seconds until a page counts as stuck: many times what one takes by itself, because builds and downloads run beside it.
_LIMIT = 600
_LOOPBACK_UP = "PATH=$PATH:/sbin:/usr/sbin; ip link set lo up"


@dataclass
class Page:
    """One recipe."""

    name: str
    needs: List[Tuple[str, str]] = field(default_factory=list)  # command, package
    works: List[Tuple[str, str]] = field(default_factory=list)  # the same, to be run
    rest: str = ""
    network: str = ""
    user: str = ""
    lines: List[str] = field(default_factory=list)
    commands: List[str] = field(default_factory=list)
    files: Dict[str, str] = field(default_factory=dict)
    expected: List[str] = field(default_factory=list)

    def missing(self) -> List[str]:
        """The packages of the commands that are not there."""
        path = os.environ["PATH"] + ":/usr/sbin:/sbin"
        absent = [(command, package) for command, package in self.needs if not _is_there(command, path)]
        absent += [(command, package) for command, package in self.works if not _succeeds(command)]
        return [f"{command} (package {package})" for command, package in absent]

    def script(self) -> str:
        return "\n".join(["set -euo pipefail", _PRELUDE, *self.lines])


def _is_there(command: str, path: str) -> bool:
    return os.access(command, os.X_OK) if "/" in command else shutil.which(command, path=path) is not None


def _succeeds(command: str) -> bool:
    return subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode == 0


def read(path: Path) -> Page:
    page = Page(path.stem)
    for found in _PART.finditer(path.read_text(encoding="utf-8")):
        word, value = found["word"], found["value"]
        if word == "needs":
            page.needs += re.findall(r"([\w./+-]+) \(([\w.+-]+)\)", value)
        elif word == "works":
            command, _, package = value.rpartition(" ")
            page.works.append((command, package.strip("()")))
        elif word in ("rest", "network", "user"):
            setattr(page, word, value)
        elif word == "setup":
            page.lines.append(value)
        elif word == "wait":
            page.lines.append(f"until_ok sh -c {shlex.quote(value)}")
        elif word == "expect":
            page.lines.append(f"echo {shlex.quote(_MARK)}{len(page.expected)}")
            page.expected.append(value)
        elif found["title"]:
            page.files[found["title"]] = found["code"]
        elif found["kind"] == "sh":
            page.lines.append(found["code"])
            page.commands += [line for line in found["code"].splitlines() if line and not line.startswith("#")]
    return page


def run(page: Page, folder: Path, tool: List[str], library: Path) -> str:
    """Runs the page in that folder; asserts that all commands succeed and that the output has all patterns."""
    for name, text in page.files.items():
        (folder / name).write_text(text)
    programs = folder / ".programs"
    programs.mkdir()
    wrapper = programs / "hakmem"
    wrapper.write_text(f'#!/bin/sh\nexec env -u LD_PRELOAD {shlex.join(tool)} "$@"\n')
    wrapper.chmod(0o755)
    (folder / ".script").write_text(page.script())
    process = subprocess.Popen(
        _command(page, folder), cwd=folder, env=_variables(folder, programs, library), stdin=subprocess.DEVNULL,
        stdout=(folder / ".output").open("wb"), stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        code = process.wait(_LIMIT)
    finally:
        # Without namespaces the page's servers are still there.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    output = (folder / ".output").read_text(errors="replace")
    assert code == 0, f"ended with {code}\n{output}"
    for number, pattern in enumerate(page.expected):
        before = output.partition(f"{_MARK}{number}\n")[0]
        assert re.search(pattern, before, re.MULTILINE), f"no {pattern!r} in\n{before}"
    return output


def _command(page: Page, folder: Path) -> List[str]:
    shell = ["bash", ".script"]
    if os.geteuid() != 0:
        return shell
    if page.user:
        subprocess.run(["chown", "-R", page.user, folder], check=True)
        shell = ["setpriv", f"--reuid={page.user}", f"--regid={page.user}", "--init-groups", *shell]
    if not _can_isolate():
        return shell
    if page.network:
        return [*_NAMESPACES, *shell]
    return [*_NAMESPACES, "--net", "sh", "-c", f"{_LOOPBACK_UP}; {shlex.join(shell)}"]


@functools.lru_cache(maxsize=1)
def _can_isolate() -> bool:
    """Whether this machine lets root have namespaces of its own; some containers do not."""
    return subprocess.run([*_NAMESPACES, "--net", "true"], capture_output=True, check=False).returncode == 0


def _variables(folder: Path, programs: Path, library: Path) -> Dict[str, str]:
    """$LIB is the library, $INCLUDE its headers, $MONITORING packaging/monitoring, $TESTS this folder's parent."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HAKMEM_", "LD_", "PYTHON"))}
    path = f"{programs}:{clean['PATH']}:/usr/sbin:/sbin"
    places = {
        "LIB": str(library),
        "INCLUDE": str(ROOT / "include"),
        "MONITORING": str(ROOT / "packaging" / "monitoring"),
        "TESTS": str(ROOT / "tests"),
    }
    return {**clean, **places, "PATH": path, "HOME": str(folder), "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
