"""The lines of `hakmem stats`, from the figures that `--json` prints."""

from __future__ import annotations

from typing import Any, Dict, List

from hakmem.errors import plural
from hakmem.explain import empty_spans
from hakmem.metrics import size
from hakmem.top.figures import duration

_FREE = ("free_in_slabs", "uncarved")
_KEPT = ("kept_by_heaps", "dirty_slabs", "large_dirty", "lazy")


def lines(now: Dict[str, Any], pid: int, name: str) -> List[str]:
    """What the process has, and what of it is in use."""
    memory, parts, events = now["memory"], now["parts"], now["events"]
    free, kept = (sum(parts.get(one, 0) for one in names) for names in (_FREE, _KEPT))
    limit = f", limit {size(memory['limit'])}" if memory["limit"] else ""
    return [
        f"{name} ({pid}): hakmem {now['version']}, up {duration(now['uptime_ms'] / 1000)}",
        f"resident    {size(memory['resident']):>10}          peak {size(memory['peak'])}{limit}",
        _part("live", parts["live"], now, _of_live(now)),
        _part("free", free, now, _of_free(now)),
        _part("dirty", kept, now, f"kept for reuse; {size(events['purged'])} purged"),
        _part("metadata", parts["metadata"], now, f"of {plural(memory['heaps'], 'heap')}"),
        _part("not malloc", parts["not_malloc"], now, "programs, stacks, files"),
        f"huge pages  {size(events['huge_asked']):>10}          advised, {size(events['huge_refused'])} refused",
        f"trouble     {_trouble(events)}",
    ]


def _of_live(now: Dict[str, Any]) -> str:
    """The blocks, resident or not. The resident part has the ends of slabs too, where no further block fits."""
    live = now["live"]
    told = f"{size(live['bytes'])} in {plural(live['blocks'], 'block')}"
    return f"{told}, and the ends of their slabs" if now["parts"]["live"] > live["bytes"] else f"of {told}"


def _of_free(now: Dict[str, Any]) -> str:
    """Where the free memory is. Heaps keep slabs without a live block too."""
    if not now["live"]["blocks"]:
        return "in slabs without a live block"
    empty = empty_spans.find(now).bytes
    return f"of which {size(empty)} in slabs without a live block" if empty else "between blocks in use"


def _part(title: str, value: int, now: Dict[str, Any], told: str) -> str:
    whole = max(1, sum(now["parts"].values()))
    return f"{title:<12}{size(value):>10} {value / whole * 100:>6.1f}%  {told}"


def _trouble(events: Dict[str, int]) -> str:
    found = [
        plural(number, noun)
        for number, noun in ((events["out_of_memory"], "failed request"), (events["misuse"], "misuse"))
        if number
    ]
    return ", ".join(found) or "none: no failed request, no misuse"
