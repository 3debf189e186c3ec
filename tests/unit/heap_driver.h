// Uses a heap as malloc and free do, without the layer that knows threads and messages.
#ifndef HK_TESTS_UNIT_HEAP_DRIVER_H
#define HK_TESTS_UNIT_HEAP_DRIVER_H

#include <gtest/gtest.h>

#include "unit/core_parts.h"

namespace hk_test {

inline hk_block_t *Pop(hk_heap_t *heap, unsigned class_index) {
  return hk_bin_pop(heap, class_index * sizeof(hk_sink_t));
}

// A block, or null when the system refuses.
inline hk_block_t *Alloc(hk_heap_t *heap, unsigned class_index) {
  for (;;) {
    hk_block_t *block = Pop(heap, class_index);
    if (block != nullptr || !hk_refill(heap, class_index)) return block;
  }
}

// Frees one of the heap's own blocks. True when that made something due.
inline bool FreeOwn(hk_heap_t *heap, void *block) {
  hk_slab_t *slab = hk_slab_of(block);
  bool due = hk_sink_push(slab->sink, static_cast<hk_block_t *>(block));
  if (due) hk_span_countdown_over(heap, slab);
  return due;
}

inline void Free(hk_heap_t *heap, void *block) {
  hk_slab_t *slab = hk_slab_of(block);
  if (hk_load_relaxed(&slab->owner) == heap) {
    (void)FreeOwn(heap, block);
  } else {
    hk_remote_free(heap, slab->head, static_cast<hk_block_t *>(block));
  }
}

inline hk_slab_t *SpanOf(const void *block) { return hk_slab_of(block)->head; }

inline unsigned CarvedOf(const hk_slab_t *span) { return hk_load_relaxed(&const_cast<hk_slab_t *>(span)->carved); }

inline unsigned CapacityOf(unsigned class_index) {
  return hk_class_span_slabs(class_index) * hk_class_blocks_per_slab(class_index);
}

// How many blocks of a full span must come back before it is worth allocating from again.
inline unsigned WorthOf(unsigned class_index) {
  unsigned eighth = CapacityOf(class_index) / 8;
  return eighth < 64 ? eighth : 64;
}

inline unsigned ListLength(const hk_block_t *list) {
  unsigned length = 0;
  for (; list != HK_LIST_END && hk_block_is_intact(list); list = list->next) length++;
  return length;
}

inline bool IsActive(const hk_heap_t *heap, const hk_slab_t *span) {
  return heap->state[span->class_index].active == span;
}

inline bool IsPartial(const hk_heap_t *heap, const hk_slab_t *span) {
  return !IsActive(heap, span) && hk_list_is_linked(&span->link);
}

// Blocks of an inactive span that count as in use.
inline unsigned LiveOf(const hk_slab_t *span) { return span->live - (span->own.mark - span->own.countdown); }

// A debug build's own look at a span.
inline void WalkSpan(const hk_heap_t *heap, const hk_slab_t *span) {
#if HK_DEBUG
  hk_span_check(heap, span);
#else
  (void)heap, (void)span;
#endif
}

// Whether everything that is known of a span of the heap fits `live`, the number of its blocks that somebody holds.
inline void CheckSpan(const hk_heap_t *heap, const hk_slab_t *span, unsigned live) {
  WalkSpan(heap, span);
  unsigned carved = CarvedOf(span);
  ASSERT_LE(carved, CapacityOf(span->class_index));
  if (IsActive(heap, span)) {
    ASSERT_EQ(span->own.free, HK_LIST_END) << "the bin has them all";
    ASSERT_EQ(ListLength(heap->bin[span->class_index].free) + live, carved);
    return;
  }
  ASSERT_EQ(LiveOf(span), live);
  ASSERT_EQ(ListLength(span->own.free) + live, carved);
  if (IsPartial(heap, span)) {
    ASSERT_EQ(span->own.countdown, live) << "a partial span is due when everything is free";
  } else {
    ASSERT_LT(carved - live, WorthOf(span->class_index)) << "a span with so many free blocks is worth listing";
    ASSERT_EQ(span->own.countdown, WorthOf(span->class_index) - (carved - live));
  }
}

inline uint64_t StatOf(hk_heap_t *heap, hk_stat_id_t id) { return hk_load_relaxed(&heap->stat.value[id]); }

inline size_t InUseSlabs() { return hk_superslab_usage().in_use_bytes / HK_SLAB_BYTES; }

}  // namespace hk_test

#endif  // HK_TESTS_UNIT_HEAP_DRIVER_H
