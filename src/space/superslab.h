/* space/superslab.h - L3. Superslabs, 2 MiB of address space each, cut into slabs. As many as the program needs.
 *
 * Idle memory (free slabs that were used and are therefore resident, and free ranges of big blocks) is bounded: what is
 * above the limit (space/idle.h) is given back to the system, what has been idle longest first.
 */
#ifndef HK_SPACE_SUPERSLAB_H
#define HK_SPACE_SUPERSLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "space/slab.h"

/* Everything is guarded by hk_lock_space; start and slabs do not change while a slab of it is in use. */
typedef struct hk_superslab {
  hk_list_t link;                /* in the bucket of its longest run of free slabs, or among the spare records */
  hk_list_t idle_link;           /* among those that have idle memory or are wholly free, longest idle first */
  struct hk_superslab *all_next; /* every record ever made: what a child of fork rebuilds the lists from */
  uintptr_t start;               /* 0: the record describes nothing and may be reused */
  hk_slab_t *slabs;              /* its 32 descriptors */
  uint32_t free_mask;            /* bit i: slab i is free */
  uint8_t longest_run;           /* of free slabs: the bucket that it is in; 0 when in none */
  uint32_t used_mask;            /* bit i: slab i was touched since it was last zero; free and used is idle */
  uint64_t idle_since;           /* its age in the list of those, from hk_idle_next_age_locked */
} hk_superslab_t;

/* Which end of a superslab a range is taken from. Spans and runs grow towards each other, so that the few slabs of a
 * span do not break up what runs need; and memory that was a run becomes a span late, which gives a double free of
 * the run time to be noticed. */
typedef enum { hk_from_bottom, hk_from_top } hk_end_t;

/* Takes `count` slabs (1 to 32) in a row, the first at a multiple of `alignment` slabs (a power of two up to 32).
 * The first one's descriptor, with slab_count and zero set and every state still hk_slab_free; NULL when the system
 * refuses. */
hk_slab_t *hk_superslab_acquire(unsigned count, unsigned alignment, hk_end_t end);

/* Takes the `count` slabs that follow directly on a range that the caller has, if they are free. `*zero` says
 * whether they are. */
bool hk_superslab_extend(hk_slab_t *after_last, unsigned count, bool *zero);

/* Gives `count` slabs back; the caller has made them nobody's (hk_slab_retire). */
void hk_superslab_release(hk_slab_t *first, unsigned count);

/* For a big block of `bytes` that no free range is long enough for: makes free ranges (space/range.h) of all superslabs
 * that are wholly free. False when that cannot be enough, or there are none. The way back needs no call: a new
 * superslab is made of a free range if one is long enough. */
bool hk_superslab_dissolve_free(size_t bytes);

/* Gives idle memory back to the system, slabs and ranges, until at most `keep_bytes` of it are left. How many bytes
 * were given back. With 0, what was learned about how much to keep is forgotten too. */
size_t hk_superslab_trim(size_t keep_bytes);

/* Ends a change of the sums of space/idle.h: releases hk_lock_space, which the caller holds, and gives back what is
 * idle above the limit. */
void hk_superslab_settle(uint64_t now_ms);

/* The address of a slab that lies in a superslab. */
HK_INLINE uintptr_t hk_slab_start(const hk_slab_t *slab) {
  return slab->superslab->start + (uintptr_t)(slab - slab->superslab->slabs) * HK_SLAB_BYTES;
}

typedef struct {
  size_t superslab_count; /* mapped now */
  size_t mapped_bytes;
  size_t in_use_bytes; /* slabs that somebody has */
  size_t idle_bytes;   /* free, but not given back to the system */
} hk_superslab_usage_t;
hk_superslab_usage_t hk_superslab_usage(void);

/* In a child of fork, while it has one thread: makes the lists anew from the records. */
void hk_superslab_repair(void);

#endif /* HK_SPACE_SUPERSLAB_H */
