// space/large: sizes and alignments, the extent that a freed block leaves, zero, refusals, fork, and threads.
#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "block_pattern.h"
#include "fake_os.h"
#include "fresh_test.h"
#include "scale.h"
#include "test_random.h"
#include "unit/large_driver.h"
#include "unit/rendezvous.h"

extern "C" {
#include "os/lock.h"
#include "space/large_fill.h"
}

using namespace hk_test;

namespace {

uint64_t Count(hk_stat_id_t id) { return hk_load_relaxed(&hk_stat_process.value[id]); }

// ---- Sizes and alignments.

HK_FRESH_TEST(Large, IsAMappingOfWholeSlabs) {
  struct Case {
    size_t asked, given, alignment;
  };
  const Case cases[] = {
      {1, HK_SLAB_BYTES, HK_SLAB_BYTES},
      {HK_RUN_MAX_BYTES + 1, HK_RUN_MAX_BYTES + HK_SLAB_BYTES, HK_SLAB_BYTES},
      {HK_SUPERSLAB_BYTES - HK_SLAB_BYTES, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES, HK_SLAB_BYTES},
      {HK_SUPERSLAB_BYTES - 1, HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES},
      {HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES},
      {100 * HK_MIB + 5, 100 * HK_MIB + HK_SLAB_BYTES, HK_SUPERSLAB_BYTES},
  };
  for (const Case &test : cases) {
    char *block = Alloc(test.asked);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(hk_large_good_size(test.asked), test.given);
    EXPECT_EQ(AddressOf(block) % test.alignment, 0u) << test.asked;
    ExpectBig(block, test.given);
    ExpectUsage(1, test.given);
    EXPECT_TRUE(is_zero);
    EXPECT_TRUE(Holds(block, test.given, 0));
    Fill(block, test.given, 5);
    EXPECT_TRUE(Free(block));
    ExpectUsage(0, 0);
    ExpectNothingLost();
    Trim();
    ExpectCached(0, 0);
    ExpectNothingLost();
  }
}

HK_FRESH_TEST(Large, EachAlignment) {
  for (size_t alignment = 1; alignment <= HK_GIB; alignment *= 2) {
    char *block = Alloc(HK_RUN_MAX_BYTES + 1, alignment);
    ASSERT_NE(block, nullptr) << alignment;
    EXPECT_EQ(AddressOf(block) % alignment, 0u) << alignment;
    EXPECT_EQ(AddressOf(block) % HK_SLAB_BYTES, 0u) << alignment;
    ExpectBig(block, HK_RUN_MAX_BYTES + HK_SLAB_BYTES);
    EXPECT_TRUE(Free(block));
  }
  ExpectNothingLost();
}

HK_FRESH_TEST(Large, ASmallBlockMayHaveALargeAlignment) {
  char *block = Alloc(1, 64 * HK_MIB);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(AddressOf(block) % (64 * HK_MIB), 0u);
  ExpectBig(block, HK_SLAB_BYTES);
  ExpectNothingLost();
}

HK_FRESH_TEST(Large, OnlyTheFirstSlabSaysSo) {
  char *block = Alloc(4 * HK_MIB);
  for (size_t i = HK_SLAB_BYTES; i < 4 * HK_MIB; i += HK_SLAB_BYTES) {
    ASSERT_EQ(hk_slab_state(SlabOf(block + i)), hk_slab_none) << i;
  }
}

HK_FRESH_TEST(Large, WhatNoAddressSpaceHoldsIsNotAskedFor) {
  for (size_t bytes : {SIZE_MAX, size_t{PTRDIFF_MAX}, size_t{PTRDIFF_MAX} - HK_SLAB_BYTES + 1}) {
    EXPECT_EQ(hk_large_good_size(bytes), 0u) << bytes;
    EXPECT_EQ(Alloc(bytes), nullptr) << bytes;
  }
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 0u);
  EXPECT_EQ(hk_large_good_size(size_t{PTRDIFF_MAX} - HK_SLAB_BYTES), size_t{PTRDIFF_MAX} - HK_SLAB_BYTES + 1);
  EXPECT_EQ(Alloc(size_t{PTRDIFF_MAX} - HK_SLAB_BYTES), nullptr) << "requested, and refused";
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 1u);
  ExpectUsage(0, 0);
}

