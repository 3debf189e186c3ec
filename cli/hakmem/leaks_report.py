"""The report of `hakmem leaks`, as text and as JSON."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from hakmem.errors import plural
from hakmem.folding import fold
from hakmem.leaks import KINDS, Leaks, Site, Sums
from hakmem.metrics import size
from hakmem.profile.model import stack_of
from hakmem.profile.top import shortened
from hakmem.schemas import SCHEMAS

_WHAT = {"unreachable": "leaked: no pointer leads there", "unjudged": "not freed"}
# A profile that begins with the program begins within this time.
_LATE_MS = 1000
_WHY_NO_SCAN = {
    "out of time": "the scan took too long",
    "no memory": "the system refused memory for the scan",
    "no mappings": "the system does not list the mappings (/proc)",
}


def lines(leaks: Leaks, rows: int, width: Optional[int] = None) -> List[str]:
    """The findings: the largest sites with their stacks, and the limits of the findings."""
    found = leaks.found()
    all_of_it = leaks.of[leaks.kind]
    text = [f"{_amount(leaks, all_of_it)} {_WHAT[leaks.kind]}" if all_of_it.samples else _none(leaks)]
    for site in found[:rows]:
        text += ["", f"{_amount(leaks, site.of[leaks.kind])} from", *_stack(site)]
    if len(found) > rows or leaks.left_out:
        text += ["", f"and {plural(len(found[rows:]) + leaks.left_out, 'more site')}"]
    if leaks.scan == "done":
        text += ["", f"{_amount(leaks, leaks.of['reachable'])} still reachable"]
        if leaks.of["unjudged"].samples:
            text.append(
                f"{_amount(leaks, leaks.of['unjudged'])} were allocated during the scan, or are guarded: it cannot "
                "judge them"
            )
    return [part for line in text for part in fold(line, width, "      " if line.startswith(" ") else "  ")]


def notes(leaks: Leaks) -> List[str]:
    """The limits of the figures."""
    told = []
    if leaks.unknown_ms >= _LATE_MS:
        told.append(
            f"the profile began {leaks.unknown_ms / 1000:,.0f} s after the program: blocks from before are unknown"
        )
    if leaks.scan in _WHY_NO_SCAN:
        told.append(f"{_WHY_NO_SCAN[leaks.scan]}: it is unknown which blocks can be reached")
    if leaks.threads and leaks.threads.asked < leaks.threads.others:
        told.append(
            f"of {leaks.threads.others:,} other threads {leaks.threads.others - leaks.threads.asked:,} ran or could "
            "not be read: blocks that only their registers point to count as leaked"
        )
    if leaks.lost:
        told.append(f"{leaks.lost:,} of {leaks.samples:,} samples were lost: a larger --rate needs less room")
    if leaks.rate != 1:
        rate = f", one for each {size(leaks.rate)} allocated" if leaks.rate else ""
        told.append(f"estimates from {leaks.samples:,} samples{rate}: small sites may be missing")
    return told


def _none(leaks: Leaks) -> str:
    sampled = "" if leaks.is_exact else "sampled "
    if leaks.kind == "unreachable":
        return f"nothing leaked: a pointer leads to each {sampled}block"
    return f"every {sampled}block was freed"


def _amount(leaks: Leaks, sums: Sums) -> str:
    about = "" if leaks.is_exact else "about "
    return f"{about}{plural(sums.bytes, 'byte')} in {about}{plural(sums.blocks, 'block')}"


def _stack(site: Site) -> List[str]:
    if site.shared:
        return ["  stacks that share one entry for want of room"]
    frames = stack_of(site.sample)
    return [f"  {_frame(frame.function, frame.file, frame.line)}" for frame, _ in frames] or ["  no stack"]


def _frame(function: str, file: str, line: int) -> str:
    return f"{shortened(function)} ({file}:{line})" if file and line else shortened(function)


def document(answers: List[Tuple[int, Leaks]]) -> Any:
    """For programs: every process, with named stacks."""
    return {
        "schema": SCHEMAS["leaks"],
        "processes": [
            {
                "pid": pid,
                "rate": leaks.rate,
                "exact": leaks.is_exact,
                "samples": leaks.samples,
                "lost": leaks.lost,
                "scan": leaks.scan,
                "threads": vars(leaks.threads) if leaks.threads else None,
                "sites_left_out": leaks.left_out,
                **{kind: vars(leaks.of[kind]) for kind in KINDS},
                "sites": [_site_document(site) for site in sorted(leaks.sites, key=lambda one: -_bytes_of(one))],
            }
            for pid, leaks in answers
        ],
    }


def _bytes_of(site: Site) -> int:
    return site.of["unreachable"].bytes or sum(sums.bytes for sums in site.of.values())


def _site_document(site: Site) -> Any:
    stack = [
        {"function": frame.function, "file": frame.file, "line": frame.line, "address": f"{location.address:#x}"}
        for frame, location in stack_of(site.sample)
    ]
    return {**{kind: vars(site.of[kind]) for kind in KINDS}, "shared": site.shared, "stack": stack}
