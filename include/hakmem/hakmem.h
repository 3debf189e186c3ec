/* hakmem: a general-purpose memory allocator for Linux. The public C interface, for C99 and C++11 or later.
 *
 * Any thread may call any function here at any time after the program's first instruction: before `main`, in
 * destructors of ending threads, and in the child of `fork`. A signal handler that interrupted one of them may call
 * none but hakmem_describe.
 *
 * Sizes are in bytes. Blocks are aligned to 16 bytes at least. Requests above PTRDIFF_MAX fail with ENOMEM. A block
 * that one thread has allocated may be used, resized and freed by any thread.
 *
 * Linked or preloaded, the library also defines the C library's names (`malloc`, `free`, ...) and the C++ operators
 * `new` and `delete`. A program needs this header only for functions that the C library does not have. A build without
 * instruments (HK_INSTRUMENTS=OFF) lacks hakmem_describe, hakmem_tag_counts, hakmem_stats_... and
 * hakmem_profile_...; hakmem_malloc_info and hakmem_malloc_stats then tell no figures.
 */
#ifndef HAKMEM_HAKMEM_H
#define HAKMEM_HAKMEM_H

#include <malloc.h> /* struct mallinfo, struct mallinfo2 of glibc */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The version of this header; hakmem_version returns that of the library. */
#define HAKMEM_VERSION_MAJOR 0
#define HAKMEM_VERSION_MINOR 1
#define HAKMEM_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* For the declarations below: a name that the library exports, and a function that throws nothing. */
#define HAKMEM_EXPORT __attribute__((visibility("default")))
#if defined(__cplusplus)
#define HAKMEM_NOEXCEPT noexcept
#else
#define HAKMEM_NOEXCEPT
#endif

/* The function does not read the memory that the argument of this number points to: the compiler does not warn of a
 * block without contents. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
#define HAKMEM_READS_NOT(argument) __attribute__((access(none, argument)))
#else
#define HAKMEM_READS_NOT(argument)
#endif

/* ---- The C library's interface under hakmem's names: C23, POSIX 2024 and the glibc manual. ----------------------- */

/* Allocates a block of at least `size` bytes, whose contents are undefined. Size 0 gives a block of its own. Returns
 * NULL with errno ENOMEM when there is no memory. */
HAKMEM_EXPORT void *hakmem_malloc(size_t size) HAKMEM_NOEXCEPT;

/* Frees a block. Ignores NULL. Never changes errno. An address that is not the start of a live block is misuse, which
 * is reported: see HAKMEM_ON_MISUSE in docs/options.md, and docs/errors.md. */
HAKMEM_EXPORT void hakmem_free(void *block) HAKMEM_NOEXCEPT;

/* Allocates `count * size` bytes, all zero. Returns NULL with ENOMEM when there is no memory, or when the product
 * overflows. */
HAKMEM_EXPORT void *hakmem_calloc(size_t count, size_t size) HAKMEM_NOEXCEPT;

/* Changes a block's size, and moves the block where it must. The contents are kept up to the smaller size. `block`
 * NULL: allocates, as malloc. `size` 0: frees `block` and returns NULL, as glibc does, on musl too. Does not keep
 * an alignment above 16 bytes: see hakmem_aligned_realloc. Returns NULL with ENOMEM on failure; `block` then stays
 * valid. */
HAKMEM_EXPORT void *hakmem_realloc(void *block, size_t size) HAKMEM_NOEXCEPT;

/* The same for `count * size` bytes. Returns NULL with ENOMEM also when the product overflows; `block` then stays
 * valid. */
HAKMEM_EXPORT void *hakmem_reallocarray(void *block, size_t count, size_t size) HAKMEM_NOEXCEPT;

/* Stores an aligned block in `*out`. Requires that `alignment` is a power of two and a multiple of sizeof(void *).
 * Returns 0, EINVAL for another alignment, or ENOMEM. On failure `*out` is untouched. With ENOMEM errno is ENOMEM too,
 * as in glibc; otherwise errno is untouched. */
HAKMEM_EXPORT int hakmem_posix_memalign(void **out, size_t alignment, size_t size) HAKMEM_NOEXCEPT;

/* Allocates an aligned block. `size` need not be a multiple of `alignment` (C17 DR 460, C23). Returns NULL with EINVAL
 * when `alignment` is no power of two, and NULL with ENOMEM when there is no memory. */
HAKMEM_EXPORT void *hakmem_aligned_alloc(size_t alignment, size_t size) HAKMEM_NOEXCEPT;

/* The same, but rounds an alignment that is no power of two up to the next one, as glibc does. Returns NULL with EINVAL
 * when there is none. */
