"""Ctrl-C before the tool handles it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest
from cli_support import CLI
from test_run import copied_checkout

# The signal arrives while the imports run: Python sends it to itself when it looks for click.
INTERRUPTED = """
import os, runpy, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.path.insert(0, CLI)
sys.meta_path.insert(0, Finder())
"""
STARTS = {
    "module": "runpy.run_module('hakmem', run_name='__main__')",
    "file": "runpy.run_path(CLI + '/hakmem/__main__.py', run_name='__main__')",
    "script": "from hakmem.entry import main; main()",
}


@pytest.mark.parametrize("start", STARTS)
def test_ctrl_c_during_the_imports(start: str) -> None:
    """The signal ends the process, without a traceback."""
    code = INTERRUPTED.replace("CLI", repr(str(CLI))) + STARTS[start].replace("CLI", repr(str(CLI)))
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def started(folder: Path, library: Path, line_at_start: str) -> List[Path]:
    """./hakmem and the installed script, on a Python that runs a line while it starts."""
    root = copied_checkout(folder, library)
    venv = root / "build" / "venv"
    (site,) = (venv / "lib").glob("python3*/site-packages")
    (site / "at_start.pth").write_text(f"import {line_at_start}\n{root}/cli\n")
    with (root / "cli" / "requirements.txt").open() as file:
        sum_of = subprocess.run(["cksum"], stdin=file, capture_output=True, text=True, check=True).stdout
    (venv / ".hakmem").write_text(f"{root} {sum_of}")
    installed = folder / "bin" / "hakmem"
    installed.parent.mkdir()
    text = (CLI / "hakmem.in").read_text().replace("@to_python@", "../checkout/cli")
    installed.write_text(text.replace("@HK_TOOL_PYTHON@", str(venv / "bin" / "python")))
    installed.chmod(0o755)
    return [root / "hakmem", installed]


def test_ctrl_c_while_python_starts(library: Path, tmp_path: Path) -> None:
    """Before any line of the tool, in what Python imports by itself."""
    for path in started(tmp_path, library, "os, signal; os.kill(os.getpid(), signal.SIGINT)"):
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", ""), path


def test_what_the_caller_ignores_stays_ignored(library: Path, tmp_path: Path) -> None:
    """Also where Python ignores it too: a service of systemd ignores SIGPIPE."""
    path = started(tmp_path, library, "os")[0]
    for ignored in (False, True):
        trap = "trap '' PIPE; " if ignored else ""
        words = [
            "sh",
            "-c",
            f'{trap}exec "$@"',
            "sh",
            str(path),
            "run",
            "-q",
            "--",
            "grep",
            "SigIgn",
            "/proc/self/status",
        ]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        mask = int(done.stdout.split()[1], 16)
        assert bool(mask >> (signal.SIGPIPE - 1) & 1) == ignored, done.stdout


def test_the_installed_tool_keeps_the_environment(library: Path, tmp_path: Path) -> None:
    """Also names that no shell would pass on."""
    installed = started(tmp_path, library, "os")[1]
    words = [installed, "run", "-q", "--", sys.executable, "-c", "import os; print(os.environ['a.b'])"]
    environment = {**os.environ, "a.b": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


# The command hears a signal, and one more arrives.
AGAIN = """
import atexit, os, signal, sys
sys.path.insert(0, CLI)
from hakmem import main
main.cli.main = lambda **_: os.kill(os.getpid(), signal.SIGTERM)
def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)
"""
IN_SET_NAME = """
import os, signal, sys
sys.path.insert(0, CLI)
from hakmem import main
class Named:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGTERM)
def import_one(**_):
    class Owner:
        named = Named()
main.cli.main = import_one
main.main()
"""


def test_a_signal_while_a_class_is_made() -> None:
    """Python up to 3.11 raises another error in its place."""
    words = [sys.executable, "-I", "-c", IN_SET_NAME.replace("CLI", repr(str(CLI)))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    told = "hakmem: stopped by SIGTERM; nothing was written\n"
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, "", told)


MOMENTS = {
    "message": ("main.say = interrupt", 128 + signal.SIGINT),
    "exit": ("main.say = lambda _: None; atexit.register(interrupt)", -signal.SIGINT),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_at_the_end(moment: str) -> None:
    """Neither while the command tells of the first signal nor while Python ends there is a traceback."""
    what, code = MOMENTS[moment]
    words = [sys.executable, "-I", "-c", f"{AGAIN.replace('CLI', repr(str(CLI)))}{what}\nmain.main()"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
