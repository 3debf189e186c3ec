"""The signal that makes the library listen: its default, and HAKMEM_ATTACH_SIGNAL, read as the library reads it
(src/policy/option_value.c)."""

from __future__ import annotations

from hakmem import decimal_text

VARIABLE = "HAKMEM_ATTACH_SIGNAL"
DEFAULT = 58
_HIGHEST = 64
_NAMES = {
    "none": 0,
    "hup": 1,
    "sighup": 1,
    "usr1": 10,
    "sigusr1": 10,
    "usr2": 12,
    "sigusr2": 12,
    "winch": 28,
    "sigwinch": 28,
}


def number(text: str) -> int:
    """Returns the signal that the variable's text means; 0 is none. An invalid text counts as unset."""
    word = text.lower()
    found = _NAMES.get(word, decimal_text.number(word))
    return found if found is not None and found <= _HIGHEST else DEFAULT
