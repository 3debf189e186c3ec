"""A time that an option gives."""

from __future__ import annotations

import math
from typing import Any, Optional

import click

YEAR_SECONDS = 365 * 24 * 3600


class Time(click.FloatRange):
    """A finite number, up to a year. The calls that wait take no number without a limit."""

    def __init__(self, least: float = 0.0, least_open: bool = False, unit_seconds: int = 1) -> None:
        super().__init__(least, min_open=least_open)
        self._most = YEAR_SECONDS // unit_seconds

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Any:
        """Returns the number. click's range refuses neither NaN nor infinity."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a valid float", param, ctx)
        if number > self._most:
            self.fail(f"{value!r} is more than a year, {self._most}", param, ctx)
        return number
