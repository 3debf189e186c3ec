"""Resident memory of a process that cannot read its own: in another root (chroot) that has no /proc. This tool reads it
from outside."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional, Tuple

from hakmem import process_files
from hakmem.errors import Failure
from hakmem.json_text import decode
from hakmem.old_figures import OLD_FIGURES

# The start of an answer to `stats json` without it, from the library's own writer.
_UNKNOWN = b'"memory": {"resident": 0,'


def completed(answer: bytes, pid: int) -> bytes:
    """The answer to `stats json` with resident memory, its peak, and the part that is not malloc's. As it is where it
    has them, and where /proc does not show them here either."""
    if _UNKNOWN not in answer or (sizes := of_process(pid)) is None:
        return answer
    try:
        document: Dict[str, Any] = decode(answer)
        document["memory"].update(resident=sizes[0], peak=sizes[1])
        parts = document["parts"]
        parts["not_malloc"] = not_malloc(sizes[0], parts)
    except (ValueError, KeyError, TypeError, AttributeError):
        return answer  # the reader of the answer finds the damage
    return json.dumps(document).encode() + b"\n"


def not_malloc(resident: int, parts: Mapping[str, float]) -> int:
    """The rest of the resident memory beside these parts. A part that stands there by its earlier name too counts
    once."""
    ours = sum(figure for name, figure in parts.items() if name != "not_malloc" and name not in OLD_FIGURES["parts"])
    return max(resident - int(ours), 0)


def of_process(pid: int) -> Optional[Tuple[int, int]]:
    """Its resident memory and the peak of it, in bytes."""
    try:
        told = process_files.status(pid)
        resident, peak = (int(told[name].split()[0]) << 10 for name in ("VmRSS", "VmHWM"))
    except (Failure, KeyError, ValueError, IndexError):
        return None
    return resident, peak
