"""The units of the figures in a snapshot whose section has several: src/policy/figure.def and stat.def.
tests/cli/test_units.py compares them."""

from __future__ import annotations

from typing import Dict, FrozenSet

from hakmem.old_figures import OLD_FIGURES

# Counts among bytes.
_COUNTS: FrozenSet[str] = frozenset({"mappings", "heaps", "heaps_idle", "heaps_lost"})
# Bytes among counts.
_BYTES: FrozenSet[str] = frozenset(
    {"purged", "refaulted", "huge_asked", "huge_refused", "fork_lost", "purged_lazily", "prefault", "purged_at_peak"}
)
_EXCEPTIONS: Dict[str, FrozenSet[str]] = {"memory": _COUNTS, "events": _BYTES}
_OTHER = {"bytes": "count", "count": "bytes"}


def unit_of(section: str, name: str, usual: str) -> str:
    """`bytes` or `count`; `usual` is the unit of most figures of the section. Old names have their new name's."""
    now = OLD_FIGURES.get(section, {}).get(name, name)
    return _OTHER[usual] if now in _EXCEPTIONS.get(section, ()) else usual