HAKMEM_EXPORT void *hakmem_memalign(size_t alignment, size_t size) HAKMEM_NOEXCEPT;

/* Allocates a block that is aligned to a page of the system; pvalloc also rounds the size up to whole pages. Returns
 * NULL with ENOMEM on failure. */
HAKMEM_EXPORT void *hakmem_valloc(size_t size) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT void *hakmem_pvalloc(size_t size) HAKMEM_NOEXCEPT;

/* Returns the usable bytes of a block: at least the requested bytes, and the same until the block is resized. Returns 0
 * for NULL, and for an address that is no live block, after the report of the misuse. */
HAKMEM_EXPORT size_t hakmem_malloc_usable_size(void *block) HAKMEM_NOEXCEPT;

/* C23's sized frees. Ignore NULL. Require the `size` of the request, and the second one its `alignment`; the first one
 * is for blocks that were requested without any. Only the hardened library checks this: a wrong size or alignment is
 * misuse there. */
HAKMEM_EXPORT void hakmem_free_sized(void *block, size_t size) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT void hakmem_free_aligned_sized(void *block, size_t alignment, size_t size) HAKMEM_NOEXCEPT;

/* An old name of free. */
HAKMEM_EXPORT void hakmem_cfree(void *block) HAKMEM_NOEXCEPT;

/* Purges dirty memory, as hakmem_collect, but keeps up to `pad` bytes for the next requests. Returns 1 when any memory
 * was given back to the system, else 0. */
HAKMEM_EXPORT int hakmem_malloc_trim(size_t pad) HAKMEM_NOEXCEPT;

