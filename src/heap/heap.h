/* heap/heap.h - L4. A heap: one thread's bins and what belongs to them. A heap outlives its thread: it keeps its slabs,
 * and the next thread that needs a heap adopts it whole.
 *
 * At most one thread has a heap at a time. Other threads write only `shared`, `drain`, `quiet` and `attachment`, by the
 * protocols of docs/concurrency.md. They read these, the other atomic fields and `stat`. The end of a named heap takes
 * its parts from their threads: it clears part.thread_variable and part.of_thread.
 *
 * Invariants of a heap, between slow paths (heap_check.h checks them):
 *
 * - span_slabs - drained_slabs is the number of slabs whose owner is the heap.
 * - spare_slabs is the number of slabs in the spare lists, sparse.kept that of the kept sparse runs. All of them are
 *   free and have no owner.
 * - The bin of a tiny class has only blocks of its active span, at most as many as were carved; without an active span
 *   it has none.
 * - The bin of a mid class that is not metered: the length of its list + its countdown = its room, above 0.
 * - A span that is not a tiny class's active one has a block in use, or no carved block.
 * - The outbox and the closed bins of a heap that is given back are empty.
 */
#ifndef HK_HEAP_HEAP_H
#define HK_HEAP_HEAP_H

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/list.h"
#include "base/panic.h"
#include "base/walk.h"
#include "heap/attachment.h"
#include "heap/bin.h"
#include "heap/class_set.h"
#include "heap/quarantine.h"
#include "heap/sparse_run.h"
#include "policy/sampling.h"
#include "policy/size_class.h"
#include "policy/stat.h"
#include "space/run.h"
#include "space/slab.h"

struct hk_part_table;
typedef struct hk_named hk_named_t;

/* The state that a bin needs on its slow path. */
typedef struct {
  /* The span that the bin allocates from, whose frees come straight to the bin. Other threads read it:
   * purge_drain.h. */
  _Atomic(hk_slab_t *) active;
  hk_list_t partial;    /* spans worth allocating from, through link; not initialised before the first span */
  uint16_t carve_count; /* the most blocks to carve next time; 0 before the first time */
  uint16_t room;        /* mid: the most blocks that the bin's list may have */
  uint8_t spilled;      /* mid: blocks spilled from a full list since it last ran out; UINT8_MAX: that many or more */
  uint8_t guests : 7;   /* tiny: requests that a coarse class served instead */
  bool carved_zero : 1; /* mid: the last refill carved memory known to be zero */
} hk_bin_state_t;

/* A batch: blocks of one other heap that are sent together. */
typedef struct {
  hk_heap_t *owner; /* NULL: the batch is empty */
  hk_block_t *first;
  hk_block_t *last;
  ptrdiff_t left_bytes; /* the weight that the batch may still take: remote.h */
} hk_batch_t;

/* The additional state of a bin, and of a heap, while the heap is sampled: sample_countdown.h. */
typedef struct {
  uint32_t until;        /* blocks until the next sample, beyond those in a closed bin */
  uint32_t start_length; /* the length of the effective free list when its countdown was last set */
  _Atomic(bool) is_open; /* frees go to the bin */
  uint8_t shift;         /* of the rate that `until` was drawn with (policy/sampling.h) */
  uint16_t interval;     /* mid: frees from one count of the list to the next (mid.h) */
  uint32_t start;        /* mid: the countdown's value when it was last set */
  /* `drawn` - `until` is the number of blocks that the class has given to requests, but for those of its bin: a closed
   * bin's blocks count already; those that an open one has given since its countdown was last set do not. */
  uint64_t drawn;
  uint64_t weight_q16; /* of a sample of the class at that shift; 0: not computed yet */
} hk_sample_countdown_t;
typedef struct {
  /* [class]: the effective free list of a closed bin. Of a mid class: the blocks that are set aside, and in the
   * countdown their number. */
  hk_free_list_t shadow[HK_CLASS_COUNT];
  hk_sample_countdown_t of[HK_CLASS_COUNT];
  hk_sampling_pace_t pace;
  uint64_t large_until;       /* bytes of larger blocks until the next sample */
  uint64_t guard_rate;        /* the hk_sampling_guard_rate that the heap follows; 0: no guards */
  uint64_t large_guard_until; /* larger blocks until the next guarded one */
  uint64_t random;
} hk_sample_countdowns_t;

