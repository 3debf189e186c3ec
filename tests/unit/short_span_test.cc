// space/short_span, heap/span and heap/heap_flush: spans near a limit on addresses have only the pages of their blocks.
#include <cstring>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/span_driver.h"

extern "C" {
#include "heap/refill.h"
#include "os/lock.h"
#include "space/short_span.h"
#include "space/shortage.h"
}

using namespace hk_test;

namespace {

constexpr size_t kPage = 4 * HK_KIB;

unsigned ClassOf(size_t bytes) { return hk_class_of(bytes); }

bool IsMapped(uintptr_t start) { return fake_os_is_mapped(reinterpret_cast<void *>(start), kPage); }

// A heap whose records and descriptors are there, so that a span costs its own pages alone.
hk_heap_t *WarmHeap() {
  hk_heap_t *heap = NewHeap();
  hk_span_release(heap, hk_span_acquire(heap, 1));
  hk_spare_flush(heap);
  (void)hk_purge_unmap_free();
  hk_shortage_begin();
  hk_block_t *block = Alloc(heap, ClassOf(2000));
  Free(heap, block);
  hk_heap_flush(heap);
  return heap;
}

// The same once the shortage is over: its new spans are whole.
hk_heap_t *HeapAfterAShortage() {
  hk_heap_t *heap = WarmHeap();
  fake_os_advance(2 * HK_SHORTAGE_MS * 1000000);
  return heap;
}

HK_FRESH_TEST(ShortSpan, HasAtMostASixteenthBehindItsLastBlock) {
  for (size_t page : {kPage, 4 * kPage, HK_SLAB_BYTES}) {
    for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
      size_t bytes = hk_class_short_bytes(i, page);
      EXPECT_EQ(bytes % page, 0u) << i;
      EXPECT_GE(bytes, hk_class_bytes(i)) << i;
      EXPECT_LE(bytes, HK_SLAB_BYTES) << i;
      if (bytes < HK_SLAB_BYTES) EXPECT_LE(bytes % hk_class_bytes(i), bytes / 16) << i;
    }
  }
}

HK_FRESH_TEST(ShortSpan, CostsThePagesOfAFewBlocksInAShortage) {
  hk_heap_t *heap = WarmHeap();
  for (unsigned i : {1u, 37u, 64u, ClassOf(5000), ClassOf(18000), ClassOf(32768)}) {
    size_t before = fake_os_mapped_bytes(), bytes = hk_class_short_bytes(i, kPage);
    hk_block_t *block = Alloc(heap, i);
    ASSERT_NE(block, nullptr) << i;
    EXPECT_EQ(fake_os_mapped_bytes() - before, bytes) << i;
    hk_slab_t *span = hk_slab_of(block)->head;
    EXPECT_EQ(hk_span_capacity(span), bytes / hk_class_bytes(i)) << i;
    EXPECT_FALSE(IsMapped(hk_slab_start(span) + bytes)) << i;
    hk_heap_check(heap);
    Free(heap, block);
    hk_heap_flush(heap);
    EXPECT_EQ(fake_os_mapped_bytes(), before) << "the pages go with the last block: " << i;
  }
}

HK_FRESH_TEST(ShortSpan, ServesUpToTheLastPage) {
  hk_heap_t *heap = WarmHeap();
  unsigned class_index = ClassOf(3000);
  size_t start = fake_os_mapped_bytes(), room = 20 * hk_class_short_bytes(class_index, kPage);
  fake_os_limit_mapped(start + room);
  Blocks blocks;
  while (hk_block_t *block = Alloc(heap, class_index)) {
    memset(static_cast<void *>(block), 1, hk_class_bytes(class_index));
    blocks.push_back(block);
  }
  EXPECT_GE(blocks.size() * hk_class_bytes(class_index), room * 15 / 16);
  for (hk_block_t *block : blocks) Free(heap, block);
  hk_heap_flush(heap);
  EXPECT_EQ(fake_os_mapped_bytes(), start) << "nothing is lost";
  hk_block_t *other = Alloc(heap, ClassOf(32768));
  EXPECT_NE(other, nullptr) << "what was freed serves every size";
  fake_os_limit_mapped(0);
}

// Returns a span of `class_index` with its first `count` blocks handed out, each filled with its number.
Full Carved(hk_heap_t *heap, unsigned class_index, unsigned count) {
  Full full = {NewActive(heap, class_index), {}};
  hk_span_carve(heap, full.span, count);
  full.blocks = PopAll(heap, class_index);
  for (size_t i = 0; i < full.blocks.size(); i++)
    memset(static_cast<void *>(full.blocks[i]), static_cast<int>(i), hk_class_bytes(class_index));
  return full;
}

void ExpectIntact(const Full &full) {
  for (size_t i = 0; i < full.blocks.size(); i++) {
    const auto *text = reinterpret_cast<const unsigned char *>(full.blocks[i]);
    EXPECT_EQ(text[0], i % 256);
    EXPECT_EQ(text[full.span->block_bytes - 1], i % 256);
  }
}

void FreeBlocks(hk_heap_t *heap, const Full &full) {
  for (hk_block_t *block : full.blocks) Free(heap, block);
  hk_heap_flush(heap);
}

