/* space/superslab_index.h - L3. The superslabs that there are, and where to look for free slabs.
 *
 * Each memory node (os/node.h) has a superslab index. The superslabs on it were made by threads of that node and stay on it; they
 * are kept in buckets by their longest run of free slabs. What lies idle in them is one list for all nodes.
 *
 * Everything is guarded by hk_lock_space. Every change is one mask, and the lists follow from the masks: whatever
 * instruction a thread was at when another one forked, hk_superslab_index_repair finds masks that are true or, at worst, a range
 * that is lost to the child.
 */
#ifndef HK_SPACE_SUPERSLAB_INDEX_H
#define HK_SPACE_SUPERSLAB_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/list.h"
#include "base/panic.h"
#include "os/node.h"
#include "space/extent.h"
#include "space/idle.h"
#include "space/slab.h"

#define HK_SUPERSLAB_INDEX_BUCKETS HK_SUPERSLAB_SLABS

/* The superslabs of one node. Not set up while it has none: nothing of it is touched then. */
typedef struct {
  uint32_t bucket_mask; /* bit i: bucket i is not empty */
  bool is_ready;
  hk_list_t bucket[HK_SUPERSLAB_INDEX_BUCKETS]; /* [i]: their longest run is i + 1 free slabs */
} hk_superslab_index_t;

/* 2 MiB of addresses, or where the system refused as much those slabs of 2 MiB that it granted: the rest of the
 * addresses may be anything. Start and slabs do not change while a slab of it is in use.
 *
 * Invariant: free + in use + on their way to the system = the slabs that are there, each in one of the three; lazy
 * slabs are free and used. A free slab's descriptor says so and has no owner. longest_run is that of free_mask; the
 * superslab is in the bucket of that run, and in the list by age that its masks ask for. */
typedef struct hk_superslab {
  hk_list_t link; /* in the bucket of its longest run of free slabs, or among the spare records */
  /* Among those that have idle memory or are wholly free, longest idle first; or, of the others, among those that have
   * lazy memory. */
  hk_list_t idle_link;
  struct hk_superslab *all_next; /* every record ever made: what a child of fork rebuilds the lists from */
  uintptr_t start;               /* 0: the record describes nothing and may be reused */
  hk_slab_t *slabs;              /* its 32 descriptors */
  hk_superslab_index_t *index;   /* its node's */
  uint32_t slab_mask;            /* bit i: slab i is there; the other masks have no bit beside these */
  uint32_t free_mask;            /* bit i: slab i is free */
  uint8_t longest_run;           /* of free slabs: the bucket that it is in; 0 when in none */
  uint32_t used_mask; /* bit i: slab i was touched since it was last zero; free and used is idle, unless it is lazy */
  /* Bit i: slab i, free and used, was given back lazily (os/os.h): nothing is known of what it holds. */
  uint32_t lazy_mask;
  uint64_t idle_since;    /* its age in the list of those, from hk_idle_next_age_locked; 0 in the list of lazy ones */
  uint64_t full_since_ms; /* seen wholly in use since then, or since it was found sparse; 0: not seen so */
  bool is_huge;           /* one huge page, as far as we know */
  bool is_allowed;        /* asked for in a way that lasts when it is no huge page any more */
#if HK_DEBUG
  uint32_t in_use_mask; /* bit i: slab i is in use. The walk checks the sums and the other masks against it */
#endif
} hk_superslab_t;

/* Whether all of it is free. */
HK_INLINE bool hk_superslab_index_is_wholly_free(const hk_superslab_t *superslab) {
  return superslab->free_mask == superslab->slab_mask;
}

HK_INLINE size_t hk_superslab_index_bytes_of(uint32_t bits) { return (size_t)__builtin_popcount(bits) * HK_SLAB_BYTES; }

/* [i]: of node i. */
extern HK_HIDDEN hk_superslab_index_t hk_superslab_index[HK_NODE_MAX];

/* Puts a superslab where its masks say that it belongs. */
void hk_superslab_index_file_locked(hk_superslab_t *superslab);

/* Notes which slabs are in use, for the walk alone. */
HK_INLINE void hk_superslab_index_note_in_use(hk_superslab_t *superslab, uint32_t bits, bool is_in_use) {
#if HK_DEBUG
  superslab->in_use_mask = is_in_use ? superslab->in_use_mask | bits : superslab->in_use_mask & ~bits;
#else
  (void)superslab, (void)bits, (void)is_in_use;
#endif
}

/* What of it is idle. */
HK_INLINE uint32_t hk_superslab_index_idle_bits(const hk_superslab_t *superslab) {
  return superslab->free_mask & superslab->used_mask & ~superslab->lazy_mask;
}

/* Takes free slabs out of the masks, so that nobody else takes them. What is on its way back to the system is neither
 * idle nor in use. */
