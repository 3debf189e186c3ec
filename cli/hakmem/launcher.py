"""The small C program that starts measured programs (launcher/launch.c has the reason); built once, on first use."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Tuple

from hakmem.errors import Failure
from hakmem.paths import cache_folder

_SOURCE = Path(__file__).resolve().parents[1] / "launcher" / "launch.c"
# Static is smallest; some distributions have no static C library.
_LINKINGS: Tuple[Tuple[str, ...], ...] = (("-static",), ())


@lru_cache(maxsize=None)
def launcher() -> str:
    """The path of the built launcher."""
    target = cache_folder() / "launch"
    if not _is_current(target):
        _build(target)
    return str(target)


def _is_current(target: Path) -> bool:
    try:
        return target.stat().st_mtime >= _SOURCE.stat().st_mtime and os.access(target, os.X_OK)
    except OSError:
        return False


def _build(target: Path) -> None:
    compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if compiler is None:
        raise Failure("no C compiler (cc, gcc or clang) to build the small launcher that programs are measured with")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, unfinished = tempfile.mkstemp(dir=target.parent, prefix="launch.")
        os.close(descriptor)
    except OSError as error:
        raise Failure(f"cannot write to {target.parent}: {error.strerror}") from None
    said = ""
    # The caller's preloads are for the program, not for the compiler.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    for linking in _LINKINGS:
        command = [compiler, "-O2", *linking, "-o", unfinished, str(_SOURCE)]
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            os.chmod(unfinished, 0o755)
            os.replace(unfinished, target)
            return
        said = done.stderr.strip()
    os.unlink(unfinished)
    raise Failure(f"{compiler} could not build {_SOURCE.name}:\n{said}")
