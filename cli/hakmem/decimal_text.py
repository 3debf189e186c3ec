"""Numbers that users, variables and files of the kernel write."""

from __future__ import annotations

from typing import Optional

_MOST_DIGITS = 20  # of 64 bits; Python refuses to read thousands


def number(text: str) -> Optional[int]:
    """The number that decimal digits of ASCII mean; None for any other text, and for more digits than 64 bits have."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None
