/* space/slab.h - L3. The slab descriptor, which describes one slab: 64 KiB of addresses.
 *
 * Descriptors lie apart from the slabs (region_map.h), so an overflow of a block does not reach them.
 *
 * A descriptor is two cache lines. Every free reads the first one, in any thread; its fields keep their values while a
 * block is in use. The owner writes the second one as it goes along, so its writes take no line from other threads'
 * frees.
 *
 * The owner writes a descriptor. While the slab has no owner, the holder of its shard's lock does. The holder of
 * hk_lock_space writes the descriptors of free extents. A field that another thread may read meanwhile is atomic. The
 * fields of a span that a free reads are set before the first block is handed out, and the program's own hand-over of
 * the block orders them.
 *
 * Invariants of a span:
 *   - state, owner, free_list, head and class_index are the same in all its slabs.
 *   - In its head, free + live = carved, which is at most the capacity.
 *   - Each free block lies in the span, at the start of a block.
 *   - link is in the partial list while the span is worth allocating from and is of a mid class or not active.
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

/* The bit of block_bytes that is set while a run or a large block holds a sample (heap/sample_mark.h). The size of a
 * small block has it clear. */
#define HK_SLAB_HOLDS_SAMPLE 1u

/* Opaque here: a heap's address says which heap owns a slab. */
typedef struct hk_heap hk_heap_t;
struct hk_superslab;
struct hk_named;

/* Known sparse runs (heap/sparse_run.h) that ended elsewhere than in the heap that had kept them: their slabs, and
 * their resident pages as that heap knows them. Any thread adds. */
typedef struct {
  _Atomic(size_t) gone_slabs;
  _Atomic(size_t) gone_pages;
} hk_run_gone_t;

/* What a span's owner is a part of: heap/named.h. */
typedef enum { hk_part_of_none, hk_part_of_tag, hk_part_of_heap } hk_part_kind_t;

/* A free list and the number of frees until the owner has to act. The owner's frees go there, and the owner alone
 * writes it. Each slab has one, and each bin. A bin's free list replaces its span's while the bin allocates from the
 * span.
 *
 * Invariant: the count gives the list's length.
 *   - Span from which no bin allocates: carved - live + (start - countdown). The rest of the carved blocks,
 *     live - (start - countdown), are in use, on their way to the owner or in `incoming`.
 *   - Bin of a mid class that is not metered (heap/mid.h): room - countdown.
 *   - Bin of a tiny class, in a sampled heap alone: start_length + (start - countdown), less the blocks that an open
 *     bin has handed out (heap/sample_countdown.h).
 */
typedef struct {
  hk_block_t *free;
  uint32_t countdown;
  union {
    uint32_t start;    /* the countdown's value when it was last set; start - countdown blocks were freed since */
    uint32_t pop_step; /* of a mid class's bin: what a pop adds to the countdown (heap/mid.h) */
  };
} hk_free_list_t;

typedef enum {
  hk_slab_none, /* not hakmem's; all zero, as an untouched descriptor is */
  hk_slab_free, /* without an owner: free in a superslab, spare in a heap, or part of a free extent */
  /* in a span of blocks up to 32 KiB; each slab of the span has owner, free_list, starts, head and class_index */
  hk_slab_small,
  hk_slab_run,      /* first slab of a run */
  hk_slab_run_tail, /* each other slab of a run, also of a closed one (space/run.h), whose first slab is free */
  hk_slab_large,    /* first 64 KiB of a large block */
  hk_slab_nothing,  /* blocks of no bytes, in a hardened build */
  hk_slab_guard     /* space/end_guard.h, in a hardened build */
} hk_slab_state_t;