HK_FRESH_TEST(Large, ManyOfThem) {
  constexpr size_t kCount = 2000, kBytes = HK_RUN_MAX_BYTES + HK_SLAB_BYTES;
  std::vector<char *> blocks;
  for (size_t i = 0; i < kCount; i++) {
    blocks.push_back(Alloc(kBytes));
    ASSERT_NE(blocks.back(), nullptr);
    memcpy(blocks.back(), &i, sizeof i);
  }
  EXPECT_EQ(std::set<char *>(blocks.begin(), blocks.end()).size(), kCount);
  ExpectUsage(kCount, kCount * kBytes);
  for (size_t i = 0; i < kCount; i++) {
    ASSERT_EQ(memcmp(blocks[i], &i, sizeof i), 0) << i;
    ASSERT_TRUE(Free(blocks[i]));
  }
  ExpectUsage(0, 0);
  ExpectNothingLost();
}

// ---- Free, and use again.

HK_FRESH_TEST(Large, AFreedBlockIsUsedAgain) {
  char *block = Alloc(4 * HK_MIB);
  Fill(block, 4 * HK_MIB, 5);
  hk_slab_t *slab = SlabOf(block);
  uint64_t reserves = fake_os_calls(fake_os_reserve);
  EXPECT_TRUE(hk_large_free(slab, block));
  EXPECT_EQ(hk_slab_state(slab), hk_slab_free);
  ExpectUsage(0, 0);
  ExpectCached(4 * HK_MIB, 4 * HK_MIB);
  EXPECT_EQ(Alloc(4 * HK_MIB), block);
  EXPECT_FALSE(is_zero);
  EXPECT_TRUE(Holds(block, 4 * HK_MIB, 5)) << "no write touched it";
  ExpectBig(block, 4 * HK_MIB);
  ExpectUsage(1, 4 * HK_MIB);
  ExpectCached(0, 0);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), reserves);
  EXPECT_EQ(fake_os_calls(fake_os_unmap), 0u);
  EXPECT_EQ(Count(hk_stat_large_reuse), 1u);
}

HK_FRESH_TEST(Large, WhatIsMoreThanMayBeIdleIsUnmapped) {
  char *block = Alloc(16 * HK_MIB);
  hk_slab_t *slab = SlabOf(block);
  EXPECT_TRUE(hk_large_free(slab, block));
  EXPECT_FALSE(fake_os_is_mapped(block, 1));
  EXPECT_EQ(hk_slab_state(slab), hk_slab_none);
  EXPECT_EQ(hk_slab_state(SlabOf(block + 16 * HK_MIB - 1)), hk_slab_none);
  ExpectCached(0, 0);
  ExpectNothingLost();
  EXPECT_EQ(Count(hk_stat_purged), 16 * HK_MIB);
}

HK_FRESH_TEST(Large, WithNothingToRetainTheLastFreeUnmaps) {
  hk_option.retain = 0;
  for (int round = 0; round < 3; round++) {
    EXPECT_TRUE(Free(Alloc(2 * HK_MIB)));
    ExpectCached(0, 0);
    ExpectNothingLost();
  }
}

HK_FRESH_TEST(Large, WhatIsWantedAgainIsUnmappedOnce) {
  for (int round = 0; round < 10; round++) {
    EXPECT_TRUE(Free(Alloc(24 * HK_MIB)));
    fake_os_advance(10000000);
  }
  EXPECT_EQ(fake_os_calls(fake_os_unmap), 1u);
  EXPECT_EQ(Count(hk_stat_refaulted), 24 * HK_MIB);
  ExpectCached(24 * HK_MIB, 24 * HK_MIB);
  fake_os_advance(3000000000);
  EXPECT_TRUE(Free(Alloc(2 * HK_MIB))) << "by now it is idle for too long";
  EXPECT_LE(hk_large_usage().dirty_bytes, 8 * HK_MIB);
}

