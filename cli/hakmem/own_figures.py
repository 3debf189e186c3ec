"""The structs of hakmem.h, as tools/generate_docs.py writes them from figure.def and stat.def."""

from __future__ import annotations

from typing import NamedTuple


class Stats(NamedTuple):
    """hakmem_stats_t: the figures of this process."""

    version: int  # HAKMEM_STATS_VERSION of the library
    filled: int  # bytes that the library fills
    process_time_ms: int  # process: time of this snapshot, since 1970
    process_uptime_ms: int  # process: since the allocator's start in this process
    process_page_bytes: int  # process: size of a page
    memory_resident: int  # memory: resident memory of the whole process, now; 0: unknown, in a root without /proc
    memory_peak: int  # memory: highest resident memory of the whole process so far; 0: unknown
    memory_in_use: int  # memory: address space of slabs that heaps and runs have
    memory_dirty_slabs: int  # memory: free slabs that may be resident, because they were not purged
    memory_superslabs: int  # memory: address space of superslabs
    memory_large_blocks: int  # memory: address space of large blocks: above 1 MiB, in the hardened library above 32 KiB
    memory_large_cached: int  # memory: address space of free extents
    memory_large_dirty: int  # memory: the part of the free extents that may be resident
    memory_limit: int  # memory: limit on memory, of an option or a control group; 0: none
    memory_records: int  # memory: address space of the allocator's own records
    memory_mappings: int  # memory: mappings of the whole process; the system allows vm.max_map_count
    memory_heaps: int  # memory: heaps: at most one for each thread, adopted by later threads
    memory_heaps_idle: int  # memory: heaps without a thread, which wait for one
    memory_heaps_lost: int  # memory: heaps that other threads used when the process forked
    parts_live: int  # parts: resident: blocks in use, and the ends of their slabs, where no further block fits
    parts_free_in_slabs: int  # parts: resident: free blocks between blocks in use
    parts_uncarved: int  # parts: resident: never used, such as the rest of huge pages, also in large blocks
    parts_kept_by_heaps: int  # parts: resident: free slabs that heaps keep for their next blocks
    parts_dirty_slabs: int  # parts: resident: free slabs that no heap has
    parts_large_dirty: int  # parts: resident: free extents
    parts_metadata: int  # parts: resident: the allocator's own records
    parts_not_malloc: int  # parts: resident: all else, such as programs, libraries, stacks and files
    live_bytes: int  # live: bytes of the blocks in use, resident or not
    live_blocks: int  # live: blocks in use
    # live: remotely freed blocks on their way to the owner, most of which count as in use until it collects them
    live_blocks_freed_remotely: int
    live_spans_estimated: int  # live: spans whose blocks could not be examined: all that was carved counts as in use
    huge_superslabs: int  # huge: superslabs that are a huge page, as far as is known
    learning_price: int  # learning: price of a MiB that is resident for a second, in ns of CPU time
    # learning: time for which keeping memory costs as much as purging it and faulting it in again
    learning_break_even_ms: int
    # learning: time after which dirty memory is purged where a purge thread runs; until the learner is frozen other
    # time-outs have a share too
    learning_timeout_ms: int
    learning_epochs: int  # learning: epochs with a stake
    # memory: address space that waits for the next blocks: free slabs, of heaps or of none, and free extents
    memory_cached: int
    memory_dirty: int  # memory: the part of `cached` that is resident since its last use: it can be purged
    # memory: the part of `cached` that is not resident: its memory went back to the system, or was never used
    memory_purged: int
    huge_excess: int  # huge: resident because a page is huge or prefaulted, and never used (partly estimated)
    live_requested_estimate: int  # live: requested bytes of the blocks in use, estimated from the profile's samples
    live_inside_estimate: int  # live: bytes of the blocks in use beyond the requested ones
    live_allocated_estimate: int  # live: blocks allocated while a profile ran, estimated from its samples
    live_freed_estimate: int  # live: those of them that were freed since, by any thread
    # memory: free slabs that were purged lazily, resident or not: the system takes them when it is short of memory
    memory_lazy: int
    parts_lazy: int  # parts: resident: free slabs that were purged lazily and that the system has not taken yet
    # learning: CPU time that purging a MiB takes here, in ns; assumed until five calls were measured
    learning_purge_cost: int
    learning_fault_cost: int  # learning: CPU time that faulting a MiB in takes here, in ns, as above
    learning_purge_samples: int  # learning: purges that were measured
    learning_fault_samples: int  # learning: calls that made memory resident and were measured
    guard_rate: int  # guard: one allocation in this many gets a guard slot; 0: none does
    guard_slots: int  # guard: guard slots for blocks of up to a page; an eighth as many more are for longer ones
    guard_live: int  # guard: guard slots with a block in use
    guard_live_bytes: int  # guard: memory of those slots, in whole pages
    guard_protected: int  # guard: guard slots whose block was freed: any access to one is an error that is caught
    guard_age_ms: int  # guard: time since the free of the block that is protected for longest
    # learning: how many times as dear as in the mode balanced memory is, rounded down; 0: cheaper
    learning_dearness: int


