// api/verify: the verdict on an address: of each kind of block, from every side, at each time of its life.
#include <sys/mman.h>

#include <cstring>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/verify_driver.h"

extern "C" {
#include "space/shortage.h"
}

using namespace hk_test;

namespace {

void ExpectInterior(uintptr_t address, const void *block, size_t bytes) {
  for (hk_finding_t finding : {hk_verify(At(address)), hk_verify_thoroughly(At(address))}) {
    ASSERT_EQ(finding.verdict, hk_verdict_interior) << address - AddressOf(block);
    ASSERT_EQ(finding.start, AddressOf(block));
    ASSERT_EQ(finding.bytes, bytes);
  }
}

void ExpectForeign(uintptr_t address) {
  for (hk_finding_t finding : {hk_verify(At(address)), hk_verify_thoroughly(At(address))}) {
    EXPECT_EQ(finding.verdict, hk_verdict_foreign) << address;
    EXPECT_EQ(finding.start, address);
  }
}

// ---- Not ours.

HK_FRESH_TEST(Verify, WhatIsNotOursIsForeign) {
  static int in_data;
  int on_stack = 0;
  void *elsewhere = hk_os_reserve(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES);
  ASSERT_NE(Alloc(hk_heap_take(), 1), nullptr);
  ExpectForeign(0);
  ExpectForeign(1);
  ExpectForeign(AddressOf(&in_data));
  ExpectForeign(AddressOf(&on_stack));
  ExpectForeign(AddressOf(elsewhere));
  ExpectForeign(AddressOf(&hk_region_map));
  ExpectForeign(AddressOf(hk_slab_of(&on_stack)));
  for (unsigned bit = 0; bit < 64; bit++) ExpectForeign(uintptr_t{1} << bit);
  ExpectForeign((uintptr_t{1} << HK_ADDRESS_BITS) - 1);
  ExpectForeign(UINTPTR_MAX);
}

// Another thread may free a block and unmap its memory while a program asks about it.
HK_FRESH_TEST(Verify, AnAddressThatMayGoIsVerifiedWithoutAReadOfIt) {
  hk_block_t *block = Alloc(hk_heap_take(), 4);
  void *page = reinterpret_cast<void *>(AddressOf(block) & ~(HK_SLAB_BYTES - 1));
  ASSERT_EQ(mprotect(page, HK_SLAB_BYTES, PROT_NONE), 0);
  EXPECT_EQ(hk_verify_any(block).verdict, hk_verdict_live) << "as far as can be seen";
  EXPECT_EQ(hk_verify_thoroughly(block).verdict, hk_verdict_live);
  ASSERT_EQ(mprotect(page, HK_SLAB_BYTES, PROT_READ | PROT_WRITE), 0);
}

// The purge thread releases spans of a heap that it has claimed.
HK_FRESH_TEST(Verify, ABlockOfTheCallersHeapIsReadUnderAClaim) {
  hk_thread_lease_t lease = hk_thread_enter();
  hk_thread_leave(lease);
  hk_block_t *block = Alloc(lease.heap, 4);
  EXPECT_EQ(hk_verify_any(block).verdict, hk_verdict_live);
  ASSERT_TRUE(hk_heap_claim_spans(lease.heap)) << "the claim has ended";
  void *page = reinterpret_cast<void *>(AddressOf(block) & ~(HK_SLAB_BYTES - 1));
  ASSERT_EQ(mprotect(page, HK_SLAB_BYTES, PROT_NONE), 0);
  EXPECT_EQ(hk_verify_any(block).verdict, hk_verdict_live) << "another thread has the claim";
  ASSERT_EQ(mprotect(page, HK_SLAB_BYTES, PROT_READ | PROT_WRITE), 0);
  hk_heap_unclaim_spans(lease.heap);
  Free(lease.heap, block);
  EXPECT_NE(hk_verify_any(block).verdict, hk_verdict_live);
}

// The slabs become a free extent, or a large block.
HK_FRESH_TEST(Verify, AnAddressThatMayGoIsVerifiedWithoutItsSuperslab) {
  hk_block_t *block = Alloc(hk_heap_take(), 4);
  char *run = static_cast<char *>(hk_run_alloc(2 * HK_SLAB_BYTES, HK_BLOCK_ALIGNMENT, &is_zero));
  hk_slab_t *span = hk_slab_of(block)->head, *head = hk_slab_of(run);
  hk_superslab *of_span = span->superslab, *of_run = head->superslab;
  span->superslab = head->superslab = nullptr;
  EXPECT_EQ(hk_verify_any(block).verdict, hk_verdict_live);
  EXPECT_EQ(hk_address_class_of(AddressOf(block)).kind, hk_address_live_block);
  EXPECT_EQ(hk_verify_any(run).verdict, hk_verdict_live);
  EXPECT_EQ(hk_verify_any(run + HK_SLAB_BYTES).start, AddressOf(run)) << "a tail's";
  span->superslab = of_span;
  head->superslab = of_run;
}

// The span has ended meanwhile, and a run that may hold a sample begins at its slab.
HK_FRESH_TEST(Verify, AnAddressThatMayGoIsVerifiedWithoutItsSpan) {
  hk_block_t *block = Alloc(hk_heap_take(), 4);
  hk_slab_t *span = hk_slab_of(block)->head;
  uint32_t bytes = span->block_bytes;
  for (uint32_t of_run : {0u, HK_SLAB_HOLDS_SAMPLE}) {
    span->block_bytes = of_run;
    for (size_t offset : {0, 8, 16}) {
      EXPECT_EQ(hk_verify_any(reinterpret_cast<char *>(block) + offset).verdict, hk_verdict_free) << of_run;
    }
  }
  span->block_bytes = bytes;
}

HK_FRESH_TEST(Verify, OurOwnRecordsAreNoBlocks) {
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *block = Alloc(heap, 1);
  ExpectForeign(AddressOf(heap));
  ExpectForeign(AddressOf(hk_slab_of(block)));
}

HK_FRESH_TEST(Verify, ABlocksAddressWithMoreBitsIsForeign) {
  hk_block_t *block = Alloc(hk_heap_take(), 4);
  EXPECT_EQ(VerdictOf(block), hk_verdict_live);
  for (unsigned bit = HK_ADDRESS_BITS; bit < 64; bit++) ExpectForeign(AddressOf(block) | uintptr_t{1} << bit);
}

// ---- Small blocks.

HK_FRESH_TEST(Verify, EachBlockOfEachClassIsLiveAtItsStartAndInteriorBehindIt) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    size_t bytes = hk_class_bytes(class_index);
    for (unsigned i = 0; i < CapacityOf(class_index); i++) {
      hk_block_t *block = Alloc(heap, class_index);
      if (i % 16 != 0 && i < CapacityOf(class_index) - 2) continue;
      ExpectLive(block, bytes, SpanOf(block));
      for (size_t offset : {size_t{1}, size_t{8}, bytes / 2, bytes - 1}) {
        ExpectInterior(AddressOf(block) + offset, block, bytes);
      }
    }
  }
}

