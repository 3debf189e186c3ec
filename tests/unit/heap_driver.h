// Uses a heap as malloc and free do, without the layer that knows threads and messages.
#ifndef HK_TESTS_UNIT_HEAP_DRIVER_H
#define HK_TESTS_UNIT_HEAP_DRIVER_H

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "unit/core_parts.h"

namespace hk_test {
inline namespace heap_driver {

using Blocks = std::vector<hk_block_t *>;

inline hk_block_t *Pop(hk_heap_t *heap, unsigned class_index) {
  hk_free_list_t *bin = &heap->bin[class_index];
  return hk_class_is_mid(class_index) ? hk_bin_pop_mid(bin) : hk_bin_pop(bin);
}

// A block, or null when the system refuses.
inline hk_block_t *Alloc(hk_heap_t *heap, unsigned class_index) {
  for (;;) {
    hk_block_t *block = Pop(heap, class_index);
    if (block != nullptr || !hk_refill(heap, class_index, nullptr)) return block;
  }
}

// Frees one of the heap's own blocks. True when that made something due.
inline bool FreeOwn(hk_heap_t *heap, void *block) {
  hk_slab_t *slab = hk_slab_of(block);
  bool due = hk_free_list_push(slab->free_list, static_cast<hk_block_t *>(block));
  if (due) hk_bin_countdown_over(heap, slab);
  return due;
}

inline void Free(hk_heap_t *heap, void *block) {
  hk_slab_t *slab = hk_slab_of(block);
  if (hk_load_relaxed(&slab->owner) == heap) {
    (void)FreeOwn(heap, block);
  } else {
    hk_remote_free(heap, slab, static_cast<hk_block_t *>(block));
  }
}

// Frees a block of another heap; and all that is sent goes to its owners at once.
inline void RemoteFree(hk_heap_t *heap, hk_block_t *block) { hk_remote_free(heap, hk_slab_of(block), block); }
inline void SendAll(hk_heap_t *heap, const Blocks &blocks) {
  for (hk_block_t *block : blocks) RemoteFree(heap, block);
  hk_remote_flush(heap);
}

// Takes back what waits for the heap.
inline void Drain(hk_heap_t *heap) {
  hk_remote_drain(heap);
  EXPECT_EQ(heap->damaged, nullptr);
  EXPECT_FALSE(hk_heap_has_incoming(heap));
}

// Holds back the blocks that wait for a heap while another heap takes a span of it. Afterwards they wait again, as if
// they had come meanwhile.
class HeldBack {
 public:
  explicit HeldBack(hk_heap_t *heap) : heap_(heap), first_(hk_remote_take(heap)) {}
  ~HeldBack() { hk_store_release(&heap_->shared.incoming, first_); }
  HeldBack(const HeldBack &) = delete;
  HeldBack &operator=(const HeldBack &) = delete;

 private:
  hk_heap_t *heap_;
  hk_block_t *first_;
};

// Several heaps, attached.
inline std::vector<hk_heap_t *> TakeMany(size_t count) {
  std::vector<hk_heap_t *> heaps;
  while (heaps.size() < count) heaps.push_back(hk_heap_take());
  return heaps;
}

// How many heaps were ever made.
inline size_t HeapCount() {
  size_t count = 0;
  for (hk_heap_t *heap = hk_heap_first(); heap != nullptr; heap = heap->all_next) count++;
  return count;
}

// An idle heap that has blocks to take back, or null.
inline hk_heap_t *TakePending() {
  return hk_heap_take_if([](hk_heap_t *heap, unsigned) { return hk_heap_has_incoming(heap); }, 0);
}

inline hk_slab_t *SpanOf(const void *block) { return hk_slab_of(block)->head; }

inline unsigned CarvedOf(const hk_slab_t *span) { return hk_load_relaxed(&const_cast<hk_slab_t *>(span)->carved); }

inline unsigned CapacityOf(unsigned class_index) {
  return hk_class_span_slabs(class_index) * hk_class_blocks_per_slab(class_index);
}

// How many blocks of a tiny class's full span must come back before it is worth allocating from again.
inline unsigned WorthOf(unsigned class_index) {
  unsigned eighth = CapacityOf(class_index) / 8;
  return eighth < 64 ? eighth : 64;
}

// How many blocks a mid class's list may have now.
inline unsigned RoomOf(const hk_heap_t *heap, unsigned class_index) { return heap->state[class_index].room; }

inline unsigned ListLength(const hk_block_t *list) {
  unsigned length = 0;
  for (; list != HK_LIST_END && hk_block_is_intact(list); list = list->next) length++;
  return length;
}

// The blocks of a list that lie in the span.
inline unsigned CountOfSpan(const hk_block_t *list, const hk_slab_t *span) {
  unsigned count = 0;
  for (; list != HK_LIST_END && hk_block_is_intact(list); list = list->next) count += SpanOf(list) == span;
  return count;
}

// Blocks that were pushed to the heap and not taken back yet; a ring counts as very many.
inline unsigned IncomingLength(hk_heap_t *heap) {
  unsigned length = 0;
  const hk_block_t *block = hk_load_relaxed(&heap->shared.incoming);
  for (; block != HK_LIST_END && length < 1000000; block = hk_remote_next(block->next)) length++;
  return length;
}

inline bool IsActive(const hk_heap_t *heap, const hk_slab_t *span) {
  return heap->state[span->class_index].active.load() == span;
}

// Whether its bin's partial list has the span; of a mid class the active span can be there too.
inline bool IsPartial(const hk_heap_t *heap, const hk_slab_t *span) {
  bool may_be = hk_class_is_mid(span->class_index) || !IsActive(heap, span);
  return may_be && hk_list_is_linked(&span->link);
}

// Blocks of an inactive span of a tiny class that count as in use.
inline unsigned LiveOf(const hk_slab_t *span) { return span->live - (span->own.start - span->own.countdown); }

// A debug build's own look at a span.
inline void WalkSpan(const hk_heap_t *heap, const hk_slab_t *span) {
#if HK_DEBUG
  hk_span_check(heap, span);
#else
  (void)heap, (void)span;
#endif
}

inline void CheckTinySpan(const hk_heap_t *heap, const hk_slab_t *span, unsigned live) {
  unsigned carved = CarvedOf(span);
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
    ASSERT_LT(carved - live, WorthOf(span->class_index)) << "a span with this number of free blocks is worth listing";
    ASSERT_EQ(span->own.countdown, WorthOf(span->class_index) - (carved - live));
  }
}

inline void CheckMidSpan(const hk_heap_t *heap, const hk_slab_t *span, unsigned live) {
  const hk_free_list_t *bin = &heap->bin[span->class_index];
  for (unsigned i = 0; i < span->slab_count; i++) ASSERT_EQ(span[i].free_list, bin) << "for good";
  unsigned at_home = ListLength(span->own.free);
  ASSERT_EQ(span->live, live + CountOfSpan(bin->free, span)) << "what the bin has counts too";
  ASSERT_EQ(at_home + span->live, CarvedOf(span));
  ASSERT_EQ(IsPartial(heap, span), at_home > 0);
  ASSERT_GT(span->live, 0) << "a span that has all its blocks is released";
}

// Checks all counts of a span of the heap against `live`, the number of its blocks that a caller holds.
inline void CheckSpan(const hk_heap_t *heap, const hk_slab_t *span, unsigned live) {
  WalkSpan(heap, span);
  ASSERT_LE(CarvedOf(span), CapacityOf(span->class_index));
  if (hk_class_is_mid(span->class_index)) {
    CheckMidSpan(heap, span, live);
  } else {
    CheckTinySpan(heap, span, live);
  }
}

// Whether a mid class's bin counts its list right.
inline void CheckMidBin(const hk_heap_t *heap, unsigned class_index) {
  const hk_free_list_t *bin = &heap->bin[class_index];
  ASSERT_EQ(ListLength(bin->free) + bin->countdown, RoomOf(heap, class_index)) << class_index;
  ASSERT_GT(bin->countdown, 0u) << "a full list is spilled at once";
  ASSERT_LE(RoomOf(heap, class_index), hk_class_room(class_index, HK_ROOM_MAX_BYTES)) << class_index;
}

inline uint64_t StatOf(hk_heap_t *heap, hk_stat_id_t id) { return hk_load_relaxed(&heap->stat.value[id]); }

inline size_t InUseSlabs() { return hk_superslab_usage().in_use_bytes / HK_SLAB_BYTES; }

// Slabs that the heap took in advance and has no span in yet.
inline size_t ReservedSlabs(const hk_heap_t *heap) { return heap->reserve != nullptr ? heap->reserve->slab_count : 0; }

// How many slabs a heap may keep, by default and as the options are now.
constexpr size_t kSpareSlabs = 32;
inline size_t SpareRoom() { return std::min<size_t>(hk_option.spare_slabs, hk_option.retain / HK_SLAB_BYTES); }

// Gives a heap all of that room, as if the room was often too short.
inline hk_heap_t *WithAllRoom(hk_heap_t *heap) {
  heap->spare_overflows = 1 << 20;
  return heap;
}

inline Blocks AllocMany(hk_heap_t *heap, unsigned class_index, size_t count) {
  Blocks blocks;
  while (blocks.size() < count) blocks.push_back(Alloc(heap, class_index));
  return blocks;
}

// All that the bin's list has.
inline Blocks PopAll(hk_heap_t *heap, unsigned class_index) {
  Blocks blocks;
  while (hk_block_t *block = Pop(heap, class_index)) blocks.push_back(block);
  return blocks;
}

// Frees a run, and requests one, as the api does. False: another thread freed it first.
inline bool SpareRun(hk_heap_t *heap, hk_slab_t *head) {
  if (!hk_run_close(head)) return false;
  hk_spare_put_run(heap, head);
  return true;
}
inline void *TakeSpareRun(hk_heap_t *heap, size_t bytes) { return hk_spare_take_run(heap, hk_run_slabs(bytes)); }

// Each refill ends at one stage.
inline void ExpectStagesAddUp(hk_heap_t *heap) {
  uint64_t sum = 0;
  for (hk_stat_id_t stage : {hk_stat_refill_remote, hk_stat_refill_used, hk_stat_refill_carve, hk_stat_slab_move,
                             hk_stat_slab_acquire, hk_stat_refill_failed}) {
    sum += StatOf(heap, stage);
  }
  EXPECT_EQ(sum, StatOf(heap, hk_stat_refill));
  EXPECT_LE(StatOf(heap, hk_stat_slab_reuse) + StatOf(heap, hk_stat_slab_reserve), StatOf(heap, hk_stat_slab_acquire));
}

}  // namespace heap_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_HEAP_DRIVER_H
