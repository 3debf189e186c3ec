/* heap/remote.c - L4. See remote.h; docs/concurrency.md has the argument for each order. */
#include "heap/remote.h"

#include "base/atomic.h"
#include "base/count.h"
#include "base/hash.h"
#include "base/panic.h"
#include "heap/heap_check.h"
#include "heap/heap_flush.h"
#include "heap/mid.h"
#include "heap/pool.h"
#include "space/live_bit.h"
#include "space/purge_wakeup.h"
#include "space/region_map.h"

_Atomic(hk_heap_t *) hk_remote_overdue;

bool hk_remote_post(hk_heap_t *owner, hk_block_t *first, hk_block_t *last) {
  hk_block_t *head = hk_load_relaxed(&owner->shared.incoming);
  bool is_intact = hk_block_is_intact(last); /* the new link hides what the program wrote there meanwhile */
  do {
    hk_count(hk_count_shared_update, 1);
    hk_remote_link(last, head);
    if (HK_UNLIKELY(!is_intact)) hk_block_break_seal(last);
  } while (!hk_compare_exchange_weak_acq_rel(&owner->shared.incoming, &head,
                                             first)); /* with hk_remote_take, hk_heap_give_back */
  if (HK_UNLIKELY(hk_load_relaxed(&hk_purge_wakeup_is_due_at_free))) hk_purge_wakeup_send_at_free();
  return head == HK_LIST_END;
}

hk_block_t *hk_remote_take(hk_heap_t *heap) {
  hk_count(hk_count_shared_update, 1);
  hk_store_relaxed(&heap->shared.waiting, 0);
  return hk_exchange_acquire(&heap->shared.incoming, HK_LIST_END);
}

/* Subtracts the slabs that the purge thread has released, which the heap still counts. */
static void note_drained(hk_heap_t *heap) {
  uint32_t slabs = hk_load_relaxed(&heap->shared.drained_slabs);
  if (HK_LIKELY(slabs == 0)) return;
  (void)hk_sub_relaxed(&heap->shared.drained_slabs, slabs);
  HK_ASSERT(slabs <= hk_load_relaxed(&heap->span_slabs), "no more slabs are drained than a heap has");
  hk_bump_relaxed(&heap->span_slabs, -slabs);
}

static size_t batch_bytes(hk_heap_t *heap) {
  size_t share = hk_load_relaxed(&heap->span_slabs) * (HK_SLAB_BYTES / HK_BATCH_SHARE);
  if (share <= HK_BATCH_FIRST_BYTES) return HK_BATCH_FIRST_BYTES;
  return share < HK_BATCH_MAX_BYTES ? share : HK_BATCH_MAX_BYTES;
}

/* Counts a batch that was sent. Threads may overwrite each other's counts. */
static void note_waiting(hk_heap_t *heap, hk_heap_t *owner, ptrdiff_t left_bytes) {
  ptrdiff_t sent_bytes = (ptrdiff_t)batch_bytes(heap) - left_bytes; /* by the bytes that a batch may have now */
  if (sent_bytes < (ptrdiff_t)HK_KIB) return;
  uint32_t before = hk_load_relaxed(&owner->shared.waiting),
           waiting = before + (uint32_t)(sent_bytes / (ptrdiff_t)HK_KIB);
  hk_store_relaxed(&owner->shared.waiting, waiting);
  bool has_doubled = (before ^ waiting) > before;
  uint32_t least = HK_OVERDUE_KIB << hk_load_relaxed(&owner->attachment.patience);
  if (has_doubled && waiting >= least) hk_store_release(&hk_remote_overdue, owner);
}

HK_NOINLINE static void send(hk_heap_t *heap, hk_batch_t *batch) {
  hk_stat_bump(&heap->stat, hk_stat_remote_batch, 1);
  hk_heap_t *owner = batch->owner;
  batch->owner = NULL;   /* before the blocks go: a child of fork must not send them twice */
  hk_keep_store_order(); /* as in begin: the count is at least that of the batches */
  hk_bump_relaxed(&heap->batch_count, (uint32_t)-1);
  hk_keep_store_order();
  (void)hk_remote_post(owner, batch->first, batch->last);
  note_waiting(heap, owner, batch->left_bytes);
  if (heap->is_visited) {
    heap->has_sent_to_idle = heap->has_sent_to_idle || hk_heap_life(owner) == hk_heap_idle;
  } else {
    hk_remote_drain_if_idle(owner);
  }
}

