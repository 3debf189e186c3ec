/* heap/purge_drain.h - L4. Remote drain by the purge thread: releases spans whose blocks were all freed by other
 * threads and wait for a thread that does not collect them, because it sleeps or needs no more memory.
 *
 * A heap's lists are its thread's alone. But no list leads to a span that is carved completely, that its bin does not
 * allocate from, and whose blocks are all in the heap's `incoming`. Only the chain of blocks leads to it, and any
 * thread may take that chain whole. So the purge thread takes the chain of a heap whose thread has been in no slow path
 * for a while. It picks such spans out of the chain, puts the other blocks back, and gives the spans' slabs to the
 * superslabs.
 *
 * The purge thread sees without a lock that a bin does not allocate from the span. The bin did when the span's last
 * block was handed out, which came before that block was freed, which came before the chain was taken. So the purge
 * thread reads that state or a later one, and the state of a span without a free block does not change again. The
 * heap's thread has then finished its work with the span: it clears `active` last. A span without a free block does not
 * move to another heap either (steal.h).
 *
 * Correctness does not need a sleeping thread. A thread that grows meanwhile only misses the blocks that are being
 * sorted.
 *
 * A child of fork finds the blocks that were being sorted in no list: they are lost (docs/concurrency.md).
 */
#ifndef HK_HEAP_PURGE_DRAIN_H
#define HK_HEAP_PURGE_DRAIN_H

#include <stdint.h>

#include "heap/heap.h"

/* Releases what can be drained from every heap whose thread has been in no slow path for `asleep_ms`. Returns a damaged
 * block that it met, or NULL; the blocks that were sent before that one are lost. One thread at a time. */
hk_block_t *hk_purge_drain(uint64_t now_ms, uint64_t asleep_ms);

/* Returns when there may be something to drain if those threads sleep on; UINT64_MAX: no blocks wait. For the same
 * thread. */
uint64_t hk_purge_drain_next_due(uint64_t now_ms, uint64_t asleep_ms);

#endif /* HK_HEAP_PURGE_DRAIN_H */
