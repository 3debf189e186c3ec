"""Removes what published results must not contain: paths of this machine, its name, and its user's."""

from __future__ import annotations

import os
import platform
import pwd
import re
from contextlib import suppress
from typing import List

# An absolute path, from what cannot be part of a longer word before it.
_PATH = re.compile(r"(?<![\w./~-])~?/(?:[^\s/'\"`,:;()\[\]{}<>|]+/)*([^\s/'\"`,:;()\[\]{}<>|]*)")
# Names that identify no one, and are words of messages besides.
_ANYBODYS = {"root", "user", "users", "localhost", "host", "home", "runner", "build", "nobody", "linux"}


def names() -> List[str]:
    """The names of this machine and its user, except common words."""
    found = {
        platform.node(),
        platform.node().partition(".")[0],
        os.environ.get("USER", ""),
        os.environ.get("LOGNAME", ""),
    }
    with suppress(KeyError):
        found.add(pwd.getpwuid(os.getuid()).pw_name)
    return sorted((name for name in found if len(name) > 2 and name.lower() not in _ANYBODYS), key=len, reverse=True)


def scrub(text: str) -> str:
    """Returns a message without them: of a path its last name stays."""
    text = _PATH.sub(lambda match: match.group(1) or "a folder", text)
    for name in names():
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "…", text)
    return text