static unsigned place_of(const hk_heap_t *owner) {
  return (unsigned)(hk_hash((uintptr_t)owner) >> (64 - HK_OUTBOX_SHIFT));
}

static uint32_t weight_of(const hk_slab_t *slab) {
  return slab->block_bytes > HK_BATCH_MIN_BLOCK ? slab->block_bytes : HK_BATCH_MIN_BLOCK;
}

/* Begins a batch with a block, and sends another owner's batch that is in its place. */
HK_NOINLINE static void begin(hk_heap_t *heap, hk_batch_t *batch, hk_heap_t *owner, hk_block_t *block,
                              uint32_t weight) {
  if (batch->owner != NULL) send(heap, batch);
  hk_remote_link(block, HK_LIST_END);
  *batch = (hk_batch_t){.first = block, .last = block, .left_bytes = (ptrdiff_t)batch_bytes(heap) - weight};
  hk_bump_relaxed(&heap->batch_count, 1);
  hk_keep_store_order(); /* a child of fork must not find an owner without a chain for it, or without its count */
  batch->owner = owner;
  if (batch->left_bytes <= 0) send(heap, batch);
}

/* A thread that walks a chain waits for each block's line, which another core has: the link to the next block comes
 * with that line. So the third word of a block that has one points to a block a few links further on, and the walk
 * fetches several lines at a time (jump pointers: A. Roth, G. Sohi, "Effective Jump-Pointer Prefetching for Linked Data
 * Structures", 1999). The pointer is a hint: nothing is read through it. */
static hk_block_t **jump_of(hk_block_t *block) { return (hk_block_t **)(block + 1); }

static bool has_jump(const hk_slab_t *slab) { return !HK_HARDENED && slab->block_bytes > sizeof(hk_block_t); }

HK_INLINE void set_jump(hk_heap_t *heap, const hk_slab_t *slab, hk_block_t *block) {
  uint64_t count = hk_load_relaxed(&heap->stat.value[hk_stat_remote_free]);
  hk_block_t **recent = &heap->recent[count % HK_JUMP_BLOCKS];
  HK_FORGET(recent);
  if (has_jump(slab)) *jump_of(block) = *recent;
  *recent = block;
}

/* Adds a block to the owner's batch. Calls come last, so that the common path has no stack frame. */
HK_INLINE void gather(hk_heap_t *heap, hk_heap_t *owner, const hk_slab_t *slab, hk_block_t *block) {
  hk_batch_t *batch = &heap->outbox[place_of(owner)];
  HK_FORGET(batch);                  /* one register, as in heap/bin.h */
  uint32_t weight = weight_of(slab); /* before the block is under way: its slab is the owner's */
  if (HK_UNLIKELY(batch->owner != owner)) {
    begin(heap, batch, owner, block, weight);
    return;
  }
  set_jump(heap, slab, block);
  hk_remote_link(block, batch->first);
  hk_keep_store_order(); /* a child of fork must not find a chain that leads to a block before it is linked */
  batch->first = block;
  batch->left_bytes -= weight;
  if (HK_UNLIKELY(batch->left_bytes <= 0)) send(heap, batch);
}

void hk_remote_free(hk_heap_t *heap, const hk_slab_t *slab, hk_block_t *block) {
  hk_stat_bump(&heap->stat, hk_stat_remote_free, 1);
  gather(heap, hk_load_relaxed(&((hk_slab_t *)slab)->owner), slab, block);
}

void hk_remote_free_now(const hk_slab_t *slab, hk_block_t *block) {
  hk_stat_add(hk_stat_remote_batch, 1);
  hk_stat_add(hk_stat_remote_free, 1);
  hk_heap_t *owner = hk_load_relaxed(&((hk_slab_t *)slab)->owner);
  hk_remote_link(block, HK_LIST_END);
  (void)hk_remote_post(owner, block, block);
  hk_remote_drain_if_idle(owner);
}

void hk_remote_flush(hk_heap_t *heap) {
  for (unsigned i = 0; i < HK_OUTBOX_PLACES; i++) {
    if (heap->outbox[i].owner != NULL) send(heap, &heap->outbox[i]);
  }
  hk_store_relaxed(&heap->batch_count, 0); /* in a child of fork it may have been a larger number */
}

/* Clears the live bit of a block of a hardened build, unless the block is another heap's by now. Returns false when the
 * block was freed twice. */
static bool clear_live_bit(hk_heap_t *heap, hk_slab_t *slab, const hk_block_t *block) {
  return hk_load_relaxed(&slab->owner) != heap || hk_live_bit_collect(hk_live_bit_of(block));
}

