/* heap/span.h - L4. A span of blocks of one class, and the life of a tiny class's span within its heap (for mid classes
 * see mid.h).
 *
 *   active:  its bin allocates from it; its free list is the bin
 *   full:    nothing worth allocating from; its free list is its own list; counts down to "worth it again"
 *   partial: in its bin's partial list; counts down to "everything is free"
 *   empty:   leaves the bin: to the heap's spare slabs
 *
 * Only a span that is not active counts: live = live at the mark - (mark - countdown). When an active span runs out,
 * every block that was carved is in use or on its way home, so live starts again from what is carved. All functions are
 * for the thread that has the heap.
 */
#ifndef HK_HEAP_SPAN_H
#define HK_HEAP_SPAN_H

#include <stdbool.h>

#include "heap/heap.h"

/* A new span for the class, owned by the heap and in no list; NULL when the system refuses. */
hk_slab_t *hk_span_acquire(hk_heap_t *heap, unsigned class_index);

/* Makes `span`, which is in no list, the one that its bin allocates from. The bin's list is empty before. */
void hk_span_activate(hk_heap_t *heap, hk_slab_t *span);

/* Ends that, when the bin's list is exhausted. */
void hk_span_deactivate(hk_heap_t *heap, unsigned class_index);

/* The same while the bin's list still has blocks, `at_home` of them, which are the span's own from then on: of a tiny
 * class that nobody allocates from. Not all that were cut. */
void hk_span_put_to_rest(hk_heap_t *heap, unsigned class_index, unsigned at_home);

/* Whether `address` is where one of the span's blocks starts that were cut so far. Any thread. */
bool hk_span_has_block(const hk_slab_t *span, const void *address);

/* How many blocks there is room for in the span. */
HK_INLINE unsigned hk_span_capacity(const hk_slab_t *span) {
  return span->slab_count * hk_class_blocks_per_slab(span->class_index);
}

/* Where the owner's frees into the span go from now on. */
void hk_span_set_free_lists(hk_slab_t *span, hk_free_list_t *free_list);

/* Of a tiny class of a sampled heap (sample_countdown.h): whether frees go to the bin. What is in the lists stays there. */
void hk_span_set_open(hk_heap_t *heap, unsigned class_index, bool is_open);

/* Whether the active span gives blocks yet: to its bin, or by cutting some. */
bool hk_span_active_has_room(const hk_heap_t *heap, unsigned class_index);

/* Takes a span out of its bin's partial list. */
void hk_span_unlink(hk_slab_t *span);

/* Cuts up to `count` new blocks for the bin of an active span; how many there was room for. The bin's list is empty
 * before. */
unsigned hk_span_carve(hk_heap_t *heap, hk_slab_t *span, unsigned count);

/* Gives up a span that has no block in use and is in no list: its slabs become spare. */
void hk_span_release(hk_heap_t *heap, hk_slab_t *span);

/* After hk_free_list_push into a tiny class's span said that something is due. `slab` is any slab of the span. */
void hk_span_countdown_over(hk_heap_t *heap, hk_slab_t *slab);

#endif /* HK_HEAP_SPAN_H */