HK_FRESH_TEST(Verify, AFreeBlockIsFreeWhereverItIs) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  for (unsigned class_index : {20u, 64u, 66u, 90u, 104u}) {
    SCOPED_TRACE(class_index);
    size_t bytes = hk_class_bytes(class_index);
    std::vector<hk_block_t *> blocks;
    for (int i = 0; i < 20; i++) blocks.push_back(Alloc(heap, class_index));
    (void)FreeOwn(heap, blocks[4]);
    if (hk_class_is_mid(class_index)) hk_mid_spill(heap, class_index, 0); /* to its span's own list */
    (void)FreeOwn(heap, blocks[0]);
    hk_remote_free_now(SpanOf(blocks[2]), blocks[2]);
    hk_remote_free(other, SpanOf(blocks[1]), blocks[1]);
    for (hk_block_t *block : {blocks[0], blocks[1], blocks[2], blocks[4]}) {
      hk_finding_t finding = hk_verify(block);
      EXPECT_EQ(finding.verdict, hk_verdict_free_block);
      EXPECT_EQ(finding.start, AddressOf(block));
      EXPECT_EQ(finding.bytes, bytes);
    }
    ExpectLive(blocks[3], bytes, SpanOf(blocks[3]));
    for (int i = 5; i < 20; i++) ExpectLive(blocks[i], bytes, SpanOf(blocks[i]));

    EXPECT_EQ(Alloc(heap, class_index), blocks[0]);
    ExpectLive(blocks[0], bytes, SpanOf(blocks[0]));
    hk_remote_flush(other);
    EXPECT_EQ(VerdictOf(blocks[1]), hk_verdict_free_block) << "sent";
    hk_remote_drain(heap);
    EXPECT_EQ(VerdictOf(blocks[1]), hk_verdict_free_block) << "collected";
  }
}

