"""What `hakmem run` says at the end: five lines, or JSON."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

from hakmem.engine import Ended
from hakmem.errors import plural
from hakmem.memory import MemorySampler
from hakmem.metrics import count, seconds, size
from hakmem.report import thinned


def lines(ended: Ended, sampler: MemorySampler, library: str, version: Optional[str]) -> List[str]:
    """Wall, CPU, memory, faults, allocator."""
    return [
        f"wall       {seconds(ended.wall_seconds)}, {ended.describe()}",
        f"CPU        {seconds(ended.user_seconds + ended.system_seconds)}: "
        f"{seconds(ended.user_seconds)} user, {seconds(ended.system_seconds)} system",
        f"resident   {_resident(ended, sampler)}",
        f"faults     {count(ended.minor_faults)} minor, {count(ended.major_faults)} major",
        f"allocator  {_allocator(sampler, library, version)}",
    ]


def _resident(ended: Ended, sampler: MemorySampler) -> str:
    mean = sampler.mean(0.0, ended.wall_seconds)
    mean_text = f"{size(mean)} mean ({plural(len(sampler.samples), 'sample')})" if mean else "too short for a mean"
    together = sampler.peak()
    if sampler.most_processes == 1 or together is None:
        return f"{size(ended.peak_bytes)} peak, {mean_text}"
    return (
        f"{size(together)} peak, {mean_text}, up to {sampler.most_processes} processes together; "
        f"the largest {size(ended.peak_bytes)} peak"
    )


def _allocator(sampler: MemorySampler, library: str, version: Optional[str]) -> str:
    name = f"hakmem {version}" if version else "hakmem"
    if sampler.mapped is None:
        return f"{name} was preloaded ({library}); the program was too short, or too private, to see it at work"
    if not sampler.mapped:
        return f"{library} was NOT mapped by the program: its malloc was another"
    anonymous = sampler.peak_anonymous() or 0
    return f"{name} served malloc ({library}); heaps and stacks peaked at {size(anonymous)}"


def as_json(
    ended: Ended, sampler: MemorySampler, library: str, version: Optional[str], command: List[str]
) -> Dict[str, Any]:
    """The same, and the curve."""
    return {
        "schema": 1,
        "command": command,
        "library": library,
        "version": version,
        "library_mapped": sampler.mapped,
        "exit_code": ended.exit_code,
        "signal": ended.signal,
        "wall_seconds": ended.wall_seconds,
        "user_seconds": ended.user_seconds,
        "system_seconds": ended.system_seconds,
        "peak_bytes": ended.peak_bytes,
        "peak_tree_bytes": sampler.peak(),
        "peak_anonymous_bytes": sampler.peak_anonymous(),
        "mean_bytes": sampler.mean(0.0, ended.wall_seconds),
        "minor_faults": ended.minor_faults,
        "major_faults": ended.major_faults,
        "most_processes": sampler.most_processes,
        "resident_over_time": [[round(s.seconds, 4), s.resident] for s in thinned(sampler.samples)],
    }


def to_text(document: Dict[str, Any]) -> str:
    """JSON, one line."""
    return json.dumps(document) + "\n"