HK_FRESH_TEST(Large, TheOldestGoesFirst) {
  RetainEverything();
  char *blocks[3];
  for (char *&block : blocks) block = Alloc(2 * HK_MIB, HK_GIB); /* far from each other */
  for (int i : {1, 2, 0}) EXPECT_TRUE(Free(blocks[i]));
  EXPECT_EQ(hk_purge_down_to(4 * HK_MIB), 2 * HK_MIB);
  EXPECT_FALSE(fake_os_is_mapped(blocks[1], 1));
  EXPECT_EQ(hk_purge_down_to(4 * HK_MIB), 0u);
  EXPECT_EQ(hk_purge_down_to(4 * HK_MIB - 1), 2 * HK_MIB);
  EXPECT_FALSE(fake_os_is_mapped(blocks[2], 1));
  EXPECT_TRUE(fake_os_is_mapped(blocks[0], 2 * HK_MIB));
  ExpectNothingLost();
}

HK_FRESH_TEST(Large, ASecondFreeIsNoticed) {
  char *block = Alloc(4 * HK_MIB);
  hk_slab_t *slab = SlabOf(block);
  EXPECT_TRUE(hk_large_free(slab, block));
  EXPECT_FALSE(hk_large_free(slab, block)) << "while it is kept";
  ExpectUsage(0, 0);
  ExpectCached(4 * HK_MIB, 4 * HK_MIB);
  Trim();
  EXPECT_FALSE(hk_large_free(slab, block)) << "when it is gone";
  ExpectUsage(0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Large, ASecondFreeIsNoticedInsideAMergedExtent) {
  char *start = FreeRange(6 * HK_MIB);
  char *blocks[3];
  for (char *&block : blocks) block = Alloc(2 * HK_MIB);
  ASSERT_EQ(blocks[0], start);
  for (char *block : blocks) EXPECT_TRUE(Free(block));
  for (char *block : blocks) EXPECT_FALSE(Free(block));
  ExpectCached(6 * HK_MIB, 6 * HK_MIB);
  EXPECT_EQ(Alloc(6 * HK_MIB), start);
  EXPECT_EQ(hk_slab_state(SlabOf(blocks[1])), hk_slab_none);
}

HK_FRESH_TEST(Large, OneOfTwoThreadsIsTheFirst) {
  const int kRounds = static_cast<int>(hk_test::Scaled(4000, 200));
  Rendezvous rendezvous(2);
  char *block = nullptr;
  hk_slab_t *slab = nullptr;
  std::atomic<int> freed{0};
  auto free_once = [&] {
    rendezvous.Wait();
    if (hk_large_free(slab, block)) freed++;
    rendezvous.Wait();
  };
  std::thread other([&] {
    for (int round = 0; round < kRounds; round++) free_once();
  });
  for (int round = 0; round < kRounds; round++) {
    block = Alloc(2 * HK_MIB);
    slab = SlabOf(block);
    free_once();
  }
  other.join();
  EXPECT_EQ(freed, kRounds);
  ExpectUsage(0, 0);
  ExpectCached(2 * HK_MIB, 2 * HK_MIB);
}

// ---- Zero.

HK_FRESH_TEST(Large, WhatWasPurgedIsZeroAndWithWhatWasNotItIsNot) {
  char *start = FreeRange(8 * HK_MIB);
  Fill(start, 8 * HK_MIB, 5);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_EQ(hk_purge_down_to(0), 8 * HK_MIB);
  ExpectCached(8 * HK_MIB, 0);
  char *block = Alloc(2 * HK_MIB);
  EXPECT_EQ(block, start);
  EXPECT_TRUE(is_zero);
  EXPECT_TRUE(Holds(block, 2 * HK_MIB, 0));
  char *second = Alloc(2 * HK_MIB);
  EXPECT_EQ(second, start + 2 * HK_MIB);
  EXPECT_TRUE(is_zero);
  ExpectCached(4 * HK_MIB, 0);
  Fill(block, 2 * HK_MIB, 7);
  EXPECT_TRUE(Free(block));
  ExpectCached(6 * HK_MIB, 2 * HK_MIB);
  EXPECT_TRUE(Free(second)) << "between the one that is zero and the one that is not";
  ExpectCached(8 * HK_MIB, 8 * HK_MIB);
  EXPECT_EQ(Alloc(8 * HK_MIB), start);
  EXPECT_FALSE(is_zero);
}

HK_FRESH_TEST(Large, ClearMakesABlockZero) {
  for (size_t bytes : {HK_RUN_MAX_BYTES + 5, 32 * HK_MIB - 1, 32 * HK_MIB, 33 * HK_MIB + 4097}) {
    for (bool refuse : {false, true}) {
      fake_os_fail_all(fake_os_purge, refuse);
      char *block = Alloc(bytes);
      size_t whole = hk_large_good_size(bytes);
      memset(block, 0xa5, whole);
      uint64_t purges = fake_os_calls(fake_os_purge);
      hk_large_clear(block, bytes);
      EXPECT_EQ(fake_os_calls(fake_os_purge) - purges, bytes >= 32 * HK_MIB ? 1u : 0u);
      EXPECT_EQ(hk_test::FindNonZero(block, bytes), hk_test::kIntact) << bytes;
      EXPECT_TRUE(Free(block));
    }
  }
}

// ---- Refusals.

HK_FRESH_TEST(Large, ARefusedMappingOrLeafChangesNothing) {
  for (uint64_t nth : {1, 2}) {
    fake_os_fail_from(fake_os_reserve, nth);
    EXPECT_EQ(Alloc(4 * HK_MIB), nullptr);
    fake_os_fail_all(fake_os_reserve, false);
    ExpectUsage(0, 0);
    ExpectNothingLost();
  }
  char *block = Alloc(4 * HK_MIB);
  ASSERT_NE(block, nullptr);
  ExpectBig(block, 4 * HK_MIB);
  EXPECT_TRUE(is_zero);
  ExpectNothingLost();
}

HK_FRESH_TEST(Large, WhatTheSystemDoesNotTakeBackIsUsedAgain) {
  char *block = Alloc(16 * HK_MIB);
  Fill(block, 16 * HK_MIB, 5);
  hk_slab_t *slab = SlabOf(block);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_TRUE(hk_large_free(slab, block)) << "it is free, whatever the system says";
  ExpectUsage(0, 0);
  ExpectCached(16 * HK_MIB, 0);
  EXPECT_EQ(fake_os_calls(fake_os_purge), 1u) << "its memory can go even where its addresses cannot";
  EXPECT_EQ(hk_slab_state(slab), hk_slab_free);
  EXPECT_FALSE(hk_large_free(slab, block)) << "a second time";

  uint64_t reserves = fake_os_calls(fake_os_reserve);
  EXPECT_EQ(Alloc(16 * HK_MIB), block);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), reserves);
  EXPECT_TRUE(is_zero);
  EXPECT_TRUE(Holds(block, 16 * HK_MIB, 0));
  ExpectBig(block, 16 * HK_MIB);
  ExpectNothingLost();

  EXPECT_NE(Alloc(16 * HK_MIB), block) << "there was one";
  fake_os_fail_all(fake_os_unmap, false);
  EXPECT_TRUE(Free(block));
  Trim();
  EXPECT_FALSE(fake_os_is_mapped(block, 1)) << "this time the system took it";
}

