/* heap/part.h - L4. Parts: for each thread that uses a named heap or a tag, a heap of its own.
 *
 * A part is an ordinary heap. Its thread allocates from its bins and frees to them; other threads free by `incoming`;
 * it refills, spills and gives up spans as each heap does. It differs from other heaps in five ways:
 *
 * - A thread has one heap of its own and any number of parts. `part.thread_variable` of a part says which thread has
 *   it. The slow path of a free compares that first.
 * - Its spans never move to another heap, and no other heap's move to it.
 * - A part without a thread is idle, but not in the pool: it stays in its named heap's list, and the next thread that
 *   uses the named heap takes it.
 * - Remote frees into a part of a named heap go to `incoming` one by one: a batch could outlast the named heap.
 * - The end of the named heap gives up all spans of all parts, without a look at their blocks.
 *
 * A switch makes the code for the thread's heap work on a part: meanwhile hk_thread_heap names the part, and `base` in
 * the thread's table names its own heap. A push of a tag switches until the pop. The slow path of a request to a named
 * heap switches for the request.
 *
 * A thread's table has its parts, and a direct-mapped cache of them by named heap. The end of a named heap clears the
 * entries of other threads.
 */
#ifndef HK_HEAP_PART_H
#define HK_HEAP_PART_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/named.h"
#include "heap/orphan.h"
#include "heap/thread.h"

HK_C_BEGIN

/* Chosen: the number of a thread's pushes that have an entry. A push beyond them charges nothing. */
#define HK_PART_TAGS_MAX 32

typedef struct {
  hk_named_t *named;
  hk_heap_t *part; /* NULL: the push changes nothing, because the system refused a part or the tag was NULL */
} hk_part_tag_t;

typedef struct hk_part_table {
  hk_part_entry_t entry[HK_PART_ENTRIES];
  hk_heap_t *base;    /* the thread's own heap, while hk_thread_heap names a part; else the empty heap */
  hk_list_t parts;    /* through part.of_thread; guarded by hk_lock_heap_pool */
  unsigned tag_count; /* pushed, not popped, and with an entry in `tag` */
  unsigned more_tags; /* pushed and not popped, without one */
  hk_part_tag_t tag[HK_PART_TAGS_MAX];
  struct hk_part_table *next_free; /* guarded by hk_lock_heap_pool */
} hk_part_table_t;

/* The calling thread's table; one without entries until the thread uses a named heap or a tag, and after its end. */
extern HK_HIDDEN HK_THREAD_LOCAL hk_part_table_t *hk_part_table;

/* Returns the calling thread's part of the named heap, if its table says which it is; else NULL. */
HK_INLINE hk_heap_t *hk_part_find(const hk_named_t *named) {
  const hk_part_entry_t *entry = (const hk_part_entry_t *)((const char *)hk_part_table + named->entry_offset);
  if (HK_UNLIKELY(!hk_is_relaxed_value(named, &entry->named))) return NULL;
  hk_heap_t *part = entry->part;
  if (part == NULL) __builtin_unreachable(); /* set before the name: set_entry */
  return part;
}

/* Returns whether the calling thread has the owner of a slab: as a part, or as its own heap while it is switched to a
 * part. */
HK_INLINE bool hk_part_is_mine(const hk_slab_t *slab, hk_heap_t *owner) {
  if (slab->part_kind != hk_part_of_none) return hk_load_relaxed(&owner->part.thread_variable) == &hk_thread_heap;
  return owner == hk_part_table->base;
}

/* Returns the calling thread's part of the named heap: from its table, else an idle part, else a new one. Returns NULL
 * when the system refuses, and for a thread that keeps no heap. Requires that the allocator has started. */
hk_heap_t *hk_part_acquire(hk_named_t *named);

/* Returns the named heap or tag that the calling thread is switched to; NULL: none. */
HK_INLINE hk_named_t *hk_part_current(void) {
  const hk_heap_t *heap = hk_thread_own();
  return HK_LIKELY(!hk_heap_is_part(heap)) ? NULL : hk_heap_named(heap);
}

/* A switch to a part, from the call of hk_part_enter to the call of hk_part_leave. `part` is NULL when the thread could
 * get none: then hk_part_leave does nothing. */
typedef struct {
  hk_heap_t *part;
  hk_heap_t *before; /* what hk_thread_heap named */
  bool is_borrowed;  /* the thread keeps no heap: it has the part for this call alone */
} hk_part_switch_t;
hk_part_switch_t hk_part_enter(hk_named_t *named);
void hk_part_leave(const hk_part_switch_t *entered);

/* Switches the calling thread back to its own heap, for allocations of the library itself, and again to the part that
 * the first function returned. The caller pushes and pops no tag in between. Without a switch both do nothing. */
hk_heap_t *hk_part_enter_base(void);
void hk_part_leave_base(hk_heap_t *part);

/* Push a tag, and pop the innermost one. A thread that keeps no heap, and one that the system refuses a part, is
 * charged nothing, and a push of NULL changes nothing. A pop without a push does nothing. */
void hk_part_push_tag(hk_named_t *tag);
void hk_part_pop_tag(void);

/* Pops the innermost push of this tag, which need not be the innermost of all. */
void hk_part_remove_tag(const hk_named_t *tag);

/* Calls `visit` for each part of the calling thread, in a slow path of the part. */
void hk_part_visit_own(void (*visit)(hk_heap_t *part));

/* Calls `visit` for the calling thread's part of the named heap, and for the idle ones. */
void hk_part_visit(hk_named_t *named, void (*visit)(hk_heap_t *part));

/* Ends all parts of a named heap, which no thread uses: gives up their spans with all blocks. Calls `visit` before for
 * each part, unless that is NULL. Takes a step for each span, and none for a block. */
void hk_part_end_all(hk_named_t *named, void (*visit)(hk_heap_t *part, void *context), void *context);

/* For the exit handler, before hk_thread_on_exit: gives the thread's parts back. */
void hk_part_on_exit(void);

/* For a child of fork, while it has one thread: rebuilds the table of the thread that forked. */
void hk_part_adopt(hk_part_table_t *table, const hk_forker_t *forker);

/* Returns the own heap of a thread whose hk_thread_heap names `heap`: `heap`, or the table's `base` during a switch. */
const hk_heap_t *hk_part_base_of(const hk_part_table_t *table, const hk_heap_t *heap);

HK_C_END

#endif /* HK_HEAP_PART_H */
