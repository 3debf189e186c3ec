"""The functions that allocate most: flat, by themselves, and cumulative, with their callees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List

from hakmem import fitting
from hakmem.errors import plural
from hakmem.metrics import size
from hakmem.profile.model import OBJECTS_OF, Profile, names_of

_MOST_NAME = 110
_NEARLY_NOTHING = 0.01
# The places of the columns that a narrow terminal does without: the shares, from right to left, then, where these are
# gone, the blocks, and the sum with the callees. And that of the name.
_DROPPABLE = ((41, 49), (20, 28), (12, 20), (25, 37), (12, 25))
_NAME_AT = 63


@dataclass
class Row:
    """A function's share."""

    function: str
    flat: int = 0
    cumulative: int = 0
    objects: int = 0


def rows(profile: Profile, sample_type: str) -> List[Row]:
    """Sorted by flat bytes, then by cumulative. A recursive function counts once for each stack."""
    bytes_at = profile.column(sample_type)
    objects_at = profile.column(OBJECTS_OF[sample_type])
    found: Dict[str, Row] = {}
    for sample in profile.samples:
        names = names_of(sample)
        for name in set(names):
            row = found.setdefault(name, Row(name))
            row.cumulative += sample.values[bytes_at]
        if names:
            found[names[0]].flat += sample.values[bytes_at]
            found[names[0]].objects += sample.values[objects_at]
    kept = [row for row in found.values() if row.cumulative]
    return sorted(kept, key=lambda row: (-row.flat, -row.cumulative, row.function))


def text(profile: Profile, sample_type: str, most: int) -> List[str]:
    """The lines of the table."""
    total = profile.total(sample_type)
    objects = profile.total(OBJECTS_OF[sample_type])
    what = "in use" if sample_type == "inuse_space" else "allocated"
    head = f"{size(total)} {what}, about {plural(objects, 'block')}"
    if profile.period:
        head += f", from a sample every {size(profile.period)}"
    if not total:
        return [head]
    shown = rows(profile, sample_type)
    lines = [head, f"{'flat':>12} {'flat%':>7} {'sum%':>7} {'cum':>12} {'cum%':>7}  {'blocks':>10}  function"]
    above = 0
    for row in shown[:most]:
        above += row.flat
        lines.append(
            f"{size(row.flat):>12} {_share(row.flat, total)} {_share(above, total)} {size(row.cumulative):>12} "
            f"{_share(row.cumulative, total)}  {row.objects:>10,}  {shortened(row.function)}"
        )
    if len(shown) > most:
        lines.append(f"and {plural(len(shown) - most, 'more function')}")
    return fitting.narrowed(lines, _DROPPABLE, _NAME_AT)


def is_nearly_nothing(profile: Profile) -> bool:
    """Whether the bytes in use are next to nothing beside all allocated ones."""
    allocated = profile.total("alloc_space")
    return allocated > 0 and profile.total("inuse_space") < _NEARLY_NOTHING * allocated


def _share(part: int, total: int) -> str:
    return f"{100 * part / total:6.1f}%"


def shortened(name: str) -> str:
    """Shortens a name to a line. Keeps both ends: the middle is mostly template arguments."""
    if len(name) <= _MOST_NAME:
        return name
    half = _MOST_NAME // 2
    return f"{name[:half]}…{name[-half:]}"