HK_FRESH_TEST(Large, ARefusedPurgeAsWellIsNotCalledZero) {
  char *block = Alloc(16 * HK_MIB);
  Fill(block, 16 * HK_MIB, 5);
  fake_os_fail_all(fake_os_unmap, true);
  fake_os_fail_all(fake_os_purge, true);
  EXPECT_TRUE(Free(block));
  ExpectCached(16 * HK_MIB, 16 * HK_MIB);
  EXPECT_EQ(Count(hk_stat_purged), 0u);
  EXPECT_EQ(Alloc(16 * HK_MIB), block);
  EXPECT_FALSE(is_zero);
  EXPECT_FALSE(Holds(block, 16 * HK_MIB, 0));
}

HK_FRESH_TEST(Large, AddressesThatWereRefusedGoLater) {
  char *start = FreeRange(8 * HK_MIB);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_EQ(hk_purge_down_to(0), 8 * HK_MIB);
  EXPECT_EQ(hk_purge_down_to(0), 0u) << "it holds no memory any more, and ends although the system still refuses";
  EXPECT_EQ(hk_purge_down_to(1), 0u);
  fake_os_fail_all(fake_os_unmap, false);
  EXPECT_EQ(hk_purge_down_to(1), 0u);
  EXPECT_TRUE(fake_os_is_mapped(start, 8 * HK_MIB)) << "addresses alone are no reason";
  EXPECT_EQ(hk_purge_down_to(0), 0u);
  EXPECT_FALSE(fake_os_is_mapped(start, 1));
  ExpectCached(0, 0);
  ExpectNothingLost();
}

