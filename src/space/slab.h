/* space/slab.h - L3. The slab descriptor: what is known about one 64 KiB unit of address space. Descriptors lie out of
 * line (region_map.h), where an overflow of a block does not reach them.
 */
#ifndef HK_SPACE_SLAB_H
#define HK_SPACE_SLAB_H

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/list.h"
#include "base/units.h"
#include "policy/safety.h"

/* A heap is opaque here: its address says who owns a slab. */
typedef struct hk_heap hk_heap_t;
struct hk_superslab;

/* Where the owner's frees go: a list of free blocks and how many more frees until something is due. One each slab,
 * and one each bin; the bin's stands in for the slab's while the bin allocates from it. Written by the owner alone.
 *
 * Invariant: the list's length is what its count says. Of a span that no bin allocates from: free = carved - live +
 * (mark - countdown), where in use, coming home and waiting are live - (mark - countdown). Of a mid class's bin: free =
 * room - countdown. Of a tiny class's bin only a sampled heap counts: at_mark + (mark - countdown), less what an open
 * one gave (heap/sample_countdown.h). */
typedef struct {
  hk_block_t *free;
  uint32_t countdown;
  uint32_t mark; /* what countdown was when it was last set: mark - countdown blocks came back since */
} hk_free_list_t;

typedef enum {
  hk_slab_none, /* not ours; all zero, as an untouched descriptor is */
  hk_slab_free, /* ours, and nobody's: in a superslab, or spare in a heap */
  hk_slab_small, /* in a span of blocks up to 32 KiB; owner, free list, inverse, head and class are set in all its slabs */
  hk_slab_run, /* first slab of a run */
  hk_slab_run_tail,
  hk_slab_large /* first 64 KiB of a large block */
} hk_slab_state_t;

/* One line that every free reads, whichever thread frees, and that keeps its values while a block is in use; one that
 * the owner writes as it goes along, so that it takes no line from under another thread's frees. Written by the owner,
 * or under hk_lock_space while the slab has none. A field that another thread may read meanwhile is atomic; those of a
 * span that a free reads are set before a block of it is handed out, and the program's own hand-over of the block
 * orders them.
 *
 * Invariant of a span's slabs: state, owner, free list, head and class are the same in all of them. Of the head: free + live
 * = carved, at most the capacity; free blocks lie in the span, at the starts of blocks; link is in the partial list
 * while the span, not active or of a mid class, is worth allocating from. */
typedef struct hk_slab {
  _Atomic(hk_heap_t *) owner; /* NULL unless hk_slab_small: a free that finds another owner takes the slow path */
  hk_free_list_t *free_list;  /* only the owner's frees read it */
  uint64_t inverse;           /* of the block size */
  struct hk_slab *head;       /* the span's or run's first slab */
  _Atomic(uint8_t) state;     /* hk_slab_state_t */
  uint8_t class_index;
  uint8_t slab_count;             /* head of a span or run: how many slabs */
  bool zero;                      /* head: what was not carved yet is known to be zero */
  uint32_t block_bytes;           /* of a span */
  bool moved;                     /* head of a span: blocks may be on their way to an owner that it had before */
  uint8_t huge;                   /* of a large block: hk_thp_advice_t */
  uint16_t came_home;             /* head of a span: how many of its blocks the purge thread has counted, ... */
  uint32_t came_home_round;       /* ... when it did so the last time (heap/purge_drain.c) */
  _Atomic(size_t) bytes;          /* of a run or a large block: what may be used */
  struct hk_superslab *superslab; /* NULL for large blocks */

  alignas(HK_CACHE_LINE_BYTES) hk_free_list_t own;
  hk_list_t link;           /* in its bin's partial list, or its heap's spare ones */
  _Atomic(uint16_t) carved; /* head of a span: blocks cut so far */
  uint16_t live;            /* head of a span: span.h and mid.h say which blocks it counts */
  uint32_t born_ms;         /* of a large block, as far as it fits: when it was made */
  struct {
    hk_list_t link; /* among the free extents, longest idle first */
    uint64_t since; /* the age that hk_idle_next_age_locked gave it; 0 when no free extent begins or ends here */
  } extent;         /* of a free extent's first and last slab (space/extent.h), guarded by hk_lock_space */
} hk_slab_t;

static_assert(sizeof(hk_slab_t) == 128, "two cache lines, and 32 descriptors are one 4 KiB page");

HK_INLINE hk_slab_state_t hk_slab_state(const hk_slab_t *slab) {
  return (hk_slab_state_t)hk_load_relaxed(&((hk_slab_t *)slab)->state);
}

HK_INLINE void hk_slab_set_state(hk_slab_t *slab, hk_slab_state_t state) {
  hk_store_relaxed(&slab->state, (uint8_t)state);
}

/* Makes `count` slabs nobody's. Any pointer into them is misuse from here on. */
HK_INLINE void hk_slab_retire(hk_slab_t *head, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    hk_store_relaxed(&head[i].owner, NULL);
    hk_slab_set_state(&head[i], hk_slab_free);
  }
}

#endif /* HK_SPACE_SLAB_H */