/* Of start_length: not known. Of until: not drawn yet. */
#define HK_COUNTDOWN_UNKNOWN UINT32_MAX

/* No metered bin's list has as many blocks: mid.c asserts it. */
#define HK_METERED_MAX_BLOCKS 1024

/* Which bins are idle: idle_bin.h. */
typedef struct {
  /* Bins that may be flushed: those that were refilled. A flush takes a tiny class's bin out. It comes back at its next
   * refill, or when as many blocks have come back as were in use at the flush. */
  hk_class_set_t candidates;
  hk_class_set_t refilled; /* since the last look */
  uint8_t hand;            /* the class whose bin was flushed last */
  uint8_t refill_count;    /* refills that have not paid for a flush, up to 255 */
  uint32_t most_slabs;     /* of the heap's spans and spare rows at a growth that no idle bin served */
} hk_idle_bins_t;

/* Chosen: the batches of a heap. Where two owners have the same place, the batch for one is sent when the other gets
 * a block. */
#define HK_OUTBOX_SHIFT 4
#define HK_OUTBOX_PLACES (1u << HK_OUTBOX_SHIFT)

/* Chosen: how many blocks further on a block's jump pointer leads, remote.c (measured:
 * docs/experiments/2026-11-20-remote-free-batches.md). */
#define HK_JUMP_BLOCKS 8

typedef enum {
  hk_heap_attached, /* a thread has it */
  hk_heap_idle,     /* in the pool; a part: without a thread */
  hk_heap_orphan,   /* attached when the process forked, and not yet assigned to a thread of the child */
  hk_heap_lost,     /* its thread vanished in a fork during a slow path: never touched again */
  hk_heap_unused    /* a part of a named heap that was destroyed: it has no memory, and becomes another heap's part */
} hk_heap_life_t;

