/* heap/rescue.c - L4. See rescue.h. */
#include "heap/rescue.h"

#include "base/arithmetic.h"
#include "base/count.h"
#include "heap/remote.h"
#include "heap/span.h"
#include "space/region_map.h"
#include "space/superslab.h"

/* In the place of a count, when it is decided about a span. No span has so many blocks. */
#define ALL_HOME UINT16_MAX
#define NOT_ALL_HOME (UINT16_MAX - 1)

/* ---- One chain. */

static hk_slab_t *span_of(const hk_block_t *block) { return hk_slab_of(block)->head; }

static bool is_own(const hk_heap_t *heap, const hk_slab_t *span) {
  return hk_load_relaxed(&((hk_slab_t *)span)->owner) == heap;
}

/* Counts the blocks of each of the heap's spans, and takes the marks from the links: a block that is met twice has none
 * the second time. What cannot be followed is cut off. */
static hk_block_t *count_blocks(const hk_heap_t *heap, hk_block_t **first) {
  hk_block_t **link_to_next = first;
  hk_block_t *last = NULL;
  for (hk_block_t *block = *first, *next; block != HK_LIST_END; last = block, block = next) {
    if (!hk_block_is_intact(block) || !hk_remote_is_marked(block->next)) {
      if (last != NULL) hk_block_link(last, HK_LIST_END);
      if (last == NULL) *link_to_next = HK_LIST_END;
      return block;
    }
    next = hk_remote_next(block->next);
    hk_block_link(block, next);
    hk_slab_t *span = span_of(block);
    if (is_own(heap, span)) span->came_home++;
    __builtin_prefetch(next);
  }
  return NULL;
}

/* The same answer each time, whatever the heap's thread does meanwhile. */
static bool is_all_home(const hk_heap_t *heap, hk_slab_t *span) {
  if (!is_own(heap, span)) return false;
  if (span->came_home < NOT_ALL_HOME) {
    bool is_all = span->came_home == hk_span_capacity(span) && hk_load_relaxed(&span->carved) == span->came_home &&
                  hk_load_relaxed(&heap->state[span->class_index].active) != span;
    span->came_home = is_all ? ALL_HOME : NOT_ALL_HOME;
  }
  return span->came_home == ALL_HOME;
}

/* What is left of the chain, marked as it was. */
typedef struct {
  hk_block_t *first;
  hk_block_t *last;
} chain_t;

/* The spans that are all home, through their links, which are nobody's then. */
static chain_t sort(const hk_heap_t *heap, hk_block_t *first, hk_list_t *spans) {
  chain_t rest = {HK_LIST_END, NULL};
  for (hk_block_t *block = first, *next; block != HK_LIST_END; block = next) {
    next = block->next;
    __builtin_prefetch(next);
    hk_slab_t *span = span_of(block);
    if (is_all_home(heap, span)) {
      if (!hk_list_is_linked(&span->link)) hk_list_push_back(spans, &span->link);
      continue;
    }
    hk_remote_link(block, rest.first);
    if (rest.last == NULL) rest.last = block;
    rest.first = block;
  }
  return rest;
}

static void forget_counts(const hk_heap_t *heap, const hk_block_t *first) {
  for (const hk_block_t *block = first; block != HK_LIST_END; block = hk_remote_next(block->next)) {
    hk_slab_t *span = span_of(block);
    if (is_own(heap, span)) span->came_home = 0;
  }
}

/* How many slabs. */
static uint32_t release(hk_list_t *spans) {
  uint32_t slabs = 0, count = 0, blocks = 0;
  for (hk_list_t *node = spans->next; node != spans; node = node->next) {
    hk_slab_t *span = HK_CONTAINER_OF(node, hk_slab_t, link);
    blocks += hk_load_relaxed(&span->carved);
    slabs += span->slab_count;
    count++;
    span->came_home = 0;
    span->zero = false;
    hk_slab_retire(span, span->slab_count);
  }
  if (count == 0) return 0;
  hk_stat_add(hk_stat_slab_release, count);
  hk_stat_add(hk_stat_remote_drain, blocks);
  hk_superslab_release_all(spans);
  return slabs;
}

static hk_block_t *rescue(hk_heap_t *heap) {
  hk_block_t *first = hk_remote_take(heap);
  hk_block_t *damaged = count_blocks(heap, &first);
  hk_list_t spans;
  hk_list_init(&spans);
  chain_t rest = sort(heap, first, &spans);
  forget_counts(heap, rest.first);
  if (rest.last != NULL) hk_remote_post(heap, rest.first, rest.last);
  heap->rescue.put_back = rest.first;
  uint32_t slabs = release(&spans);
  if (slabs > 0) (void)hk_add_relaxed(&heap->shared.rescued_slabs, slabs); /* with the drain */
  return damaged;
}

/* ---- Who sleeps. */

static uint64_t slow_paths_of(hk_heap_t *heap) { return hk_load_relaxed(&heap->stat.value[hk_stat_refill]); }

/* Whether something waits that was not looked at before. */
static bool is_waiting(hk_heap_t *heap) {
  if (hk_heap_life(heap) != hk_heap_attached) return false;
  hk_block_t *incoming = hk_load_relaxed(&heap->shared.incoming);
  return incoming != HK_LIST_END && incoming != heap->rescue.put_back;
}

static void look(hk_heap_t *heap, uint64_t now_ms) {
  uint64_t slow_paths = slow_paths_of(heap);
  if (heap->rescue.since_ms != 0 && heap->rescue.slow_paths == slow_paths) return;
  heap->rescue.slow_paths = slow_paths;
  heap->rescue.since_ms = now_ms;
}

hk_block_t *hk_rescue(uint64_t now_ms, uint64_t asleep_ms) {
  hk_block_t *damaged = NULL;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (!is_waiting(heap)) continue;
    look(heap, now_ms);
    if (hk_subtract_to_zero(now_ms, heap->rescue.since_ms) < asleep_ms) continue;
    hk_block_t *found = rescue(heap);
    if (found != NULL) damaged = found;
    heap->rescue.since_ms = now_ms;
  }
  return damaged;
}

uint64_t hk_rescue_next_due(uint64_t now_ms, uint64_t asleep_ms) {
  uint64_t due_ms = UINT64_MAX;
  for (hk_heap_t *heap = hk_heap_first(); heap != NULL; heap = heap->all_next) {
    if (!is_waiting(heap)) continue;
    look(heap, now_ms);
    due_ms = hk_smaller(due_ms, hk_add_saturating(heap->rescue.since_ms, asleep_ms));
  }
  return due_ms;
}
