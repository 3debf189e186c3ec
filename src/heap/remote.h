/* heap/remote.h - L4. Blocks freed by a thread that does not own them.
 *
 * They go home in batches, one a span: a full batch is one compare-and-swap on the span's remote list, and the batch
 * that finds that list empty also puts the span on its owner's pending list. The owner takes from exactly those spans
 * that have something, whatever state they are in. A block on its way counts as in use until it is taken back, so a
 * span cannot be given up while one of its blocks is under way.
 */
#ifndef HK_HEAP_REMOTE_H
#define HK_HEAP_REMOTE_H

#include <stdbool.h>

#include "heap/heap.h"

/* Frees a block of a span that another heap owns. `heap` is the calling thread's. */
void hk_remote_free(hk_heap_t *heap, hk_slab_t *span, hk_block_t *block);

/* The same without a batch, for a thread that has no heap any more. */
void hk_remote_free_now(hk_slab_t *span, hk_block_t *block);

/* Sends every batch of the heap home. */
void hk_remote_flush(hk_heap_t *heap);

/* Whether hk_remote_drain would find something. */
HK_INLINE bool hk_remote_is_pending(hk_heap_t *heap) { return hk_load_relaxed(&heap->shared.pending) != NULL; }

/* Takes back what other threads freed into one heap that no thread has, if there is such a heap: whoever is about to
 * grow does this first, or what those heaps could give back waited for a thread to adopt them. */
void hk_remote_drain_idle(void);

/* Takes back what other threads freed. Owner only. Of a damaged block `heap->damaged` tells, and the rest of its
 * batch is lost. */
void hk_remote_drain(hk_heap_t *heap);

#endif /* HK_HEAP_REMOTE_H */