// ---- Fork.

HK_FRESH_TEST(Large, RepairKeepsWhatNoThreadWasChanging) {
  char *start = FreeRange(8 * HK_MIB);
  char *live = Alloc(2 * HK_MIB);
  hk_large_repair();
  ExpectBig(live, 2 * HK_MIB);
  ExpectCached(6 * HK_MIB, 6 * HK_MIB);
  EXPECT_EQ(Count(hk_stat_fork_lost), 0u);
  EXPECT_TRUE(Free(live));
  EXPECT_EQ(Alloc(8 * HK_MIB), start);
}

HK_FRESH_TEST(Large, RepairForgetsWhatAVanishedThreadWasChanging) {
  char *start = FreeRange(12 * HK_MIB);
  char *live = Alloc(4 * HK_MIB);
  char *second = Alloc(4 * HK_MIB);
  ASSERT_EQ(second, start + 4 * HK_MIB);
  hk_extent_mark_changing_locked(); /* the lock is free here, as it is in the child */
  memset(&SlabOf(second + 4 * HK_MIB)->link, 0xdb, sizeof(hk_list_t)); /* what it may leave of the links */
  memset(&SlabOf(second + 4 * HK_MIB)->extent.link, 0xdb, sizeof(hk_list_t));
  hk_large_repair();
  ExpectBig(live, 4 * HK_MIB);
  ExpectUsage(2, 8 * HK_MIB);
  ExpectCached(0, 0);
  EXPECT_EQ(Count(hk_stat_fork_lost), 4 * HK_MIB);

  EXPECT_TRUE(Free(second)) << "beside a forgotten extent, with which it must not merge";
  ExpectCached(4 * HK_MIB, 4 * HK_MIB);
  EXPECT_NE(Alloc(8 * HK_MIB), second);
  EXPECT_EQ(Alloc(4 * HK_MIB), second);
  fake_os_fail_all(fake_os_resize, true);
  EXPECT_NE(Resize(second, 6 * HK_MIB), second) << "nor can it absorb it";
  hk_large_repair();
  EXPECT_TRUE(Free(live)) << "blocks kept from now on are found";
  EXPECT_EQ(Alloc(4 * HK_MIB), live);
  EXPECT_EQ(Count(hk_stat_fork_lost), 4 * HK_MIB) << "once";
}

// ---- Threads.

