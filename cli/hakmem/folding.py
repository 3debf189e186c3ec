"""Folds lines at their words, for a width that is known. A figure stays with its unit."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from typing import List, Optional, TextIO

_LEAST = 40
_MORE = " \\"
_HARD = "\N{NO-BREAK SPACE}"
# A figure and its unit; a term of an equation and its figure.
_FIGURE = re.compile(r"(?<=\d) (?=%|[KMGT]?i?B\b|[mnµ]?s\b)|(?<=[a-z)]) (?=[0-9.]+(?: \+|$))")
_SHELL_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")


def named_columns() -> Optional[int]:
    """The width that COLUMNS names."""
    named = os.environ.get("COLUMNS", "")
    return max(_LEAST, int(named)) if re.match(r"0*[1-9][0-9]{0,5}\Z", named) else None


def known_columns() -> Optional[int]:
    """The width of stdout: that which COLUMNS names, or the terminal's; None for files and pipes."""
    named = named_columns()
    if named is not None:
        return named
    return max(_LEAST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def columns_of_stderr() -> Optional[int]:
    """The same of stderr."""
    return named_columns() or terminal_columns(sys.stderr)


def terminal_columns(stream: Optional[TextIO]) -> Optional[int]:
    """The width of the terminal that the stream is; None where it is none."""
    try:
        if stream is None or not stream.isatty():
            return None
        return named_columns() or max(_LEAST, os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        return None


def columns(of_files: int) -> int:
    """The width to write for."""
    return known_columns() or of_files


def fold(text: str, width: Optional[int], indent: str = "", head: str = "", breaks_words: bool = True) -> List[str]:
    """The text in lines of this width, the first behind `head`, the others behind `indent`. A word that is longer than
    a line, such as a path, is broken, or wider. With the width None the text stays one line."""
    if width is None or len(head) + len(text) <= width:
        return [head + text]
    bound = _FIGURE.sub(_HARD, text)
    # As elsewhere, no hyphen ends a line: paths and options have some.
    found = textwrap.wrap(
        bound, width, initial_indent=head, subsequent_indent=indent, break_long_words=breaks_words,
        break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace(_HARD, " ") for line in found] or [head.rstrip()]


def fold_command(line: str, width: Optional[int], indent: str = "  ") -> List[str]:
    """A shell's command line in lines of this width, which a shell takes as one."""
    if width is None or len(line) <= width:
        return [line]
    lines = [""]
    for word in _SHELL_WORD.findall(line):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if len(longer) + len(_MORE) <= width or not lines[-1].strip():
            lines[-1] = longer
        else:
            lines[-1] += _MORE
            lines.append(indent + word)
    return lines
