"""Names of code that a runtime writes while it runs, from the file that it keeps for perf: /tmp/perf-PID.map. CPython
(PYTHONPERFSUPPORT=1, from 3.12 on), Node (--perf-basic-prof), Java agents and others write it."""

from __future__ import annotations

import bisect
import os
import re
from typing import List, Optional, Sequence, Tuple

from hakmem import bounded
from hakmem.profile.model import Frame
from hakmem.regular_file import open_regular

_LINE = re.compile(r"([0-9a-fA-F]{1,16}) ([0-9a-fA-F]{1,16}) (.+)")
# CPython: `py::qualified.name:/path/of/file.py`.
_OF_PYTHON = re.compile(r"(py::.+?):(/.*|<[^>]*>)\Z")
_MOST_BYTES = 1 << 30


class PerfMap:
    """The ranges of such files. A later line stands for code that took the place of older code."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._ranges: List[Tuple[int, int, int, str]] = sorted(
            (start, order, start + length, name) for order, (start, length, name) in enumerate(_lines(paths))
        )

    def frame(self, address: int) -> Optional[Frame]:
        """The function at the address."""
        place = bisect.bisect_right(self._ranges, (address, len(self._ranges), 0, ""))
        # Ranges overlap only where code was replaced.
        for _, _, end, name in self._ranges[max(0, place - 8) : place][::-1]:
            if address < end:
                return _frame(name)
        return None


def paths_of(pid: int, roots: Sequence[str]) -> List[str]:
    """The files of a process. In a container it has another number."""
    numbers = [str(pid)]
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            numbers += next((line.split()[1:] for line in file if line.startswith("NSpid:")), [])
    except OSError:
        pass
    return [f"{root}/tmp/perf-{number}.map" for root in roots for number in dict.fromkeys(reversed(numbers))]


def _lines(paths: Sequence[str]) -> List[Tuple[int, int, str]]:
    for path in paths:
        try:
            with open_regular(path) as file:
                if os.fstat(file.fileno()).st_size > _MOST_BYTES:
                    continue
                text = os.fsdecode(bounded.read(file, _MOST_BYTES))
        except OSError:
            continue
        found = (_LINE.match(line) for line in text.splitlines())
        return [(int(one[1], 16), int(one[2], 16), one[3].strip()) for one in found if one]
    return []


def _frame(name: str) -> Frame:
    match = _OF_PYTHON.match(name)
    return Frame(match.group(1), name, match.group(2)) if match else Frame(name, name)
