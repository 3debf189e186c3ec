//! The public structs of `hakmem/hakmem.h`, as tools/generate_docs.py writes them from src/policy.

/// Figures of the whole process: `hakmem_stats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// HAKMEM_STATS_VERSION of the library
    pub version: u64,
    /// number of bytes of this struct that the library fills
    pub filled: u64,
    /// process: time of this snapshot, since 1970
    pub process_time_ms: u64,
    /// process: since the allocator's start in this process
    pub process_uptime_ms: u64,
    /// process: size of a page
    pub process_page_bytes: u64,
    /// memory: resident memory of the whole process, now; 0: unknown, in a root without /proc
    pub memory_resident: u64,
    /// memory: highest resident memory of the whole process so far; 0: unknown
    pub memory_peak: u64,
    /// memory: address space of slabs that heaps and runs have
    pub memory_in_use: u64,
    /// memory: free slabs that may be resident, because they were not purged
    pub memory_dirty_slabs: u64,
    /// memory: address space of superslabs
    pub memory_superslabs: u64,
    /// memory: address space of large blocks: above 1 MiB, in the hardened library above 32 KiB
    pub memory_large_blocks: u64,
    /// memory: address space of free extents
    pub memory_large_cached: u64,
    /// memory: the part of the free extents that may be resident
    pub memory_large_dirty: u64,
    /// memory: limit on memory, of an option or a control group; 0: none
    pub memory_limit: u64,
    /// memory: address space of the allocator's own records
    pub memory_records: u64,
    /// memory: mappings of the whole process; the system allows vm.max_map_count
    pub memory_mappings: u64,
    /// memory: heaps: at most one for each thread, adopted by later threads
    pub memory_heaps: u64,
    /// memory: heaps without a thread, which wait for one
    pub memory_heaps_idle: u64,
    /// memory: heaps that other threads used when the process forked
    pub memory_heaps_lost: u64,
    /// parts: resident: blocks in use, and the ends of their slabs, where no further block fits
    pub parts_live: u64,
    /// parts: resident: free blocks between blocks in use
    pub parts_free_in_slabs: u64,
    /// parts: resident: never used, such as the rest of huge pages, also in large blocks
    pub parts_uncarved: u64,
    /// parts: resident: free slabs that heaps keep for their next blocks
    pub parts_kept_by_heaps: u64,
    /// parts: resident: free slabs that no heap has
    pub parts_dirty_slabs: u64,
    /// parts: resident: free extents
    pub parts_large_dirty: u64,
    /// parts: resident: the allocator's own records
    pub parts_metadata: u64,
    /// parts: resident: all else, such as programs, libraries, stacks and files
    pub parts_not_malloc: u64,
    /// live: bytes of the blocks in use, resident or not
    pub live_bytes: u64,
    /// live: blocks in use
    pub live_blocks: u64,
    /// live: remotely freed blocks on their way to the owner, most of which count as in use until it collects them
    pub live_blocks_freed_remotely: u64,
    /// live: spans whose blocks could not be examined: all that was carved counts as in use
    pub live_spans_estimated: u64,
    /// huge: superslabs that are a huge page, as far as is known
    pub huge_superslabs: u64,
    /// learning: price of a MiB that is resident for a second, in ns of CPU time
    pub learning_price: u64,
    /// learning: time for which keeping memory costs as much as purging it and faulting it in again
    pub learning_break_even_ms: u64,
    /// learning: time after which dirty memory is purged where a purge thread runs; until the learner is frozen other
    /// time-outs have a share too
    pub learning_timeout_ms: u64,
    /// learning: epochs with a stake
    pub learning_epochs: u64,
    /// memory: address space that waits for the next blocks: free slabs, of heaps or of none, and free extents
    pub memory_cached: u64,
    /// memory: the part of `cached` that is resident since its last use: it can be purged
    pub memory_dirty: u64,
    /// memory: the part of `cached` that is not resident: its memory went back to the system, or was never used
    pub memory_purged: u64,
    /// huge: resident because a page is huge or prefaulted, and never used (partly estimated)
    pub huge_excess: u64,
    /// live: requested bytes of the blocks in use, estimated from the profile's samples
    pub live_requested_estimate: u64,
    /// live: bytes of the blocks in use beyond the requested ones
    pub live_inside_estimate: u64,
    /// live: blocks allocated while a profile ran, estimated from its samples
    pub live_allocated_estimate: u64,
    /// live: those of them that were freed since, by any thread
    pub live_freed_estimate: u64,
    /// memory: free slabs that were purged lazily, resident or not: the system takes them when it is short of memory
    pub memory_lazy: u64,
    /// parts: resident: free slabs that were purged lazily and that the system has not taken yet
    pub parts_lazy: u64,
    /// learning: CPU time that purging a MiB takes here, in ns; assumed until five calls were measured
    pub learning_purge_cost: u64,
    /// learning: CPU time that faulting a MiB in takes here, in ns, as above
    pub learning_fault_cost: u64,
    /// learning: purges that were measured
    pub learning_purge_samples: u64,
    /// learning: calls that made memory resident and were measured
    pub learning_fault_samples: u64,
    /// guard: one allocation in this many gets a guard slot; 0: none does
    pub guard_rate: u64,
    /// guard: guard slots for blocks of up to a page; an eighth as many more are for longer ones
    pub guard_slots: u64,
    /// guard: guard slots with a block in use
    pub guard_live: u64,
    /// guard: memory of those slots, in whole pages
    pub guard_live_bytes: u64,
    /// guard: guard slots whose block was freed: any access to one is an error that is caught
    pub guard_protected: u64,
    /// guard: time since the free of the block that is protected for longest
    pub guard_age_ms: u64,
    /// learning: how many times as dear as in the mode balanced memory is, rounded down; 0: cheaper
    pub learning_dearness: u64,
}

