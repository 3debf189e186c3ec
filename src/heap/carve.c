/* heap/carve.c - L4. See carve.h. */
#include "heap/carve.h"

#include "base/arithmetic.h"
#include "base/hash.h"
#include "base/panic.h"
#include "base/random.h"
#include "heap/handover.h"
#include "space/short_span.h"
#include "space/superslab_index.h"
#include "space/wipe.h"

/* Notes `count` new blocks of a mid class, which the bin then has. */
static void note_carved_mid(hk_heap_t *heap, hk_slab_t *span, unsigned count) {
  hk_free_list_t *bin = hk_heap_effective_list(heap, span->class_index);
  span->live = (uint16_t)(span->live + count);
  bin->countdown = heap->state[span->class_index].room - count;
  heap->state[span->class_index].carved_zero = span->is_zero;
}

static void put_carved(hk_heap_t *heap, hk_slab_t *span, hk_block_t *list, unsigned count) {
  hk_free_list_t *bin = hk_heap_effective_list(heap, span->class_index);
  if (hk_class_is_mid(span->class_index)) {
    note_carved_mid(heap, span, count);
  } else {
    bin->countdown = span->is_zero ? HK_COUNTDOWN_FRESH : HK_COUNTDOWN_ACTIVE;
    hk_heap_note_length(heap, span->class_index, count);
  }
  hk_keep_store_order();
  bin->free = list;
}

/* Returns where block `index` starts in a span at `start`. */
HK_INLINE uintptr_t block_start(uintptr_t start, unsigned per_slab, size_t block_bytes, unsigned index) {
  return start + index / per_slab * HK_SLAB_BYTES + index % per_slab * block_bytes;
}

/* Chosen: the memory to carve was mostly not used for long. A block's line is fetched BLOCKS_AHEAD blocks before the
 * block is linked, and is then in the processor's cache (measured:
 * docs/experiments/2026-11-23-carving-fetch-ahead.md). */
#define BLOCKS_AHEAD 16

/* Links `count` blocks in front of `list`; the last one starts at `last`. Its slab has `here` of them, each slab before
 * it `per_slab`. The loop runs from the last to the first, so that the blocks that are handed out first come into the
 * cache last. Where a slab ends in a gap, a fetch may miss its line: it is only advice. */
static hk_block_t *link_downwards(uintptr_t last, unsigned count, unsigned here, unsigned per_slab, size_t block_bytes,
                                  hk_block_t *list) {
  const size_t gap = HK_SLAB_BYTES - per_slab * block_bytes, ahead = BLOCKS_AHEAD * block_bytes;
  for (; count > 0; count--) {
    if (count > BLOCKS_AHEAD) __builtin_prefetch((void *)(last - ahead), 1);
    hk_block_link((hk_block_t *)last, list);
    list = (hk_block_t *)last;
    last -= block_bytes;
    if (--here == 0) {
      last -= gap;
      here = per_slab;
    }
  }
  return list;
}

/* The lowest bits of an address choose the set of a first cache, and these bits are 0 in the start of each slab. */
#define SET_BITS 12

/* Returns the index of the block that a new span's list begins with: the blocks before it come last. It lies at another
 * place of the first page in each slab of a superslab. A class's first blocks often live longest: if every class began
 * at the start of a slab, these would displace each other in the cache (measured:
 * docs/experiments/2026-11-30-first-blocks.md). */
static unsigned first_index(uintptr_t start, size_t block_bytes, unsigned count) {
  size_t place = hk_hash(start / HK_SLAB_BYTES % HK_SUPERSLAB_SLABS) >> (64 - SET_BITS);
  return (unsigned)hk_smaller(place / block_bytes, count - 1);
}

/* Chosen: the number of neighbours that a hardened build links in a random order. In longer groups, blocks of the same
 * age share fewer cache lines and pages (docs/hardened.md has the cost). */
#define SHUFFLE_GROUP 16u

/* Fills `order` with `first` to `first` + `count` - 1 in a random order (R. Fisher, F. Yates, from the inside out). */
static void shuffle(hk_quarantine_t *quarantine, uint16_t *order, unsigned first, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    unsigned at = (unsigned)((uint64_t)hk_random_below(&quarantine->random, 1u << 24) * (i + 1) >> 24);
    order[i] = order[at];
    order[at] = (uint16_t)(first + i);
  }
}

