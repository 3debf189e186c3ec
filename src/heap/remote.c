/* heap/remote.c - L4. See remote.h; docs/concurrency.md has the argument for each order. */
#include "heap/remote.h"

#include "base/atomic.h"
#include "base/count.h"
#include "heap/span.h"

/* Chosen: a batch is worth its compare-and-swap at 32 blocks, and holds back at most 16 KiB. */
#define BATCH_MAX_BLOCKS 32
#define BATCH_MAX_BYTES (16 * HK_KIB)

/* Puts a span on its owner's pending list. Only the thread that made its remote list non-empty comes here, so nobody
 * else writes pending_next until the owner has taken the span off and emptied the list. */
static void make_pending(hk_slab_t *span) {
  hk_heap_t *owner = hk_load_relaxed(&span->owner);
  hk_slab_t *head = hk_load_relaxed(&owner->shared.pending);
  do {
    hk_count(hk_count_shared_update, 1);
    span->shared.pending_next = head;
  } while (
      !hk_compare_exchange_release(&owner->shared.pending, &head, span)); /* with the exchange in hk_remote_drain */
}

/* `last` is the end of a chain of blocks of the span. */
static void post(hk_slab_t *span, hk_block_t *first, hk_block_t *last) {
  hk_block_t *head = hk_load_relaxed(&span->shared.remote);
  do {
    hk_count(hk_count_shared_update, 1);
    hk_block_link(last, head != NULL ? head : HK_LIST_END);
  } while (!hk_compare_exchange_acq_rel(&span->shared.remote, &head, first)); /* both ways with the exchange in take */
  if (head == NULL) make_pending(span);
}

static void send(hk_heap_t *heap, hk_outgoing_t *batch) {
  hk_stat_bump(&heap->stat, hk_stat_remote_batch, 1);
  hk_stat_bump(&heap->stat, hk_stat_remote_free, batch->count);
  unsigned count = batch->count;
  batch->count = 0; /* before the blocks go: a child of fork must not send them twice */
  hk_keep_store_order();
  if (count > 0) post(batch->slab, batch->first, batch->last);
}

static unsigned slot_of(const hk_slab_t *span) {
  return (unsigned)((uintptr_t)span / sizeof(hk_slab_t)) & (HK_OUTBOX_SLOTS - 1);
}

static bool is_worth_sending(const hk_outgoing_t *batch) {
  return batch->count >= BATCH_MAX_BLOCKS || batch->count * hk_class_bytes(batch->slab->class_index) >= BATCH_MAX_BYTES;
}

void hk_remote_free(hk_heap_t *heap, hk_slab_t *span, hk_block_t *block) {
  hk_outgoing_t *batch = &heap->outbox[slot_of(span)];
  if (batch->count > 0 && batch->slab != span) send(heap, batch);
  if (batch->count == 0) {
    batch->slab = span;
    batch->last = block;
    hk_block_link(block, HK_LIST_END);
  } else {
    hk_block_link(block, batch->first);
  }
  batch->first = block;
  batch->count++;
  if (is_worth_sending(batch)) send(heap, batch);
}

void hk_remote_free_now(hk_slab_t *span, hk_block_t *block) {
  hk_stat_add(hk_stat_remote_batch, 1);
  hk_stat_add(hk_stat_remote_free, 1);
  post(span, block, block);
}

void hk_remote_flush(hk_heap_t *heap) {
  for (unsigned i = 0; i < HK_OUTBOX_SLOTS; i++) {
    if (heap->outbox[i].count > 0) send(heap, &heap->outbox[i]);
  }
}

static void take(hk_heap_t *heap, hk_slab_t *span) {
  /* Acquire for the chain; release so that whoever finds the list empty writes pending_next after it was read here. */
  hk_count(hk_count_shared_update, 1);
  hk_block_t *first = hk_exchange_acq_rel(&span->shared.remote, NULL);
  hk_block_t *last = NULL;
  unsigned count = 0;
  for (hk_block_t *block = first; block != NULL && block != HK_LIST_END; block = block->next) {
    if (!hk_block_is_intact(block)) {
      heap->damaged = block;
      break;
    }
    /* Two threads that free one block at the same moment can link a ring: nothing of it can be counted. */
    if (count == hk_load_relaxed(&span->carved)) {
      heap->damaged = block;
      count = 0;
      break;
    }
    last = block;
    count++;
  }
  hk_stat_bump(&heap->stat, hk_stat_remote_drain, count);
  if (count > 0) hk_span_take_back(heap, span, first, last, count);
}

void hk_remote_drain(hk_heap_t *heap) {
  hk_count(hk_count_shared_update, 1);
  hk_slab_t *span = hk_exchange_acquire(&heap->shared.pending, NULL);
  while (span != NULL) {
    /* Before its list is emptied: from then on another thread may put the span on the pending list again. */
    hk_slab_t *next = span->shared.pending_next;
    take(heap, span);
    span = next;
  }
}

void hk_remote_drain_idle(void) {
  hk_heap_t *heap = hk_heap_take_pending();
  if (heap == NULL) return;
  hk_heap_enter(heap);
  hk_remote_drain(heap);
  hk_span_release_reserve(heap);
  hk_heap_leave(heap);
  hk_heap_give_back(heap);
}