HK_INLINE void hk_superslab_index_withdraw_locked(hk_superslab_t *superslab, uint32_t bits) {
  HK_ASSERT((superslab->free_mask & bits) == bits, "only free slabs are claimed");
  uint32_t lazy = superslab->lazy_mask & bits;
  hk_bump_relaxed(&hk_idle_slabs.idle_bytes, -hk_superslab_index_bytes_of(bits & superslab->used_mask & ~lazy));
  if (HK_UNLIKELY(lazy != 0)) {
    hk_bump_relaxed(&hk_idle_lazy_bytes, -hk_superslab_index_bytes_of(lazy));
    superslab->lazy_mask &= ~lazy;
  }
  superslab->free_mask &= ~bits;
  superslab->used_mask |= bits;
  hk_superslab_index_file_locked(superslab);
}

/* The same, and they are in use. */
HK_INLINE void hk_superslab_index_claim_locked(hk_superslab_t *superslab, uint32_t bits) {
  hk_superslab_index_withdraw_locked(superslab, bits);
  hk_superslab_index_note_in_use(superslab, bits, true);
  hk_bump_relaxed(&hk_idle_slabs.in_use_bytes, hk_superslab_index_bytes_of(bits));
}

/* Puts slabs that were withdrawn back, `used`: not known to be zero. */
HK_INLINE void hk_superslab_index_put_back_locked(hk_superslab_t *superslab, uint32_t bits, bool used) {
  HK_ASSERT((superslab->free_mask & bits) == 0, "a slab is given back once");
  if (!used) superslab->used_mask &= ~bits;
  superslab->full_since_ms = 0;
  hk_keep_store_order();
  superslab->free_mask |= bits;
  if (used) hk_bump_relaxed(&hk_idle_slabs.idle_bytes, hk_superslab_index_bytes_of(bits));
  hk_superslab_index_file_locked(superslab);
}

/* The same with slabs that are in use. */
HK_INLINE void hk_superslab_index_unclaim_locked(hk_superslab_t *superslab, uint32_t bits, bool used) {
  hk_bump_relaxed(&hk_idle_slabs.in_use_bytes, -hk_superslab_index_bytes_of(bits));
  hk_superslab_index_note_in_use(superslab, bits, false);
  hk_superslab_index_put_back_locked(superslab, bits, used);
}

/* Slabs that lie idle were given back lazily. */
void hk_superslab_index_note_lazy_locked(hk_superslab_t *superslab, uint32_t bits);

/* What lies idle in it is as young as what came last. */
void hk_superslab_index_rejuvenate_locked(hk_superslab_t *superslab);

/* A superslab of 2 MiB that is wholly free, of any node; NULL when there is none. */
hk_superslab_t *hk_superslab_index_wholly_free_locked(void);

/* The superslab that has been idle longest; NULL when none is. */
hk_superslab_t *hk_superslab_index_oldest_locked(void);

/* One that has memory that was given back lazily, and none that is idle; NULL when there is none. */
hk_superslab_t *hk_superslab_index_lazy_locked(void);

/* A record that describes nothing; NULL when the system refuses. Takes the lock. */
hk_superslab_t *hk_superslab_index_take_record(void);
void hk_superslab_index_spare_record(hk_superslab_t *record);

/* Makes free slabs of `room`, which lies within one superslab's addresses. They join the superslab that has another
 * part of these addresses, or become a new one on the superslab index of `node`, made of the record. Whether the record was
 * used. */
bool hk_superslab_index_enter_locked(hk_superslab_t *record, hk_extent_t room, unsigned node);

/* Takes all free slabs out of the superslab, for the caller to unmap. Returns which they were. A superslab without
 * others is one no longer. */
uint32_t hk_superslab_index_detach_free_locked(hk_superslab_t *superslab);

/* Of some of a superslab's slabs. */
void hk_superslab_index_set_states(hk_slab_t *slabs, uint32_t bits, hk_slab_state_t state);

/* A superslab that has a free slab; NULL when none has. */
hk_superslab_t *hk_superslab_index_any_free_locked(void);

/* The record that follows on this one, among all there ever were, or the first one after the last and for NULL; NULL
 * when there are none. Some describe nothing (start is 0). */
hk_superslab_t *hk_superslab_index_next_record_locked(const hk_superslab_t *record);

/* How many superslabs there are, and how much they have. Any thread, no lock. */
size_t hk_superslab_index_superslab_count(void);
size_t hk_superslab_index_mapped_bytes(void);

#if HK_DEBUG
/* Walks all superslabs; returns how many steps that took. Panics with the sentence that does not hold. */
uint64_t hk_superslab_index_check_locked(void);
#endif

/* In a child of fork, while it has one thread: makes the lists and sums anew from the records. */
void hk_superslab_index_repair(void);

#endif /* HK_SPACE_SUPERSLAB_INDEX_H */
