"""Ctrl-C before the tool handles it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from cli_support import CLI

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


# The command hears a signal, and one more arrives.
AGAIN = """
import atexit, os, signal, sys
sys.path.insert(0, CLI)
from hakmem import main
main.cli.main = lambda **_: os.kill(os.getpid(), signal.SIGTERM)
def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)
"""
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
