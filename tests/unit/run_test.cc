// space/run: blocks of whole slabs: what their descriptors say, their ends, and how they grow and shrink.
#include <atomic>
#include <cstring>
#include <thread>

#include "fake_os.h"
#include "fresh_test.h"
#include "scale.h"
#include "unit/core_parts.h"
#include "unit/rendezvous.h"

namespace {

bool is_zero;

void *Alloc(size_t bytes, size_t alignment = HK_BLOCK_ALIGNMENT) { return hk_run_alloc(bytes, alignment, &is_zero); }
hk_slab_t *HeadOf(const void *block) { return hk_slab_of(block); }
uintptr_t AddressOf(const void *block) { return reinterpret_cast<uintptr_t>(block); }
size_t InUseBytes() { return hk_superslab_usage().in_use_bytes; }
size_t SlabsFor(size_t bytes) { return (bytes + HK_SLAB_BYTES - 1) / HK_SLAB_BYTES; }

void ExpectRun(const void *block, size_t slabs) {
  hk_slab_t *head = HeadOf(block);
  EXPECT_EQ(AddressOf(block) % HK_SLAB_BYTES, 0u);
  EXPECT_EQ(hk_slab_start(head), AddressOf(block));
  EXPECT_EQ(hk_slab_state(head), hk_slab_run);
  EXPECT_EQ(head->head, head);
  EXPECT_EQ(head->slab_count, slabs);
  EXPECT_EQ(hk_load_relaxed(&head->bytes), slabs * HK_SLAB_BYTES);
  for (size_t i = 0; i < slabs; i++) {
    EXPECT_EQ(hk_load_relaxed(&head[i].owner), nullptr) << "no heap's fast path takes it";
    if (i == 0) continue;
    EXPECT_EQ(hk_slab_state(&head[i]), hk_slab_run_tail) << i;
    EXPECT_EQ(head[i].head, head) << i;
  }
}

void ExpectFree(const hk_slab_t *first, size_t slabs) {
  for (size_t i = 0; i < slabs; i++) EXPECT_EQ(hk_slab_state(&first[i]), hk_slab_free) << i;
}

void ExpectClosed(hk_slab_t *head, size_t slabs) {
  EXPECT_EQ(hk_slab_state(head), hk_slab_free);
  for (size_t i = 0; i < slabs; i++) {
    char *in_slab = reinterpret_cast<char *>(hk_slab_start(head)) + i * HK_SLAB_BYTES;
    EXPECT_EQ(hk_load_relaxed(&head[i].owner), nullptr);
    EXPECT_EQ(hk_verify(in_slab).verdict, hk_verdict_free) << i;
    EXPECT_EQ(hk_verify(in_slab + 100).verdict, hk_verdict_free) << i;
    EXPECT_EQ(hk_address_class_of(reinterpret_cast<uintptr_t>(in_slab) + 100).kind, hk_address_free) << i;
  }
}

HK_FRESH_TEST(Run, EachSize) {
  for (size_t bytes = HK_MID_MAX_BYTES + 1; bytes <= HK_RUN_MAX_BYTES; bytes += 4093) {
    void *block = Alloc(bytes);
    ASSERT_NE(block, nullptr);
    ExpectRun(block, SlabsFor(bytes));
    EXPECT_EQ(hk_run_good_size(bytes), SlabsFor(bytes) * HK_SLAB_BYTES);
    EXPECT_EQ(InUseBytes(), hk_run_good_size(bytes));
    ASSERT_TRUE(fake_os_is_mapped(block, hk_run_good_size(bytes)));
    memset(block, 0xa5, 1);
    memset(static_cast<char *>(block) + hk_run_good_size(bytes) - 1, 0xa5, 1);
    hk_slab_t *head = HeadOf(block);
    EXPECT_TRUE(hk_run_free(head));
    ExpectFree(head, SlabsFor(bytes));
    EXPECT_EQ(InUseBytes(), 0u);
  }
}

HK_FRESH_TEST(Run, SlabsOfEachSize) {
  for (size_t bytes = 1; bytes <= HK_RUN_MAX_BYTES; bytes += 13) ASSERT_EQ(hk_run_slabs(bytes), SlabsFor(bytes));
  EXPECT_EQ(hk_run_slabs(HK_RUN_MAX_BYTES), HK_RUN_MAX_SLABS);
}

HK_FRESH_TEST(Run, SizesAtTheirEdges) {
  for (size_t slabs = 1; slabs <= HK_RUN_MAX_BYTES / HK_SLAB_BYTES; slabs++) {
    EXPECT_EQ(hk_run_good_size(slabs * HK_SLAB_BYTES), slabs * HK_SLAB_BYTES);
    EXPECT_EQ(hk_run_good_size(slabs * HK_SLAB_BYTES - 1), slabs * HK_SLAB_BYTES);
    EXPECT_EQ(hk_run_good_size((slabs - 1) * HK_SLAB_BYTES + 1), slabs * HK_SLAB_BYTES);
    void *block = Alloc(slabs * HK_SLAB_BYTES);
    ASSERT_NE(block, nullptr);
    ExpectRun(block, slabs);
  }
}

HK_FRESH_TEST(Run, EachAlignment) {
  ASSERT_NE(Alloc(HK_SLAB_BYTES), nullptr); /* so that not everything is aligned by chance */
  for (size_t alignment = 1; alignment <= HK_SUPERSLAB_BYTES; alignment *= 2) {
    for (size_t bytes : {size_t{1}, 3 * HK_SLAB_BYTES, HK_RUN_MAX_BYTES}) {
      void *block = Alloc(bytes, alignment);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(AddressOf(block) % alignment, 0u) << bytes << " at " << alignment;
      ExpectRun(block, SlabsFor(bytes));
    }
  }
}

HK_FRESH_TEST(Run, FreshMemoryIsZeroAndUsedMemoryIsNotCalledZero) {
  void *block = Alloc(3 * HK_SLAB_BYTES);
  EXPECT_TRUE(is_zero);
  EXPECT_EQ(*static_cast<char *>(block), 0);
  memset(block, 1, 3 * HK_SLAB_BYTES);
  EXPECT_TRUE(hk_run_free(HeadOf(block)));
  EXPECT_EQ(Alloc(3 * HK_SLAB_BYTES), block);
  EXPECT_FALSE(is_zero);
}

HK_FRESH_TEST(Run, ASecondFreeIsNoticed) {
  void *other = Alloc(HK_SLAB_BYTES);
  void *block = Alloc(5 * HK_SLAB_BYTES);
  hk_slab_t *head = HeadOf(block);
  EXPECT_TRUE(hk_run_free(head));
  EXPECT_FALSE(hk_run_free(head));
  EXPECT_FALSE(hk_run_free(head + 1)) << "a tail, once";
  EXPECT_EQ(InUseBytes(), HK_SLAB_BYTES);
  ExpectRun(other, 1);
}

HK_FRESH_TEST(Run, ATailIsNoRun) {
  void *block = Alloc(5 * HK_SLAB_BYTES);
  EXPECT_FALSE(hk_run_free(HeadOf(block) + 1));
  ExpectRun(block, 5);
}

// ---- Closed: without a caller, but with its slabs.

HK_FRESH_TEST(Run, AClosedRunIsFreeAndKeepsItsSlabs) {
  for (size_t slabs = 1; slabs <= HK_RUN_MAX_SLABS; slabs++) {
    void *block = Alloc(slabs * HK_SLAB_BYTES);
    hk_slab_t *head = HeadOf(block);
    EXPECT_TRUE(hk_run_close(head));
    ExpectClosed(head, slabs);
    EXPECT_EQ(InUseBytes(), slabs * HK_SLAB_BYTES);
    EXPECT_EQ(head->slab_count, slabs);
    void *next = Alloc(slabs * HK_SLAB_BYTES);
    EXPECT_NE(next, block) << "it is not to be had";
    EXPECT_TRUE(hk_run_free(HeadOf(next)));
    hk_run_release(head);
    ExpectFree(head, slabs);
    EXPECT_EQ(InUseBytes(), 0u);
  }
}

HK_FRESH_TEST(Run, AClosedRunWithoutTailsIsAFreeRow) {
  hk_slab_t *head = HeadOf(Alloc(7 * HK_SLAB_BYTES));
  EXPECT_TRUE(hk_run_close(head));
  hk_run_retire_tails(head);
  ExpectFree(head, 7);
  hk_run_retire_tails(head);
  ExpectFree(head, 7);
  ExpectRun(hk_run_reopen(head), 7);
  EXPECT_TRUE(hk_run_free(head));
}

HK_FRESH_TEST(Run, AClosedRunCannotBeClosedOrFreedAgain) {
  void *block = Alloc(5 * HK_SLAB_BYTES);
  hk_slab_t *head = HeadOf(block);
  EXPECT_FALSE(hk_run_close(head + 1)) << "a tail is no run";
  EXPECT_TRUE(hk_run_close(head));
  EXPECT_FALSE(hk_run_close(head));
  EXPECT_FALSE(hk_run_free(head));
  EXPECT_FALSE(hk_run_close(head + 1)) << "a tail, once";
  EXPECT_EQ(InUseBytes(), 5 * HK_SLAB_BYTES);
  hk_run_release(head);
  EXPECT_FALSE(hk_run_close(head));
  EXPECT_EQ(InUseBytes(), 0u);
}

HK_FRESH_TEST(Run, AReopenedRunIsWhatItWas) {
  for (size_t slabs = 1; slabs <= HK_RUN_MAX_SLABS; slabs++) {
    void *block = Alloc(slabs * HK_SLAB_BYTES);
    memset(block, 7, slabs * HK_SLAB_BYTES);
    hk_slab_t *head = HeadOf(block);
    for (int round = 0; round < 3; round++) {
      ASSERT_TRUE(hk_run_close(head));
      EXPECT_EQ(hk_run_reopen(head), block);
      ExpectRun(block, slabs);
      EXPECT_EQ(static_cast<char *>(block)[slabs * HK_SLAB_BYTES - 1], 7) << "with what it held";
    }
    EXPECT_EQ(InUseBytes(), slabs * HK_SLAB_BYTES);
    EXPECT_TRUE(hk_run_free(head));
    EXPECT_EQ(InUseBytes(), 0u);
  }
}

HK_FRESH_TEST(Run, AReopenedRunHasTheSizeThatItWasGivenLast) {
  void *block = Alloc(6 * HK_SLAB_BYTES);
  hk_slab_t *head = HeadOf(block);
  ASSERT_TRUE(hk_run_resize(head, 2 * HK_SLAB_BYTES));
  ASSERT_TRUE(hk_run_close(head));
  EXPECT_EQ(hk_run_reopen(head), block);
  ExpectRun(block, 2);
  ASSERT_TRUE(hk_run_resize(head, 9 * HK_SLAB_BYTES));
  ASSERT_TRUE(hk_run_close(head));
  EXPECT_EQ(hk_run_reopen(head), block);
  ExpectRun(block, 9);
}

#if HK_SAFETY == 1
// Blocks of 64 bytes were in the slab before, and the first one was free.
HK_FRESH_TEST(Run, ARunWhereSmallBlocksWereDoesNotLookFree) {
  void *block = Alloc(2 * HK_SLAB_BYTES);
  hk_slab_t *head = HeadOf(block);
  auto *first = static_cast<hk_block_t *>(block);
  hk_block_link(first, HK_LIST_END);
  EXPECT_EQ(head->block_bytes, 0u);
  ASSERT_TRUE(hk_run_close(head));
  head->block_bytes = 64;
  head->is_zero = false;
  EXPECT_EQ(hk_run_reopen(head), block);
  EXPECT_FALSE(hk_block_looks_free(first));
  EXPECT_EQ(first->next, HK_LIST_END) << "no more is cleared than the seal";
  EXPECT_EQ(head->block_bytes, 0u);
}
#endif

HK_FRESH_TEST(Run, ANeighbourCannotGrowIntoAClosedRun) {
  void *block = Alloc(2 * HK_SLAB_BYTES);
  void *neighbour = Alloc(2 * HK_SLAB_BYTES);
  ASSERT_EQ(neighbour, static_cast<char *>(block) + 2 * HK_SLAB_BYTES);
  ASSERT_TRUE(hk_run_close(HeadOf(neighbour)));
  EXPECT_FALSE(hk_run_resize(HeadOf(block), 3 * HK_SLAB_BYTES));
  hk_run_release(HeadOf(neighbour));
  EXPECT_TRUE(hk_run_resize(HeadOf(block), 3 * HK_SLAB_BYTES));
}

HK_FRESH_TEST(Run, OneOfTwoThreadsIsTheFirstToClose) {
  const int kRounds = static_cast<int>(hk_test::Scaled(4000, 200));
  hk_test::Rendezvous rendezvous(2);
  hk_slab_t *head = HeadOf(Alloc(2 * HK_SLAB_BYTES));
  std::atomic<int> closed{0};
  auto close_once = [&] {
    rendezvous.Wait();
    bool is_first = hk_run_close(head);
    rendezvous.Wait();
    if (!is_first) return;
    closed++;
    (void)hk_run_reopen(head);
  };
  std::thread other([&] {
    for (int round = 0; round < kRounds; round++) close_once();
  });
  for (int round = 0; round < kRounds; round++) close_once();
  other.join();
  EXPECT_EQ(closed, kRounds);
  EXPECT_EQ(InUseBytes(), 2 * HK_SLAB_BYTES);
}

HK_FRESH_TEST(Run, OneOfTwoThreadsIsTheFirst) {
  const int kRounds = static_cast<int>(hk_test::Scaled(4000, 200));
  hk_test::Rendezvous rendezvous(2);
  hk_slab_t *head = nullptr;
  std::atomic<int> freed{0};
  auto free_once = [&] {
    rendezvous.Wait();
    if (hk_run_free(head)) freed++;
    rendezvous.Wait();
  };
  std::thread other([&] {
    for (int round = 0; round < kRounds; round++) free_once();
  });
  for (int round = 0; round < kRounds; round++) {
    head = HeadOf(Alloc(2 * HK_SLAB_BYTES));
    free_once();
  }
  other.join();
  EXPECT_EQ(freed, kRounds);
  EXPECT_EQ(InUseBytes(), 0u);
}

HK_FRESH_TEST(Run, ShrinksWhereItStands) {
  void *block = Alloc(10 * HK_SLAB_BYTES);
  hk_slab_t *head = HeadOf(block);
  memset(block, 7, 4 * HK_SLAB_BYTES);
  EXPECT_TRUE(hk_run_resize(head, 4 * HK_SLAB_BYTES));
  ExpectRun(block, 4);
  ExpectFree(head + 4, 6);
  EXPECT_EQ(InUseBytes(), 4 * HK_SLAB_BYTES);
  EXPECT_EQ(static_cast<char *>(block)[4 * HK_SLAB_BYTES - 1], 7);
  EXPECT_EQ(Alloc(6 * HK_SLAB_BYTES), static_cast<char *>(block) + 4 * HK_SLAB_BYTES) << "the rest is to be had";
  EXPECT_TRUE(hk_run_free(head));
  EXPECT_EQ(InUseBytes(), 6 * HK_SLAB_BYTES);
}

HK_FRESH_TEST(Run, GrowsWhereItStands) {
  void *block = Alloc(2 * HK_SLAB_BYTES);
  hk_slab_t *head = HeadOf(block);
  memset(block, 7, 2 * HK_SLAB_BYTES);
  EXPECT_TRUE(hk_run_resize(head, 5 * HK_SLAB_BYTES - 100));
  ExpectRun(block, 5);
  EXPECT_EQ(InUseBytes(), 5 * HK_SLAB_BYTES);
  EXPECT_EQ(static_cast<char *>(block)[2 * HK_SLAB_BYTES - 1], 7);
  EXPECT_TRUE(hk_run_free(head));
  ExpectFree(head, 5);
  EXPECT_EQ(InUseBytes(), 0u);
}

HK_FRESH_TEST(Run, ARoomyRunLiesInDirtyMemoryWithRoomBehindIt) {
  void *low = Alloc(4 * HK_SLAB_BYTES);
  ASSERT_NE(Alloc(HK_SLAB_BYTES), nullptr);
  void *high = Alloc(HK_RUN_MAX_BYTES);
  EXPECT_EQ(hk_run_alloc_roomy(2 * HK_SLAB_BYTES), nullptr) << "nothing is dirty";
  ASSERT_TRUE(hk_run_free(HeadOf(high)));
  EXPECT_EQ(hk_run_alloc_roomy(17 * HK_SLAB_BYTES), nullptr) << "a part of it would not be dirty";
  ASSERT_TRUE(hk_run_free(HeadOf(low)));
  EXPECT_EQ(hk_run_alloc_roomy(2 * HK_SLAB_BYTES), high) << "not the hole that fits best";
  ExpectRun(high, 2);
  EXPECT_TRUE(hk_run_resize(HeadOf(high), 27 * HK_SLAB_BYTES)) << "to the end of the superslab";
  ExpectRun(high, 27);
  EXPECT_FALSE(hk_run_resize(HeadOf(high), 28 * HK_SLAB_BYTES));
  EXPECT_EQ(hk_run_alloc_roomy(4 * HK_SLAB_BYTES), nullptr) << "it fits, without room behind it";
  EXPECT_EQ(hk_run_alloc_roomy(3 * HK_SLAB_BYTES), low);
  EXPECT_TRUE(hk_run_free(HeadOf(high)));
  ExpectFree(HeadOf(high), 27);
  EXPECT_EQ(InUseBytes(), 4 * HK_SLAB_BYTES);
}

HK_FRESH_TEST(Run, StaysWhenTheSizeIsThatOfTheSameSlabs) {
  void *block = Alloc(2 * HK_SLAB_BYTES);
  EXPECT_TRUE(hk_run_resize(HeadOf(block), HK_SLAB_BYTES + 1));
  ExpectRun(block, 2);
  EXPECT_EQ(InUseBytes(), 2 * HK_SLAB_BYTES);
}

HK_FRESH_TEST(Run, CannotGrowIntoItsNeighbour) {
  void *block = Alloc(2 * HK_SLAB_BYTES);
  void *neighbour = Alloc(2 * HK_SLAB_BYTES);
  ASSERT_EQ(neighbour, static_cast<char *>(block) + 2 * HK_SLAB_BYTES);
  EXPECT_FALSE(hk_run_resize(HeadOf(block), 3 * HK_SLAB_BYTES));
  ExpectRun(block, 2);
  ExpectRun(neighbour, 2);
  EXPECT_TRUE(hk_run_free(HeadOf(neighbour)));
  EXPECT_TRUE(hk_run_resize(HeadOf(block), 3 * HK_SLAB_BYTES));
  ExpectRun(block, 3);
  EXPECT_EQ(InUseBytes(), 3 * HK_SLAB_BYTES);
}

HK_FRESH_TEST(Run, CannotGrowBeyondItsSuperslab) {
  ASSERT_NE(Alloc(HK_RUN_MAX_BYTES), nullptr);
  void *block = Alloc(15 * HK_SLAB_BYTES);
  EXPECT_FALSE(hk_run_resize(HeadOf(block), 17 * HK_SLAB_BYTES));
  ExpectRun(block, 15);
  EXPECT_TRUE(hk_run_resize(HeadOf(block), 16 * HK_SLAB_BYTES));
  ExpectRun(block, 16);
}

HK_FRESH_TEST(Run, RefusalsAreOvercome) {
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(Alloc(HK_RUN_MAX_BYTES), nullptr);
  EXPECT_EQ(InUseBytes(), 0u);
  fake_os_fail_all(fake_os_reserve, false);
  fake_os_fail_nth(fake_os_reserve, 2);
  void *block = Alloc(HK_RUN_MAX_BYTES);
  ASSERT_NE(block, nullptr);
  ExpectRun(block, 16);
}

HK_FRESH_TEST(Run, WhatIsThereServesWhileTheSystemRefuses) {
  ASSERT_NE(Alloc(HK_RUN_MAX_BYTES), nullptr);
  fake_os_fail_all(fake_os_reserve, true);
  void *block = Alloc(HK_RUN_MAX_BYTES);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(Alloc(HK_SLAB_BYTES), nullptr);
  EXPECT_TRUE(hk_run_free(HeadOf(block)));
  EXPECT_EQ(Alloc(HK_RUN_MAX_BYTES), block);
}

}  // namespace
