"""Finds the program that a command names, as execvp does, with a shell's exit codes where it cannot run."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Mapping, Sequence, Tuple

from hakmem.errors import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Failure

_DEFAULT_PATH = "/bin:/usr/bin"  # execvp's where PATH is not set
_MAGIC_BYTES = 4
SHELL = "/bin/sh"  # execvp's


@dataclass(frozen=True)
class Program:
    """What to execute: the file, and its arguments, the name it was called by first. Of a text for the shell the file
    is the shell, and the text its first argument."""

    path: str
    argv: Tuple[str, ...]
    is_shell_text: bool = False

    @property
    def name(self) -> str:
        """How it was called."""
        return self.argv[1 if self.is_shell_text else 0]

    @property
    def named_file(self) -> str:
        """The file that the command names."""
        return self.argv[1] if self.is_shell_text else self.path


def resolve(command: Sequence[str], environment: Mapping[str, str]) -> Program:
    """The program that `command` means."""
    path = _find(command[0], environment.get("PATH", _DEFAULT_PATH))
    if has_no_magic(path):  # execvp: what the kernel cannot run may be a shell script
        return Program(SHELL, (SHELL, path, *command[1:]), is_shell_text=True)
    return Program(path, tuple(command))


def _find(name: str, search_path: str) -> str:
    if not name:
        raise Failure("the program's name is empty", EXIT_NOT_FOUND)
    if "/" in name:
        _check(name)
        return name
    seen = None
    for folder in search_path.split(":"):
        candidate = os.path.join(folder or ".", name)
        if not os.path.isfile(candidate):
            continue
        if os.access(candidate, os.X_OK):
            return candidate
        seen = seen or candidate
    if seen is not None:
        raise Failure(f"{name}: {seen} is not executable", EXIT_NOT_EXECUTABLE)
    raise Failure(f"{name}: not found in PATH", EXIT_NOT_FOUND)


def _check(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise Failure(f"{path}: not found", EXIT_NOT_FOUND) from None
    except OSError as error:
        raise Failure(f"{path}: {str(error.strerror).lower()}", EXIT_NOT_EXECUTABLE) from None
    if stat.S_ISDIR(mode):
        raise Failure(f"{path}: is a directory", EXIT_NOT_EXECUTABLE)
    if not stat.S_ISREG(mode):  # the system executes none, and a read of a pipe would wait
        raise Failure(f"{path}: not a regular file", EXIT_NOT_EXECUTABLE)
    if not os.access(path, os.X_OK):
        raise Failure(f"{path}: not executable", EXIT_NOT_EXECUTABLE)


def has_no_magic(path: str) -> bool:
    """Whether this is a text without `#!`."""
    try:
        with open(path, "rb") as file:
            start = file.read(_MAGIC_BYTES * 64)
    except OSError:
        return False
    return not start.startswith((b"\x7fELF", b"#!")) and b"\0" not in start
