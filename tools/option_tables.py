"""The tables of docs/options.md, from src/policy/option.def, price.h and old_option.def."""

from __future__ import annotations

import re

from definitions import DefinitionError, calls, literal, number
from markdown_table import table

SUFFIXES = (("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10))


def size(bytes_: int) -> str:
    """Formats a size as the environment accepts it: 8388608 is 8M."""
    for suffix, unit in SUFFIXES:
        if bytes_ >= unit and bytes_ % unit == 0:
            return f"{bytes_ // unit}{suffix}"
    return str(bytes_)


class Prices:
    """The constants of price.h, and the modes that name some of them."""

    def __init__(self, header: str) -> None:
        constants = re.findall(r"^#define (HK_PRICE_\w+) UINT64_C\((\d+)\)$", header, re.MULTILINE)
        self._constants = {name: int(value) for name, value in constants}
        modes = re.findall(r"\bHK_PRICE_MODE\((\w+), (HK_PRICE_\w+)\)", header)
        self._modes = {mode: self.value(constant) for mode, constant in modes}

    def value(self, expression: str) -> int:
        return number(expression, self._constants)

    def values(self, low: str, high: str) -> str:
        """Lists the accepted values: the modes, and the range of numbers."""
        modes = "".join(f"`{mode}` ({value}), " for mode, value in self._modes.items())
        return f"{modes}{self.value(low)} to {self.value(high)}"

    def shown(self, expression: str) -> str:
        """Formats a price as the environment accepts it: by its mode, if it has one."""
        value = self.value(expression)
        return next((mode for mode, known in self._modes.items() if known == value), str(value))


def option_rows(text: str, price_header: str) -> list[list[str]]:
    """Every option: its variable, values, default and meaning."""
    prices = Prices(price_header)
    choices: dict[str, list[str]] = {}
    rows: list[list[str]] = []
    for macro, arguments in calls(text):
        if macro == "HK_CHOICE":
            choices[arguments[0]] = re.findall(r"HK_WORD\(\s*\w+\s*,\s*(\w+)\s*\)", arguments[1])
            continue
        if macro == "HK_TEXT_OPTION" and len(arguments) == 2:
            rows.append([f"`HAKMEM_{arguments[0].upper()}`", "a path", "none", literal(arguments[1])])
            continue
        if macro != "HK_OPTION" or len(arguments) != 6:
            raise DefinitionError(f"{macro} with {len(arguments)} arguments")
        name, kind, default, low, high, help_ = arguments
        if kind in choices:
            values = ", ".join(f"`{word}`" for word in choices[kind])
            default = default.replace(f"hk_{kind}_", "")
        elif kind == "BOOL":
            values, default = "`on`, `off`", "on" if number(default) else "off"
        elif kind == "PRICE":
            values, default = prices.values(low, high), prices.shown(default)
        elif kind == "SIGNAL":
            values, default = (
                f"a signal: its number to {number(high)}, or `usr1`, `usr2`, `hup`, `winch`, `none`",
                (str(number(default)) if number(default) else "none"),
            )
        elif kind in ("COUNT", "SIZE"):
            show = size if kind == "SIZE" else str
            values, default = f"{show(number(low))} to {show(number(high))}", show(number(default))
        else:
            raise DefinitionError(f"{name}: unknown type {kind}")
        rows.append([f"`HAKMEM_{name.upper()}`", values, f"`{default}`", literal(help_)])
    return rows


def options_table(text: str, price_header: str) -> str:
    return table(["Variable", "Values", "Default", "Meaning"], option_rows(text, price_header))


def old_option_rows(text: str) -> list[list[str]]:
    """Every earlier option: its variable, and what takes its place."""
    rows: list[list[str]] = []
    for macro, arguments in calls(text):
        if macro == "HK_OLD_SWITCH" and len(arguments) == 4:
            name, option, *words = arguments
            meanings = (f"`{value}` is `HAKMEM_{option.upper()}={word}`" for value, word in zip(("off", "on"), words))
            meaning = ", ".join(meanings)
        elif macro == "HK_OLD_OPTION" and len(arguments) == 2:
            name, meaning = arguments[0], f"no longer exists: {literal(arguments[1])}"
        else:
            raise DefinitionError(f"{macro} with {len(arguments)} arguments")
        rows.append([f"`HAKMEM_{name.upper()}`", meaning])
    return rows


def old_options_table(text: str) -> str:
    return table(["Earlier name", "Now"], old_option_rows(text))