struct hk_heap {
  hk_free_list_t bin[HK_CLASS_COUNT]; /* first: hk_heap_tiny_bin relies on it */
  hk_bin_state_t state[HK_CLASS_COUNT];
  _Atomic(hk_free_list_t *) effective_lists; /* `bin`, or countdowns->shadow while sampled: hk_heap_effective_list */
  hk_sample_countdowns_t *countdowns;        /* NULL until the heap is first sampled; never given back */
  uint64_t sampling_state;                   /* the hk_sampling_state that it follows */
  hk_batch_t outbox[HK_OUTBOX_PLACES];       /* direct-mapped by owner */
  _Atomic(uint32_t) batch_count;             /* in the outbox; the thread that has the heap writes it */
  hk_block_t *recent[HK_JUMP_BLOCKS];        /* a ring of the blocks of other heaps that were freed last */
  _Atomic(uint32_t) span_slabs;              /* in the spans that the heap owns, with shared.drained_slabs */
  _Atomic(uint32_t) spare_slabs;             /* in all lists of `spare` */
  hk_list_t spare[HK_RUN_MAX_SLABS];         /* [i]: rows of i + 1 free slabs, through link; last freed first */
  hk_sparse_t sparse;                        /* spare runs of which few pages are resident; apart from `spare` */
  uint32_t spare_overflows;                  /* times that there was no room for a row: spare.c */
  hk_slab_t *reserve;                        /* a row of untouched slabs for spans; NULL: none */
  bool is_visited;                           /* a thread that may have another heap too drains this one: remote.c */
  bool has_sent_to_idle;                     /* while `is_visited`: the drain has sent blocks to an idle heap */
  hk_idle_bins_t idle_bins;
  bool is_short;            /* no span has pages to give up behind its carved blocks: heap_flush.c */
  uint64_t shortened_ms;    /* when its spans were last shortened (api/process_purge.c); 0: never */
  _Atomic(bool) is_busy;    /* a slow path is under way: a child of fork may find the heap half changed */
  _Atomic(uint8_t) life;    /* hk_heap_life_t; written by the thread that has the heap or is about to */
  _Atomic(bool) is_flushed; /* an idle heap keeps nothing that it can give back (api/process_purge.c); until taken */
  /* Shard of the thread that took the heap last, and of most slabs of the heap. An idle heap is in a slot of its
   * shard, or in none. */
  _Atomic(uint8_t) shard;
  /* Bit i: the heap had free blocks of class i, or room for some, when it became idle. */
  _Atomic(uint64_t) offer[HK_CLASS_SET_WORDS];
  /* A damaged block that a drain or a spill met, until the caller reports it. */
  hk_block_t *damaged;
  hk_list_t pool_link; /* in the pool's list beyond the slots: guarded by hk_lock_heap_pool */
  hk_stat_set_t stat;
  struct {                                         /* of a part (named.h) */
    _Atomic(hk_named_t *) named;                   /* NULL: the heap is no part */
    _Atomic(hk_heap_variable_t *) thread_variable; /* hk_thread_heap of the thread that has the part; NULL: none */
    struct hk_heap *next;                          /* in named->parts; constant while the named heap lives */
    hk_list_t spans;                               /* every span of the part, through part_link */
    hk_list_t of_thread; /* in the thread's table of parts; guarded by hk_lock_heap_pool, as is `table` */
    struct hk_part_table *table;
  } part;
  /* Written once. Other threads read these two at each growth, so no field that the owner often writes is near. */
  struct hk_heap *all_next;
  _Atomic(uint32_t) number; /* 1 for the first heap, 2 for the next; 0: the reader does not see it yet */
#if HK_DEBUG
  hk_walk_t walk; /* over the whole heap */
#endif
  struct {                /* the purge thread's */
    hk_block_t *put_back; /* the first block of `incoming` when the purge thread had seen all of it; NULL: it has not */
    uint64_t drains;      /* the count of slow paths that drain, when the purge thread saw that blocks wait */
    uint64_t since_ms;    /* when it saw that, or when the wait may begin again; 0: never */
  } drain;
  hk_attachment_t attachment; /* to its thread */
  struct {                    /* hints about quiet threads: detach.c */
    _Atomic(uint64_t) slow_paths;
    _Atomic(uint64_t) since_ms; /* when slow_paths was first seen; 0: never */
  } quiet;
  struct {
    /* Blocks of this heap's spans that other threads freed. They push chains; the owner or the purge thread takes the
     * whole list. */
    alignas(HK_CACHE_LINE_BYTES) _Atomic(hk_block_t *) incoming;
    _Atomic(uint32_t) drained_slabs; /* released by the purge thread, and still in `span_slabs` */
    _Atomic(uint32_t) waiting;       /* about how many KiB `incoming` has: remote.h */
    _Atomic(bool) is_claimed;        /* by a thread that uses the spans' descriptors: hk_heap_claim_spans */
  } shared;
};

static_assert(offsetof(struct hk_heap, bin) == 0, "the fast path relies on it");

/* The heap of a thread that has none: every bin is exhausted, and none is ever written. It has only bins: code that
 * reads another field compares with HK_EMPTY_HEAP first. */
typedef struct {
  hk_free_list_t bin[HK_CLASS_COUNT];
} hk_empty_heap_t;
extern HK_HIDDEN const hk_empty_heap_t hk_empty_heap;
#define HK_EMPTY_HEAP ((hk_heap_t *)&hk_empty_heap)

/* Return the bin of a heap that serves a request. Up to HK_TINY_MAX_BYTES its offset is the size rounded up, since a
 * class is 16 bytes wide and a bin is 16 bytes long. A heap's address is a multiple of 16, so the sum may be rounded
 * instead of the size. */
