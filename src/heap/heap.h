/* heap/heap.h - L4. A heap: one thread's bins and what belongs to them. A heap outlives its thread: its slabs stay its
 * own, and the next thread that needs a heap adopts it whole.
 *
 * At most one thread has a heap at a time. Only that thread touches it, except for `shared` and `drain`, and `stat`,
 * `life`, `node`, `number`, `offer` and what is active, which others read.
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
#include "policy/sampling.h"
#include "policy/size_class.h"
#include "policy/stat.h"
#include "space/run.h"
#include "space/slab.h"

/* What a bin needs on its slow path. */
typedef struct {
  /* The span it allocates from; its frees come straight back to the bin. Others look at it: purge_drain.h. */
  _Atomic(hk_slab_t *) active;
  hk_list_t partial;    /* spans worth allocating from, through link; not initialised before the first span */
  uint32_t carve_count; /* tiny: how many blocks to cut next time; 0 before the first time */
  uint16_t room;        /* mid: how many blocks the bin's list may have */
  bool spilled;         /* mid: since the list was filled last */
} hk_bin_state_t;

/* Blocks of one other heap that go home together. */
typedef struct {
  hk_heap_t *owner; /* NULL: none */
  hk_block_t *first;
  hk_block_t *last;
  ptrdiff_t room; /* what more the batch may weigh: remote.h */
} hk_outgoing_t;

/* What a bin has more while its blocks are sampled, in one place, and a heap: sample_countdown.h. */
typedef struct {
  uint32_t until;        /* so many more blocks, beyond those in a bin that is not open, go unsampled */
  uint32_t at_mark;      /* tiny: how long hk_heap_effective_list's list was when its mark was set */
  _Atomic(bool) is_open; /* tiny: frees go to the bin */
  uint8_t shift;         /* by which `until` was drawn (policy/sampling.h) */
  uint64_t weight_q16;   /* of a sample of the class at that shift; 0: not known yet */
} hk_sample_countdown_t;
typedef struct {
  hk_free_list_t shadow[HK_CLASS_COUNT]; /* [class]: stands in for its bin where that is not open */
  hk_sample_countdown_t of[HK_CLASS_COUNT];
  hk_sampling_pace_t pace;
  uint64_t large_until; /* so many more bytes of larger blocks go unsampled */
  uint64_t random;
} hk_sample_countdowns_t;

/* Of at_mark and until: not known, not drawn yet. */
#define HK_COUNTDOWN_UNKNOWN UINT32_MAX

#define HK_OFFER_WORDS ((HK_CLASS_COUNT + 63) / 64)

#define HK_OUTBOX_SHIFT 4
#define HK_JUMP_BLOCKS 8
#define HK_OUTBOX_SLOTS (1u << HK_OUTBOX_SHIFT)

typedef enum {
  hk_heap_attached, /* a thread has it */
  hk_heap_idle,     /* in the pool */
  hk_heap_orphan,   /* attached when the process forked, and nobody has said yet whose it is in the child */
  hk_heap_lost      /* its thread vanished in a fork while it was changing it: never touched again */
} hk_heap_life_t;

/* Invariant, between slow paths (heap_check.h): span_slabs - drained_slabs = the slabs whose owner is the heap;
 * spare_slabs = those in the spare lists, all free and without an owner. Of a tiny class: the bin's list has blocks of
 * the active span alone, at most as many as were carved, and none without an active span. Of a mid class: the length of
 * the bin's list + its countdown = its room, above 0. A span that is not a tiny class's active one has a block in use.
 * The outboxes and closed bins of a heap that is given back are empty. */
struct hk_heap {
  hk_free_list_t bin[HK_CLASS_COUNT]; /* first: the fast path adds a class's offset to the heap's address */
  hk_bin_state_t state[HK_CLASS_COUNT];
  _Atomic(hk_free_list_t *) effective_lists; /* `bin`, or countdowns->shadow while sampled: hk_heap_effective_list */
  hk_sample_countdowns_t *countdowns;        /* NULL until it is sampled first; never given back */
  uint64_t sampling_state;                   /* the hk_sampling_state that it follows */
  hk_outgoing_t outbox[HK_OUTBOX_SLOTS];     /* direct-mapped by owner */
  hk_block_t *recent[HK_JUMP_BLOCKS];        /* the blocks of others that were freed last, round and round */
  _Atomic(uint32_t) span_slabs;              /* in the spans that it owns, but for shared.drained_slabs */
  _Atomic(uint32_t) spare_slabs;             /* in all of the next */
  hk_list_t spare[HK_RUN_MAX_SLABS];         /* [i]: free extents of i + 1 slabs, through link; last freed first */
  hk_slab_t *reserve;                        /* slabs that nobody touched yet, in a row, for spans; NULL: none */
  bool is_visited;                           /* by a thread that has another heap too, for a moment: remote.c */
  bool has_sent_to_idle;                     /* meanwhile, to a heap that no thread has */
  _Atomic(bool) busy;       /* a slow path is under way: what a child of fork finds here may be half done */
  _Atomic(uint8_t) life;    /* hk_heap_life_t; written by who has the heap, or is about to */
  _Atomic(uint8_t) node;    /* where the thread was that took it last: most of its slabs are of that node */
  _Atomic(uint32_t) number; /* 1 for the first heap, and so on; written once. 0: who looks does not see it yet */
  _Atomic(uint64_t) offer[HK_OFFER_WORDS]; /* bit i: when it became idle it had something to give of class i */
  hk_block_t *damaged;                     /* a damaged block that a drain came upon, until the caller takes it up */
  struct hk_heap *all_next;
  hk_list_t pool_link; /* in the pool, where it has no slot: guarded by hk_lock_heap_pool */
  hk_stat_set_t stat;
#if HK_DEBUG
  hk_walk_t walk; /* over all of the heap */
#endif
  struct {                /* the purge thread's */
    hk_block_t *put_back; /* what was first in `incoming` when it had looked at all of it; NULL: it has not */
    uint64_t slow_paths;  /* so many when it saw that something waits */
    uint64_t since_ms;    /* and when that was, or when it may begin to wait again; 0: never */
  } drain;
  hk_attachment_t attachment; /* to its thread */
  struct {                    /* hints of threads that look which threads are quiet: detach.c */
    _Atomic(uint64_t) slow_paths;
    _Atomic(uint64_t) since_ms; /* when there were so many first; 0: never */
  } quiet;
  struct {
    /* Blocks of this heap's spans that other threads freed: pushed by them in chains, taken whole by the owner, or
     * by the purge thread. */
    alignas(HK_CACHE_LINE_BYTES) _Atomic(hk_block_t *) incoming;
    _Atomic(uint32_t) drained_slabs; /* that `span_slabs` still counts */
    _Atomic(bool) is_claimed;        /* by who looks at its spans' descriptors: hk_heap_claim_spans */
  } shared;
};