#ifndef __GLIBC__ /* musl has neither struct */
struct mallinfo {
  int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif
/* Nor has glibc this one before 2.33. zig has the headers of a newer glibc for each, and the macro is in those. */
#if !defined(__GLIBC__) || (__GLIBC__ == 2 && __GLIBC_MINOR__ < 33 && !defined(__attr_dealloc))
struct mallinfo2 {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
#endif

/* Returns sums by glibc's names, in bytes but for counts. docs/stats.md says what each field means here. In the older
 * form each field saturates at INT_MAX. */
HAKMEM_EXPORT struct mallinfo hakmem_mallinfo(void) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT struct mallinfo2 hakmem_mallinfo2(void) HAKMEM_NOEXCEPT;

/* Writes the statistics as XML to `stream`. Returns 0, EINVAL when `options` is not 0, or EIO when the writing
 * fails. */
HAKMEM_EXPORT int hakmem_malloc_info(int options, FILE *stream) HAKMEM_NOEXCEPT;

/* Writes a readable summary of the statistics to stderr. */
HAKMEM_EXPORT void hakmem_malloc_stats(void) HAKMEM_NOEXCEPT;

/* Has no effect: glibc's parameters have no meaning here. Returns 1 for a parameter of glibc's, so that programs run
 * unchanged, else 0. */
HAKMEM_EXPORT int hakmem_mallopt(int parameter, int value) HAKMEM_NOEXCEPT;

/* ---- Functions that the C library does not have. ----------------------------------------------------------------- */

/* Allocate as calloc, and resize as realloc, a block with the alignment of aligned_alloc. A resize gives the block this
 * alignment, whatever it had. Return NULL with EINVAL when `alignment` is no power of two, else as calloc and
 * realloc. */
HAKMEM_EXPORT void *hakmem_aligned_calloc(size_t alignment, size_t count, size_t size) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT void *hakmem_aligned_realloc(void *block, size_t alignment, size_t size) HAKMEM_NOEXCEPT;

/* Returns the usable bytes of a block of `size` bytes: a request for them takes no more memory. Near a limit on
 * addresses a block above 32 KiB may have fewer. Returns `size` when it is so large that no block has as many. */
HAKMEM_EXPORT size_t hakmem_good_size(size_t size) HAKMEM_NOEXCEPT;

/* Returns whether `address` is the start of a block that hakmem has handed out and that, as far as can be seen, is
 * live. Takes any value: foreign, unmapped or NULL. Reads nothing outside hakmem's memory. */
HAKMEM_EXPORT bool hakmem_check_owned(const void *address) HAKMEM_NOEXCEPT HAKMEM_READS_NOT(1);

/* Describes any value as an address, in one line of English without a newline: the block that it lies in or behind,
 * whether that is live or free, its size and its owner (docs/pointers.md). Writes at most `bytes` bytes to `buffer`,
 * with the final zero, and returns the length of the whole line without it, as snprintf. `buffer` may be NULL when
 * `bytes` is 0. Takes no lock and allocates nothing, so any signal handler and a debugger may call it. */
HAKMEM_EXPORT size_t hakmem_describe(const void *address, char *buffer, size_t bytes) HAKMEM_NOEXCEPT
    HAKMEM_READS_NOT(1);

/* Collects remote frees, and purges all dirty memory: of the calling thread's heap, of heaps without a thread, and of
 * threads that sleep. Returns the bytes given back to the system. May open files of /proc. */
HAKMEM_EXPORT size_t hakmem_collect(void) HAKMEM_NOEXCEPT;

/* ---- Named heaps: the memory of a subsystem. --------------------------------------------------------------------- */

/* A heap of the program's own, with a name. Any thread may use any heap. hakmem_free and `free` take its blocks, and a
 * resize keeps them in their heap. A use of a heap after its end is misuse, and is reported unless a later heap has its
 * address. docs/heaps.md says what a heap costs. */
typedef struct hakmem_heap hakmem_heap_t;

/* Options of hakmem_heap_create. Fields are only ever added, at the end. Limits are in bytes, 0: none. They bound the
 * memory that the heap has: slabs of 64 KiB for blocks up to 32 KiB, and larger blocks. */
typedef struct {
  size_t size;       /* sizeof(hakmem_heap_options_t) as the caller knows it */
  size_t soft_limit; /* the heap's memory rises above it: `on_soft_limit` is called, and a counter goes up */
  size_t hard_limit; /* a request that would exceed it fails with ENOMEM */
  /* Called by the thread that allocates, after the request, with the heap's memory in bytes. It may use and free
   * memory, and may not destroy the heap or throw. NULL: no call. */
  void (*on_soft_limit)(hakmem_heap_t *heap, size_t bytes, void *context);
  void *context;    /* passed to `on_soft_limit` */
  int report_leaks; /* not 0: hakmem_heap_destroy reports on stderr the blocks and bytes in use */
} hakmem_heap_options_t;

/* Returns a new heap; NULL with ENOMEM when there is no memory, with EINVAL when `name` is NULL or `options->size` is
 * not set. The name is copied, up to 63 bytes. `options` may be NULL: no limits, no report. */
HAKMEM_EXPORT hakmem_heap_t *hakmem_heap_create(const char *name, const hakmem_heap_options_t *options) HAKMEM_NOEXCEPT;

/* Allocate a block of the heap, as the functions of the C library do, with the same results for size 0 and a wrong
 * alignment. Require a heap, and hakmem_heap_strdup a text. hakmem_heap_realloc resizes a block of this heap in it; a
 * block of another heap, or of none, moves to this one. Return NULL with ENOMEM also when a limit refuses; a block to
 * resize then stays valid. */
HAKMEM_EXPORT void *hakmem_heap_malloc(hakmem_heap_t *heap, size_t size) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT void *hakmem_heap_calloc(hakmem_heap_t *heap, size_t count, size_t size) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT void *hakmem_heap_realloc(hakmem_heap_t *heap, void *block, size_t size) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT void *hakmem_heap_aligned_alloc(hakmem_heap_t *heap, size_t alignment, size_t size) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT char *hakmem_heap_strdup(hakmem_heap_t *heap, const char *text) HAKMEM_NOEXCEPT;

/* Frees all blocks of the heap, and the heap. No thread may use the heap or one of its blocks at that time or later.
 * The time grows with the heap's memory, at one step for each 64 KiB and each block above 32 KiB, and not with the
 * number of smaller blocks. Ignores NULL. */
HAKMEM_EXPORT void hakmem_heap_destroy(hakmem_heap_t *heap) HAKMEM_NOEXCEPT;

/* Collects remote frees of the heap's blocks, and gives up its free memory in the parts of the calling thread and of
 * threads that have ended. Then purges all dirty memory of the process. Returns the bytes given back to the system.
 * Ignores NULL. */
HAKMEM_EXPORT size_t hakmem_heap_collect(hakmem_heap_t *heap) HAKMEM_NOEXCEPT;

/* Returns the heap that a live block belongs to; NULL for a block of none, and for an address that is no live block. */
HAKMEM_EXPORT hakmem_heap_t *hakmem_heap_of(const void *block) HAKMEM_NOEXCEPT HAKMEM_READS_NOT(1);

/* Returns the heap's name, which lives as long as the heap. Requires a heap. */
HAKMEM_EXPORT const char *hakmem_heap_name(const hakmem_heap_t *heap) HAKMEM_NOEXCEPT;

/* The figures of a heap or a tag. Fields are only ever added, at the end. */
typedef struct {
  uint64_t bytes;         /* memory that it has now: slabs, and larger blocks */
  uint64_t peak_bytes;    /* the highest `bytes` */
  uint64_t larger_bytes;  /* the part of `bytes` that blocks above 32 KiB have */
  uint64_t larger_blocks; /* blocks above 32 KiB */
  uint64_t soft_limit;    /* in bytes, as hard_limit; 0: none */
  uint64_t hard_limit;
  uint64_t soft_count;    /* times that `bytes` rose above soft_limit */
  uint64_t refused_count; /* times that hard_limit refused memory; one request may ask more than once */
} hakmem_heap_usage_t;

/* Stores the heap's figures in `*out`: exactly `size` bytes, which is sizeof(hakmem_heap_usage_t) as the caller knows
 * it. Fields that the library does not know are 0. Requires a heap and `out`. Reads a few counters. */
HAKMEM_EXPORT void hakmem_heap_usage(const hakmem_heap_t *heap, hakmem_heap_usage_t *out, size_t size) HAKMEM_NOEXCEPT;

/* ---- Tags: what a thread allocates for a purpose. ---------------------------------------------------------------- */

/* A tag lives as long as the process. */
typedef struct hakmem_tag hakmem_tag_t;

/* Returns the tag of that name, which the first call makes; NULL with ENOMEM when there is no memory, with EINVAL when
 * `name` is NULL. The name is copied, up to 63 bytes. */
HAKMEM_EXPORT hakmem_tag_t *hakmem_tag_create(const char *name) HAKMEM_NOEXCEPT;

/* Sets limits of the tag's memory, in bytes; 0: none. They act as soft_limit and hard_limit of hakmem_heap_options_t,
 * but there is no callback. Requires a tag. */
HAKMEM_EXPORT void hakmem_tag_limit(hakmem_tag_t *tag, size_t soft_limit, size_t hard_limit) HAKMEM_NOEXCEPT;

/* Charge what the calling thread allocates to the tag, from the push to its pop, by whichever function. Pushes nest:
 * the innermost tag is charged; a push while 32 others are in effect charges nothing of its own, and nor does a push of
 * NULL. Each needs its pop. A block stays charged until it is freed, by any thread, and keeps its tag when it is
 * resized. A block of no tag that moves when it is resized becomes one of the pushed tag; one above 1 MiB, whose pages
 * the kernel may move, may remain one of none. A pop without a push does nothing. A thread that ends pops its tags. */
HAKMEM_EXPORT void hakmem_tag_push(hakmem_tag_t *tag) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT void hakmem_tag_pop(void) HAKMEM_NOEXCEPT;

/* Ends the calling thread's innermost push of this tag, even when it has pushed others since, which stay. Ends a push
 * in effect first, and then one of those that charge nothing of their own. */
HAKMEM_EXPORT void hakmem_tag_remove(hakmem_tag_t *tag) HAKMEM_NOEXCEPT;

/* Returns the tag of a live block; NULL for a block of none, and for an address that is no live block. */
HAKMEM_EXPORT hakmem_tag_t *hakmem_tag_of(const void *block) HAKMEM_NOEXCEPT HAKMEM_READS_NOT(1);

/* As hakmem_heap_name and hakmem_heap_usage, for a tag. The name lives as long as the process. */
HAKMEM_EXPORT const char *hakmem_tag_name(const hakmem_tag_t *tag) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT void hakmem_tag_usage(const hakmem_tag_t *tag, hakmem_heap_usage_t *out, size_t size) HAKMEM_NOEXCEPT;

/* The blocks that threads allocated under a tag, and that any threads freed. Bytes are usable bytes. A resize that
 * moves a block allocates and frees; in place it counts the difference. Fields are only ever added, at the end. */
typedef struct {
  uint64_t allocated_blocks;
  uint64_t allocated_bytes;
  uint64_t freed_blocks;
  uint64_t freed_bytes;
  uint64_t live_blocks; /* allocated and not freed */
  uint64_t live_bytes;
} hakmem_tag_counts_t;

/* Stores the tag's counts in `*out`: exactly `size` bytes, as above. They are exact while no thread allocates or frees
 * under the tag, and too high where a filter refuses process_vm_readv. Requires a tag and `out`. Reads the allocator's
 * records of all memory. */
HAKMEM_EXPORT void hakmem_tag_counts(const hakmem_tag_t *tag, hakmem_tag_counts_t *out, size_t size) HAKMEM_NOEXCEPT;

/* ---- Statistics. ------------------------------------------------------------------------------------------------- */

/* The version is raised when a field changes its meaning. Fields are only ever added, at the end: a program may be
 * older or newer than its library. Sizes are in bytes, times in milliseconds. docs/stats.md says more. */
#define HAKMEM_STATS_VERSION 1

/* The number of bands, and the values of `band` in hakmem_stats_band_t and hakmem_stats_class_t. */
#define HAKMEM_STATS_BANDS 4
enum {
  HAKMEM_BAND_TINY,
  HAKMEM_BAND_MID,
  HAKMEM_BAND_RUN,
  HAKMEM_BAND_LARGE,
  HAKMEM_BAND_BIG = HAKMEM_BAND_LARGE /* its earlier name */
};

/* The values of `state` in hakmem_stats_heap_t. */
enum { HAKMEM_HEAP_ATTACHED, HAKMEM_HEAP_IDLE, HAKMEM_HEAP_ORPHAN, HAKMEM_HEAP_LOST };

/* generated by tools/generate_docs.py: begin */
/* clang-format off */
typedef struct {
  uint64_t version; /* HAKMEM_STATS_VERSION of the library */
  uint64_t filled; /* number of bytes of this struct that the library fills */
  uint64_t process_time_ms; /* process: time of this snapshot, since 1970 */
  uint64_t process_uptime_ms; /* process: since the allocator's start in this process */
  uint64_t process_page_bytes; /* process: size of a page */
  uint64_t memory_resident; /* memory: resident memory of the whole process, now; 0: unknown, in a root without /proc */
  uint64_t memory_peak; /* memory: highest resident memory of the whole process so far; 0: unknown */
  uint64_t memory_in_use; /* memory: address space of slabs that heaps and runs have */
  __extension__ union {
    uint64_t memory_dirty_slabs; /* memory: free slabs that may be resident, because they were not purged */
    uint64_t memory_idle; /* the earlier name of memory_dirty_slabs */
  };
  uint64_t memory_superslabs; /* memory: address space of superslabs */
  __extension__ union {
    /* memory: address space of large blocks: above 1 MiB, in the hardened library above 32 KiB */
    uint64_t memory_large_blocks;
    uint64_t memory_big_blocks; /* the earlier name of memory_large_blocks */
  };
  __extension__ union {
    uint64_t memory_large_cached; /* memory: address space of free extents */
    uint64_t memory_big_cached; /* the earlier name of memory_large_cached */
  };
  __extension__ union {
    uint64_t memory_large_dirty; /* memory: the part of the free extents that may be resident */
    uint64_t memory_big_idle; /* the earlier name of memory_large_dirty */
  };
  uint64_t memory_limit; /* memory: limit on memory, of an option or a control group; 0: none */
  uint64_t memory_records; /* memory: address space of the allocator's own records */
  uint64_t memory_mappings; /* memory: mappings of the whole process; the system allows vm.max_map_count */
  uint64_t memory_heaps; /* memory: heaps: at most one for each thread, adopted by later threads */
  uint64_t memory_heaps_idle; /* memory: heaps without a thread, which wait for one */
  uint64_t memory_heaps_lost; /* memory: heaps that other threads used when the process forked */
  uint64_t parts_live; /* parts: resident: blocks in use, and the ends of their slabs, where no further block fits */
  uint64_t parts_free_in_slabs; /* parts: resident: free blocks between blocks in use */
  uint64_t parts_uncarved; /* parts: resident: never used, such as the rest of huge pages, also in large blocks */
  uint64_t parts_kept_by_heaps; /* parts: resident: free slabs that heaps keep for their next blocks */
  __extension__ union {
    uint64_t parts_dirty_slabs; /* parts: resident: free slabs that no heap has */
    uint64_t parts_idle; /* the earlier name of parts_dirty_slabs */
  };
  __extension__ union {
    uint64_t parts_large_dirty; /* parts: resident: free extents */
    uint64_t parts_big_idle; /* the earlier name of parts_large_dirty */
  };
  uint64_t parts_metadata; /* parts: resident: the allocator's own records */
  uint64_t parts_not_malloc; /* parts: resident: all else, such as programs, libraries, stacks and files */
  uint64_t live_bytes; /* live: bytes of the blocks in use, resident or not */
  uint64_t live_blocks; /* live: blocks in use */
  __extension__ union {
    /* live: remotely freed blocks on their way to the owner, most of which count as in use until it collects them */
    uint64_t live_blocks_freed_remotely;
    uint64_t live_blocks_coming_home; /* the earlier name of live_blocks_freed_remotely */
  };
  /* live: spans whose blocks could not be examined: all that was carved counts as in use */
  uint64_t live_spans_estimated;
  uint64_t huge_superslabs; /* huge: superslabs that are a huge page, as far as is known */
  uint64_t learning_price; /* learning: price of a MiB that is resident for a second, in ns of CPU time */
  /* learning: time for which keeping memory costs as much as purging it and faulting it in again */
  uint64_t learning_break_even_ms;
  /* learning: time after which dirty memory is purged where a purge thread runs; until the learner is frozen other
   * time-outs have a share too */
  uint64_t learning_timeout_ms;
  uint64_t learning_epochs; /* learning: epochs with a stake */
  /* memory: address space that waits for the next blocks: free slabs, of heaps or of none, and free extents */
  uint64_t memory_cached;
  uint64_t memory_dirty; /* memory: the part of `cached` that is resident since its last use: it can be purged */
  /* memory: the part of `cached` that is not resident: its memory went back to the system, or was never used */
  uint64_t memory_purged;
  uint64_t huge_excess; /* huge: resident because a page is huge or prefaulted, and never used (partly estimated) */
  /* live: requested bytes of the blocks in use, estimated from the profile's samples */
  uint64_t live_requested_estimate;
  uint64_t live_inside_estimate; /* live: bytes of the blocks in use beyond the requested ones */
  uint64_t live_allocated_estimate; /* live: blocks allocated while a profile ran, estimated from its samples */
  uint64_t live_freed_estimate; /* live: those of them that were freed since, by any thread */
  /* memory: free slabs that were purged lazily, resident or not: the system takes them when it is short of memory */
  uint64_t memory_lazy;
  uint64_t parts_lazy; /* parts: resident: free slabs that were purged lazily and that the system has not taken yet */
  /* learning: CPU time that purging a MiB takes here, in ns; assumed until five calls were measured */
  uint64_t learning_purge_cost;
  uint64_t learning_fault_cost; /* learning: CPU time that faulting a MiB in takes here, in ns, as above */
  uint64_t learning_purge_samples; /* learning: purges that were measured */
  uint64_t learning_fault_samples; /* learning: calls that made memory resident and were measured */
  uint64_t guard_rate; /* guard: one allocation in this many gets a guard slot; 0: none does */
  uint64_t guard_slots; /* guard: guard slots for blocks of up to a page; an eighth as many more are for longer ones */
  uint64_t guard_live; /* guard: guard slots with a block in use */
  uint64_t guard_live_bytes; /* guard: memory of those slots, in whole pages */
  uint64_t guard_protected; /* guard: guard slots whose block was freed: any access to one is an error that is caught */
  uint64_t guard_age_ms; /* guard: time since the free of the block that is protected for longest */
  /* learning: how many times as dear as in the mode balanced memory is, rounded down; 0: cheaper */
  uint64_t learning_dearness;
} hakmem_stats_t;

typedef struct {
  uint64_t version; /* HAKMEM_STATS_VERSION of the library */
  uint64_t filled; /* number of bytes of this struct that the library fills */
  uint64_t refill; /* Times a free list ran out and was refilled. */
  uint64_t carve; /* Refills that carved new blocks from a span. */
  uint64_t slab_acquire; /* New spans that heaps began, for blocks up to 32 KiB. */
  uint64_t slab_release; /* Spans that heaps gave up. */
  uint64_t slab_move; /* Spans that a heap took from a heap without a thread, instead of beginning a new one. */
  uint64_t remote_free; /* Blocks freed by a thread that does not own them. */
  uint64_t remote_batch; /* Batches in which threads sent such blocks to their owners. */
  uint64_t remote_drain; /* Remotely freed blocks that their owners collected. */
  uint64_t run_alloc; /* Blocks above 32 KiB, up to 1 MiB, allocated. */
  uint64_t run_free; /* Blocks above 32 KiB, up to 1 MiB, freed. */
  uint64_t run_reuse; /* Such blocks that came from slabs that the heap had kept. */
  __extension__ union {
    uint64_t large_alloc; /* Large blocks allocated: above 1 MiB, in the hardened library above 32 KiB. */
    uint64_t big_alloc; /* the earlier name of large_alloc */
  };
  __extension__ union {
    uint64_t large_reuse; /* Large blocks that came from addresses that other large blocks had left. */
    uint64_t big_reuse; /* the earlier name of large_reuse */
  };
  __extension__ union {
    uint64_t large_free; /* Large blocks freed. */
    uint64_t big_free; /* the earlier name of large_free */
  };
  uint64_t realloc_in_place; /* Reallocations of blocks above 32 KiB that moved nothing. */
  __extension__ union {
    uint64_t purged; /* Dirty memory that was purged. */
    uint64_t given_back; /* the earlier name of purged */
  };
  __extension__ union {
    uint64_t refaulted; /* Purged memory that was soon requested again (refaults): more may stay dirty then. */
    uint64_t wanted_again; /* the earlier name of refaulted */
  };
  uint64_t near_limit; /* Purges because a limit on memory was near. */
  uint64_t numa_miss; /* Times a thread had to take slabs of another memory node. */
  uint64_t numa_adopt; /* Heaps of another memory node that a thread adopted, because its own node had none. */
  uint64_t huge_asked; /* Memory for which huge pages were advised, and not refused. */
  uint64_t huge_refused; /* Memory for which the system refused huge pages. */
  uint64_t fork_lost; /* Free extents that a child of fork could not take over. */
  uint64_t out_of_memory; /* Requests that failed with ENOMEM. */
  uint64_t misuse; /* Invalid frees and damaged blocks that were detected. */
  __extension__ union {
    uint64_t refill_remote; /* Refills by remotely freed blocks that the owner collected. */
    uint64_t refill_home; /* the earlier name of refill_remote */
  };
  uint64_t refill_used; /* Refills by free blocks of the heap's own spans. */
  __extension__ union {
    uint64_t refill_carve; /* Refills that carved blocks from the bin's active span. */
    uint64_t refill_cut; /* the earlier name of refill_carve */
  };
  uint64_t refill_failed; /* Refills for which the system had no memory. */
  uint64_t slab_reuse; /* New spans made of slabs that the heap had kept. */
  uint64_t slab_reserve; /* New spans made of slabs that the heap had taken ahead. */
  uint64_t lock_pool_take; /* Times the lock of the heap pool was taken. */
  uint64_t lock_pool_wait; /* Times a thread had to wait for that lock. */
  uint64_t lock_space_take; /* Times a lock of superslabs or extents was taken. */
  uint64_t lock_space_wait; /* Times a thread had to wait for such a lock. */
  uint64_t lock_meta_take; /* Times the lock of the allocator's records was taken. */
  uint64_t lock_meta_wait; /* Times a thread had to wait for that lock. */
  uint64_t system_call_map; /* System calls that made, grew or moved mappings. */
  uint64_t system_call_unmap; /* System calls that unmapped. */
  uint64_t system_call_advise; /* System calls that purged pages or gave other advice. */
  uint64_t system_call_other; /* All other system calls: queries, waits, clocks, files. */
  __extension__ union {
    uint64_t purged_lazily; /* Memory that was purged lazily; purged at once later, it counts in `purged` too. */
    uint64_t given_back_lazily; /* the earlier name of purged_lazily */
  };
  uint64_t huge_dear; /* Huge pages that took too much CPU time, so that the advice stopped for a while. */
  uint64_t prefault; /* Memory made resident by one call for several pages, before the program touched it. */
  uint64_t guarded; /* Blocks that were allocated in guard slots. */
  uint64_t guard_missed; /* Blocks chosen for a guard slot for which none was free, or the system refused. */
  uint64_t guard_found; /* Memory errors that guard slots have caught. */
  uint64_t lock_guard_take; /* Times the lock of the freed guard slots was taken. */
  uint64_t lock_guard_wait; /* Times a thread had to wait for that lock. */
  uint64_t purged_at_peak; /* Of `purged`: while the process's resident memory rose above its highest so far. */
} hakmem_stats_events_t;

typedef struct {
  uint64_t band; /* 0 tiny, up to 1 KiB; 1 mid, up to 32 KiB; 2 run, up to 1 MiB; 3 large */
  uint64_t live_blocks; /* blocks in use */
  uint64_t live_bytes; /* bytes of the blocks in use */
  uint64_t slabs; /* slabs of 64 KiB that the band has */
  uint64_t resident; /* resident bytes of those slabs */
  uint64_t free_bytes; /* bytes of the free blocks: carved and not in use */
  uint64_t requested_estimate; /* requested bytes of the blocks in use, estimated from the profile's samples */
} hakmem_stats_band_t;

typedef struct {
  uint64_t bytes; /* size of its blocks */
  uint64_t band; /* 0 tiny, 1 mid */
  uint64_t spans; /* spans whose blocks have this class */
  uint64_t slabs; /* slabs of 64 KiB in those spans */
  uint64_t live_blocks; /* blocks in use */
  uint64_t live_bytes; /* bytes of the blocks in use */
  uint64_t free_blocks; /* free blocks: carved and not in use */
  uint64_t free_bytes; /* bytes of the free blocks */
  uint64_t resident; /* resident bytes of its slabs */
  uint64_t spans_nearly_empty; /* spans of which at most an eighth is in use */
  uint64_t requested_estimate; /* requested bytes of the blocks in use, estimated from the profile's samples */
} hakmem_stats_class_t;

typedef struct {
  uint64_t state; /* 0 attached to a thread, 1 idle, 2 orphan after a fork, 3 lost in a fork */
  uint64_t node; /* memory node of the thread that attached it last */
  uint64_t slabs; /* slabs in its spans */
  uint64_t spare_slabs; /* slabs that it keeps for its next blocks */
  uint64_t refill; /* times a free list ran out and was refilled */
  uint64_t carve; /* refills that carved new blocks */
  uint64_t slab_acquire; /* new spans that it began */
  uint64_t slab_release; /* spans that it gave up */
  uint64_t slab_move; /* spans that it took from a heap without a thread */
  uint64_t remote_free; /* blocks of other heaps that its thread freed */
  uint64_t remote_drain; /* its blocks that other threads freed and it collected */
  __extension__ union {
    uint64_t refill_remote; /* refills by remotely freed blocks that it collected */
    uint64_t refill_home; /* the earlier name of refill_remote */
  };
  uint64_t refill_used; /* refills by free blocks of its own spans */
  __extension__ union {
    uint64_t refill_carve; /* refills that carved blocks from the bin's active span */
    uint64_t refill_cut; /* the earlier name of refill_carve */
  };
  uint64_t refill_failed; /* refills for which the system had no memory */
  uint64_t slab_reuse; /* new spans made of slabs that it had kept */
  uint64_t slab_reserve; /* new spans made of slabs that it had taken ahead */
  uint64_t number; /* 1 for the first heap of the process, and so on: a heap keeps its number */
  uint64_t live_blocks; /* blocks in use in its spans, by any thread; up to 32 KiB each */
  uint64_t live_bytes; /* bytes of the blocks in use */
  uint64_t free_blocks; /* free blocks in its spans: carved and not in use */
  uint64_t free_bytes; /* bytes of the free blocks */
  uint64_t resident; /* resident bytes of its spans */
  uint64_t requested_estimate; /* requested bytes of the blocks in use, estimated from the profile's samples */
} hakmem_stats_heap_t;
/* clang-format on */
/* generated: end */

/* Stores the figures of the whole process in `*out`. `size` is sizeof(hakmem_stats_t) as the caller knows it: exactly
 * `size` bytes are written, and fields that the library does not know are 0. Returns 0, EINVAL when `out` is NULL or
 * `size` has no room for `version` and `filled`, or ENOMEM. On failure `*out` is untouched. errno is untouched always.
 * Looks at all memory: some ms for 10 GiB. Needs 12 KiB of stack. */
HAKMEM_EXPORT int hakmem_stats_get(hakmem_stats_t *out, size_t size) HAKMEM_NOEXCEPT;

/* The same for the counters. Looks at nothing but the counters, and needs no memory: ENOMEM is not returned. */
HAKMEM_EXPORT int hakmem_stats_get_events(hakmem_stats_events_t *out, size_t size) HAKMEM_NOEXCEPT;

/* Store the bands, the size classes that have spans, and the heaps, oldest first, in the array `out`. `*count` is the
 * array's length in elements on entry, and the number of existing elements on return. Elements without room are left
 * out. `size` is the size of an element as the caller knows it. Return 0, EINVAL when `count` is NULL, `size` is less
 * than 8, or `out` is NULL and `*count` is not 0, or ENOMEM. On failure nothing is written. Need 12 KiB of stack. */
HAKMEM_EXPORT int hakmem_stats_get_bands(hakmem_stats_band_t *out, size_t size, size_t *count) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT int hakmem_stats_get_classes(hakmem_stats_class_t *out, size_t size, size_t *count) HAKMEM_NOEXCEPT;
HAKMEM_EXPORT int hakmem_stats_get_heaps(hakmem_stats_heap_t *out, size_t size, size_t *count) HAKMEM_NOEXCEPT;

/* ---- The heap profile. ------------------------------------------------------------------------------------------- */

/* Starts the heap profile: from now on blocks are sampled with their call stacks, with an average of `rate` bytes
 * between samples. 0 means HAKMEM_PROFILE_RATE; more than 4 GiB counts as 4 GiB. The calling thread follows at once.
 * Another thread follows at its next call; for blocks of a named heap, while a tag is pushed, and under a system call
 * filter at its next slow path. Returns false when the profile runs already, and in libhakmem-fast.so, which has none
 * and says so on stderr. */
HAKMEM_EXPORT bool hakmem_profile_start(size_t rate) HAKMEM_NOEXCEPT;

/* Stops the heap profile. Samples stay known until their blocks are freed. Returns false when no profile runs. */
HAKMEM_EXPORT bool hakmem_profile_stop(void) HAKMEM_NOEXCEPT;

/* Returns "MAJOR.MINOR.PATCH", a string constant. */
HAKMEM_EXPORT const char *hakmem_version(void) HAKMEM_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* HAKMEM_HAKMEM_H */