HK_INLINE hk_free_list_t *hk_heap_tiny_bin(hk_heap_t *heap, size_t size) {
  static_assert(sizeof(hk_free_list_t) == HK_BLOCK_ALIGNMENT, "a bin's offset is its class's size");
  static_assert(alignof(hk_heap_t) % HK_BLOCK_ALIGNMENT == 0, "a heap's address adds nothing to the rounding");
  return (hk_free_list_t *)(((uintptr_t)heap + size + HK_BLOCK_ALIGNMENT - 1) & ~(uintptr_t)(HK_BLOCK_ALIGNMENT - 1));
}
HK_INLINE hk_free_list_t *hk_heap_mid_bin(hk_heap_t *heap, size_t size) { return &heap->bin[hk_class_of_mid(size)]; }

/* Returns the class's effective free list: its bin, or the shadow list while sampling holds the bin closed. The frees
 * of the class's active span (of a mid class: of all spans) go there. Blocks in a closed bin count as handed out. */
HK_INLINE hk_free_list_t *hk_heap_effective_list(const hk_heap_t *heap, unsigned class_index) {
  hk_heap_t *object = (hk_heap_t *)heap;
  hk_free_list_t *list = hk_load_relaxed(&object->effective_lists);
  if (HK_LIKELY(list == heap->bin) || hk_load_relaxed(&object->countdowns->of[class_index].is_open)) list = object->bin;
  return &list[class_index];
}

HK_INLINE bool hk_heap_is_sampled(const hk_heap_t *heap) {
  return hk_load_relaxed(&((hk_heap_t *)heap)->effective_lists) != heap->bin;
}

/* Returns whether the block that was popped right after a refill is zero behind its first 16 bytes. */
HK_INLINE bool hk_heap_was_fresh(const hk_heap_t *heap, unsigned class_index) {
  if (!hk_class_is_mid(class_index)) return hk_bin_is_fresh(&heap->bin[class_index]);
  return heap != HK_EMPTY_HEAP && heap->state[class_index].carved_zero;
}

/* Notes that a tiny class's effective free list has `length` blocks now, or an unknown number. From then on its
 * countdown tells how many blocks came back. Does nothing for a heap that is not sampled. */
HK_INLINE void hk_heap_note_length(hk_heap_t *heap, unsigned class_index, uint32_t length) {
  if (HK_LIKELY(!hk_heap_is_sampled(heap))) return;
  heap->countdowns->of[class_index].start_length = length;
  hk_free_list_t *list = hk_heap_effective_list(heap, class_index);
  list->start = list->countdown;
}

/* Returns start_length plus the blocks that came back since: what a closed bin's effective free list has, and what an
 * open bin has and has given. Requires that start_length is known. The second function is for a metered bin. */
HK_INLINE uint32_t hk_heap_list_sum(const hk_sample_countdown_t *countdown, const hk_free_list_t *list) {
  return countdown->start_length + (list->start - list->countdown);
}
HK_INLINE uint32_t hk_heap_metered_sum(const hk_sample_countdown_t *countdown, const hk_free_list_t *bin) {
  return countdown->start_length + (countdown->start - bin->countdown);
}

/* Replaces the blocks until the next sample. What `drawn` and `until` count together stays. */
HK_INLINE void hk_heap_set_until(hk_sample_countdown_t *countdown, uint32_t until) {
  countdown->drawn += (uint64_t)until - countdown->until;
  countdown->until = until;
}

/* Counts blocks that a class has given to requests. */
HK_INLINE void hk_heap_count_given(hk_sample_countdown_t *countdown, uint32_t given) {
  if (HK_LIKELY(given <= countdown->until)) {
    countdown->until -= given;
  } else {
    countdown->drawn += given - countdown->until;
    countdown->until = 0;
  }
}

/* Counts the blocks that an open bin has given since its countdown was last set; it has `length` now. For a caller that
 * takes its list. Does nothing for a heap that is not sampled. */
