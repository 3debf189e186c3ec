"""The library's warnings about its options, for programs whose stderr is discarded."""

from __future__ import annotations

import subprocess
from typing import List, Mapping

_ASK_SECONDS = 30
_MARK = "hakmem: warning: "
# The library warns at the start. A process that is killed writes no statistics, profile or learned file.
_PROGRAM = ("/bin/sh", "-c", "kill -9 $$")


def of(library: str, variables: Mapping[str, str]) -> List[str]:
    """The warnings in this environment, each without its mark. Empty where no program can be started."""
    try:
        done = subprocess.run(
            _PROGRAM,
            env={**variables, "LD_PRELOAD": library},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = done.stderr.decode(errors="replace").split("\n")
    return [line[len(_MARK) :] for line in lines if line.startswith(_MARK + "HAKMEM_")]
