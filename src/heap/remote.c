/* heap/remote.c - L4. See remote.h; docs/concurrency.md has the argument for each order. */
#include "heap/remote.h"

#include "base/atomic.h"
#include "base/count.h"
#include "heap/mid.h"
#include "heap/trim.h"
#include "space/region_map.h"

/* Links are multiples of 16: the lowest bit is free to say that the block is under way. */
static hk_block_t *marked(const hk_block_t *next) { return (hk_block_t *)((uintptr_t)next | 1); }

static bool is_marked(const hk_block_t *link) { return ((uintptr_t)link & 1) != 0; }

/* `last` is the end of a chain of blocks that are under way. */
static void post(hk_heap_t *owner, hk_block_t *first, hk_block_t *last) {
  hk_block_t *head = hk_load_relaxed(&owner->shared.incoming);
  do {
    hk_count(hk_count_shared_update, 1);
    hk_block_link(last, marked(head));
  } while (!hk_compare_exchange_release(&owner->shared.incoming, &head, first)); /* with the exchange in drain */
}

HK_NOINLINE static void send(hk_heap_t *heap, hk_outgoing_t *batch) {
  hk_stat_bump(&heap->stat, hk_stat_remote_batch, 1);
  hk_heap_t *owner = batch->owner;
  batch->owner = NULL; /* before the blocks go: a child of fork must not send them twice */
  hk_keep_store_order();
  post(owner, batch->first, batch->last);
}

static unsigned slot_of(const hk_heap_t *owner) {
  /* Fibonacci hashing (D. Knuth, The Art of Computer Programming 3, 6.4): records lie at regular distances. */
  return (unsigned)((uintptr_t)owner * UINT64_C(0x9E3779B97F4A7C15) >> (64 - HK_OUTBOX_SHIFT));
}

static uint32_t weight_of(const hk_slab_t *slab) {
  return slab->block_bytes > HK_BATCH_LEAST_BYTES ? slab->block_bytes : HK_BATCH_LEAST_BYTES;
}

/* Begins a batch with a block in the place of another owner's. */
HK_NOINLINE static void begin(hk_heap_t *heap, hk_outgoing_t *batch, hk_heap_t *owner, hk_block_t *block) {
  if (batch->owner != NULL) send(heap, batch);
  hk_block_link(block, marked(HK_LIST_END));
  *batch = (hk_outgoing_t){.first = block, .last = block};
  hk_keep_store_order(); /* a child of fork must not find an owner without a chain for it */
  batch->owner = owner;
}

void hk_remote_free(hk_heap_t *heap, const hk_slab_t *slab, hk_block_t *block) {
  hk_heap_t *owner = hk_load_relaxed(&((hk_slab_t *)slab)->owner);
  hk_outgoing_t *batch = &heap->outbox[slot_of(owner)];
  uint32_t weight = weight_of(slab); /* before the block can be on its way: its slab is the owner's */
  hk_stat_bump(&heap->stat, hk_stat_remote_free, 1);
  if (HK_UNLIKELY(batch->owner != owner)) {
    begin(heap, batch, owner, block);
  } else {
    hk_block_link(block, marked(batch->first));
    hk_keep_store_order(); /* a child of fork must not find a chain that leads to a block before it is linked */
    batch->first = block;
  }
  batch->bytes += weight;
  if (HK_UNLIKELY(batch->bytes >= HK_BATCH_MAX_BYTES)) send(heap, batch);
}

void hk_remote_free_now(const hk_slab_t *slab, hk_block_t *block) {
  hk_stat_add(hk_stat_remote_batch, 1);
  hk_stat_add(hk_stat_remote_free, 1);
  post(hk_load_relaxed(&((hk_slab_t *)slab)->owner), block, block);
}

void hk_remote_flush(hk_heap_t *heap) {
  for (unsigned i = 0; i < HK_OUTBOX_SLOTS; i++) {
    if (heap->outbox[i].owner != NULL) send(heap, &heap->outbox[i]);
  }
}

void hk_remote_drain(hk_heap_t *heap) {
  hk_count(hk_count_shared_update, 1);
  hk_block_t *block = hk_exchange_acquire(&heap->shared.incoming, HK_LIST_END);
  uint64_t count = 0;
  while (block != HK_LIST_END) {
    hk_block_t *link = block->next;
    if (!hk_block_is_intact(block) || !is_marked(link)) {
      heap->damaged = block;
      break;
    }
    hk_block_t *next = hk_remote_next(link);
    __builtin_prefetch(next);
    hk_slab_t *slab = hk_slab_of(block);
    if (hk_sink_push(slab->sink, block)) hk_bin_settle(heap, slab);
    block = next;
    count++;
  }
  hk_stat_bump(&heap->stat, hk_stat_remote_drain, count);
}

void hk_remote_drain_idle(void) {
  hk_heap_t *heap = hk_heap_take_pending();
  if (heap == NULL) return;
  hk_heap_enter(heap);
  hk_remote_drain(heap);
  hk_heap_settle_down(heap);
  hk_heap_leave(heap);
  hk_heap_give_back(heap);
}
