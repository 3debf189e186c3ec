"""Makes an explanation."""

from __future__ import annotations

from typing import Callable, Dict, List, Tuple

from hakmem.errors import plural
from hakmem.explain import reasons
from hakmem.explain.explanation import Evidence, Explanation, Part
from hakmem.metrics import size

# The most sites that the equation counts as holders of free blocks.
_MOST_NAMED = 3

TELL: Dict[str, Tuple[str, Callable[[Part, Evidence], None]]] = {
    "live": ("live", reasons.live),
    "inside_blocks": ("inside blocks", reasons.inside_blocks),
    "free_in_slabs": ("free in slabs", reasons.free_in_slabs),
    "uncarved": ("never used", reasons.uncarved),
    "cached": ("cached", reasons.cached),
    "lazy": ("purged lazily", reasons.lazy),
    "metadata": ("metadata", reasons.metadata),
    "not_malloc": ("not malloc", reasons.not_malloc),
}


def explain(evidence: Evidence) -> Explanation:
    """Returns the explanation that the snapshot's figures allow."""
    snapshot = evidence.snapshot
    resident = snapshot.number("memory", "resident")
    if snapshot.schema < 2:
        explanation = Explanation(resident, _of_older(evidence, resident))
        explanation.notes.append(
            f"{snapshot.name} has schema {snapshot.schema}: an older library wrote it, with sums alone. They do not "
            "tell memory in use, free memory and memory outside malloc apart."
        )
    else:
        explanation = Explanation(resident, _parts(evidence, resident))
    if evidence.doubt:
        explanation.notes.append(f"{evidence.doubt}: its sites are left out.")
    explanation.round()
    return explanation


def _parts(evidence: Evidence, resident: int) -> List[Part]:
    parts = evidence.snapshot.parts
    amounts = {name: parts[name] for name in ("live", "free_in_slabs", "uncarved", "metadata", "not_malloc")}
    amounts["cached"] = parts["kept_by_heaps"] + parts["dirty_slabs"] + parts["large_dirty"]
    amounts["lazy"] = evidence.snapshot.number("parts", "lazy")
    share = evidence.sites.inside_share if evidence.sites is not None else None
    if share is not None:
        amounts["inside_blocks"] = int(amounts["live"] * share)
        amounts["live"] -= amounts["inside_blocks"]
    found: List[Part] = []
    for key, amount in amounts.items():
        if not amount:
            continue
        title, tell = TELL[key]
        part = Part(key, title, amount)
        tell(part, evidence)
        if key == "free_in_slabs":
            _name_holders(part, evidence)
        found.append(part)
    _take_difference(found, resident)
    return found


def _name_holders(part: Part, evidence: Evidence) -> None:
    """Adds the sites that hold free blocks to the equation."""
    pinning = evidence.sites.pinning[:_MOST_NAMED] if evidence.sites is not None else []
    if pinning:
        held = sum(one.pinned_bytes or 0 for one in pinning)
        part.remark = f"{size(min(held, part.amount))} held by {plural(len(pinning), 'site')}"


def _take_difference(parts: List[Part], resident: int) -> None:
    """Adds a part for a difference. The library's parts add up, but for pages of zeros, with which they exceed the
    resident memory and leave nothing for the rest, and where it cannot read the resident memory. Those of an edited
    file may not."""
    difference = resident - sum(part.amount for part in parts)
    if not difference:
        return
    part = Part("not_accounted", "not accounted for", difference)
    if not resident:
        part.what = "The process could not read its resident memory: in another root (chroot) it has no /proc."
        part.todo.append("Explain it while the process runs: `hakmem explain PID` reads it from outside.")
        part.unknown.append("How much is resident, and how much of that is not malloc's.")
    elif difference < 0 and all(one.key != "not_malloc" for one in parts):
        part.key, part.title = "zero_pages", "pages of zeros"
        part.what = (
            "Pages that were read and never written to: the other parts count them, the resident memory does not."
        )
        part.why.append("Each of them is the system's one page of zeros, which takes no memory of the process.")
        part.todo.append("Nothing.")
        part.unknown.append("What is not malloc's: it is part of this difference.")
    else:
        part.what = "The snapshot's parts do not add up to its resident memory: they were counted at different moments."
        part.unknown.append("What it is. The library leaves none: was the file changed?")
    parts.append(part)


def _of_older(evidence: Evidence, resident: int) -> List[Part]:
    """Schema 1: dirty memory may be resident, all else is unknown."""
    snapshot = evidence.snapshot
    idle = snapshot.number("memory", "dirty_slabs") + snapshot.number("memory", "large_dirty")
    kept, rest = min(idle, resident), resident - min(idle, resident)
    cached = Part("cached", "cached at most", kept, "Dirty memory, which may be resident.")
    cached.why += reasons.policy(snapshot)
    cached.todo.append("HAKMEM_MODE=lean keeps it for a shorter time; `hakmem_collect()` purges it now.")
    cached.unknown.append("Which part of it is resident.")
    other = Part(
        "other",
        "all else",
        rest,
        "Blocks in use, free blocks between them, records, and all memory that is not malloc's.",
    )
    in_use, large = snapshot.number("memory", "in_use"), snapshot.number("memory", "large_blocks")
    other.why.append(
        f"Slabs in use take {size(in_use)} of addresses, large blocks {size(large)}; not all of that is resident."
    )
    other.todo.append("Take a snapshot with a newer library: it counts blocks, and resident memory part by part.")
    other.unknown.append("How it is divided.")
    return [part for part in (cached, other) if part.amount]