static_assert(offsetof(struct hk_heap, bin) == 0, "the fast path relies on it");

/* What a thread without a heap has: every bin exhausted, never written. The bins are all there is of it: whoever
 * would look further has compared with HK_EMPTY_HEAP before. */
typedef struct {
  hk_free_list_t bin[HK_CLASS_COUNT];
} hk_empty_heap_t;
extern HK_HIDDEN const hk_empty_heap_t hk_empty_heap;
#define HK_EMPTY_HEAP ((hk_heap_t *)&hk_empty_heap)

/* Where in a heap the bin is that serves a request: of up to HK_TINY_MAX_BYTES the size rounded up, for a class is
 * 16 bytes and a bin is too. */
HK_INLINE size_t hk_heap_tiny_bin(size_t size) {
  static_assert(sizeof(hk_free_list_t) == HK_BLOCK_ALIGNMENT, "a bin's offset is its class's size");
  return (size + HK_BLOCK_ALIGNMENT - 1) & ~(HK_BLOCK_ALIGNMENT - 1);
}
HK_INLINE size_t hk_heap_mid_bin(size_t size) { return hk_class_of_mid(size) * sizeof(hk_free_list_t); }

/* Where the class's free blocks are, of those that no span keeps itself, and where its spans' frees go: its bin, but
 * for a sampled heap's (sample_countdown.h) that is not open: that has but a piece of them, which counts as handed out. */
HK_INLINE hk_free_list_t *hk_heap_effective_list(const hk_heap_t *heap, unsigned class_index) {
  hk_heap_t *object = (hk_heap_t *)heap;
  hk_free_list_t *list = hk_load_relaxed(&object->effective_lists);
  if (HK_LIKELY(list == heap->bin) || hk_load_relaxed(&object->countdowns->of[class_index].is_open)) list = object->bin;
  return &list[class_index];
}

HK_INLINE bool hk_heap_is_sampled(const hk_heap_t *heap) {
  return hk_load_relaxed(&((hk_heap_t *)heap)->effective_lists) != heap->bin;
}

/* To be called when a tiny class's home was given a list of so many blocks. From then on its mark tells how many came
 * back. */
HK_INLINE void hk_heap_note_length(hk_heap_t *heap, unsigned class_index, uint32_t length) {
  if (HK_LIKELY(!hk_heap_is_sampled(heap))) return;
  heap->countdowns->of[class_index].at_mark = length;
  hk_free_list_t *list = hk_heap_effective_list(heap, class_index);
  list->mark = list->countdown;
}

/* The heap's thread that goes through its spans' descriptors, and the purge thread that makes some of them nobody's,
 * keep out of each other's way. False when the other is at it: there will be another time. */
HK_INLINE bool hk_heap_claim_spans(hk_heap_t *heap) {
  bool expected = false;
  return hk_compare_exchange_acquire(&heap->shared.is_claimed, &expected, true);
}
HK_INLINE void hk_heap_unclaim_spans(hk_heap_t *heap) { hk_store_release(&heap->shared.is_claimed, false); }

/* Marks a slow path, for the child of a fork in another thread. Not nested. */
HK_INLINE void hk_heap_enter(hk_heap_t *heap) {
  hk_store_relaxed(&heap->busy, true);
  hk_keep_store_order();
}
HK_INLINE void hk_heap_leave(hk_heap_t *heap) {
  hk_keep_store_order();
  hk_store_relaxed(&heap->busy, false);
}

/* A new heap, attached; NULL when the system refuses. */
hk_heap_t *hk_heap_create(void);

/* Every heap there is, newest first, through all_next. Heaps never go away. */
hk_heap_t *hk_heap_first(void);

/* Who has the heap: any thread may ask, and knows what was so at some moment. */
HK_INLINE hk_heap_life_t hk_heap_life(hk_heap_t *heap) { return (hk_heap_life_t)hk_load_relaxed(&heap->life); }

/* How many heaps there are at some moment: they have the numbers from 1 to that. */
size_t hk_heap_total(void);

/* How many heaps have this life at some moment. */
size_t hk_heap_count(hk_heap_life_t life);

#endif /* HK_HEAP_HEAP_H */
