/* heap/purge_drain.c - L4. See purge_drain.h. */
#include "heap/purge_drain.h"

#include <assert.h>

#include "base/arithmetic.h"
#include "base/count.h"
#include "base/panic.h"
#include "heap/remote.h"
#include "heap/span.h"
#include "os/os.h"
#include "space/class_slabs.h"
#include "space/region_map.h"
#include "space/superslab.h"

/* A span's count is one of these once it is decided whether its blocks are all in the chain. */
#define ALL_IN_CHAIN UINT16_MAX
#define NOT_ALL_IN_CHAIN (UINT16_MAX - 1)
static_assert(HK_SPAN_MAX_SLABS * (HK_SLAB_BYTES / HK_BLOCK_ALIGNMENT) < NOT_ALL_IN_CHAIN,
              "no span has as many blocks");

/* Each chain is a round with a number of its own. Counts of earlier rounds are void: the span may have changed since,
 * or the thread that counted has vanished in a fork. */
static uint32_t this_round;

/* ---- One chain. */

static hk_slab_t *span_of(const hk_block_t *block) { return hk_slab_of(block)->head; }

static uint16_t *count_of(hk_slab_t *span) {
  if (span->drain_round != this_round) {
    span->drain_round = this_round;
    span->drain_count = 0;
  }
  return &span->drain_count;
}

/* Counts the blocks of each span, and clears the links' under-way bits: a block that is met twice has none the second
 * time. Ends the chain before a block that cannot be followed, and returns that block, or NULL. */
static hk_block_t *count_blocks(hk_block_t **first) {
  hk_block_t *last = NULL;
  for (hk_block_t *block = *first, *next; block != HK_LIST_END; last = block, block = next) {
    if (!hk_block_is_intact(block) || !hk_remote_is_under_way(hk_block_next(block))) {
      if (last != NULL) hk_block_link(last, HK_LIST_END);
      if (last == NULL) *first = HK_LIST_END;
      return block;
    }
    next = hk_remote_next(hk_block_next(block));
    hk_block_link(block, next);
    ++*count_of(span_of(block));
    __builtin_prefetch(next);
  }
  return NULL;
}

/* Returns whether only the heap's chain leads to the span: see purge_drain.h. */
static bool is_in_chain_alone(hk_heap_t *heap, hk_slab_t *span, unsigned count) {
  /* The owner first: another heap's thread may be making its span shorter. */
  return hk_slab_owner(span) == heap && count == hk_span_capacity(span) && hk_span_carved(span) == count &&
         hk_load_acquire(&heap->state[span->class_index].active) != span; /* with hk_span_put_to_rest and switch_to */
}

/* Returns whether all of the span's blocks are in the chain. Decides once in a round, so that the answer stays the
 * same, whatever the heap's thread does meanwhile. */
static bool are_all_in_chain(hk_heap_t *heap, hk_slab_t *span) {
  uint16_t *count = count_of(span);
  if (*count < NOT_ALL_IN_CHAIN) *count = is_in_chain_alone(heap, span, *count) ? ALL_IN_CHAIN : NOT_ALL_IN_CHAIN;
  return *count == ALL_IN_CHAIN;
}

/* The rest of the chain, with its under-way bits. */
typedef struct {
  hk_block_t *first;
  hk_block_t *last;
} chain_t;

/* Puts the spans whose blocks are all in the chain into `spans`, through their links, which no other list uses then.
 * Returns the other blocks. Ends at a block that has the under-way bit again: it was freed once more meanwhile, and its
 * link belongs to another chain. */
static chain_t sort(hk_heap_t *heap, hk_block_t *first, hk_list_t *spans, hk_block_t **damaged) {
  chain_t rest = {HK_LIST_END, NULL};
  for (hk_block_t *block = first, *next; block != HK_LIST_END; block = next) {
    next = hk_block_next(block);
    if (!hk_block_is_intact(block) || hk_remote_is_under_way(next)) {
      *damaged = block;
      break;
    }
    __builtin_prefetch(next);
    hk_slab_t *span = span_of(block);
    if (are_all_in_chain(heap, span)) {
      if (!hk_list_is_linked(&span->link)) hk_list_push_back(spans, &span->link);
      continue;
    }
    hk_remote_link(block, rest.first);
    if (rest.last == NULL) rest.last = block;
    rest.first = block;
  }
  return rest;
}

/* ---- The walk: each block of the chain is put back or lies in a drained span, and the heap owns each drained span. */

#if HK_DEBUG

static size_t chain_length(const hk_block_t *block) {
  size_t length = 0;
  for (; block != HK_LIST_END && hk_block_is_intact(block); block = hk_remote_next(hk_block_next(block))) length++;
  return length;
}

static void check_sorted(const hk_heap_t *heap, size_t chain_blocks, const hk_list_t *spans, const chain_t *rest) {
  size_t sorted = chain_length(rest->first);
  for (const hk_list_t *node = spans->next; node != spans; node = node->next) {
    hk_slab_t *span = HK_CONTAINER_OF(node, hk_slab_t, link);
    HK_REQUIRE(span->head == span && hk_slab_state(span) == hk_slab_small, "a drained span has its own head and state");
    for (unsigned i = 0; i < span->slab_count; i++)
      HK_REQUIRE(hk_slab_owner(&span[i]) == heap, "a drained span is owned by the heap of the chain");
    sorted += hk_span_carved(span);
  }
  HK_REQUIRE(sorted == chain_blocks, "each block of the chain is put back, or of a drained span");
}

