"""The answer of a program's own dynamic linker: the files that it loads, and which of them serves each function.

None of the program's code runs, except that functions which choose between versions of themselves (IFUNC) choose where
every name is looked up.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from typing import FrozenSet, List, Mapping, Optional, Tuple

from hakmem.elf_check import LIBC_MALLOC, Executable, defines, is_glibc_linker, wraps_malloc
from hakmem.musl import runs_on_musl

_LIST_SECONDS = 20
_TRACE_SECONDS = 60
# The variables that ldd -r sets, and LD_DEBUG, which makes the linker print each binding.
_ASKS = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "yes", "LD_BIND_NOW": "1", "LD_DEBUG": "bindings"}
_BOUND = re.compile(
    r"^ *\d+:\tbinding file (/.*|\S+) \[\d+\] to (/.*) \[\d+\]: (?:normal|protected) symbol `([^']+)'(?: \[[^]]*\])?$",
    re.M,
)
_MISSING = re.compile(r"^\s+(\S+) => not found$", re.M)
_COMPLAINT = re.compile(r"^ERROR: ld\.so: .*$", re.M)


@dataclass(frozen=True)
class Binding:
    """The files that the dynamic linker loads, in the order in which it looks names up, and its complaints. The first
    one is the program's."""

    files: Tuple[str, ...]
    complaint: str

    def server(self) -> Optional[str]:
        """The file whose malloc the program will call, through a malloc of its own where that one calls another."""
        name = LIBC_MALLOC if wraps_malloc(self.files[0]) else "malloc"
        return next((file for file in self.files if defines(file, name)), None)

    def library(self, file_name: str) -> Optional[str]:
        """The path of a loaded library."""
        return next((file for file in self.files if os.path.basename(file).startswith(file_name)), None)


def bind(executable: Executable, environment: Mapping[str, str]) -> Optional[Binding]:
    """Returns the files that the dynamic linker would load. Runs none of the program's code. None without an answer."""
    if executable.interpreter is None or not os.path.exists(executable.interpreter):
        return None
    try:
        done = subprocess.run(
            [executable.interpreter, "--list", executable.path], env=dict(environment), stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_LIST_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    # musl's names itself at the head too, and glibc's the files that it found by their path.
    label = r"\S+ => " if runs_on_musl(executable.interpreter) else r"(?:\S+ => )?"
    rows = re.findall(rf"^\s+{label}(/.*) \(0x[0-9a-f]+\)$", os.fsdecode(done.stdout), re.M)
    files = tuple(dict.fromkeys(os.path.realpath(file) for file in [executable.path, *rows]))
    return Binding(files, os.fsdecode(done.stderr).strip())


@dataclass(frozen=True)
class Bound:
    """A binding: `file` calls `name` of `server`."""

    file: str
    server: str
    name: str


@dataclass(frozen=True)
class Trace:
    """All bindings, the missing libraries, and the linker's complaints."""

    bound: FrozenSet[Bound]
    missing: List[str]
    complaints: List[str]

    def calls(self, names: FrozenSet[str]) -> List[Bound]:
        """The files that call one of these names, in a fixed order."""
        found = (one for one in self.bound if one.name in names)
        return sorted(found, key=lambda one: (one.file, one.name, one.server))


def trace(executable: Executable, environment: Mapping[str, str]) -> Optional[Trace]:
    """Returns None when the linker does not answer.

    A linker other than glibc's would ignore this and run the program.
    """
    interpreter = executable.interpreter
    if interpreter is None or not is_glibc_linker(os.path.realpath(interpreter)):
        return None
    # Its output goes to stderr, not to a file that the caller chose.
    asking = {name: value for name, value in environment.items() if name != "LD_DEBUG_OUTPUT"}
    try:
        done = subprocess.run(
            [interpreter, executable.path], env={**asking, **_ASKS}, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_TRACE_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = os.fsdecode(done.stdout) + os.fsdecode(done.stderr)
    bound = {Bound(_real(file), _real(server), name) for file, server, name in _BOUND.findall(text)}
    return Trace(frozenset(bound), _MISSING.findall(text), _COMPLAINT.findall(text)) if bound else None


def _real(file: str) -> str:
    return os.path.realpath(file) if file.startswith("/") else file