/// Counters of the whole process: `hakmem_stats_events_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Events {
    /// HAKMEM_STATS_VERSION of the library
    pub version: u64,
    /// number of bytes of this struct that the library fills
    pub filled: u64,
    /// Times a free list ran out and was refilled.
    pub refill: u64,
    /// Refills that carved new blocks from a span.
    pub carve: u64,
    /// New spans that heaps began, for blocks up to 32 KiB.
    pub slab_acquire: u64,
    /// Spans that heaps gave up.
    pub slab_release: u64,
    /// Spans that a heap took from a heap without a thread, instead of beginning a new one.
    pub slab_move: u64,
    /// Blocks freed by a thread that does not own them.
    pub remote_free: u64,
    /// Batches in which threads sent such blocks to their owners.
    pub remote_batch: u64,
    /// Remotely freed blocks that their owners collected.
    pub remote_drain: u64,
    /// Blocks above 32 KiB, up to 1 MiB, allocated.
    pub run_alloc: u64,
    /// Blocks above 32 KiB, up to 1 MiB, freed.
    pub run_free: u64,
    /// Such blocks that came from slabs that the heap had kept.
    pub run_reuse: u64,
    /// Large blocks allocated: above 1 MiB, in the hardened library above 32 KiB.
    pub large_alloc: u64,
    /// Large blocks that came from addresses that other large blocks had left.
    pub large_reuse: u64,
    /// Large blocks freed.
    pub large_free: u64,
    /// Reallocations of blocks above 32 KiB that moved nothing.
    pub realloc_in_place: u64,
    /// Dirty memory that was purged.
    pub purged: u64,
    /// Purged memory that was soon requested again (refaults): more may stay dirty then.
    pub refaulted: u64,
    /// Purges because a limit on memory was near.
    pub near_limit: u64,
    /// Times a thread had to take slabs of another memory node.
    pub numa_miss: u64,
    /// Heaps of another memory node that a thread adopted, because its own node had none.
    pub numa_adopt: u64,
    /// Memory for which huge pages were advised, and not refused.
    pub huge_asked: u64,
    /// Memory for which the system refused huge pages.
    pub huge_refused: u64,
    /// Free extents that a child of fork could not take over.
    pub fork_lost: u64,
    /// Requests that failed with ENOMEM.
    pub out_of_memory: u64,
    /// Invalid frees and damaged blocks that were detected.
    pub misuse: u64,
    /// Refills by remotely freed blocks that the owner collected.
    pub refill_remote: u64,
    /// Refills by free blocks of the heap's own spans.
    pub refill_used: u64,
    /// Refills that carved blocks from the bin's active span.
    pub refill_carve: u64,
    /// Refills for which the system had no memory.
    pub refill_failed: u64,
    /// New spans made of slabs that the heap had kept.
    pub slab_reuse: u64,
    /// New spans made of slabs that the heap had taken ahead.
    pub slab_reserve: u64,
    /// Times the lock of the heap pool was taken.
    pub lock_pool_take: u64,
    /// Times a thread had to wait for that lock.
    pub lock_pool_wait: u64,
    /// Times a lock of superslabs or extents was taken.
    pub lock_space_take: u64,
    /// Times a thread had to wait for such a lock.
    pub lock_space_wait: u64,
    /// Times the lock of the allocator's records was taken.
    pub lock_meta_take: u64,
    /// Times a thread had to wait for that lock.
    pub lock_meta_wait: u64,
    /// System calls that made, grew or moved mappings.
    pub system_call_map: u64,
    /// System calls that unmapped.
    pub system_call_unmap: u64,
    /// System calls that purged pages or gave other advice.
    pub system_call_advise: u64,
    /// All other system calls: queries, waits, clocks, files.
    pub system_call_other: u64,
    /// Memory that was purged lazily; purged at once later, it counts in `purged` too.
    pub purged_lazily: u64,
    /// Huge pages that took too much CPU time, so that the advice stopped for a while.
    pub huge_dear: u64,
    /// Memory made resident by one call for several pages, before the program touched it.
    pub prefault: u64,
    /// Blocks that were allocated in guard slots.
    pub guarded: u64,
    /// Blocks chosen for a guard slot for which none was free, or the system refused.
    pub guard_missed: u64,
    /// Memory errors that guard slots have caught.
    pub guard_found: u64,
    /// Times the lock of the freed guard slots was taken.
    pub lock_guard_take: u64,
    /// Times a thread had to wait for that lock.
    pub lock_guard_wait: u64,
    /// Of `purged`: while the process's resident memory rose above its highest so far.
    pub purged_at_peak: u64,
}