#else
static size_t chain_length(const hk_block_t *block) { return (void)block, 0; }
static void check_sorted(const hk_heap_t *heap, size_t chain_blocks, const hk_list_t *spans, const chain_t *rest) {
  (void)heap, (void)chain_blocks, (void)spans, (void)rest;
}
#endif

/* Gives the spans' slabs to the superslabs. Returns the number of slabs. */
static uint32_t release_spans(hk_list_t *spans) {
  uint32_t slabs = 0, count = 0, blocks = 0;
  for (hk_list_t *node = spans->next, *next; node != spans; node = next) {
    next = node->next;
    hk_slab_t *span = HK_CONTAINER_OF(node, hk_slab_t, link);
    blocks += hk_span_carved(span);
    slabs += span->slab_count;
    count++;
    span->is_zero = false;
    hk_slab_retire(span, span->slab_count);
    bool is_short = hk_short_span_is(span);
    if (HK_LIKELY(!is_short && !HK_HARDENED)) continue;
    hk_list_remove(&span->link);
    if (HK_HARDENED) span->is_wiped = true;
    if (is_short) {
      hk_short_span_release(span);
    } else {
      hk_class_slabs_put(span, span->class_index);
    }
  }
  if (count == 0) return 0;
  hk_stat_add(hk_stat_slab_release, count);
  hk_stat_add(hk_stat_remote_drain, blocks);
  hk_superslab_release_all(spans);
  return slabs;
}

/* Chosen: after a chain, a heap is left alone for this many times as long as the chain took. A chain takes up to half a
 * microsecond for each block (measured: 4 million in two seconds, with all their lines out of cache). */
#define REST_AFTER_WALK 8

static hk_block_t *drain(hk_heap_t *heap, uint64_t now_ms) {
  uint64_t start_ms = hk_os_coarse_ms();
  this_round++;
  hk_block_t *first = hk_remote_take(heap);
  hk_block_t *damaged = count_blocks(&first);
  size_t chain_blocks = chain_length(first);
  hk_list_t spans;
  hk_list_init(&spans);
  chain_t rest = sort(heap, first, &spans, &damaged);
  if (damaged == NULL) check_sorted(heap, chain_blocks, &spans, &rest);
  bool is_all = rest.last == NULL || hk_remote_post(heap, rest.first, rest.last);
  /* Otherwise blocks that came meanwhile lie behind it, which no round has seen. */
  heap->drain.put_back = is_all ? rest.first : NULL;
  uint64_t took_ms = hk_subtract_to_zero(hk_os_coarse_ms(), start_ms);
  heap->drain.since_ms = hk_add_saturating(now_ms, REST_AFTER_WALK * took_ms);
  uint32_t slabs = release_spans(&spans);
  if (slabs > 0) (void)hk_add_relaxed(&heap->shared.drained_slabs, slabs); /* with note_drained */
  return damaged;
}

/* ---- Which threads sleep. */

/* Returns a count that changes with each slow path of the heap's thread that collects remote frees. */
static uint64_t drains_of(hk_heap_t *heap) {
  return hk_load_relaxed(&heap->stat.value[hk_stat_refill]) + hk_load_relaxed(&heap->stat.value[hk_stat_remote_drain]);
}

/* Returns whether blocks wait that were not looked at before. The same block can be first again, but only after a slow
 * path that collected it. */
static bool is_waiting(hk_heap_t *heap) {
  if (hk_heap_life(heap) != hk_heap_attached || hk_heap_is_part(heap)) return false;
  hk_block_t *incoming = hk_load_relaxed(&heap->shared.incoming);
  if (incoming == HK_LIST_END) return false;
  return incoming != heap->drain.put_back || drains_of(heap) != heap->drain.drains;
}

/* Begins the wait for the heap's thread anew if the thread has drained the heap since the last look. */
static void restart_wait_if_drained(hk_heap_t *heap, uint64_t now_ms) {
  uint64_t drains = drains_of(heap);
  if (heap->drain.since_ms != 0 && heap->drain.drains == drains) return;
  heap->drain.drains = drains;
  heap->drain.put_back = NULL;
  heap->drain.since_ms = now_ms;
}

hk_block_t *hk_purge_drain(uint64_t now_ms, uint64_t asleep_ms) {
  hk_block_t *damaged = NULL;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (!is_waiting(heap)) continue;
    restart_wait_if_drained(heap, now_ms);
    if (hk_subtract_to_zero(now_ms, heap->drain.since_ms) < asleep_ms) continue;
    if (!hk_heap_claim_spans(heap)) continue;
    hk_block_t *found = drain(heap, now_ms);
    hk_heap_unclaim_spans(heap);
    hk_remote_drain_if_idle(heap); /* its thread may have ended before blocks were put back */
    if (found != NULL) damaged = found;
  }
  return damaged;
}

uint64_t hk_purge_drain_next_due(uint64_t now_ms, uint64_t asleep_ms) {
  uint64_t due_ms = UINT64_MAX;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (!is_waiting(heap)) continue;
    restart_wait_if_drained(heap, now_ms);
    due_ms = hk_smaller(due_ms, hk_add_saturating(heap->drain.since_ms, asleep_ms));
  }
  return due_ms;
}
