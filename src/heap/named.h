/* heap/named.h - L4. The record of a named heap or a tag: what the program creates to know, bound or free the memory of
 * a subsystem.
 *
 * The blocks lie in parts (part.h): for each thread that uses the named heap, a heap of its own. So the owner of a
 * block's slab says whose the block is, and nothing is stored for a block. Larger blocks name the record in their
 * descriptor, and a named heap has them in a list, so that its end finds them.
 *
 * A record is charged for memory, not for blocks: for the slabs of its parts' spans, and for its larger blocks. Its
 * limits bound that sum.
 *
 * Invariants: `bytes` is the sum over the parts' spans and the larger blocks. A span or a larger block is charged
 * before the program has it.
 */
#ifndef HK_HEAP_NAMED_H
#define HK_HEAP_NAMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap/heap.h"

/* Chosen: of a name, with the final zero. hakmem.h promises it. */
#define HK_NAMED_NAME_BYTES 64

/* A tag lives as long as the process. A record is free between two named heaps. */
typedef enum { hk_named_free, hk_named_tag, hk_named_heap } hk_named_kind_t;

/* An entry of a thread's table of parts (part.h). */
typedef struct {
  _Atomic(hk_named_t *) named; /* NULL: none */
  hk_heap_t *part;             /* the thread's part of it */
} hk_part_entry_t;

/* Chosen: a thread finds its parts of this many named heaps by a comparison, unless two have the same entry. */
#define HK_PART_ENTRIES 64

struct hakmem_heap;
typedef void (*hk_named_callback_t)(struct hakmem_heap *heap, size_t bytes, void *context);

struct hk_named {
  size_t entry_offset;   /* first: of its entry in each thread's table of parts (part.h) */
  _Atomic(uint8_t) kind; /* hk_named_kind_t */
  bool reports_leaks;    /* constant while the named heap lives, as its name is */
  bool is_changing;      /* under hk_lock_heap_pool: `larger` is half changed. A child of fork may find it set. */
  char name[HK_NAMED_NAME_BYTES];
  struct hk_named *all_next;    /* in the list of all records; never changes */
  struct hk_named *free_next;   /* in the list of free records; guarded by hk_lock_heap_pool */
  _Atomic(hk_heap_t *) parts;   /* through part.next; pushed to under hk_lock_heap_pool, emptied at the end */
  hk_list_t larger;             /* runs and large blocks; guarded by hk_lock_heap_pool */
  _Atomic(size_t) bytes;        /* charged now */
  _Atomic(size_t) peak_bytes;   /* the highest `bytes` */
  _Atomic(size_t) larger_bytes; /* the part of `bytes` that larger blocks have */
  _Atomic(size_t) larger_count; /* larger blocks */
  _Atomic(uint64_t) larger_allocated_count; /* that were ever made */
  _Atomic(uint64_t) larger_allocated_bytes;
  _Atomic(size_t) soft_bytes;      /* 0: no limit */
  _Atomic(size_t) hard_bytes;      /* 0: no limit */
  _Atomic(uint64_t) soft_count;    /* times that `bytes` rose above soft_bytes */
  _Atomic(uint64_t) refused_count; /* charges that hard_bytes refused */
  _Atomic(bool) is_crossed;        /* since the callback was last called, `bytes` rose above soft_bytes */
  hk_named_callback_t callback;    /* NULL: none; constant while the named heap lives */
  void *context;
};

static_assert(sizeof(struct hk_named) <= 256, "a named heap that is not used costs 256 bytes at most");

/* Returns a record for a named heap or a tag, without parts, with a copy of the name cut to its room. Tags of one name
 * share a record: a later call returns the same. Returns NULL when the system refuses. Any thread. */
hk_named_t *hk_named_create(hk_named_kind_t kind, const char *name);

/* Gives the record of a named heap back, which has no parts and no larger blocks. */
void hk_named_drop(hk_named_t *named);

/* Returns the first record; the others follow through all_next. They never go away, and some are free. */
hk_named_t *hk_named_first(void);

HK_INLINE hk_named_kind_t hk_named_kind(hk_named_t *named) { return (hk_named_kind_t)hk_load_relaxed(&named->kind); }

/* Charges `bytes` to the record. Returns false when that would exceed its hard limit; nothing is charged then. Any
 * thread. */
bool hk_named_charge(hk_named_t *named, size_t bytes);
void hk_named_uncharge(hk_named_t *named, size_t bytes);

/* Returns whether hk_named_charge would succeed now, for memory that the system may refuse: that is charged when it is
 * there. */
bool hk_named_allows(hk_named_t *named, size_t bytes);

/* The halves of hk_named_charge, for memory that the system may refuse and that cannot be given up again: the second
 * follows when it is known whether the memory is there, and takes the charge back if not. `bytes` are above 0; `*after`
 * becomes the sum with them. */
bool hk_named_reserve(hk_named_t *named, size_t bytes, size_t *after);
void hk_named_settle(hk_named_t *named, size_t bytes, size_t after, bool is_granted);

/* Makes a run or large block one of the record's. Requires that `charged_bytes` are charged for it, and corrects that
 * to the bytes that it has. `bytes_before` is what a resized block had; 0 for another. */
void hk_named_add_larger(hk_named_t *named, void *block, size_t charged_bytes, size_t bytes_before);

/* Makes a block in a guard slot one of the record's. Such a block has no descriptor of its own. Requires that `bytes`
 * are charged for it. The second function is the reverse, and uncharges them. */
void hk_named_add_guarded(hk_named_t *named, size_t bytes);
void hk_named_remove_guarded(hk_named_t *named, size_t bytes);

/* Ends hk_named_add_larger, and uncharges the block's bytes. Returns the record; NULL when the block is no record's.
 * Requires the descriptor of a live run or large block. Of two threads that free one block, one gets the record. */
hk_named_t *hk_named_remove_larger(hk_slab_t *slab);

/* hk_named_remove_larger for a resize: the block's bytes stay charged until hk_named_add_larger. Sets `*bytes` to
 * them. */
hk_named_t *hk_named_withdraw_larger(hk_slab_t *slab, size_t *bytes);

/* Removes any larger block of the record, as hk_named_remove_larger does, and returns it; NULL when there is none. */
void *hk_named_take_larger(hk_named_t *named);

HK_INLINE bool hk_named_is_larger(const hk_slab_t *slab) {
  return hk_slab_state(slab) == hk_slab_run || hk_slab_state(slab) == hk_slab_large;
}

/* Returns the named heap or tag of the block that a live block's descriptor is of; NULL: none. Any thread. */
HK_INLINE hk_named_t *hk_named_of_slab(const hk_slab_t *slab) {
  if (hk_named_is_larger(slab)) return slab->named;
  const hk_heap_t *owner = hk_slab_owner(slab);
  return owner != NULL && slab->part_kind != hk_part_of_none ? hk_heap_named(owner) : NULL;
}

/* For a child of fork, while it has one thread: mends lists that a vanished thread was changing. */
void hk_named_repair(void);

#endif /* HK_HEAP_NAMED_H */
