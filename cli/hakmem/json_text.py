"""Parses JSON that is not trusted: raises a ValueError for anything that is wrong with it."""

from __future__ import annotations

import json
from typing import Any, Union

_MOST = 1 << 64


def decode(data: Union[bytes, str]) -> Any:
    """Returns the text's value. Raises ValueError, also where it is nested deeper than Python can follow.

    Names of files may have bytes that are no UTF-8: they are escaped as os.fsdecode does it."""
    try:
        return json.loads(data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


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
