"""The installed command `hakmem`. Python's own variables are meant for the program: with a PYTHONPATH that has a folder
`rich`, or a file `signal.py`, the tool would not start. So it starts again without them, and passes them on."""

from __future__ import annotations

# Built in: the module `signal` imports others, which takes milliseconds, and PYTHONPATH may have another of its name.
import _signal  # type: ignore[import-not-found,unused-ignore]
import os
import sys
from pathlib import Path

# The others change nothing that the tool does.
_STEERING = ("PYTHONPATH", "PYTHONHOME", "PYTHONINSPECT", "PYTHONOPTIMIZE", "PYTHONWARNINGS", "PYTHONDEVMODE")


def main() -> None:
    """Runs the command line."""
    if not sys.flags.ignore_environment and any(name in os.environ for name in _STEERING):
        _start_again()
    # Until hakmem.main handles the signal, Ctrl-C ends the process without a traceback from its imports.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from hakmem.main import main as run

    run()


def _start_again() -> None:
    """Replaces this process by one that ignores the variables. Returns where that cannot be done."""
    try:
        # Not os.environ, which may have a LC_CTYPE of Python's own (PEP 538).
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
        environment = dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
        if Path(sys.argv[0]).is_file():
            os.execve(sys.executable, [sys.executable, "-E", *sys.argv], environment)
    except OSError:
        return
