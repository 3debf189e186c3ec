"""The table of `hakmem profile` as JSON, with every row."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

from hakmem.profile import site_tables, top
from hakmem.profile.model import BY, OBJECTS_OF, Profile
from hakmem.profile.sites import SiteList
from hakmem.schemas import SCHEMAS


def of_profile(profile: Profile, by: str, pid: Optional[int] = None) -> str:
    """The functions: flat, by themselves, and cumulative, with their callees."""
    sample_type = BY[by]
    rows = [
        {"function": row.function, "bytes": row.flat, "cumulative_bytes": row.cumulative, "blocks": row.objects}
        for row in top.rows(profile, sample_type)
    ]
    totals = {"total_bytes": profile.total(sample_type), "total_blocks": profile.total(OBJECTS_OF[sample_type])}
    return _text(by, pid, profile, totals, rows)


def of_sites(sites: SiteList, by: str, pid: Optional[int] = None) -> str:
    """The call sites: with the lifetimes of their blocks, or with the free memory that these hold."""
    found = site_tables.by_allocated(sites) if by == "lifetime" else site_tables.by_pinned(sites)
    rows = [
        {
            "site": row.title,
            "allocated_bytes": row.allocated_bytes,
            "live_blocks": row.live_blocks,
            "live_bytes": row.live_bytes,
            "pinned_bytes": row.pinned_bytes,
            "lifetimes": row.lifetimes,
        }
        for row in found or ()
    ]
    return _text(by, pid, sites.profile, {"is_known": found is not None}, rows)


def _text(by: str, pid: Optional[int], profile: Profile, totals: Dict[str, Any], rows: List[Dict[str, Any]]) -> str:
    head = {"schema": SCHEMAS["profile"], "by": by, "pid": pid, "bytes_between_samples": profile.period}
    return json.dumps({**head, **totals, "rows": rows}, indent=1) + "\n"
