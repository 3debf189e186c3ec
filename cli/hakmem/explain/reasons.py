"""The reason and the advice for each part, from the snapshot: a function for each part."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

from hakmem.errors import plural
from hakmem.explain import empty_spans, retained
from hakmem.explain.empty_spans import EmptySpans, figure
from hakmem.explain.explanation import Evidence, Part
from hakmem.explain.process_memory import Outside
from hakmem.explain.retained import time_of
from hakmem.explain.sites import Site
from hakmem.explain.snapshot import Snapshot
from hakmem.metrics import exact_size, size

_DEFAULT_MODE = "balanced"
_COST_SAMPLES = 5  # HK_COST_SAMPLES
_MOST_ROWS = 3
_WORTH_A_WORD = 0.02
_NEARLY_ALL = 8  # all but an eighth


def live(part: Part, evidence: Evidence) -> None:
    """Blocks in use."""
    snapshot = evidence.snapshot
    blocks = snapshot.number("live", "blocks")
    part.what = (
        f"Blocks that the program has and has not freed: {blocks:,} of them, {size(snapshot.number('live', 'bytes'))}."
    )
    by_band = [
        f"{size(row.get('live_bytes', 0))} in {_blocks_of_band(name, row.get('live_blocks', 0))}"
        for name, row in sorted(snapshot.section("bands").items(), key=lambda one: -one[1].get("live_bytes", 0))
        if row.get("live_bytes")
    ]
    part.why += [f"{'; '.join(by_band)}."] if by_band else []
    ends = snapshot.number("parts", "live") - snapshot.number("live", "bytes")
    part.why += [f"{size(ends)} at the ends of slabs, where no further block fits."] if ends > 0 else []
    part.why += [f"{size(one.live_bytes)} by {one.title}" for one in _sites(evidence)]
    part.why += list(_of_named(snapshot))
    coming = snapshot.number("live", "blocks_freed_remotely")
    if coming:
        part.why.append(
            f"{plural(coming, 'block')} that another thread freed count here, until the owner collects them."
        )
    part.todo.append("Hold less: only the program's code can. Two profiles and `hakmem diff` show what grows.")
    if evidence.sites is None:
        part.unknown.append(f"Which code allocated it: {evidence.no_sites}.")
    elif evidence.sites.rate:
        part.unknown.append(f"The sites' figures are estimates, from a sample every {size(evidence.sites.rate)}.")
    if evidence.sites is not None:
        part.unknown.append("Which code allocated the blocks from before the profile began.")
    if evidence.sites is None or evidence.sites.inside_share is None:
        part.unknown.append(
            "How much of it was not requested, because sizes are rounded up: only a running profile tells."
        )
    estimated = snapshot.number("live", "spans_estimated")
    if estimated:
        part.unknown.append(
            f"Free blocks in {plural(estimated, 'span')} count as live: this library does not mark free blocks."
        )


def _of_named(snapshot: Snapshot) -> Iterator[str]:
    """The named heaps and tags that have the most."""
    rows = sorted(snapshot.rows("named"), key=lambda one: -one.get("live_bytes", 0))
    for row in [row for row in rows if row.get("live_bytes")][:_MOST_ROWS]:
        blocks = plural(row.get("live_blocks", 0), "block")
        limit = f", of {size(row['hard_limit'])} that its limit allows" if row.get("hard_limit") else ""
        what = f'{row.get("kind", "heap")} "{row.get("name", "?")}"'
        yield f"{size(row['live_bytes'])} in {blocks} of {what}, which has {size(row.get('memory', 0))}{limit}."


def inside_blocks(part: Part, evidence: Evidence) -> None:
    """Sizes are rounded up."""
    part.what = "Bytes of blocks beyond the requested ones: sizes are rounded up to the next size class."
    wasteful = [one for one in evidence.sites.rows if one.block_bytes] if evidence.sites else []
    wasteful.sort(key=lambda one: one.live_bytes - (one.block_bytes or 0))
    part.why += [
        f"{size((one.block_bytes or 0) - one.live_bytes)} by {one.title}, which requests "
        f"{one.live_bytes / max(one.live_blocks, 1):,.0f} bytes on average"
        for one in wasteful[:_MOST_ROWS]
        if (one.block_bytes or 0) > one.live_bytes
    ]
    part.todo.append(
        "Request sizes just below a class's (see: hakmem help stats.md), or many objects in one block, where it is "
        "worth it."
    )
    part.unknown.append("An estimate: the sampled share, applied to all live blocks.")


def free_in_slabs(part: Part, evidence: Evidence) -> None:
    """Free blocks, beside live ones or in spans that have none."""
    snapshot = evidence.snapshot
    empty = empty_spans.find(snapshot.document)
    rows = sorted(snapshot.rows("classes"), key=lambda row: -figure(row, "free_bytes"))
    part.why += list(_of_empty(empty))
    part.why += [_of_class(row) for row in rows[:_MOST_ROWS] if figure(row, "free_bytes")]
    part.todo.append(
        "It serves the next requests of these sizes: it costs nothing while the program makes such requests."
    )
    if empty.heaps or empty.least_spans:
        part.what = "Free blocks in slabs that heaps have. Some of these slabs have no live block."
        part.todo += list(_advice_on_empty(snapshot))
    else:
        part.what = (
            "Free blocks in slabs that also have live ones. A slab can be purged only when none of its blocks is in "
            "use."
        )
    if (part.amount - empty.bytes) * _NEARLY_ALL > part.amount:
        _of_held(part, evidence, rows)
    elif empty.heaps:
        part.what = "Free blocks in slabs without a live block, which heaps keep for their threads' next requests."


def _of_empty(empty: EmptySpans) -> Iterator[str]:
    if empty.heaps:
        yield (
            f"{size(empty.bytes)} in {plural(empty.slabs, 'slab')} of {plural(empty.heaps, 'heap')} without a "
            "live block: a heap keeps some free blocks of each size for its thread's next requests."
        )
    elif empty.least_spans:
        spans = plural(empty.least_spans, "span")
        have = "has" if empty.least_spans == 1 else "have"
        yield f"At least {spans} {have} no live block: a heap keeps free blocks for its thread's next requests."


def _advice_on_empty(snapshot: Snapshot) -> Iterator[str]:
    """The ways by which spans without a live block leave their heaps."""
    has_others = snapshot.number("memory", "heaps") > 1
    whose = ", from the calling thread's heap and the heaps of threads that sleep" if has_others else ""
    yield f"`hakmem_collect()` in the program, or `malloc_trim(0)`, purges slabs without a live block{whose}."
    if not has_others:
        return
    if retained.has_purge_thread(snapshot):
        yield "The purge thread takes heaps of 256 KiB or more from threads that sleep, and purges them in quiet times."
    else:
        yield (
            "No purge thread runs, so a thread that sleeps keeps its heap's slabs. A program with several threads gets "
            "one from 16 MiB on, unless HAKMEM_PURGE_THREAD=off."
        )
    yield "Each thread that allocates takes a heap: fewer idle threads keep less."


def _of_held(part: Part, evidence: Evidence, rows: List[Dict[str, Any]]) -> None:
    """The reason and the advice for free blocks beside live ones."""
    nearly = sum(figure(row, "spans_nearly_empty") for row in rows)
    spans = sum(figure(row, "spans") for row in rows)
    if nearly:
        are = "is" if nearly == 1 else "are"
        part.why.append(f"{nearly:,} of {plural(spans, 'span')} {are} nearly empty: at most an eighth is in use.")
    part.todo.append(
        "Long-lived blocks among short-lived ones hold it: allocate the former together, at the start or in one block."
    )
    pinning = evidence.sites.pinning if evidence.sites else []
    part.why += [f"{size(one.pinned_bytes or 0)} held by {one.title}" for one in pinning[:_MOST_ROWS]]
    if evidence.sites is None:
        part.unknown.append(
            "Which sites hold it: only a profile that runs in the process tells, and HAKMEM_PROFILE=1 runs one from "
            "the start."
        )
    elif not pinning:
        part.unknown.append("Which sites hold it: the profile does not tell.")


def _of_class(row: Dict[str, Any]) -> str:
    spans, nearly, live = (figure(row, name) for name in ("spans", "spans_nearly_empty", "live_blocks"))
    text = f"{size(figure(row, 'free_bytes'))} in blocks of {exact_size(figure(row, 'bytes'))}: "
    text += f"{figure(row, 'free_blocks'):,} free "
    empty = empty_spans.least_of_class(row)
    if empty and not live:
        return text + f"in {plural(spans, 'span')} without a live block"
    text += f"beside {live:,} live in {plural(spans, 'span')}"
    if empty:
        return f"{text}, at least {empty:,} of them without a live block"
    return f"{text}, {nearly:,} of them nearly empty" if nearly else text


def uncarved(part: Part, evidence: Evidence) -> None:
    """Never carved into blocks."""
    snapshot = evidence.snapshot
    part.what = "Memory that was never used: of slabs, never carved into blocks; of large blocks, never written."
    excess = snapshot.number("huge", "excess")
    if excess:
        part.why.append(
            f"{size(excess)} became resident with a huge page, or ahead of the program: in large blocks that it fills "
            "in part, or has not filled yet."
        )
    huge = snapshot.number("huge", "superslabs")
    if huge:
        part.why.append(
            f"{plural(huge, 'superslab')} of 2 MiB in huge pages: a huge page is resident as a whole from its first "
            "byte on."
        )
    if huge or excess:
        part.todo.append("HAKMEM_HUGE_PAGES=never, or HAKMEM_MODE=lean, if memory counts for more than speed.")
    else:
        part.why.append(
            "Pages are resident as a whole, and a slab that was used before keeps its pages for its next blocks."
        )
    part.todo.append("Nothing else: it is the room for the next blocks.")


def cached(part: Part, evidence: Evidence) -> None:
    """Free memory that is kept for the next requests."""
    snapshot = evidence.snapshot
    part.what = "Memory without a live block, kept because purging it and faulting it in again costs time."
    for name, text in _CACHED.items():
        if snapshot.parts.get(name):
            part.why.append(f"{size(snapshot.parts[name])} {text}.")
    part.remark = retained.kept_because(snapshot)
    part.why += retained.without_purge_thread(snapshot)
    part.why += policy(snapshot)
    part.todo.append(retained.advice(snapshot))
    past = retained.of_past_purges(snapshot)
    part.todo += [past] if past else []
    if retained.has_purge_thread(snapshot):
        part.unknown.append("Whether it will be needed again; the learner expects the program's earlier behaviour.")
    else:
        part.unknown.append("Whether it will be needed again, and how much of it earlier refaults allow.")


def lazy(part: Part, evidence: Evidence) -> None:
    """Purged, and still resident."""
    part.what = "Memory that was purged lazily and is still resident: the system takes it when it is short of memory."
    part.remark = "the system takes it when it is short of memory"
    part.why.append("HAKMEM_PURGE is free: the system need not take purged memory at once (MADV_FREE).")
    told = evidence.snapshot.number("memory", "lazy")
    gone = told - part.amount
    if gone > 0:
        part.why.append(
            f"Another {size(gone)} of lazily purged memory is not resident: the system has taken it, or it was never "
            "touched."
        )
    part.todo.append(
        "Nothing, while memory is not short: the system takes it when it needs it. HAKMEM_PURGE=dontneed purges at "
        "once, and so do `hakmem_collect()` and `malloc_trim(0)`, now."
    )
    part.unknown.append("How much of it will be needed again before that.")


def _basis(snapshot: Snapshot, samples: str) -> str:
    """Whether a cost was measured in this process."""
    count = snapshot.number("learning", samples)
    return f"measured in {count} calls" if count >= _COST_SAMPLES else f"assumed; {count} calls measured"


def policy(snapshot: Snapshot) -> List[str]:
    """The terms that decide about dirty memory: price, time-out, the learner's last decision, limits."""
    learning = snapshot.section("learning")
    price = snapshot.number("learning", "price")
    told: List[str] = []
    if price:
        mode = str(snapshot.section("options").get("mode", _DEFAULT_MODE))
        told.append(
            f"The price is {price:,} ns of CPU time for a MiB-second "
            f"({'a price of your own' if mode.isdecimal() else f'mode {mode}'}): purging and refaulting "
            f"cost as much as keeping for {time_of(snapshot.number('learning', 'break_even_ms'))}."
        )
    purge_us, fault_us = (snapshot.number("learning", name) // 1000 for name in ("purge_cost", "fault_cost"))
    if purge_us and fault_us:
        told.append(
            f"Purging a MiB takes {purge_us} us of CPU time ({_basis(snapshot, 'purge_samples')}), "
            f"faulting it in {fault_us} us ({_basis(snapshot, 'fault_samples')})."
        )
    if retained.has_purge_thread(snapshot):
        others = "; other time-outs have a share too, by their costs so far" if retained.is_divided(snapshot) else ""
        told.append(
            f"Its time-out is {time_of(snapshot.number('learning', 'timeout_ms'))} "
            f"({learning.get('state', '?')}{others})."
        )
    decisions = learning.get("decisions")
    if isinstance(decisions, list) and decisions and retained.has_purge_thread(snapshot):
        told.append(f"The last decision: {decisions[-1]}.")
    limit, resident = snapshot.number("memory", "limit"), snapshot.number("memory", "resident")
    if limit:
        told.append(
            f"The limit on memory is {size(limit)}, {100 * resident // limit}% of it resident: from 65% on less is "
            "kept."
        )
    return told


def metadata(part: Part, evidence: Evidence) -> None:
    """The allocator's records."""
    part.what = "The allocator's own records: a descriptor for each slab, heaps, the region map."
    heaps = evidence.snapshot.number("memory", "heaps")
    part.why.append(
        f"It grows with the number of slabs and of heaps ({heaps:,}, one for each thread at the most), and never "
        "shrinks."
    )
    part.todo.append("Nothing.")


def not_malloc(part: Part, evidence: Evidence) -> None:
    """All else."""
    part.what = "Resident memory that is not malloc's: the program and its libraries, stacks, files, other mappings."
    if evidence.outside is None:
        part.unknown.append("What it is made of: only a live process shows that (/proc/PID/smaps).")
        part.todo.append("Explain it while the process runs: `hakmem explain PID`.")
        return
    _of_outside(part, evidence.outside)


def _of_outside(part: Part, outside: Outside) -> None:
    part.why += [f"{size(amount)} {kind}" for kind, amount in outside.kinds.items() if amount]
    if outside.files:
        part.why.append(
            "of files most in " + ", ".join(f"{name} ({size(amount)})" for name, amount in outside.files if amount)
        )
    if outside.brk:
        part.why.append(
            f"{size(outside.brk)} of that lies in the brk heap: another malloc served the program, for instance "
            "before hakmem was loaded."
        )
    part.todo.append(
        "Pages of files are shared with other programs, and the kernel takes clean ones back when it needs memory."
    )
    if outside.others > part.amount // 2:
        part.todo.append(
            "Much of it is anonymous: look for mmap in the program, for a runtime with a heap of its own, for a "
            "bundled malloc (`hakmem doctor`)."
        )
    part.unknown.append(
        "What a file's pages are for, and which code made the anonymous mappings: the kernel keeps no record."
    )
    if outside.threads_unseen:
        stacks, count = ("stack", "it counts") if outside.threads_unseen == 1 else ("stacks", "they count")
        threads = plural(outside.threads_unseen, "thread")
        part.unknown.append(f"The {stacks} of {threads} that ran: {count} as other anonymous memory.")
    if outside.too_much:
        part.unknown.append(
            f"/proc shows {size(outside.too_much)} more than the allocator counted: it looked a moment later."
        )


def _sites(evidence: Evidence) -> List[Site]:
    """The sites that hold enough to be named."""
    if evidence.sites is None:
        return []
    whole = sum(one.live_bytes for one in evidence.sites.rows)
    return [one for one in evidence.sites.rows[:_MOST_ROWS] if one.live_bytes >= _WORTH_A_WORD * whole]


def _blocks_of_band(band: str, blocks: int) -> str:
    """The blocks in words. From which size on a block is large depends on the library."""
    limit = _LIMITS.get(band)
    return f"{plural(blocks, 'block')} of up to {limit}" if limit else plural(blocks, f"{band} block")


_LIMITS = {"tiny": "1 KiB", "mid": "32 KiB", "run": "1 MiB"}
_CACHED = {
    "kept_by_heaps": "in free slabs that threads' heaps keep for their own next blocks (HAKMEM_SPARE_SLABS)",
    "dirty_slabs": "in free slabs that no heap has",
    "large_dirty": "in free extents that large blocks left",
}
