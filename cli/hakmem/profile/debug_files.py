"""Finds the file of a mapping, and its separate debug file. A file with another build ID is another file."""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import dataclass, field
from itertools import product
from typing import Iterator, Optional, Sequence, Tuple

from hakmem.profile import debuginfod
from hakmem.profile.model import Mapping
from hakmem.profile.module import ElfModule, Unreadable
from hakmem.regular_file import open_regular

DEBUG_FOLDERS = ("/usr/lib/debug",)
_DELETED = " (deleted)"
_BYTE = re.compile(r"\\udc([89a-f][0-9a-f])")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class MappedFile:
    """A file that the kernel may mean."""

    path: str
    is_replaced: bool  # another file has the path now


def _with_bytes(path: str) -> str:
    found = _BYTE.sub(lambda match: chr(0xDC00 + int(match[1], 16)), path)
    try:
        return found.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair, which JSON can name and no file has
        return path


def files_of(path: str) -> Iterator[MappedFile]:
    """The files that a path of the kernel's list of mappings may mean, the name as it stands first.

    The kernel writes a newline as `\\012` and appends ` (deleted)`; a profile has a byte that is no UTF-8 as `\\udcNN`
    (hk_proto_put_path). A name may have any of them by itself."""
    with_bytes = _with_bytes(path)
    names = (path, path.replace("\\012", "\n"), with_bytes, with_bytes.replace("\\012", "\n"))
    for name in dict.fromkeys(names):
        yield MappedFile(name, False)
        if name.endswith(_DELETED):
            yield MappedFile(name[: -len(_DELETED)], True)


@dataclass(frozen=True)
class Search:
    """Where to look: the roots before a mapping's path (a container's process has its own), and folders with debug
    files."""

    roots: Sequence[str] = ("",)
    debug_folders: Sequence[str] = DEBUG_FOLDERS
    time_nanos: int = 0
    # Files with the names of code that no file has (perf_map.py).
    perf_maps: Sequence[str] = ()
    client: debuginfod.Client = field(default_factory=debuginfod.Client, compare=False)

    def open(self, mapping: Mapping) -> Tuple[Optional[ElfModule], Optional[ElfModule], str]:
        """The module, the file with its debug information (which may be the same), and the reason for a missing one."""
        module, trouble = self._module(mapping)
        build_id = mapping.build_id.lower() or (module.build_id if module else "")
        if module is not None and module.has_dwarf():
            return module, module, ""
        debug = self._by_build_id(build_id) or (self._by_link(module) if module is not None else None)
        debug = debug or self._from_server(build_id)
        return module, debug, "" if module is not None or debug is not None else trouble

    def _module(self, mapping: Mapping) -> Tuple[Optional[ElfModule], str]:
        trouble = "the file is no longer there"
        for file, root in product(files_of(mapping.path), self.roots):
            path = root + file.path
            try:
                module = ElfModule(path)
            except Unreadable as error:
                if os.path.exists(path):
                    trouble = f"the file cannot be read: {error}"
                continue
            wrong = self._differs(module, mapping, file.is_replaced)
            if not wrong:
                return module, ""
            trouble = wrong
            module.close()
        return None, trouble

    def _differs(self, module: ElfModule, mapping: Mapping, is_replaced: bool) -> str:
        """The reason why this is not the mapped file; empty when no check says so."""
        expected = mapping.build_id.lower()
        if expected:
            if module.build_id == expected:
                return ""
            now = _short(module.build_id)
            return f"the file has been replaced since: its build ID was {expected[:12]}…, now it is {now}"
        if is_replaced:
            return "the file had been replaced already, and has no build ID to compare"
        if self.time_nanos and module.modified_nanos > self.time_nanos:
            return "the file is newer than the profile, and has no build ID to compare"
        return ""

    def _by_build_id(self, build_id: str) -> Optional[ElfModule]:
        if len(build_id) < 4:
            return None
        for path in self._build_id_paths(build_id):
            found = _usable(path)
            if found is not None and found.build_id == build_id:
                return found
        return None

    def _build_id_paths(self, build_id: str) -> Iterator[str]:
        for folder in self.debug_folders:
            yield os.path.join(folder, ".build-id", build_id[:2], f"{build_id[2:]}.debug")
        yield debuginfod.cached(build_id)

    def _from_server(self, build_id: str) -> Optional[ElfModule]:
        path = self.client.fetch(build_id)
        found = _usable(path) if path is not None else None
        return found if found is not None and found.build_id == build_id else None

    def _by_link(self, module: ElfModule) -> Optional[ElfModule]:
        link = module.debug_link()
        if link is None or "/" in link[0]:
            return None
        name, checksum = link
        folder = os.path.dirname(os.path.realpath(module.path))
        beside = [os.path.join(folder, name), os.path.join(folder, ".debug", name)]
        for path in [*beside, *(os.path.join(top + folder, name) for top in self.debug_folders)]:
            if _checksum(path) == checksum:
                return _usable(path)
        return None


def _usable(path: str) -> Optional[ElfModule]:
    try:
        return ElfModule(path)
    except Unreadable:
        return None


def _checksum(path: str) -> int:
    value = 0
    try:
        with open_regular(path) as file:
            while chunk := file.read(_CHUNK):
                value = zlib.crc32(chunk, value)
    except OSError:
        return -1
    return value


def _short(build_id: str) -> str:
    return f"{build_id[:12]}…" if build_id else "none"