HK_FRESH_TEST(Verify, WhatWasNotCarvedYetIsNoLiveBlock) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : {1u, 3u, 64u, 90u, 104u}) {
    hk_block_t *block = Alloc(heap, class_index);
    size_t bytes = hk_class_bytes(class_index);
    hk_slab_t *span = SpanOf(block);
    uintptr_t start = hk_slab_start(span);
    unsigned per_slab = hk_class_blocks_per_slab(class_index);
    for (unsigned i = CarvedOf(span); i < CapacityOf(class_index); i++) {
      ASSERT_EQ(VerdictOf(start + i / per_slab * HK_SLAB_BYTES + i % per_slab * bytes), hk_verdict_free_block) << i;
    }
  }
}

HK_FRESH_TEST(Verify, TheEndOfASlabThatHoldsNoWholeBlockIsInNoBlock) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index = 1; class_index < HK_CLASS_COUNT; class_index++) {
    hk_block_t *block = Alloc(heap, class_index);
    for (unsigned i = 1; i < CapacityOf(class_index); i++) (void)Alloc(heap, class_index);
    hk_slab_t *span = SpanOf(block);
    size_t used = hk_class_blocks_per_slab(class_index) * hk_class_bytes(class_index);
    for (unsigned slab = 0; slab < span->slab_count; slab++) {
      for (size_t offset = used; offset < HK_SLAB_BYTES; offset += 8) {
        uintptr_t address = hk_slab_start(&span[slab]) + offset;
        ASSERT_EQ(VerdictOf(address), hk_verdict_slab_end) << offset << " in " << class_index;
      }
    }
  }
}

// The program may have mapped its own memory there.
HK_FRESH_TEST(Verify, WhatLiesBehindAShortSpanIsForeign) {
  hk_shortage_begin();
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : {3u, 64u, 80u}) {
    hk_slab_t *span = SpanOf(Alloc(heap, class_index));
    ASSERT_TRUE(hk_short_span_is(span));
    size_t bytes = hk_class_bytes(class_index), mapped = hk_short_span_last_bytes(span);
    uintptr_t start = hk_slab_start(span);
    ASSERT_EQ(VerdictOf(start + mapped / bytes * bytes - 1), hk_verdict_interior);
    for (size_t offset = mapped; offset < HK_SLAB_BYTES; offset += 8) ExpectForeign(start + offset);
  }
}

HK_FRESH_TEST(Verify, AReleasedSpanIsAFreeExtent) {
  hk_heap_t *heap = hk_heap_take();
  std::vector<hk_block_t *> blocks;
  for (unsigned i = 0; i < CapacityOf(64); i++) blocks.push_back(Alloc(heap, 64));
  (void)Alloc(heap, 64);
  for (hk_block_t *block : blocks) (void)FreeOwn(heap, block);
  ASSERT_EQ(heap->spare_slabs, 1u);
  EXPECT_EQ(VerdictOf(blocks[0]), hk_verdict_free) << "spare";
  EXPECT_EQ(VerdictOf(AddressOf(blocks[5]) + 7), hk_verdict_free);
  hk_heap_flush(heap);
  EXPECT_EQ(VerdictOf(blocks[0]), hk_verdict_free) << "in its superslab";
  EXPECT_EQ(hk_verify(blocks[9]).start, AddressOf(blocks[9]));
}

