"""Sizes in one unit, rounded so that the parts add up to the whole as it is shown."""

from __future__ import annotations

from typing import List, Sequence, Tuple

_KIB = 1 << 10
_MIB = 1 << 20
_GIB = 1 << 30


class Scale:
    """A unit and the digits after its point: three to five figures of the whole."""

    def __init__(self, whole: int) -> None:
        if whole < _MIB:
            self.unit, self._bytes, self._digits = "KiB", _KIB, 0
        elif whole < 100 * _MIB:
            self.unit, self._bytes, self._digits = "MiB", _MIB, 1
        elif whole < 100 * _GIB:
            self.unit, self._bytes, self._digits = "MiB", _MIB, 0
        else:
            self.unit, self._bytes, self._digits = "GiB", _GIB, 1

    def text(self, steps: int) -> str:
        """A number of steps, without the unit."""
        value = f"{abs(steps) / 10**self._digits:,.{self._digits}f}"
        return f"-{value}" if steps < 0 else value

    def steps(self, amount: int) -> int:
        """Bytes to the nearest step."""
        return int(self._exact(amount)[0] + (2 * self._exact(amount)[1] >= self._bytes))

    def _exact(self, amount: int) -> Tuple[int, int]:
        return divmod(amount * int(10**self._digits), self._bytes)

    def rounded(self, whole: int, parts: Sequence[int]) -> List[int]:
        """The parts in steps, each up or down, so that they add up to the rounded whole.

        The largest remainders go up.
        """
        exact = [self._exact(part) for part in parts]
        steps = [floor for floor, _ in exact]
        missing = self.steps(whole) - sum(steps)
        order = sorted(range(len(parts)), key=lambda i: (-exact[i][1], i))
        for i in order[: max(missing, 0)]:
            steps[i] += 1
        return steps
