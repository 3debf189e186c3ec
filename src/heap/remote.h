/* heap/remote.h - L4. Blocks freed by a thread that does not own them.
 *
 * They go home in batches, one for each owner: a batch is a chain of the owner's blocks, whatever their spans, and one
 * compare-and-swap puts it before what waits in the owner's `incoming`. The owner takes all of that at once and puts
 * each block where its slab says. A block on its way counts as in use until it is taken back, so a span cannot be given
 * up while one of its blocks is under way.
 *
 * A block under way is linked and sealed as a free one, so that a second free of it is noticed, and its link is marked:
 * the owner notices a block that came home already, as when two threads freed it at the same moment.
 */
#ifndef HK_HEAP_REMOTE_H
#define HK_HEAP_REMOTE_H

#include <stdbool.h>

#include "heap/heap.h"

/* Chosen: a batch holds back 32 KiB, or a sixteenth of what the heap that sends it has itself, up to 256 KiB. Threads
 * that only free hold back little; those that work on each other's memory meet seldom. */
#define HK_BATCH_FIRST_BYTES (32 * HK_KIB)
#define HK_BATCH_MOST_BYTES (256 * HK_KIB)
#define HK_BATCH_SHARE 16

/* Chosen: what the smallest blocks count for, so that 256 of them are worth the compare-and-swap. */
#define HK_BATCH_LEAST_BLOCK 128

/* Frees a block of a slab that another heap owns. `heap` is the calling thread's. */
void hk_remote_free(hk_heap_t *heap, const hk_slab_t *slab, hk_block_t *block);

/* The same without a batch, for a thread that has no heap any more. */
void hk_remote_free_now(const hk_slab_t *slab, hk_block_t *block);

/* Sends every batch of the heap home. */
void hk_remote_flush(hk_heap_t *heap);

/* Whether hk_remote_drain would find something. */
HK_INLINE bool hk_remote_is_pending(hk_heap_t *heap) { return hk_load_relaxed(&heap->shared.incoming) != HK_LIST_END; }

/* Takes back what other threads freed into one heap that no thread has, if there is such a heap: whoever is about to
 * grow does this first, or what those heaps could give back waited for a thread to adopt them. */
void hk_remote_drain_idle(void);

/* hk_heap_give_back, after which nothing waits for the heap: blocks that came meanwhile are taken back. */
void hk_remote_give_back(hk_heap_t *heap);

/* Takes back what other threads freed; how many blocks. Owner only. Of a damaged block `heap->damaged` tells, and what
 * was sent before it is lost. */
size_t hk_remote_drain(hk_heap_t *heap);

/* Takes all that waits for the heap: for who drains it, or puts it back. */
hk_block_t *hk_remote_take(hk_heap_t *heap);

/* Puts a chain of blocks that are under way before what waits for the heap. Whether nothing did. */
bool hk_remote_post(hk_heap_t *owner, hk_block_t *first, hk_block_t *last);

/* Links a block that is under way. Links are multiples of 16: the lowest bit is free to say so. */
HK_INLINE void hk_remote_link(hk_block_t *block, hk_block_t *next) {
  hk_block_link(block, (hk_block_t *)((uintptr_t)next | 1));
}
HK_INLINE bool hk_remote_is_marked(const hk_block_t *link) { return ((uintptr_t)link & 1) != 0; }

/* Where a link leads, whether or not its block is under way. */
HK_INLINE hk_block_t *hk_remote_next(const hk_block_t *link) { return (hk_block_t *)((uintptr_t)link & ~(uintptr_t)1); }

#endif /* HK_HEAP_REMOTE_H */
