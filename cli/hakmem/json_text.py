"""Parses JSON that is not trusted: raises a ValueError for anything that is wrong with it."""

from __future__ import annotations

import json
import re
from typing import Any, Union

_MOST = 1 << 64
# What may stand unread at the end of a text that is cut off: `fals`, `.` or `e-` of a number, `\u00e` from its u on.
_UNFINISHED = re.compile(r"[-+.\w]{0,5}\s*")


def decode(data: Union[bytes, str]) -> Any:
    """Returns the text's value. Raises ValueError, also where it is nested deeper than Python can follow.

    Names of files may have bytes that are no UTF-8: they are escaped as os.fsdecode does it."""
    try:
        return json.loads(data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def ends_early(error: ValueError) -> bool:
    """Whether `decode` has failed at the text's end only: more of it could make it valid."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated string") or bool(_UNFINISHED.fullmatch(error.doc, error.pos))


def is_figure(value: Any) -> bool:
    """Whether this is a number that the library can write: whole, not negative, of 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def figure(value: Any) -> int:
    """The same, of a number or its digits. Raises ValueError or TypeError."""
    try:
        number = int(value)
    except OverflowError as error:  # of infinity
        raise ValueError(str(error)) from None
    if not is_figure(number):
        raise ValueError(f"{str(value)[:40]} is no figure")
    return number
