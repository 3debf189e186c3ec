"""hakmem-launch, the small C program that starts measured programs (cli/launcher/launch.c has the reason)."""

from __future__ import annotations

from functools import lru_cache

from hakmem.errors import Failure
from hakmem.paths import find_built

PROGRAM = "hakmem-launch"


@lru_cache(maxsize=None)
def launcher() -> str:
    """The path of the built launcher."""
    found = find_built(PROGRAM)
    if found is None:
        raise Failure(f"{PROGRAM} was not found, which starts the programs: build it with `make lib` in the checkout")
    return str(found)
