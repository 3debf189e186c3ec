/* space/guard_slot.h - L3. The pool of guard slots: blocks on pages of their own, between inaccessible pages.
 *
 * A slot for blocks of up to a page is a page of one reserved range, in which every second page is a guard page. A
 * longer block, or one with an alignment above a page, gets a mapping of its own with a guard page on each side. A
 * block lies alternately at the end and at the start of its pages, in the order of the blocks of its call stack. The
 * bytes of its pages around it are padding (guard_padding.h): they are filled, and checked at the block's free.
 *
 * The mappings have whole slabs of addresses. A slab's descriptor speaks for all addresses of the slab, also where only
 * its first pages are mapped (short_span.h): a guarded block there would count as one of the slab's blocks.
 *
 * A freed slot is inaccessible and has no memory. It stays so until no slot is unused and all slots that were freed
 * before it are in use again. So the number of slots bounds memory and mappings: a live slot adds two mappings, a freed
 * one none.
 *
 * States: unused -> busy -> live -> busy -> freed -> busy -> ... The thread that makes a slot busy owns it: it writes
 * the slot's record (guard_record.h). hk_lock_guard guards the order of the freed slots alone. A child of fork loses
 * the slots that other threads had made busy. */
#ifndef HK_SPACE_GUARD_SLOT_H
#define HK_SPACE_GUARD_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "space/guard_record.h"

HK_C_BEGIN

/* Makes the pool, for `slots` blocks of up to a page and an eighth as many longer ones. Returns false when the system
 * refuses; true at once when there is a pool. */
bool hk_guard_slot_begin(size_t slots);

/* True once there is a pool. */
extern HK_HIDDEN _Atomic(bool) hk_guard_slot_exists;
HK_INLINE bool hk_guard_slot_has_pool(void) { return hk_load_acquire(&hk_guard_slot_exists); }

/* Allocates a zeroed block of `named` in a slot. `alignment` is a power of two. Returns NULL when no slot is free, the
 * pool has no slot for such a block, or the system refuses. */
void *hk_guard_slot_alloc(size_t bytes, size_t alignment, const hk_guard_deed_t *deed, struct hk_named *named);

typedef enum {
  hk_guard_free_done,
  hk_guard_free_damaged, /* freed, and `*damage` is the damaged byte of the padding that is nearest to the block */
  hk_guard_free_refused, /* no live block starts there */
} hk_guard_free_t;

/* Frees the block at `address`, and fills `*view` with the slot as it was. Any thread; one of several threads that free
 * the same block succeeds. */
hk_guard_free_t hk_guard_slot_free(uintptr_t address, const hk_guard_deed_t *deed, hk_guard_view_t *view,
                                   uintptr_t *damage);

/* Gives the addresses of freed long blocks back to the system, which refuses others. Those blocks are no longer
 * protected. */
void hk_guard_slot_drop_addresses(void);

/* Finds the block, live or freed, that the address lies in or is nearest to. Returns false when there is none. Takes no
 * lock and writes nothing, so a signal handler may call it. */
bool hk_guard_slot_find(uintptr_t address, hk_guard_view_t *view);

/* Opens the inaccessible page of a slot that `address` lies in, so that a program may go on after an error. The page is
 * closed again when a slot beside it is next used. Safe in a signal handler. Returns false when the system refuses. */
bool hk_guard_slot_open_page(uintptr_t address);

typedef struct {
  size_t slots, large_slots; /* the pool's; 0: there is no pool */
  size_t live, freed;        /* in either kind of slot */
  size_t live_bytes;         /* of the pages of live blocks */
  uint64_t age_ms;           /* time since the free of the block that was freed first and is still protected */
} hk_guard_usage_t;

/* Looks at each slot; other threads may change some meanwhile. All 0 where there is no pool. Any thread, no lock. */
hk_guard_usage_t hk_guard_slot_usage(uint64_t now_ms);

/* Calls `visit` for each live block. */
void hk_guard_slot_visit(void (*visit)(const hk_guard_view_t *view, void *context), void *context);

HK_C_END

#endif /* HK_SPACE_GUARD_SLOT_H */
