"""The earlier names of figures, as tools/generate_docs.py writes them from src/policy/old_figure.def."""

from __future__ import annotations

from typing import Dict

OLD_FIGURES: Dict[str, Dict[str, str]] = {
    "memory": {
        "idle": "dirty_slabs",
        "big_blocks": "large_blocks",
        "big_cached": "large_cached",
        "big_idle": "large_dirty",
    },
    "parts": {
        "idle": "dirty_slabs",
        "big_idle": "large_dirty",
    },
    "live": {
        "blocks_coming_home": "blocks_freed_remotely",
    },
    "events": {
        "big_alloc": "large_alloc",
        "big_reuse": "large_reuse",
        "big_free": "large_free",
        "given_back": "purged",
        "given_back_lazily": "purged_lazily",
        "wanted_again": "refaulted",
        "refill_home": "refill_remote",
        "refill_cut": "refill_carve",
    },
    "heaps": {
        "refill_home": "refill_remote",
        "refill_cut": "refill_carve",
    },
}