HK_FRESH_TEST(Large, ThreadsShareNothing) {
  hk_option.retain = 4 * HK_MIB; /* ways back to the system all the time */
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; t++) {
    threads.emplace_back([&failures, t] {
      hk_test::TestRandom random(100 + t);
      std::vector<std::pair<char *, uint64_t>> held;
      bool is_zero;
      for (int i = 0; i < 3000; i++) {
        if (held.size() < 4 && !random.OneIn(3)) {
          size_t bytes = random.Between(HK_RUN_MAX_BYTES + 1, 3 * HK_MIB);
          char *block = static_cast<char *>(hk_large_alloc(bytes, 1, &is_zero));
          if (block == nullptr || (is_zero && !Holds(block, HK_RUN_MAX_BYTES, 0))) failures++;
          if (block == nullptr) return;
          held.push_back({block, random.Next() | 1});
          Fill(block, HK_RUN_MAX_BYTES, held.back().second);
        } else if (!held.empty()) {
          std::swap(held[random.Below(held.size())], held.back());
          if (!Holds(held.back().first, HK_RUN_MAX_BYTES, held.back().second)) failures++;
          if (!Free(held.back().first)) failures++;
          held.pop_back();
        }
        if (random.OneIn(100)) Trim();
      }
      for (auto &one : held) Free(one.first);
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  Trim();
  ExpectUsage(0, 0);
  ExpectCached(0, 0);
  ExpectNothingLost();
}

// The block before it at these addresses was made an hour earlier.
HK_FRESH_TEST(Large, ABlockOfDirtyMemoryIsAsOldAsItself) {
  char *start = FreeRange(8 * HK_MIB);
  fake_os_advance(UINT64_C(3600) * 1000 * 1000 * 1000);
  uint32_t now_ms = static_cast<uint32_t>(hk_os_coarse_ms());
  ASSERT_EQ(Alloc(4 * HK_MIB), start);
  fake_os_advance(10 * 1000 * 1000);
  ASSERT_EQ(Resize(start, 6 * HK_MIB), start) << "which opens it";
  memset(start, 1, 6 * HK_MIB);
  hk_large_filled_t filled = {0, 0};
  ASSERT_TRUE(hk_large_fill_look(&filled));
  EXPECT_EQ(filled.bytes, 6 * HK_MIB);
  EXPECT_EQ(filled.born_ms, now_ms);
}

// Each page is a system call, and a program may have many blocks whose ends it never fills.
HK_FRESH_TEST(Large, ALookEndsAtThePartThatIsNotWritten) {
  char *start = Alloc(4 * HK_MIB);
  memset(start, 1, 3 * HK_MIB);
  hk_large_filled_t filled = {0, 0};
  uint64_t calls = fake_os_calls(fake_os_resident);
  EXPECT_FALSE(hk_large_fill_look(&filled));
  EXPECT_EQ(fake_os_calls(fake_os_resident) - calls, 1u);
  memset(start, 1, 4 * HK_MIB);
  EXPECT_TRUE(hk_large_fill_look(&filled));
  EXPECT_EQ(fake_os_calls(fake_os_resident) - calls, 1u + HK_THP_PROBES);
}

char *looked_at;

void PutAheadMeanwhile() {
  fake_os_set_hook(fake_os_resident, nullptr);
  hk_lock_acquire(hk_lock_space);
  hk_large_fill_put_ahead_locked(SlabOf(looked_at), 4 * HK_MIB);
  hk_lock_release(hk_lock_space);
}

// Its thread makes a new block resident ahead of the program, while another thread looks at it.
HK_FRESH_TEST(Large, WhatBecomesResidentDuringALookIsNotFilled) {
  looked_at = Alloc(4 * HK_MIB);
  memset(looked_at, 1, 4 * HK_MIB);
  fake_os_set_hook(fake_os_resident, PutAheadMeanwhile);
  hk_large_filled_t filled = {0, 0};
  EXPECT_FALSE(hk_large_fill_look(&filled));
  EXPECT_TRUE(SlabOf(looked_at)->is_open);
  EXPECT_TRUE(hk_large_fill_look(&filled)) << "a look at the contents";
}

}  // namespace
