/* heap/purge_drain.h - L4. Memory that came home to a thread which does not take it up, because it sleeps or has no need of
 * more. For the purge thread.
 *
 * A heap's lists are its thread's alone. But a span that is cut completely, that its bin does not allocate from, and all
 * of whose blocks wait in the heap's `incoming` is in none of these lists: nothing leads to it but the chain of blocks,
 * which anybody may take whole. So the chain of a heap is taken whose thread has been in no slow path for a while, such
 * spans are picked out of it, the other blocks are put back, and the spans' slabs go to the superslabs.
 *
 * That a bin does not allocate from the span is seen without a lock. It did when the span's last block was handed out,
 * which came before that block was freed, which came before the chain was taken; so what is seen is that or something
 * later, and of a span without a free block it stays as it is. The heap's thread has then done all that it had to do with
 * the span: it says so last. A span without a free block does not move to another heap either (steal.h).
 *
 * So that nobody sleeps is no danger, only a waste: who grows meanwhile misses the blocks that are being sorted.
 *
 * A child of fork finds the blocks that were being sorted in no list: it has lost them (docs/concurrency.md).
 */
#ifndef HK_HEAP_PURGE_DRAIN_H
#define HK_HEAP_PURGE_DRAIN_H

#include <stdint.h>

#include "heap/heap.h"

/* Gives back what can be drained from every heap whose thread has been asleep for `asleep_ms`. A damaged block that was
 * come upon, or NULL: what was sent before it is lost. One thread at a time. */
hk_block_t *hk_purge_drain(uint64_t now_ms, uint64_t asleep_ms);

/* When there may be something to drain if those threads sleep on; UINT64_MAX: nothing waits. For the same thread. */
uint64_t hk_purge_drain_next_due(uint64_t now_ms, uint64_t asleep_ms);

#endif /* HK_HEAP_PURGE_DRAIN_H */
