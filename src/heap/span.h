/* heap/span.h - L4. A span of blocks of one class, and the life of a tiny class's span within its heap (for mid classes
 * see mid.h; for its new blocks carve.h).
 *
 *   active:  its bin allocates from it; its free list is the effective free list of its class
 *   full:    not worth allocating from; its free list is its own list; counts down to "worth it again"
 *   partial: in its bin's partial list; counts down to "every block is free"
 *   empty:   leaves the bin: to the heap's spare slabs
 *
 * Only an inactive span counts: `live` is exact when its countdown is set, and start - countdown blocks came back
 * since. When an active span runs out, every carved block is in use or a remote free under way, so live starts again
 * from the number of carved blocks. All functions are for the thread that has the heap, unless they say otherwise.
 */
#ifndef HK_HEAP_SPAN_H
#define HK_HEAP_SPAN_H

#include <stdbool.h>

#include "heap/heap.h"
#include "space/short_span.h"

/* Returns a new span for the class, owned by the heap and in no list; NULL when the system refuses. */
hk_slab_t *hk_span_acquire(hk_heap_t *heap, unsigned class_index);

/* Makes `span` the one that its bin allocates from. Requires a span in no list and an empty bin. */
void hk_span_activate(hk_heap_t *heap, hk_slab_t *span);

/* Makes the class's active span a full or a partial one. Requires an empty effective free list. */
void hk_span_deactivate(hk_heap_t *heap, unsigned class_index);

/* hk_span_deactivate for a tiny class whose effective free list still has `list_length` blocks, fewer than were carved.
 * They move to the span's own list. Requires a list that is not in use. */
void hk_span_put_to_rest(hk_heap_t *heap, unsigned class_index, unsigned list_length);

/* Returns whether a block of the span that was carved starts at `address`. Any thread. */
bool hk_span_has_block(const hk_slab_t *span, const void *address);

/* Directs the owner's frees into the span to `free_list` from now on. */
void hk_span_set_free_lists(hk_slab_t *span, hk_free_list_t *free_list);

/* Opens or closes the bin of a tiny class of a sampled heap (sample_countdown.h): frees go to it while it is open. The
 * lists keep their blocks. */
void hk_span_set_open(hk_heap_t *heap, unsigned class_index, bool is_open);

/* Returns whether the active span has more blocks to give: in the effective free list, or to be carved. */
bool hk_span_active_has_room(const hk_heap_t *heap, unsigned class_index);

/* Returns the first span of the class's partial list; NULL: there is none. */
HK_INLINE hk_slab_t *hk_span_first_partial(const hk_heap_t *heap, unsigned class_index) {
  const hk_list_t *partial = &heap->state[class_index].partial;
  if (!hk_list_is_linked(partial) || hk_list_is_empty(partial)) return NULL;
  return HK_CONTAINER_OF(partial->next, hk_slab_t, link);
}

/* Takes a span out of its bin's partial list. */
void hk_span_unlink(hk_slab_t *span);

/* Gives up the pages of a span that were never carved: its last slabs go to their superslab, the end of the last one
 * that it keeps goes to the system. Requires that the caller has claimed the heap's spans. */
hk_shorten_t hk_span_shorten(hk_heap_t *heap, hk_slab_t *span);

/* Gives up a span that has no block in use and is in no list: its slabs become spare. */
void hk_span_release(hk_heap_t *heap, hk_slab_t *span);

/* Acts on a countdown that is over, after hk_free_list_push into a tiny class's span returned true. `slab` is any slab
 * of the span. */
void hk_span_countdown_over(hk_heap_t *heap, hk_slab_t *slab);

#endif /* HK_HEAP_SPAN_H */