HK_FRESH_TEST(Verify, AnUnmappedSuperslabIsForeign) {
  hk_heap_t *heap = hk_heap_take();
  hk_block_t *block = Alloc(heap, 64);
  (void)FreeOwn(heap, block);
  hk_heap_flush(heap);
  (void)hk_purge_down_to(0);
  ASSERT_FALSE(fake_os_is_mapped(block, 1));
  ExpectForeign(AddressOf(block));
}

// ---- Runs.

HK_FRESH_TEST(Verify, ARunIsLiveAtItsStartAndInteriorToItsEnd) {
  char *run = static_cast<char *>(hk_run_alloc(5 * HK_SLAB_BYTES - 77, 1, &is_zero));
  hk_slab_t *head = hk_slab_of(run);
  ExpectLive(run, 5 * HK_SLAB_BYTES, head);
  for (size_t offset : {size_t{1}, size_t{16}, HK_SLAB_BYTES - 1, HK_SLAB_BYTES, HK_SLAB_BYTES + 1, 3 * HK_SLAB_BYTES,
                        5 * HK_SLAB_BYTES - 1}) {
    ExpectInterior(AddressOf(run) + offset, run, 5 * HK_SLAB_BYTES);
  }
  EXPECT_EQ(VerdictOf(run + 5 * HK_SLAB_BYTES), hk_verdict_free);

  ASSERT_TRUE(hk_run_resize(head, 2 * HK_SLAB_BYTES));
  ExpectLive(run, 2 * HK_SLAB_BYTES, head);
  EXPECT_EQ(VerdictOf(run + 2 * HK_SLAB_BYTES), hk_verdict_free);
  ASSERT_TRUE(hk_run_resize(head, 3 * HK_SLAB_BYTES));
  ExpectInterior(AddressOf(run) + 2 * HK_SLAB_BYTES, run, 3 * HK_SLAB_BYTES);

  ASSERT_TRUE(hk_run_free(head));
  for (size_t slab = 0; slab < 5; slab++) EXPECT_EQ(VerdictOf(run + slab * HK_SLAB_BYTES), hk_verdict_free);
}

HK_FRESH_TEST(Verify, ARunThatAHeapKeepsIsAFreeExtent) {
  hk_heap_t *heap = hk_heap_take();
  char *run = static_cast<char *>(hk_run_alloc(3 * HK_SLAB_BYTES, 1, &is_zero));
  ASSERT_TRUE(SpareRun(heap, hk_slab_of(run)));
  for (size_t offset : {size_t{0}, size_t{16}, HK_SLAB_BYTES, 3 * HK_SLAB_BYTES - 1}) {
    EXPECT_EQ(VerdictOf(run + offset), hk_verdict_free) << offset;
    EXPECT_EQ(hk_verify_thoroughly(run + offset).verdict, hk_verdict_free) << offset;
  }
  ASSERT_EQ(TakeSpareRun(heap, 3 * HK_SLAB_BYTES), run);
  ExpectLive(run, 3 * HK_SLAB_BYTES, hk_slab_of(run));
  ExpectInterior(AddressOf(run) + HK_SLAB_BYTES, run, 3 * HK_SLAB_BYTES);
}

// ---- Large blocks.

