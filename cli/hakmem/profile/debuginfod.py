"""Debug files from the servers that DEBUGINFOD_URLS names, by build ID, as elfutils' client gets them.

Fetched files stay in the cache of that client."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import List, Optional, Set

VARIABLE = "DEBUGINFOD_URLS"
_BUILD_ID = re.compile(r"[0-9a-f]{8,128}\Z")
_DEFAULT_SECONDS = 30.0
_CHUNK = 1 << 20
# A server that sends without end must not fill the disk.
_MOST_BYTES = 4 << 30


def cache_folder() -> str:
    """The folder of elfutils' client."""
    named = os.environ.get("DEBUGINFOD_CACHE_PATH")
    if named:
        return named
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "debuginfod_client")


def cached(build_id: str) -> str:
    """The place of a debug file in the cache."""
    return os.path.join(cache_folder(), build_id, "debuginfo")


def servers() -> List[str]:
    """The servers, without those that are no HTTP."""
    words = os.environ.get(VARIABLE, "").split()
    return [word.rstrip("/") for word in words if word.startswith(("http://", "https://"))]


@dataclass
class Client:
    """Asks each server once for each build ID, and no more one that could not be reached. `troubles` are for people."""

    troubles: List[str] = field(default_factory=list)
    _asked: Set[str] = field(default_factory=set)
    _silent: Set[str] = field(default_factory=set)
    _own_folder: Optional[str] = None

    def fetch(self, build_id: str) -> Optional[str]:
        """The path of the debug file, or None where no server has it."""
        if not _BUILD_ID.match(build_id) or build_id in self._asked:
            return None
        self._asked.add(build_id)
        for server in servers():
            if server in self._silent:
                continue
            try:
                return self._get(server, build_id)
            except urllib.error.HTTPError as error:
                error.close()
                if error.code != 404:
                    self._give_up(server, f"answers {error.code}")
            except (OSError, ValueError, HTTPException) as error:  # also an answer that is no HTTP
                self._give_up(server, str(getattr(error, "reason", error)) or type(error).__name__)
        return None

    def close(self) -> None:
        """Removes files that found no room in the cache."""
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)
            self._own_folder = None

    def _give_up(self, server: str, reason: str) -> None:
        self._silent.add(server)
        self.troubles.append(f"the debuginfod server {server} gives no debug information: {reason}")

    def _get(self, server: str, build_id: str) -> str:
        request = urllib.request.Request(f"{server}/buildid/{build_id}/debuginfo", headers={"User-Agent": "hakmem"})
        with urllib.request.urlopen(request, timeout=_seconds()) as answer:
            descriptor, unfinished = self._open(build_id)
            try:
                with open(descriptor, "wb") as file:
                    left = _MOST_BYTES
                    while chunk := answer.read(_CHUNK):
                        left -= len(chunk)
                        if left < 0:
                            raise ValueError("a file without end")
                        file.write(chunk)
                if answer.length:  # HTTP's length says that bytes are missing
                    raise ValueError("the connection broke off")
                target = os.path.join(os.path.dirname(unfinished), "debuginfo")
                os.replace(unfinished, target)
                return target
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(unfinished)
                raise

    def _open(self, build_id: str) -> "tuple[int, str]":
        """In the cache, or in a folder of this run where the cache cannot be written."""
        for base in (cache_folder(), None):
            try:
                if base is None:
                    self._own_folder = self._own_folder or tempfile.mkdtemp(prefix="hakmem-debuginfod-")
                folder = os.path.join(base or self._own_folder or "", build_id)
                os.makedirs(folder, mode=0o700, exist_ok=True)
                return tempfile.mkstemp(dir=folder, prefix="debuginfo.")
            except OSError:
                if base is None:
                    raise
        raise AssertionError


def _seconds() -> float:
    """The client's own variable: the longest time without a byte."""
    text = os.environ.get("DEBUGINFOD_TIMEOUT", "")
    return float(text) if re.fullmatch(r"0*[1-9][0-9]{0,5}", text) else _DEFAULT_SECONDS