class Events(NamedTuple):
    """hakmem_stats_events_t: the counters of this process."""

    version: int  # HAKMEM_STATS_VERSION of the library
    filled: int  # bytes that the library fills
    refill: int  # Times a free list ran out and was refilled.
    carve: int  # Refills that carved new blocks from a span.
    slab_acquire: int  # New spans that heaps began, for blocks up to 32 KiB.
    slab_release: int  # Spans that heaps gave up.
    slab_move: int  # Spans that a heap took from a heap without a thread, instead of beginning a new one.
    remote_free: int  # Blocks freed by a thread that does not own them.
    remote_batch: int  # Batches in which threads sent such blocks to their owners.
    remote_drain: int  # Remotely freed blocks that their owners collected.
    run_alloc: int  # Blocks above 32 KiB, up to 1 MiB, allocated.
    run_free: int  # Blocks above 32 KiB, up to 1 MiB, freed.
    run_reuse: int  # Such blocks that came from slabs that the heap had kept.
    large_alloc: int  # Large blocks allocated: above 1 MiB, in the hardened library above 32 KiB.
    large_reuse: int  # Large blocks that came from addresses that other large blocks had left.
    large_free: int  # Large blocks freed.
    realloc_in_place: int  # Reallocations of blocks above 32 KiB that moved nothing.
    purged: int  # Dirty memory that was purged.
    refaulted: int  # Purged memory that was soon requested again (refaults): more may stay dirty then.
    near_limit: int  # Purges because a limit on memory was near.
    numa_miss: int  # Times a thread had to take slabs of another memory node.
    numa_adopt: int  # Heaps of another memory node that a thread adopted, because its own node had none.
    huge_asked: int  # Memory for which huge pages were advised, and not refused.
    huge_refused: int  # Memory for which the system refused huge pages.
    fork_lost: int  # Free extents that a child of fork could not take over.
    out_of_memory: int  # Requests that failed with ENOMEM.
    misuse: int  # Invalid frees and damaged blocks that were detected.
    refill_remote: int  # Refills by remotely freed blocks that the owner collected.
    refill_used: int  # Refills by free blocks of the heap's own spans.
    refill_carve: int  # Refills that carved blocks from the bin's active span.
    refill_failed: int  # Refills for which the system had no memory.
    slab_reuse: int  # New spans made of slabs that the heap had kept.
    slab_reserve: int  # New spans made of slabs that the heap had taken ahead.
    lock_pool_take: int  # Times the lock of the heap pool was taken.
    lock_pool_wait: int  # Times a thread had to wait for that lock.
    lock_space_take: int  # Times a lock of superslabs or extents was taken.
    lock_space_wait: int  # Times a thread had to wait for such a lock.
    lock_meta_take: int  # Times the lock of the allocator's records was taken.
    lock_meta_wait: int  # Times a thread had to wait for that lock.
    system_call_map: int  # System calls that made, grew or moved mappings.
    system_call_unmap: int  # System calls that unmapped.
    system_call_advise: int  # System calls that purged pages or gave other advice.
    system_call_other: int  # All other system calls: queries, waits, clocks, files.
    purged_lazily: int  # Memory that was purged lazily; purged at once later, it counts in `purged` too.
    huge_dear: int  # Huge pages that took too much CPU time, so that the advice stopped for a while.
    prefault: int  # Memory made resident by one call for several pages, before the program touched it.
    guarded: int  # Blocks that were allocated in guard slots.
    guard_missed: int  # Blocks chosen for a guard slot for which none was free, or the system refused.
    guard_found: int  # Memory errors that guard slots have caught.
    lock_guard_take: int  # Times the lock of the freed guard slots was taken.
    lock_guard_wait: int  # Times a thread had to wait for that lock.
    purged_at_peak: int  # Of `purged`: while the process's resident memory rose above its highest so far.