typedef struct hk_slab {
  _Atomic(hk_heap_t *) owner; /* NULL unless hk_slab_small; a free that finds another owner takes the slow path */
  union {
    hk_free_list_t *free_list; /* only the owner's frees read it; free extent: the start (space/extent.c) */
    struct hk_named *named;    /* of a run or a large block: its named heap or tag (heap/named.h); NULL: none */
  };
  union {
    hk_starts_t starts; /* of the blocks of a span */
    uintptr_t start;    /* of a run or a large block of a named heap or tag: its address */
  };
  struct hk_slab *head;   /* first slab of the span, run or free extent */
  _Atomic(uint8_t) state; /* hk_slab_state_t */
  union {
    uint8_t class_index;
    bool is_open; /* of a large block (space/large_fill.h) */
  };
  uint8_t slab_count; /* of a span or run, in its head */
  bool is_zero;       /* head: memory that is not carved yet is known to be zero; free extent: all of it is */
  /* Of a span; after its end it stays, also under a large block, until a run begins at this slab, which sets 0. A run
   * or a large block changes the bit HK_SLAB_HOLDS_SAMPLE alone. */
  uint32_t block_bytes;
  union {
    bool has_moved; /* head of a span: blocks may be on their way to an earlier owner */
    bool is_lone;   /* of a large block in a hardened build: a mapping of its own (space/lone_mapping.h) */
  };
  union {
    uint8_t huge;      /* of a large block: hk_thp_advice_t */
    uint8_t part_kind; /* of a span: hk_part_kind_t of its owner; the same in each slab */
  };
  union {
    uint16_t drain_count; /* head of a span: number of its blocks that the purge thread has counted, ... */
    /* Of a run or a large block in a hardened build: realloc was refused a shorter one, and left it. */
    bool is_unshrunk;
  };
  union {
    uint32_t drain_round; /* ... and the round in which it counted them (heap/purge_drain.c) */
    uint32_t ahead_slabs; /* of a large block (space/large_fill.h); 0 when it ends */
  };
  /* Usable bytes of a run or a large block; length of a free extent, and in its last slab that slab's; in the head of a
   * span: mapped bytes of its last slab (short_span.h). */
  _Atomic(size_t) bytes;
  struct hk_superslab *superslab; /* NULL for large blocks and free extents */

  alignas(HK_CACHE_LINE_BYTES) hk_free_list_t own;
  /* In a bin's partial list, a heap's spare slabs, a list to release, a bucket of free extents, or the larger blocks of
   * a named heap. */
  hk_list_t link;
  _Atomic(uint16_t) carved; /* head of a span: number of blocks carved so far */
  union {
    uint16_t live;           /* head of a span; span.h and mid.h say which blocks it counts */
    uint16_t resident_pages; /* of a known sparse run: as of the last look; of another run or free slabs: 0 */
  };
  union {
    uint32_t born_ms;    /* of a large block: when it was made, the lowest 32 bits of ms */
    uint32_t put_number; /* of a sparse run that a heap keeps: `puts` of the heap when it came */
    /* head of a span in a hardened build: each block that is free or not carved yet is zero, but for a link */
    bool is_wiped;
  };
  union {
    hk_list_t part_link; /* head of a span of a part: among the part's spans */
    struct {
      hk_run_gone_t *gone;  /* of a known sparse run: the counts of the heap that kept it last */
      struct hk_slab *next; /* of a sparse run that a heap keeps: the one of the same length that it kept before */
    } sparse;
    struct {
      hk_list_t link; /* among the free extents in the order of age, the oldest first */
      uint64_t since; /* age by hk_dirty_next_age_locked; 0 when no free extent begins or ends here */
    } extent;         /* of a free extent's first and last slab (space/extent.h); guarded by hk_lock_space */
  };
} hk_slab_t;

static_assert(sizeof(hk_slab_t) == 128, "two cache lines, and 32 descriptors are one 4 KiB page");

HK_INLINE hk_slab_state_t hk_slab_state(const hk_slab_t *slab) {
  return (hk_slab_state_t)hk_load_relaxed(&((hk_slab_t *)slab)->state);
}

HK_INLINE void hk_slab_set_state(hk_slab_t *slab, hk_slab_state_t state) {
  hk_store_relaxed(&slab->state, (uint8_t)state);
}

HK_INLINE hk_heap_t *hk_slab_owner(const hk_slab_t *slab) { return hk_load_relaxed(&((hk_slab_t *)slab)->owner); }

/* Returns the number of blocks that were carved in a span. */
HK_INLINE unsigned hk_span_carved(const hk_slab_t *span) { return hk_load_relaxed(&((hk_slab_t *)span)->carved); }

/* Marks `count` slabs from `head` on as free, without an owner. Any pointer into them is misuse from then on. */
HK_INLINE void hk_slab_retire(hk_slab_t *head, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    hk_store_relaxed(&head[i].owner, NULL);
    hk_slab_set_state(&head[i], hk_slab_free);
  }
}

#endif /* HK_SPACE_SLAB_H */
