"""Data that the tests of `hakmem explain` and `hakmem report` share: a snapshot, a map and sites, all made up. Some
names in them are hostile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List

import cli_support  # puts the package on the path

assert cli_support.CLI

KIB, MIB = 1 << 10, 1 << 20
HOSTILE = "</script><script>document.title='broken in'</script><img src=x onerror=\"document.title='broken in'\">"
TERMINAL = "evil\x1b[2J\x07name"


def snapshot(time_ms: int = 1_700_000_000_000, live: int = 300 * MIB) -> Dict[str, Any]:
    """As schema 2 has it. Its parts add up."""
    parts = {
        "live": live + 123, "free_in_slabs": 140 * MIB + 77, "uncarved": 3 * MIB, "kept_by_heaps": MIB,
        "dirty_slabs": 64 * MIB + 4096, "large_dirty": 31 * MIB, "metadata": 4 * MIB + 1,
        "not_malloc": 31 * MIB + 12345,
    }  # fmt: skip
    resident = sum(parts.values())
    return {
        "schema": 2, "version": "0.1.0", "pid": 4711, "time_ms": time_ms, "uptime_ms": 60_000, "page_bytes": 4096,
        "memory": {"resident": resident, "peak": resident + MIB, "in_use": 500 * MIB, "dirty_slabs": 64 * MIB,
                   "large_dirty": 31 * MIB, "large_blocks": 0, "limit": 0, "mappings": 99, "heaps": 2},
        "events": {"refill": 12_345, "purged": 10 * MIB, "refaulted": 9 * MIB},
        "learning": {"price": 250_000, "dearness": 1, "break_even_ms": 1800, "timeout_ms": 900, "epochs": 7,
                     "state": "frozen",
                     "decisions": ["epoch 1: 1800 ms, first", f"epoch 5: 900 ms, {HOSTILE}"]},
        "parts": parts, "live": {"bytes": live, "blocks": 4000, "blocks_freed_remotely": 2, "spans_estimated": 0},
        "huge": {"superslabs": 3}, "purge_thread": True, "options": {"mode": "balanced", "learn_file": HOSTILE},
        "bands": {"tiny": {"live_blocks": 3000, "live_bytes": MIB},
                  "mid": {"live_blocks": 1000, "live_bytes": live - MIB}},
        "classes": [_class(64, 900, 10), _class(1024, 40, 30_000), _class(4096, 700, 20_000), _class(16, 3, 0)],
        "heaps": [heap(2, MIB), {**heap(1, live - MIB), "state": HOSTILE, "requested_estimate": None}],
    }  # fmt: skip


def heap(number: int, live_bytes: int) -> Dict[str, Any]:
    return {
        "state": "attached", "node": 0, "slabs": 9, "spare_slabs": 1, "number": number, "live_blocks": live_bytes // 64,
        "live_bytes": live_bytes, "free_blocks": 5, "free_bytes": 320, "resident": live_bytes + 4096,
        "requested_estimate": live_bytes * 7 // 8,
    }  # fmt: skip


def _class(size: int, live: int, free: int) -> Dict[str, Any]:
    return {
        "bytes": size, "band": "tiny", "spans": 5, "slabs": 5, "live_blocks": live, "live_bytes": live * size,
        "free_blocks": free, "free_bytes": free * size, "resident": (live + free) * size, "spans_nearly_empty": 2,
    }  # fmt: skip


def superslab_map() -> Dict[str, Any]:
    """As `map` answers."""
    states: List[Dict[str, Any]] = [
        {"state": "span", "resident": 65536, "class_bytes": 64, "live_permille": 250},
        {"state": "idle", "resident": 32768},
        {"state": HOSTILE, "resident": 0},
    ]
    slabs = [states[i % len(states)] for i in range(32)]
    return {
        "schema": 1, "superslabs": [{"address": "0x7f0000000000", "node": 0, "huge": True, "slabs": slabs},
                                    {"address": HOSTILE, "node": 0, "huge": False, "slabs": slabs[:7]}],
        "big": [{"address": "0x7f1000000000", "state": "live", "bytes": 3 * MIB, "resident": 2 * MIB},
                {"address": "0x7f2000000000", "state": "free", "bytes": MIB, "resident": 0}],
        "left_out": 0,
    }  # fmt: skip


def sites(path: str = f"/no/{HOSTILE}") -> Dict[str, Any]:
    """As `profile sites` answers: three sites, all of them called from 0x3010; two keep free memory resident."""
    quick, held, none = [300, 0, 0, 100] + 12 * [0], 7 * [0] + [5] + 7 * [0] + [2], 16 * [0]
    rows = [([0x1011, 0x2011], 60, 66, 90, quick), ([0x1021, 0x2021], 30, 33, 20, held), ([0x1031], 10, 11, 0, none)]
    return {
        "schema": 1, "rate": 524288,
        "sites": [{"frames": [hex(one) for one in (*frames, 0x3011)], "shared": False, "inuse_samples": 9,
                   "inuse_objects": 1000, "inuse_bytes": live * MIB, "requested": live * MIB,
                   "block_bytes": given * MIB, "alloc_objects": 2000, "alloc_bytes": 2 * live * MIB,
                   "lifetimes": lives, "pinned": {"bytes": pinned * MIB}}
                  for frames, live, given, pinned, lives in rows],
        "mappings": [{"start": "0x1000", "end": "0x4000", "offset": "0x0", "path": path, "build_id": None}],
    }  # fmt: skip


def save(folder: Path, name: str, document: Any) -> Path:
    """As a file."""
    path = folder / name
    path.write_text(json.dumps(document))
    return path
