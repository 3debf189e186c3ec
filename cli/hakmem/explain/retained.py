"""The reasons why dirty memory stays, as far as a snapshot's figures tell: src/policy/retention.c has the rule."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import List, Optional, Tuple

from hakmem.explain.snapshot import Snapshot
from hakmem.json_text import is_figure
from hakmem.metrics import seconds, size

_NEVER_MS = 1 << 62  # HK_PRICE_NEVER is more
_SHARE = 12  # of the memory in use, where it is not dearer than in the mode balanced
_DEARNESS = {"fast": 0, "balanced": 1, "lean": 10}  # how many times as dear as in the mode balanced memory is
_BALANCED, _LEAN = _DEARNESS["balanced"], _DEARNESS["lean"]
_CREDIT_FOR_EACH = 2  # bytes for each refaulted byte (src/policy/low_water.c)
_DEFAULT_RETAIN = "8M"
_SIZE = re.compile(r"([0-9]{1,15})([KMGT]?)")
_WORTH_A_WORD = 0.02


@dataclass(frozen=True)
class Retained:
    """The cached memory by reason, without a purge thread."""

    by_heaps: int
    within: int  # what may stay in any case
    beyond: int  # dirty memory above that
    rule: str  # the reason for `within`


def retained(snapshot: Snapshot) -> Retained:
    """Divides the cached memory of a snapshot that has parts."""
    parts = snapshot.parts
    dirty = parts["dirty_slabs"] + parts["large_dirty"]
    allowed, rule = _allowed(snapshot)
    within = min(dirty, allowed)
    return Retained(parts["kept_by_heaps"], within, dirty - within, rule)


def _allowed(snapshot: Snapshot) -> Tuple[int, str]:
    """The dirty bytes that may stay in any case, and the reason."""
    in_use = snapshot.number("memory", "in_use") + snapshot.number("memory", "large_blocks")
    share = _SHARE * max(dearness(snapshot), _BALANCED)
    retain = retain_option(snapshot)
    by_option = bytes_of(retain) or 0
    if in_use // share > by_option:
        part = "a twelfth" if share == _SHARE else f"1/{share}"
        return in_use // share, f"because {part} of the memory in use may stay"
    return by_option, f"because HAKMEM_RETAIN lets {retain} stay"


def has_purge_thread(snapshot: Snapshot) -> bool:
    """Whether a thread purges the memory of a quiet program."""
    return bool(snapshot.document.get("purge_thread"))


def is_divided(snapshot: Snapshot) -> bool:
    """Whether several time-outs have a share of the dirty memory (src/policy/decay.h)."""
    is_learned = snapshot.section("options").get("learn", "on") == "on"
    return is_learned and snapshot.section("learning").get("state") in ("learning", "canary")


def dearness(snapshot: Snapshot) -> int:
    """How many times as dear as in the mode balanced memory is; 0: cheaper. HAKMEM_MODE may be a price of any size."""
    found = snapshot.section("learning").get("dearness")
    mode = str(snapshot.section("options").get("mode"))
    return int(found) if is_figure(found) else _DEARNESS.get(mode, _BALANCED)


def retain_option(snapshot: Snapshot) -> str:
    """The value of HAKMEM_RETAIN, as the snapshot has it."""
    return str(snapshot.section("options").get("retain", _DEFAULT_RETAIN))


def bytes_of(text: str) -> Optional[int]:
    """The bytes of an option's value; None where it is no size."""
    match = _SIZE.fullmatch(text)
    return int(match.group(1)) << 10 * " KMGT".index(match.group(2) or " ") if match is not None else None


def time_of(milliseconds: int) -> str:
    """A time-out as text."""
    return "never" if milliseconds >= _NEVER_MS else "0 s" if milliseconds == 0 else seconds(milliseconds / 1000)


# In a few words, for the equation.


def kept_because(snapshot: Snapshot) -> str:
    """All reasons that are worth a word, the largest part first."""
    found = retained(snapshot)
    terms = [(found.by_heaps, "by heaps for their next blocks")]
    if has_purge_thread(snapshot):
        terms.append((found.within + found.beyond, _by_timeout(snapshot)))
    else:
        terms += [(found.within, found.rule), (found.beyond, _beyond(snapshot, found)[0])]
    whole = sum(amount for amount, _ in terms)
    terms = sorted((one for one in terms if one[0] > _WORTH_A_WORD * whole), key=lambda one: -one[0])
    if len(terms) == 1:
        return f"kept {terms[0][1]}"
    return "kept: " + ", ".join(f"{size(amount)} {reason}" for amount, reason in terms)


def _by_timeout(snapshot: Snapshot) -> str:
    timeout = snapshot.number("learning", "timeout_ms")
    if is_divided(snapshot):
        return f"by time-outs, of which {time_of(timeout)} leads"
    how = f", {time_of(timeout)}, is not over" if timeout < _NEVER_MS else " is never"
    return f"because its time-out{how}"


def _beyond(snapshot: Snapshot, found: Retained) -> Tuple[str, str]:
    """The reason for dirty memory above the rule: in a few words, and as a clause."""
    refaulted = snapshot.number("events", "refaulted")
    if dearness(snapshot) < _BALANCED:
        return "by time-outs", "its time-outs keep it, and at this price no other bound holds"
    if found.beyond <= _CREDIT_FOR_EACH * refaulted:
        return (
            "because purged memory was soon requested again",
            f"the program soon requested {size(refaulted)} of purged memory again, and such refaults allow up to "
            "twice as much",
        )
    return "for a reason without a figure", "the refaults so far do not explain all of it, and no other figure does"


# In sentences.


def without_purge_thread(snapshot: Snapshot) -> List[str]:
    """The reasons in a program that has no purge thread, and what its quiet means. Empty where it has one."""
    found = retained(snapshot)
    if has_purge_thread(snapshot) or not found.within + found.beyond:
        return []
    told = []
    if found.beyond:
        told.append(f"{size(found.within)} stays in any case, {found.rule}.")
        told.append(f"{size(found.beyond)} more stays: {_beyond(snapshot, found)[1]}.")
    told.append(
        "No purge thread runs: only calls of the program that allocate or free purge memory. A program that is quiet "
        "keeps all of it until its next call."
    )
    return told


def of_past_purges(snapshot: Snapshot) -> str:
    """What shorter keeping would cost, from the purges so far; empty where there was none."""
    purged = snapshot.number("events", "purged") + snapshot.number("events", "purged_lazily")
    refaulted = snapshot.number("events", "refaulted")
    if not purged:
        return ""
    told = f"So far {size(purged)} were purged, of which {size(refaulted)} were soon requested again"
    if has_purge_thread(snapshot):
        judged = "a shorter time would cost faults" if 2 * refaulted > purged else "a shorter time would cost little"
    elif retained(snapshot).beyond and refaulted:
        judged = "keeping less would cost such faults again, if the program goes on as before"
    else:
        judged = "keeping less would cost faults" if 2 * refaulted > purged else "keeping less would cost little"
    return f"{told}: {judged}."


def advice(snapshot: Snapshot) -> str:
    """The calls and options that have an effect on the cached memory."""
    options: List[str] = []
    if has_purge_thread(snapshot) and dearness(snapshot) < _LEAN:
        options.append("HAKMEM_MODE=lean keeps it for a shorter time")
    if bytes_of(retain_option(snapshot)) != 0:
        options.append("HAKMEM_RETAIN=0 allows least")
    calls = "`hakmem_collect()` in the program, or `malloc_trim(0)`, purges it now"
    return f"{calls}; {', '.join(options)}." if options else f"{calls}."
