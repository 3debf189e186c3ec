"""The environment of started programs: the caller's own with a preload added, or without variables of allocators."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Dict, Iterable, List, Mapping, Tuple

from hakmem.errors import EXIT_USAGE, Failure

# Variables that change an allocator's behaviour: hakmem's and the peers'.
_STEERS_ALLOCATOR = re.compile(
    r"(HAKMEM_|MALLOC_|_RJEM_MALLOC_|JE_MALLOC_|MIMALLOC_|TCMALLOC_|SNMALLOC_|GLIBC_TUNABLES$)"
)
_OPTION_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_KNOWN_ALLOCATOR_FILE = re.compile(r"(hakmem|jemalloc|tcmalloc|mimalloc|snmalloc|rpmalloc|hoard|libmesh|scudo)")


def of_caller() -> Dict[str, str]:
    """This process's environment at its start.

    Python may have added LC_CTYPE (PEP 538); the program must not see it.
    """
    environment = dict(os.environ)
    try:
        started_with = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return environment
    if not any(entry.startswith(b"LC_CTYPE=") for entry in started_with):
        environment.pop("LC_CTYPE", None)
    return environment


def preload_list(value: str) -> List[str]:
    """The entries of an LD_PRELOAD: spaces and colons separate them."""
    return [entry for entry in re.split(r"[ :]+", value) if entry]


def is_allocator(file: str) -> bool:
    """Whether a library is a known allocator, by its name."""
    return _KNOWN_ALLOCATOR_FILE.search(os.path.basename(file)) is not None


def with_preload(environment: Mapping[str, str], library: str) -> Dict[str, str]:
    """The preload with `library` appended."""
    entries = preload_list(environment.get("LD_PRELOAD", ""))
    return {**environment, "LD_PRELOAD": ":".join([*entries, library])}


def neutral(environment: Mapping[str, str]) -> Tuple[Dict[str, str], List[str]]:
    """Returns an environment in which only the preload decides, and the names of the variables that were left out."""
    kept = {name: value for name, value in environment.items() if not _STEERS_ALLOCATOR.match(name)}
    left_out = sorted(set(environment) - set(kept))
    entries = preload_list(kept.pop("LD_PRELOAD", ""))
    others = [entry for entry in entries if not is_allocator(entry)]
    if others:
        kept["LD_PRELOAD"] = ":".join(others)
    if len(others) < len(entries):
        left_out.append("LD_PRELOAD (an allocator)")
    return kept, left_out


def options(settings: Iterable[str]) -> Dict[str, str]:
    """NAME=VALUE words of --set as variables: `retain=64M` and `HAKMEM_RETAIN=64M` are the same."""
    variables: Dict[str, str] = {}
    for word in settings:
        name, equals, value = word.partition("=")
        name = name[len("HAKMEM_") :] if name.upper().startswith("HAKMEM_") else name
        if not equals or not _OPTION_NAME.match(name):
            raise Failure(
                f"--set {word}: expected NAME=VALUE, for instance retain=64M (see: hakmem help options)", EXIT_USAGE
            )
        variables["HAKMEM_" + name.upper()] = value
    return variables


def assignments(words: Iterable[str]) -> Dict[str, str]:
    """NAME=VALUE words of --env."""
    variables: Dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not _VARIABLE_NAME.match(name):
            raise Failure(f"--env {word}: expected NAME=VALUE", EXIT_USAGE)
        variables[name] = value
    return variables