HK_FRESH_TEST(Verify, ALargeBlocksFirstSlabIsKnownAtOnceAndTheRestThoroughly) {
  constexpr size_t kBytes = 12 * HK_MIB;
  char *big = static_cast<char *>(hk_large_alloc(kBytes, 1, &is_zero));
  ExpectLive(big, kBytes, hk_slab_of(big));
  ExpectInterior(AddressOf(big) + 1, big, kBytes);
  ExpectInterior(AddressOf(big) + HK_SLAB_BYTES - 1, big, kBytes);
  for (size_t offset : {HK_SLAB_BYTES, HK_MIB + 5, 7 * HK_MIB, kBytes - 1}) {
    EXPECT_EQ(VerdictOf(big + offset), hk_verdict_foreign) << offset;
    hk_finding_t finding = hk_verify_thoroughly(big + offset);
    EXPECT_EQ(finding.verdict, hk_verdict_interior) << offset;
    EXPECT_EQ(finding.start, AddressOf(big));
    EXPECT_EQ(finding.bytes, kBytes);
  }
  EXPECT_NE(hk_verify_thoroughly(big + kBytes).start, AddressOf(big));
  EXPECT_NE(hk_verify_thoroughly(big - 1).start, AddressOf(big));

  ASSERT_TRUE(hk_large_free(hk_slab_of(big), big)); /* more than is kept */
  ExpectForeign(AddressOf(big));
  ExpectForeign(AddressOf(big) + kBytes / 2);
}

// In a shortage of addresses. Anything may be mapped behind it.
HK_FRESH_TEST(Verify, WhatLiesBehindABlockOfWholePagesIsForeign) {
  const size_t page = hk_os_page_size(), bytes = 2 * page;
  uintptr_t block = AddressOf(hk_large_alloc_pages(bytes, 1, &is_zero));
  ASSERT_NE(block, 0u);
  ExpectInterior(block + bytes - 1, At(block), bytes);
  for (uintptr_t address : {block + bytes, block + bytes + 5, block + HK_SLAB_BYTES - 1}) ExpectForeign(address);
}

HK_FRESH_TEST(Verify, AKeptLargeBlocksExtentIsFreeWhereverItIsLookedAt) {
  constexpr size_t kBytes = 2 * HK_MIB;
  char *whole = static_cast<char *>(hk_large_alloc(3 * kBytes, 1, &is_zero));
  ASSERT_TRUE(hk_large_free(hk_slab_of(whole), whole)); /* so that the three lie side by side */
  char *blocks[3];
  for (char *&block : blocks) block = static_cast<char *>(hk_large_alloc(kBytes, 1, &is_zero));
  for (char *block : blocks) ASSERT_TRUE(hk_large_free(hk_slab_of(block), block));
  for (char *block : blocks) {
    for (size_t offset : {size_t{0}, size_t{1}, HK_SLAB_BYTES, kBytes / 2, kBytes - 1}) {
      EXPECT_NE(VerdictOf(block + offset), hk_verdict_live);
      EXPECT_NE(VerdictOf(block + offset), hk_verdict_interior);
      EXPECT_EQ(hk_verify_thoroughly(block + offset).verdict, hk_verdict_free) << offset;
    }
  }
  EXPECT_EQ(hk_verify_thoroughly(whole + 3 * kBytes).verdict, hk_verdict_foreign);
  (void)hk_purge_down_to(0);
  for (char *block : blocks) EXPECT_EQ(hk_verify_thoroughly(block).verdict, hk_verdict_foreign);
}

