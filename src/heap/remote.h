/* heap/remote.h - L4. Remote frees: blocks that a thread frees and another heap owns.
 *
 * They travel in batches, one for each owner. A batch is a chain of the owner's blocks, whatever their spans, and one
 * compare-exchange puts it before the owner's `incoming` list. The owner takes the whole list at once and puts each
 * block where its slab says. A block under way, in a batch or in `incoming`, counts as in use until the owner collects
 * it. So no span is given up while one of its blocks is under way. A batch is sent when it is full, before its thread
 * grows, when the thread ends, and a part's when its tag is popped. The owner collects when a bin runs out
 * (heap/refill.c); for owners that sleep see heap/purge_drain.h and heap/detach.h.
 *
 * A block under way is linked and sealed like a free one, so that a second free of it is noticed. The lowest bit of its
 * link is the under-way bit: a link without it belongs to a block that was collected already, as when two threads freed
 * it at the same moment.
 */
#ifndef HK_HEAP_REMOTE_H
#define HK_HEAP_REMOTE_H

#include <stdbool.h>

#include "heap/heap.h"

/* Chosen: a batch holds back 32 KiB by its blocks' weights, or a sixteenth of the sending heap's own slabs, up to 256
 * KiB. Threads that only free hold back little; threads that work on each other's memory send rarely. */
#define HK_BATCH_FIRST_BYTES (32 * HK_KIB)
#define HK_BATCH_MAX_BYTES (256 * HK_KIB)
#define HK_BATCH_SHARE 16

/* Chosen: the least weight of a block, so that a batch of 256 small ones is worth the compare-exchange. */
#define HK_BATCH_MIN_BLOCK 128

/* Chosen: a heap is overdue when blocks of this many KiB wait for it, twice as many for each doubling of its thread's
 * patience (attachment.h), and whenever their number has doubled again. */
#define HK_OVERDUE_KIB 1024u

/* The heap that became overdue last; NULL: none since the last look. Its thread may sleep: the next thread in a slow
 * path looks (detach.h). A hint. */
extern HK_HIDDEN _Atomic(hk_heap_t *) hk_remote_overdue;

/* Frees a block of a slab that another heap owns. `heap` is the calling thread's. */
void hk_remote_free(hk_heap_t *heap, const hk_slab_t *slab, hk_block_t *block);

/* Frees a block of another heap without a batch, for a thread that has no heap. */
void hk_remote_free_now(const hk_slab_t *slab, hk_block_t *block);

/* Sends every batch of the heap to its owner. */
void hk_remote_flush(hk_heap_t *heap);

/* Drains the heap if it is idle. A thread that has sent blocks to a heap calls it: none waits for a heap without a
 * thread. When another thread has just taken that heap, that one drains it, even if it is about to give the heap
 * back. */
void hk_remote_drain_if_idle(hk_heap_t *heap);

/* Drains every idle heap and part that has blocks waiting. */
void hk_remote_drain_idle(void);

/* Notes, in a child of fork, that idle heaps may have blocks waiting: those of vanished threads, and those to which a
 * vanished thread had just sent some. */
void hk_remote_note_fork(void);

/* True in a child of fork until a thread has drained the idle heaps. */
extern HK_HIDDEN _Atomic(bool) hk_remote_is_drain_due;

/* Drains the idle heaps where a fork left that to do. For a thread that is about to grow. */
HK_INLINE void hk_remote_drain_idle_if_due(void) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_remote_is_drain_due))) hk_remote_drain_idle();
}

/* hk_heap_give_back, and drains the heap again if blocks arrived meanwhile, so that none waits. */
void hk_remote_give_back(hk_heap_t *heap);

/* Collects the heap's remote frees. Returns how many blocks. For the thread that has the heap. Sets `heap->damaged` to
 * a damaged block; the blocks that were sent before it are lost. */
size_t hk_remote_drain(hk_heap_t *heap);

/* Puts a block that another thread freed into the quarantine of its heap, in a hardened build, and the block that comes
 * out on its free list. The block is zero behind its link, and its live bit is clear. Sets `heap->damaged` to a damaged
 * block, which is lost. For the thread that has the heap. */
void hk_remote_collect_hardened(hk_heap_t *heap, hk_slab_t *slab, hk_block_t *block);

/* Detaches the heap's incoming list and returns it. The caller drains it or puts it back. */
hk_block_t *hk_remote_take(hk_heap_t *heap);

/* Puts a chain of linked blocks under way before the heap's incoming list. Returns true when that was empty. A last
 * block that is damaged stays so, and the owner finds it. */
bool hk_remote_post(hk_heap_t *owner, hk_block_t *first, hk_block_t *last);

/* Links a block under way. Links are multiples of 16, so the lowest bit is free. */
HK_INLINE void hk_remote_link(hk_block_t *block, hk_block_t *next) {
  hk_block_link(block, (hk_block_t *)((uintptr_t)next | 1));
}
/* Returns whether a link has the under-way bit. */
HK_INLINE bool hk_remote_is_under_way(const hk_block_t *link) { return ((uintptr_t)link & 1) != 0; }

/* Returns where a link leads, with or without the bit. */
HK_INLINE hk_block_t *hk_remote_next(const hk_block_t *link) { return (hk_block_t *)((uintptr_t)link & ~(uintptr_t)1); }

#endif /* HK_HEAP_REMOTE_H */
