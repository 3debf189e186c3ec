"""The libraries that a file is linked with."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Tuple

from elftools.elf.elffile import ELFFile


@lru_cache(maxsize=None)
def needed(path: str) -> Tuple[str, ...]:
    """The libraries that a file is linked with, by the names it has for them."""
    try:
        with open(path, "rb") as file:
            segment: Any = next(ELFFile(file).iter_segments("PT_DYNAMIC"), None)
            return tuple(tag.needed for tag in segment.iter_tags("DT_NEEDED")) if segment is not None else ()
    except Exception:  # pyelftools raises any exception for a damaged file
        return ()