/// Figures of the blocks of a band of sizes: `hakmem_stats_band_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Band {
    /// 0 tiny, up to 1 KiB; 1 mid, up to 32 KiB; 2 run, up to 1 MiB; 3 large
    pub band: u64,
    /// blocks in use
    pub live_blocks: u64,
    /// bytes of the blocks in use
    pub live_bytes: u64,
    /// slabs of 64 KiB that the band has
    pub slabs: u64,
    /// resident bytes of those slabs
    pub resident: u64,
    /// bytes of the free blocks: carved and not in use
    pub free_bytes: u64,
    /// requested bytes of the blocks in use, estimated from the profile's samples
    pub requested_estimate: u64,
}

/// Figures of a size class: `hakmem_stats_class_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Class {
    /// size of its blocks
    pub bytes: u64,
    /// 0 tiny, 1 mid
    pub band: u64,
    /// spans whose blocks have this class
    pub spans: u64,
    /// slabs of 64 KiB in those spans
    pub slabs: u64,
    /// blocks in use
    pub live_blocks: u64,
    /// bytes of the blocks in use
    pub live_bytes: u64,
    /// free blocks: carved and not in use
    pub free_blocks: u64,
    /// bytes of the free blocks
    pub free_bytes: u64,
    /// resident bytes of its slabs
    pub resident: u64,
    /// spans of which at most an eighth is in use
    pub spans_nearly_empty: u64,
    /// requested bytes of the blocks in use, estimated from the profile's samples
    pub requested_estimate: u64,
}

/// Figures of a heap: `hakmem_stats_heap_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Heap {
    /// 0 attached to a thread, 1 idle, 2 orphan after a fork, 3 lost in a fork
    pub state: u64,
    /// memory node of the thread that attached it last
    pub node: u64,
    /// slabs in its spans
    pub slabs: u64,
    /// slabs that it keeps for its next blocks
    pub spare_slabs: u64,
    /// times a free list ran out and was refilled
    pub refill: u64,
    /// refills that carved new blocks
    pub carve: u64,
    /// new spans that it began
    pub slab_acquire: u64,
    /// spans that it gave up
    pub slab_release: u64,
    /// spans that it took from a heap without a thread
    pub slab_move: u64,
    /// blocks of other heaps that its thread freed
    pub remote_free: u64,
    /// its blocks that other threads freed and it collected
    pub remote_drain: u64,
    /// refills by remotely freed blocks that it collected
    pub refill_remote: u64,
    /// refills by free blocks of its own spans
    pub refill_used: u64,
    /// refills that carved blocks from the bin's active span
    pub refill_carve: u64,
    /// refills for which the system had no memory
    pub refill_failed: u64,
    /// new spans made of slabs that it had kept
    pub slab_reuse: u64,
    /// new spans made of slabs that it had taken ahead
    pub slab_reserve: u64,
    /// 1 for the first heap of the process, and so on: a heap keeps its number
    pub number: u64,
    /// blocks in use in its spans, by any thread; up to 32 KiB each
    pub live_blocks: u64,
    /// bytes of the blocks in use
    pub live_bytes: u64,
    /// free blocks in its spans: carved and not in use
    pub free_blocks: u64,
    /// bytes of the free blocks
    pub free_bytes: u64,
    /// resident bytes of its spans
    pub resident: u64,
    /// requested bytes of the blocks in use, estimated from the profile's samples
    pub requested_estimate: u64,
}