/* Makes a block ready for its link. One that was in a list before has an old link. */
static void prepare(hk_heap_t *heap, const hk_slab_t *span, hk_block_t *block) {
  if (!span->is_wiped) {
    hk_wipe(block, span->block_bytes);
  } else if (!hk_handover_may_link(block) && !hk_block_is_intact(block)) {
    heap->damaged = block;
  }
}

/* Links `count` blocks from index `carved` on, each group in a random order, and clears memory whose contents are
 * unknown. Sets `heap->damaged` to a damaged block. */
static hk_block_t *link_shuffled(hk_heap_t *heap, const hk_slab_t *span, unsigned carved, unsigned count) {
  uint16_t order[SHUFFLE_GROUP];
  uintptr_t start = hk_slab_start(span);
  size_t block_bytes = span->block_bytes;
  unsigned per_slab = hk_class_blocks_per_slab(span->class_index);
  hk_block_t *list = HK_LIST_END;
  for (unsigned end = count; end > 0;) { /* the first group is handed out first */
    unsigned here = (end - 1) % SHUFFLE_GROUP + 1;
    end -= here;
    shuffle(hk_heap_quarantine(heap), order, carved + end, here);
    for (unsigned i = 0; i < here; i++) {
      hk_block_t *block = (hk_block_t *)block_start(start, per_slab, block_bytes, order[i]);
      prepare(heap, span, block);
      hk_block_link(block, list);
      list = block;
    }
  }
  return list;
}

/* Links `count` blocks from index `carved` on in the order of their addresses; in a new span those before first_index
 * come last. */
HK_INLINE hk_block_t *link_in_order(const hk_slab_t *span, unsigned carved, unsigned count) {
  size_t block_bytes = span->block_bytes;
  unsigned per_slab = hk_class_blocks_per_slab(span->class_index);
  uintptr_t start = hk_slab_start(span);
  unsigned last_index = carved + count - 1;
  uintptr_t last = block_start(start, per_slab, block_bytes, last_index);
  hk_block_t *list = HK_LIST_END;
  unsigned before = carved == 0 ? first_index(start, block_bytes, count) : 0;
  if (before > 0)
    list = link_downwards(start + (before - 1) * block_bytes, before, before, per_slab, block_bytes, list);
  return link_downwards(last, count - before, last_index % per_slab + 1, per_slab, block_bytes, list);
}

unsigned hk_span_carve(hk_heap_t *heap, hk_slab_t *span, unsigned count) {
  HK_ASSERT(hk_heap_effective_list(heap, span->class_index)->free == HK_LIST_END, "the bin's blocks would be lost");
  unsigned carved = hk_load_relaxed(&span->carved);
  unsigned room = hk_span_capacity(span) - carved;
  if (count > room) count = room;
  if (count == 0) return 0;

  if (HK_HARDENED) { /* a child of fork loses the blocks, and does not find half of a link in one */
    hk_store_relaxed(&span->carved, (uint16_t)(carved + count));
    hk_keep_store_order();
  }
  hk_block_t *list = HK_HARDENED ? link_shuffled(heap, span, carved, count) : link_in_order(span, carved, count);
  hk_store_relaxed(&span->carved, (uint16_t)(carved + count));
  put_carved(heap, span, list, count);
  return count;
}

hk_block_t *hk_span_carve_untouched(hk_heap_t *heap, hk_slab_t *span) {
  unsigned carved = hk_load_relaxed(&span->carved), class_index = span->class_index;
  if (carved == hk_span_capacity(span)) return NULL;
  uintptr_t block = block_start(hk_slab_start(span), hk_class_blocks_per_slab(class_index), span->block_bytes, carved);
  hk_store_relaxed(&span->carved, (uint16_t)(carved + 1));
  note_carved_mid(heap, span, 1);
  hk_heap_effective_list(heap, class_index)->countdown++; /* the block goes out at once */
  return (hk_block_t *)block;
}