void hk_remote_collect_hardened(hk_heap_t *heap, hk_slab_t *slab, hk_block_t *block) {
  hk_block_unseal(block);
  block = hk_quarantine_swap(hk_heap_quarantine(heap), slab->class_index, slab->block_bytes, block);
  hk_heap_put_from_quarantine(heap, block);
}

/* Puts a block on its free list. Returns false when its span has moved to another heap meanwhile (steal.h): the block
 * is sent on. */
static bool collect(hk_heap_t *heap, hk_slab_t *slab, hk_block_t *block) {
  hk_heap_t *owner = hk_load_relaxed(&slab->owner);
  if (HK_UNLIKELY(owner != heap)) {
    gather(heap, owner, slab, block);
    return false;
  }
  if (HK_HARDENED) {
    hk_remote_collect_hardened(heap, slab, block);
  } else if (hk_free_list_push(slab->free_list, block)) {
    hk_bin_countdown_over(heap, slab);
  }
  return true;
}

size_t hk_remote_drain(hk_heap_t *heap) {
  note_drained(heap);
  hk_block_t *block = hk_remote_take(heap);
  size_t count = 0;
  while (block != HK_LIST_END) {
    hk_block_t *link = hk_block_next(block);
    if (!hk_block_is_intact(block) || !hk_remote_is_under_way(link)) {
      heap->damaged = block;
      break;
    }
    hk_block_t *next = hk_remote_next(link);
    hk_slab_t *slab = hk_slab_of(block);
    if (HK_HARDENED && !clear_live_bit(heap, slab, block)) {
      heap->damaged = block;
      break;
    }
    __builtin_prefetch(has_jump(slab) ? *jump_of(block) : next);
    count += collect(heap, slab, block);
    block = next;
  }
  hk_stat_bump(&heap->stat, hk_stat_remote_drain, count);
  hk_heap_check(heap);
  return count;
}

/* Gives the heap back with its memory while few heaps are idle. Other heaps may be idle for long, and keep nothing.
 * Returns the result of hk_heap_give_back. */
static bool return_to_pool(hk_heap_t *heap) {
  bool has_incoming;
  if (hk_heap_give_back_warm(heap, &has_incoming)) return has_incoming;
  hk_heap_enter(heap);
  hk_heap_deactivate_all(heap);
  hk_heap_leave(heap);
  return hk_heap_give_back(heap);
}

/* Drains a heap that the caller has taken, and gives it back. Sets `*has_incoming` to whether blocks have arrived
 * since. Returns whether the heap has sent blocks on to heaps that may be idle. */
static bool drain_once(hk_heap_t *heap, bool *has_incoming) {
  hk_heap_enter_taken(heap);
  heap->is_visited = true;
  heap->has_sent_to_idle = false;
  (void)hk_remote_drain(heap);
  hk_remote_flush(heap);
  hk_heap_unload(heap);
  heap->is_visited = false;
  bool has_sent = heap->has_sent_to_idle;
  hk_heap_leave(heap);
  *has_incoming = return_to_pool(heap);
  return has_sent;
}

/* Drains an idle heap that the caller has taken out of the pool, and gives it back; then those that it sent blocks to,
 * one after the other. Recursion would be as deep as a chain of heaps that each send on to the next. */
static void drain_visited(hk_heap_t *heap) {
  bool has_sent = false, has_incoming;
  do has_sent = drain_once(heap, &has_incoming) || has_sent;
  while (has_incoming && hk_heap_take_this(heap));
  while (has_sent && (heap = hk_heap_take_with_incoming()) != NULL) (void)drain_once(heap, &has_incoming);
}

void hk_remote_give_back(hk_heap_t *heap) {
  if (return_to_pool(heap) && hk_heap_take_this(heap)) drain_visited(heap);
}

void hk_remote_drain_if_idle(hk_heap_t *heap) {
  if (hk_heap_life(heap) == hk_heap_idle && hk_heap_take_this(heap)) drain_visited(heap);
}

/* ---- After a fork. */

_Atomic(bool) hk_remote_is_drain_due;

void hk_remote_note_fork(void) { hk_store_relaxed(&hk_remote_is_drain_due, true); }

void hk_remote_drain_idle(void) {
  hk_store_relaxed(&hk_remote_is_drain_due, false);
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (hk_heap_has_incoming(heap)) hk_remote_drain_if_idle(heap);
  }
}