void hk_heap_note_given_slow(hk_heap_t *heap, unsigned class_index, uint32_t length);
HK_INLINE void hk_heap_note_given(hk_heap_t *heap, unsigned class_index, uint32_t length) {
  if (HK_UNLIKELY(hk_heap_is_sampled(heap))) hk_heap_note_given_slow(heap, class_index, length);
}

/* Claims the heap's spans, and ends the claim. Keeps the heap's thread, which goes through its spans' descriptors,
 * apart from the purge thread, which retires some of them. Returns false while another thread has the claim: the caller
 * postpones its work. */
HK_INLINE bool hk_heap_claim_spans(hk_heap_t *heap) {
  bool expected = false;
  return hk_compare_exchange_acquire(&heap->shared.is_claimed, &expected, true);
}
HK_INLINE void hk_heap_unclaim_spans(hk_heap_t *heap) { hk_store_release(&heap->shared.is_claimed, false); }

/* Mark a slow path, for a child of a fork in another thread. Not nested. */
HK_INLINE void hk_heap_enter(hk_heap_t *heap) {
  hk_store_relaxed(&heap->is_busy, true);
  hk_keep_store_order();
}
HK_INLINE void hk_heap_leave(hk_heap_t *heap) {
  hk_keep_store_order();
  hk_store_relaxed(&heap->is_busy, false);
}

/* Returns the named heap or tag that the heap is a part of; NULL: none. Any thread. */
HK_INLINE hk_named_t *hk_heap_named(const hk_heap_t *heap) { return hk_load_relaxed(&((hk_heap_t *)heap)->part.named); }

/* Returns whether the heap is a part of a named heap or tag. Any thread, any heap. */
HK_INLINE bool hk_heap_is_part(const hk_heap_t *heap) { return heap != HK_EMPTY_HEAP && hk_heap_named(heap) != NULL; }

/* Returns how many free slabs the heap keeps, sparse runs among them, at some moment of the call. Any thread. */
HK_INLINE size_t hk_heap_spare_slabs(hk_heap_t *heap) {
  return hk_load_relaxed(&heap->spare_slabs) + hk_load_relaxed(&heap->sparse.kept.slabs);
}

/* Returns whether blocks that other threads freed wait in `incoming`, at some moment of the call. Any thread. */
HK_INLINE bool hk_heap_has_incoming(hk_heap_t *heap) { return hk_load_relaxed(&heap->shared.incoming) != HK_LIST_END; }

/* Returns the quarantine of a heap of a hardened build, which lies behind the heap. */
HK_INLINE hk_quarantine_t *hk_heap_quarantine(hk_heap_t *heap) { return (hk_quarantine_t *)(heap + 1); }

typedef enum { hk_heap_own, hk_heap_part } hk_heap_kind_t; /* a thread's own heap, or a part (part.h) */

/* Returns a new heap, attached; NULL when the system refuses. Notes for os/shard.h how many threads have their own, so
 * hk_shard_current was called before. */
hk_heap_t *hk_heap_create(hk_heap_kind_t kind);

/* Resets a heap that has given up all its memory to the state of a new one. Its place in hk_heap_first stays. */
void hk_heap_reset(hk_heap_t *heap);

/* Returns the newest heap; the others follow through all_next. Heaps never go away. */
hk_heap_t *hk_heap_first(void);

/* Returns the heap's life at some moment of the call. Any thread. */
HK_INLINE hk_heap_life_t hk_heap_life(hk_heap_t *heap) { return (hk_heap_life_t)hk_load_relaxed(&heap->life); }
HK_INLINE void hk_heap_set_life(hk_heap_t *heap, hk_heap_life_t life) { hk_store_relaxed(&heap->life, (uint8_t)life); }

/* Returns how many heaps there are at some moment of the call. They have the numbers from 1 to that. */
size_t hk_heap_total(void);

/* Returns how many heaps have this life, each at some moment of the call. */
size_t hk_heap_count(hk_heap_life_t life);

#endif /* HK_HEAP_HEAP_H */