// The last slab of an extent may have begun a longer one before.
HK_FRESH_TEST(Verify, WhatLiesBehindAFreeExtentIsForeign) {
  constexpr size_t kBytes = 6 * HK_MIB, kFirst = HK_MIB + HK_SLAB_BYTES, kLonger = kFirst + HK_SLAB_BYTES;
  hk_option.retain = HK_TIB;
  auto alloc = [](size_t bytes) { return static_cast<char *>(hk_large_alloc(bytes, 1, &is_zero)); };
  char *start = alloc(kBytes);
  ASSERT_TRUE(hk_large_free(hk_slab_of(start), start));
  ASSERT_EQ(alloc(kFirst), start);
  ASSERT_TRUE(hk_large_free(hk_slab_of(start), start));
  ASSERT_EQ(alloc(kLonger), start);
  char *behind = alloc(kBytes - kLonger);
  ASSERT_EQ(behind, start + kLonger);
  ASSERT_TRUE(hk_large_free(hk_slab_of(behind), behind));
  (void)hk_purge_down_to(0);
  ASSERT_TRUE(hk_large_free(hk_slab_of(start), start));
  EXPECT_EQ(hk_verify_thoroughly(start + kFirst).verdict, hk_verdict_free);
  EXPECT_EQ(hk_verify_thoroughly(behind - 1).verdict, hk_verdict_free);
  for (size_t offset : {size_t{0}, HK_SLAB_BYTES, HK_MIB})
    EXPECT_EQ(hk_verify_thoroughly(behind + offset).verdict, hk_verdict_foreign) << offset;
}

HK_FRESH_TEST(Verify, ALargeBlockIsFoundFromAnotherRegionToo) {
  constexpr size_t kBytes = 9 * HK_GIB + 4 * HK_MIB;
  char *big = static_cast<char *>(hk_large_alloc(kBytes, 1, &is_zero));
  ASSERT_NE(big, nullptr);
  for (size_t offset : {HK_GIB, 2 * HK_GIB, 2 * HK_GIB + HK_SLAB_BYTES, kBytes - 1}) {
    hk_finding_t finding = hk_verify_thoroughly(big + offset);
    EXPECT_EQ(finding.verdict, hk_verdict_interior) << offset;
    EXPECT_EQ(finding.start, AddressOf(big)) << offset;
  }
  ExpectForeign(AddressOf(big) + kBytes);
}

HK_FRESH_TEST(Verify, WhatIsFoundBelowMustReachUpToTheAddress) {
  char *big = static_cast<char *>(hk_large_alloc(4 * HK_MIB, 1, &is_zero));
  bool is_copied;
  ASSERT_EQ(hk_large_resize(hk_slab_of(big), big, 3 * HK_MIB, &is_copied), big);
  for (char *behind : {big + 3 * HK_MIB, big + 3 * HK_MIB + HK_MIB / 2}) {
    hk_finding_t finding = hk_verify_thoroughly(behind);
    EXPECT_EQ(finding.verdict, hk_verdict_free) << "what it gave up";
    EXPECT_EQ(finding.start, AddressOf(behind));
  }
  (void)hk_purge_down_to(0);
  hk_finding_t finding = hk_verify_thoroughly(big + 3 * HK_MIB);
  EXPECT_EQ(finding.verdict, hk_verdict_foreign);
  EXPECT_EQ(finding.start, AddressOf(big) + 3 * HK_MIB);
}

HK_FRESH_TEST(Verify, AKeptMappingIsAFreeExtent) {
  char *big = static_cast<char *>(hk_large_alloc(4 * HK_MIB, 1, &is_zero));
  fake_os_fail_all(fake_os_unmap, true);
  ASSERT_TRUE(hk_large_free(hk_slab_of(big), big));
  EXPECT_EQ(VerdictOf(big), hk_verdict_free);
  EXPECT_EQ(VerdictOf(big + 100), hk_verdict_free);
}

// ---- Any address at all.

HK_FRESH_TEST(Verify, EveryAddressOfASlabHasOneLiveStartABlock) {
  hk_heap_t *heap = hk_heap_take();
  for (unsigned class_index : {1u, 5u, 63u, 66u, 99u}) {
    hk_block_t *block = Alloc(heap, class_index);
    for (unsigned i = 1; i < CapacityOf(class_index); i++) (void)Alloc(heap, class_index);
    uintptr_t start = hk_slab_start(SpanOf(block));
    unsigned live = 0;
    for (uintptr_t offset = 0; offset < HK_SLAB_BYTES; offset++) live += VerdictOf(start + offset) == hk_verdict_live;
    EXPECT_EQ(live, hk_class_blocks_per_slab(class_index)) << class_index;
  }
}

}  // namespace