HK_FRESH_TEST(ShortSpan, ATrimKeepsThePagesOfCarvedBlocks) {
  hk_heap_t *heap = HeapAfterAShortage();
  for (unsigned i : {1u, 37u, ClassOf(5000), ClassOf(18000), ClassOf(30000)}) {
    Full full = Carved(heap, i, 2);
    uintptr_t start = hk_slab_start(full.span);
    unsigned slabs = full.span->slab_count;
    size_t kept = (2 * hk_class_bytes(i) + kPage - 1) / kPage * kPage;
    EXPECT_TRUE(hk_heap_shorten(heap)) << i;
    (void)hk_purge_unmap_free();
    EXPECT_FALSE(hk_heap_shorten(heap)) << "there is no more: " << i;
    EXPECT_EQ(full.span->slab_count, (kept + HK_SLAB_BYTES - 1) / HK_SLAB_BYTES);
    EXPECT_EQ(hk_span_capacity(full.span), kept / hk_class_bytes(i));
    for (size_t at = 0; at < slabs * HK_SLAB_BYTES; at += kPage) EXPECT_EQ(IsMapped(start + at), at < kept) << i;
    ExpectIntact(full);
    hk_heap_check(heap);
    FreeBlocks(heap, full);
    for (size_t at = 0; at < slabs * HK_SLAB_BYTES; at += kPage) EXPECT_FALSE(IsMapped(start + at)) << i;
  }
}

HK_FRESH_TEST(ShortSpan, ATrimTakesTheEndOfEachSlabOfAFullSpan) {
  hk_heap_t *heap = HeapAfterAShortage();
  unsigned class_index = ClassOf(18000);
  Full full = Carved(heap, class_index, CapacityOf(class_index));
  ASSERT_GT(full.span->slab_count, 1u);
  uintptr_t start = hk_slab_start(full.span);
  unsigned slabs = full.span->slab_count;
  size_t used = (hk_class_blocks_per_slab(class_index) * hk_class_bytes(class_index) + kPage - 1) / kPage * kPage;
  ASSERT_LT(used, HK_SLAB_BYTES);
  EXPECT_TRUE(hk_heap_shorten(heap));
  EXPECT_EQ(full.span->slab_count, slabs);
  EXPECT_EQ(hk_span_capacity(full.span), full.blocks.size());
  for (size_t at = 0; at < slabs * HK_SLAB_BYTES; at += kPage)
    EXPECT_EQ(IsMapped(start + at), at % HK_SLAB_BYTES < used) << at;
  ExpectIntact(full);
  FreeBlocks(heap, full);
  for (size_t at = 0; at < slabs * HK_SLAB_BYTES; at += kPage) EXPECT_FALSE(IsMapped(start + at)) << at;
}

// In no list, or the purge thread would release it through a link that the list uses.
HK_FRESH_TEST(ShortSpan, ARestingSpanThatATrimFillsIsInNoList) {
  hk_heap_t *heap = HeapAfterAShortage();
  unsigned class_index = ClassOf(64), count = kPage / 64;
  Full full = Carved(heap, class_index, count);
  hk_span_put_to_rest(heap, class_index, 0);
  ASSERT_TRUE(hk_list_is_linked(&full.span->link)) << "it has room";
  EXPECT_TRUE(hk_heap_shorten(heap));
  EXPECT_EQ(hk_span_capacity(full.span), count);
  EXPECT_FALSE(hk_list_is_linked(&full.span->link));
  EXPECT_FALSE(hk_refill_has(heap, class_index));
  hk_heap_check(heap);
  uintptr_t start = hk_slab_start(full.span);
  for (unsigned i = 0; i < count; i++) {
    EXPECT_EQ(hk_list_is_linked(&full.span->link), i >= count / 8) << i;
    Free(heap, full.blocks[i]);
    hk_heap_check(heap);
  }
  EXPECT_FALSE(IsMapped(start));
}

HK_FRESH_TEST(ShortSpan, ARefusedTrimChangesNothing) {
  hk_heap_t *heap = HeapAfterAShortage();
  Full full = Carved(heap, 37, 2);
  unsigned capacity = hk_span_capacity(full.span);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_FALSE(hk_heap_shorten(heap));
  EXPECT_EQ(hk_span_capacity(full.span), capacity);
  fake_os_fail_all(fake_os_unmap, false);
  EXPECT_TRUE(hk_heap_shorten(heap));
  EXPECT_LT(hk_span_capacity(full.span), capacity);
  FreeBlocks(heap, full);
}

// Where the system refuses one request after the other, each asks for a trim.
HK_FRESH_TEST(ShortSpan, ATrimThatFindsNothingNewLooksAtNoSlab) {
  hk_heap_t *heap = HeapAfterAShortage();
  Full full = Carved(heap, 37, 2);
  EXPECT_TRUE(hk_heap_shorten(heap));
  uint64_t takes = hk_lock_take_count(hk_lock_space);
  EXPECT_FALSE(hk_heap_shorten(heap));
  EXPECT_EQ(hk_lock_take_count(hk_lock_space), takes) << "a look at the superslabs takes the lock";
  Full other = Carved(heap, ClassOf(5000), 2);
  EXPECT_TRUE(hk_heap_shorten(heap)) << "another span has come";
  FreeBlocks(heap, full);
  FreeBlocks(heap, other);
}

HK_FRESH_TEST(ShortSpan, ASpanWithoutACarvedBlockIsTrimmedOnceItHasOne) {
  hk_heap_t *heap = HeapAfterAShortage();
  hk_slab_t *span = NewActive(heap, 37);
  EXPECT_FALSE(hk_heap_shorten(heap));
  hk_span_carve(heap, span, 2);
  EXPECT_TRUE(hk_heap_shorten(heap));
  EXPECT_LT(hk_span_capacity(span), CapacityOf(37));
}

HK_FRESH_TEST(ShortSpan, WithoutAShortageSpansAreWhole) {
  hk_heap_t *heap = HeapAfterAShortage();
  hk_slab_t *span = hk_span_acquire(heap, 37);
  EXPECT_FALSE(hk_short_span_is(span));
  EXPECT_EQ(hk_span_capacity(span), CapacityOf(37));
}

}  // namespace
