"""Tells whether a program is linked with hakmem, so that it needs no preload: by a library, or with hakmem in it."""

from __future__ import annotations

import os
import re
from typing import Mapping, Optional

from hakmem.dynamic_linker import bind
from hakmem.elf_check import Chain, Executable, defines, needed
from hakmem.regular_file import open_regular

# In the library's file, and so in a program that is linked with it statically (src/serve/serve_command.c).
_MARK = b"hakmem: this process answers, protocol "
# The allocator in its variants; not libhakmem-policy.so, which a tool may have loaded.
_LIBRARY = re.compile(r"libhakmem(-fast|-secure|-count)?\.so")
_CHUNK = 1 << 20
# No program is longer. A file with holes may claim to be, and reading it would not end.
_LONGEST_PROGRAM = 1 << 32


def is_library(path: str) -> bool:
    """Whether a file is hakmem's shared library, by its name."""
    return _LIBRARY.match(os.path.basename(path)) is not None


def has_hakmem(path: str) -> bool:
    """Whether hakmem is in a file. Reads the file instead of mapping it: a mapping of a file that shrinks meanwhile
    would crash this tool."""
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > _LONGEST_PROGRAM:
                return False
            end = b""
            while chunk := file.read(_CHUNK):
                if _MARK in end + chunk:
                    return True
                end = (end + chunk)[1 - len(_MARK) :]
    except OSError:
        pass
    return False


def of_program(chain: Chain, environment: Mapping[str, str]) -> Optional[str]:
    """The file whose malloc, hakmem's, the program calls without a preload: the program itself, or the library that it
    is linked with. None where that is no hakmem."""
    executable = chain.executable
    if executable is None:
        return None
    if executable.interpreter is None or defines(executable.path, "malloc"):
        return executable.path if has_hakmem(executable.path) else None
    return _library_of(executable, environment) if any(map(is_library, needed(executable.path))) else None


def _library_of(executable: Executable, environment: Mapping[str, str]) -> Optional[str]:
    """The library that the dynamic linker finds. None where it finds none: a preload may still stand in for it."""
    binding = bind(executable, {name: value for name, value in environment.items() if name != "LD_PRELOAD"})
    server = binding.server() if binding is not None else None
    return server if server is not None and is_library(server) else None
