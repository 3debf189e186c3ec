// space/big: sizes and alignments, what a freed block leaves and what is made of it, refusals, resizing, and fork.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/core_parts.h"
#include "unit/rendezvous.h"

namespace {

bool zero;

char *Alloc(size_t bytes, size_t alignment = HK_BLOCK_ALIGNMENT) {
  return static_cast<char *>(hk_big_alloc(bytes, alignment, &zero));
}
hk_slab_t *SlabOf(const void *block) { return hk_slab_of(block); }
bool Free(void *block) { return hk_big_free(SlabOf(block), block); }
char *Resize(char *block, size_t bytes) { return static_cast<char *>(hk_big_resize(SlabOf(block), block, bytes)); }
uintptr_t AddressOf(const void *block) { return reinterpret_cast<uintptr_t>(block); }

void ExpectUsage(size_t count, size_t bytes) {
  EXPECT_EQ(hk_big_usage().count, count);
  EXPECT_EQ(hk_big_usage().mapped_bytes, bytes);
}

// All that is mapped is what the usage says, and leaves of the region map.
void ExpectNothingLost() {
  hk_big_usage_t usage = hk_big_usage();
  EXPECT_EQ(fake_os_mapped_bytes(), usage.mapped_bytes + usage.cached_bytes + hk_region_map_mapped_bytes());
  EXPECT_LE(usage.idle_bytes, usage.cached_bytes);
}

void ExpectCached(size_t bytes, size_t idle_bytes) {
  EXPECT_EQ(hk_big_usage().cached_bytes, bytes);
  EXPECT_EQ(hk_big_usage().idle_bytes, idle_bytes);
}

void RetainEverything() { hk_option.retain = HK_TIB; }
void Trim() { (void)hk_surplus_trim(0); }
uint64_t Count(hk_stat_id_t id) { return hk_load_relaxed(&hk_stat_process.value[id]); }

// One free range of `bytes`, not zero, that starts at a 2 MiB boundary: what is allocated next is cut from its start.
char *FreeRange(size_t bytes) {
  RetainEverything();
  char *start = Alloc(bytes, HK_SUPERSLAB_BYTES);
  EXPECT_NE(start, nullptr);
  EXPECT_TRUE(Free(start));
  return start;
}

void ExpectBig(const char *block, size_t bytes) {
  hk_slab_t *slab = SlabOf(block);
  EXPECT_EQ(hk_slab_state(slab), hk_slab_big);
  EXPECT_EQ(hk_load_relaxed(&slab->bytes), bytes);
  EXPECT_EQ(hk_load_relaxed(&slab->owner), nullptr);
  EXPECT_TRUE(fake_os_is_mapped(block, bytes));
}

// One word in each mebibyte and at the end.
void Fill(char *block, size_t bytes, uint64_t stamp) {
  for (size_t i = 0; i < bytes; i += HK_MIB) memcpy(block + i, &stamp, sizeof stamp);
  memcpy(block + bytes - sizeof stamp, &stamp, sizeof stamp);
}

bool Holds(const char *block, size_t bytes, uint64_t stamp) {
  for (size_t i = 0; i < bytes; i += HK_MIB) {
    if (memcmp(block + i, &stamp, sizeof stamp) != 0) return false;
  }
  return memcmp(block + bytes - sizeof stamp, &stamp, sizeof stamp) == 0;
}

// ---- Sizes and alignments.

HK_FRESH_TEST(Big, IsAMappingOfWholeSlabs) {
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
    EXPECT_EQ(hk_big_good_size(test.asked), test.given);
    EXPECT_EQ(AddressOf(block) % test.alignment, 0u) << test.asked;
    ExpectBig(block, test.given);
    ExpectUsage(1, test.given);
    EXPECT_TRUE(zero);
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

HK_FRESH_TEST(Big, EachAlignment) {
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

HK_FRESH_TEST(Big, ASmallBlockMayHaveALargeAlignment) {
  char *block = Alloc(1, 64 * HK_MIB);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(AddressOf(block) % (64 * HK_MIB), 0u);
  ExpectBig(block, HK_SLAB_BYTES);
  ExpectNothingLost();
}

HK_FRESH_TEST(Big, OnlyTheFirstSlabSaysSo) {
  char *block = Alloc(4 * HK_MIB);
  for (size_t i = HK_SLAB_BYTES; i < 4 * HK_MIB; i += HK_SLAB_BYTES) {
    ASSERT_EQ(hk_slab_state(SlabOf(block + i)), hk_slab_none) << i;
  }
}

HK_FRESH_TEST(Big, WhatNoAddressSpaceHoldsIsNotAskedFor) {
  for (size_t bytes : {SIZE_MAX, size_t{PTRDIFF_MAX}, size_t{PTRDIFF_MAX} - HK_SLAB_BYTES + 1}) {
    EXPECT_EQ(hk_big_good_size(bytes), 0u) << bytes;
    EXPECT_EQ(Alloc(bytes), nullptr) << bytes;
  }
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 0u);
  EXPECT_EQ(hk_big_good_size(size_t{PTRDIFF_MAX} - HK_SLAB_BYTES), size_t{PTRDIFF_MAX} - HK_SLAB_BYTES + 1);
  EXPECT_EQ(Alloc(size_t{PTRDIFF_MAX} - HK_SLAB_BYTES), nullptr) << "asked for, and refused";
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 1u);
  ExpectUsage(0, 0);
}

HK_FRESH_TEST(Big, ManyOfThem) {
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

HK_FRESH_TEST(Big, AFreedBlockIsUsedAgain) {
  char *block = Alloc(4 * HK_MIB);
  Fill(block, 4 * HK_MIB, 5);
  hk_slab_t *slab = SlabOf(block);
  uint64_t reserves = fake_os_calls(fake_os_reserve);
  EXPECT_TRUE(hk_big_free(slab, block));
  EXPECT_EQ(hk_slab_state(slab), hk_slab_free);
  ExpectUsage(0, 0);
  ExpectCached(4 * HK_MIB, 4 * HK_MIB);
  EXPECT_EQ(Alloc(4 * HK_MIB), block);
  EXPECT_FALSE(zero);
  EXPECT_TRUE(Holds(block, 4 * HK_MIB, 5)) << "nobody touched it";
  ExpectBig(block, 4 * HK_MIB);
  ExpectUsage(1, 4 * HK_MIB);
  ExpectCached(0, 0);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), reserves);
  EXPECT_EQ(fake_os_calls(fake_os_unmap), 0u);
  EXPECT_EQ(Count(hk_stat_big_reuse), 1u);
}

HK_FRESH_TEST(Big, WhatIsMoreThanMayBeIdleIsUnmapped) {
  char *block = Alloc(16 * HK_MIB);
  hk_slab_t *slab = SlabOf(block);
  EXPECT_TRUE(hk_big_free(slab, block));
  EXPECT_FALSE(fake_os_is_mapped(block, 1));
  EXPECT_EQ(hk_slab_state(slab), hk_slab_none);
  EXPECT_EQ(hk_slab_state(SlabOf(block + 16 * HK_MIB - 1)), hk_slab_none);
  ExpectCached(0, 0);
  ExpectNothingLost();
  EXPECT_EQ(Count(hk_stat_given_back), 16 * HK_MIB);
}

HK_FRESH_TEST(Big, WithNothingToRetainTheLastFreeUnmaps) {
  hk_option.retain = 0;
  for (int round = 0; round < 3; round++) {
    EXPECT_TRUE(Free(Alloc(2 * HK_MIB)));
    ExpectCached(0, 0);
    ExpectNothingLost();
  }
}

HK_FRESH_TEST(Big, WhatIsWantedAgainIsUnmappedOnce) {
  for (int round = 0; round < 10; round++) {
    EXPECT_TRUE(Free(Alloc(24 * HK_MIB)));
    fake_os_advance(10000000);
  }
  EXPECT_EQ(fake_os_calls(fake_os_unmap), 1u);
  EXPECT_EQ(Count(hk_stat_wanted_again), 24 * HK_MIB);
  ExpectCached(24 * HK_MIB, 24 * HK_MIB);
  fake_os_advance(3000000000);
  EXPECT_TRUE(Free(Alloc(2 * HK_MIB))) << "by now it is idle for too long";
  EXPECT_LE(hk_big_usage().idle_bytes, 8 * HK_MIB);
}

HK_FRESH_TEST(Big, TheOldestGoesFirst) {
  RetainEverything();
  char *blocks[3];
  for (char *&block : blocks) block = Alloc(2 * HK_MIB, HK_GIB); /* far from each other */
  for (int i : {1, 2, 0}) EXPECT_TRUE(Free(blocks[i]));
  EXPECT_EQ(hk_surplus_trim(4 * HK_MIB), 2 * HK_MIB);
  EXPECT_FALSE(fake_os_is_mapped(blocks[1], 1));
  EXPECT_EQ(hk_surplus_trim(4 * HK_MIB), 0u);
  EXPECT_EQ(hk_surplus_trim(4 * HK_MIB - 1), 2 * HK_MIB);
  EXPECT_FALSE(fake_os_is_mapped(blocks[2], 1));
  EXPECT_TRUE(fake_os_is_mapped(blocks[0], 2 * HK_MIB));
  ExpectNothingLost();
}

HK_FRESH_TEST(Big, ASecondFreeIsNoticed) {
  char *block = Alloc(4 * HK_MIB);
  hk_slab_t *slab = SlabOf(block);
  EXPECT_TRUE(hk_big_free(slab, block));
  EXPECT_FALSE(hk_big_free(slab, block)) << "while it is kept";
  ExpectUsage(0, 0);
  ExpectCached(4 * HK_MIB, 4 * HK_MIB);
  Trim();
  EXPECT_FALSE(hk_big_free(slab, block)) << "when it is gone";
  ExpectUsage(0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Big, ASecondFreeIsNoticedInsideAMergedRange) {
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

HK_FRESH_TEST(Big, OneOfTwoThreadsIsTheFirst) {
  constexpr int kRounds = 10000;
  hk_test::Rendezvous rendezvous(2);
  char *block = nullptr;
  hk_slab_t *slab = nullptr;
  std::atomic<int> freed{0};
  auto free_once = [&] {
    rendezvous.Wait();
    if (hk_big_free(slab, block)) freed++;
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

// ---- Ranges: they are cut, and become one again.

HK_FRESH_TEST(Big, AFreedBlockBecomesOneWithTheRangesOnBothSides) {
  for (auto order : {std::array<int, 3>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    char *start = FreeRange(12 * HK_MIB);
    char *blocks[3];
    for (int i = 0; i < 3; i++) {
      blocks[i] = Alloc(4 * HK_MIB);
      ASSERT_EQ(blocks[i], start + i * 4 * HK_MIB);
    }
    ExpectCached(0, 0);
    for (int i : order) EXPECT_TRUE(Free(blocks[i]));
    ExpectUsage(0, 0);
    ExpectCached(12 * HK_MIB, 12 * HK_MIB);
    EXPECT_EQ(hk_range_usage().count, 1u);
    for (size_t at = HK_SLAB_BYTES; at < 12 * HK_MIB - HK_SLAB_BYTES; at += HK_SLAB_BYTES) {
      ASSERT_EQ(SlabOf(start + at)->range.since, 0u) << "no tag inside a range, " << at;
    }
    EXPECT_EQ(Alloc(12 * HK_MIB), start);
    EXPECT_TRUE(Free(start));
    Trim();
    ExpectNothingLost();
  }
}

HK_FRESH_TEST(Big, WhatTouchesNoRangeStaysAlone) {
  char *start = FreeRange(12 * HK_MIB);
  char *blocks[3];
  for (char *&block : blocks) block = Alloc(4 * HK_MIB);
  EXPECT_TRUE(Free(blocks[0]));
  EXPECT_TRUE(Free(blocks[2]));
  EXPECT_EQ(hk_range_usage().count, 2u);
  EXPECT_EQ(Alloc(4 * HK_MIB), blocks[2]) << "the one freed last, of two alike";
  EXPECT_EQ(Alloc(4 * HK_MIB), start);
}

HK_FRESH_TEST(Big, ARangeIsCut) {
  char *start = FreeRange(16 * HK_MIB);
  uint64_t calls = fake_os_calls(fake_os_reserve);
  char *block = Alloc(5 * HK_MIB);
  EXPECT_EQ(block, start);
  ExpectCached(11 * HK_MIB, 11 * HK_MIB);
  EXPECT_EQ(Alloc(2 * HK_MIB - HK_SLAB_BYTES), start + 5 * HK_MIB) << "too small for a huge page: anywhere";
  EXPECT_EQ(Alloc(2 * HK_MIB), start + 8 * HK_MIB) << "at a boundary, for there is room";
  EXPECT_EQ(hk_range_usage().count, 2u);
  ExpectCached(7 * HK_MIB + HK_SLAB_BYTES, 7 * HK_MIB + HK_SLAB_BYTES);
  EXPECT_EQ(Alloc(6 * HK_MIB), start + 10 * HK_MIB) << "all of the rest";
  EXPECT_EQ(fake_os_calls(fake_os_reserve), calls);
  EXPECT_EQ(hk_range_usage().count, 1u);
  ExpectUsage(4, 15 * HK_MIB - HK_SLAB_BYTES);
  ExpectNothingLost();
}

HK_FRESH_TEST(Big, TheBestFitIsTaken) {
  RetainEverything();
  std::map<size_t, char *> ranges;
  for (size_t mib : {40, 7, 20, 6, 11}) ranges[mib] = Alloc(mib * HK_MIB, HK_GIB);
  for (auto &range : ranges) EXPECT_TRUE(Free(range.second));
  ASSERT_EQ(hk_range_usage().count, 5u);
  EXPECT_EQ(Alloc(7 * HK_MIB - 1), ranges[7]);
  EXPECT_EQ(Alloc(7 * HK_MIB), ranges[11]);
  EXPECT_EQ(Alloc(5 * HK_MIB), ranges[6]);
  EXPECT_EQ(Alloc(20 * HK_MIB + 1), ranges[40]);
  EXPECT_EQ(Alloc(3 * HK_MIB), ranges[11] + 8 * HK_MIB) << "the rest of one, from a boundary on";
}

HK_FRESH_TEST(Big, AmongNearlyEqualOnesTooTheBestFitIsTaken) {
  RetainEverything();
  std::map<size_t, char *> ranges;
  for (size_t slabs : {1030, 1024, 1028, 1026}) ranges[slabs] = Alloc(slabs * HK_SLAB_BYTES, HK_GIB);
  for (auto &range : ranges) EXPECT_TRUE(Free(range.second));
  for (size_t slabs : {1026, 1024, 1030, 1028}) EXPECT_EQ(Alloc(slabs * HK_SLAB_BYTES), ranges[slabs]) << slabs;
}

HK_FRESH_TEST(Big, ARangeIsOnlyUsedWhereItIsAlignedEnough) {
  char *start = FreeRange(8 * HK_MIB);
  char *first = Alloc(HK_RUN_MAX_BYTES + 1);
  ASSERT_EQ(first, start);
  char *aligned = Alloc(HK_RUN_MAX_BYTES + 1, HK_SUPERSLAB_BYTES);
  EXPECT_EQ(aligned, start + HK_SUPERSLAB_BYTES);
  EXPECT_EQ(Alloc(HK_RUN_MAX_BYTES - HK_SLAB_BYTES), first + HK_RUN_MAX_BYTES + HK_SLAB_BYTES) << "the gap, whole";
  size_t alignment = 256 * HK_MIB;
  char *far = Alloc(HK_RUN_MAX_BYTES + 1, alignment);
  EXPECT_EQ(AddressOf(far) % alignment, 0u);
  EXPECT_NE(far, aligned);
  ExpectNothingLost();
}

HK_FRESH_TEST(Big, WhatIsKeptServesWhileTheSystemRefuses) {
  char *start = FreeRange(8 * HK_MIB);
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(Alloc(16 * HK_MIB), nullptr);
  EXPECT_EQ(Alloc(8 * HK_MIB), start);
  EXPECT_EQ(Alloc(2 * HK_MIB), nullptr);
}

HK_FRESH_TEST(Big, WhatIsKeptGoesWhenItIsInTheWay) {
  char *start = FreeRange(8 * HK_MIB);
  fake_os_limit_mapped(fake_os_mapped_bytes() + HK_MIB);
  EXPECT_EQ(Alloc(9 * HK_MIB), nullptr);
  EXPECT_EQ(hk_surplus_trim(0), 8 * HK_MIB) << "what a request does before it fails";
  EXPECT_FALSE(fake_os_is_mapped(start, 1));
  EXPECT_NE(Alloc(9 * HK_MIB), nullptr);
}

HK_FRESH_TEST(Big, ABlockMayCrossRegionsAndBeCutInEach) {
  RetainEverything();
  constexpr size_t kBytes = 3 * HK_GIB;
  char *block = Alloc(kBytes);
  ASSERT_NE(block, nullptr);
  for (size_t at = 0; at < kBytes; at += HK_SLAB_BYTES) {
    ASSERT_NE(SlabOf(block + at), hk_region_map.nothing.slab + (AddressOf(block + at) % HK_GIB) / HK_SLAB_BYTES) << at;
  }
  EXPECT_TRUE(Free(block));
  std::vector<char *> parts;
  for (int i = 0; i < 6; i++) parts.push_back(Alloc(HK_GIB / 2));
  for (char *part : parts) EXPECT_TRUE(part >= block && part < block + kBytes);
  for (char *part : parts) EXPECT_TRUE(Free(part));
  EXPECT_EQ(hk_range_usage().count, 1u);
  EXPECT_EQ(Alloc(kBytes), block);
  for (size_t i = 0; i < HK_REGION_SLABS; i++) ASSERT_EQ(hk_region_map.nothing.slab[i].range.since, 0u) << i;
}

// ---- Zero.

HK_FRESH_TEST(Big, WhatWasPurgedIsZeroAndWithWhatWasNotItIsNot) {
  char *start = FreeRange(8 * HK_MIB);
  Fill(start, 8 * HK_MIB, 5);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_EQ(hk_surplus_trim(0), 8 * HK_MIB);
  ExpectCached(8 * HK_MIB, 0);
  char *block = Alloc(2 * HK_MIB);
  EXPECT_EQ(block, start);
  EXPECT_TRUE(zero);
  EXPECT_TRUE(Holds(block, 2 * HK_MIB, 0));
  char *second = Alloc(2 * HK_MIB);
  EXPECT_EQ(second, start + 2 * HK_MIB);
  EXPECT_TRUE(zero);
  ExpectCached(4 * HK_MIB, 0);
  Fill(block, 2 * HK_MIB, 7);
  EXPECT_TRUE(Free(block));
  ExpectCached(6 * HK_MIB, 2 * HK_MIB);
  EXPECT_TRUE(Free(second)) << "between the one that is zero and the one that is not";
  ExpectCached(8 * HK_MIB, 8 * HK_MIB);
  EXPECT_EQ(Alloc(8 * HK_MIB), start);
  EXPECT_FALSE(zero);
}

HK_FRESH_TEST(Big, ClearMakesABlockZero) {
  for (size_t bytes : {HK_RUN_MAX_BYTES + 5, 32 * HK_MIB - 1, 32 * HK_MIB, 33 * HK_MIB + 4097}) {
    for (bool refuse : {false, true}) {
      fake_os_fail_all(fake_os_purge, refuse);
      char *block = Alloc(bytes);
      size_t whole = hk_big_good_size(bytes);
      memset(block, 0xa5, whole);
      uint64_t purges = fake_os_calls(fake_os_purge);
      hk_big_clear(block, bytes);
      EXPECT_EQ(fake_os_calls(fake_os_purge) - purges, bytes >= 32 * HK_MIB ? 1u : 0u);
      size_t at = 0;
      while (at < bytes && block[at] == 0) at++;
      EXPECT_EQ(at, bytes);
      EXPECT_TRUE(Free(block));
    }
  }
}

// ---- Refusals.

HK_FRESH_TEST(Big, ARefusedMappingOrLeafChangesNothing) {
  for (uint64_t nth : {1, 2}) {
    fake_os_fail_nth(fake_os_reserve, nth);
    EXPECT_EQ(Alloc(4 * HK_MIB), nullptr);
    ExpectUsage(0, 0);
    ExpectNothingLost();
  }
  char *block = Alloc(4 * HK_MIB);
  ASSERT_NE(block, nullptr);
  ExpectBig(block, 4 * HK_MIB);
  EXPECT_TRUE(zero);
  ExpectNothingLost();
}

HK_FRESH_TEST(Big, WhatTheSystemDoesNotTakeBackIsUsedAgain) {
  char *block = Alloc(16 * HK_MIB);
  Fill(block, 16 * HK_MIB, 5);
  hk_slab_t *slab = SlabOf(block);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_TRUE(hk_big_free(slab, block)) << "it is free, whatever the system says";
  ExpectUsage(0, 0);
  ExpectCached(16 * HK_MIB, 0);
  EXPECT_EQ(fake_os_calls(fake_os_purge), 1u) << "its memory can go even where its addresses cannot";
  EXPECT_EQ(hk_slab_state(slab), hk_slab_free);
  EXPECT_FALSE(hk_big_free(slab, block)) << "a second time";

  uint64_t reserves = fake_os_calls(fake_os_reserve);
  EXPECT_EQ(Alloc(16 * HK_MIB), block);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), reserves);
  EXPECT_TRUE(zero);
  EXPECT_TRUE(Holds(block, 16 * HK_MIB, 0));
  ExpectBig(block, 16 * HK_MIB);
  ExpectNothingLost();

  EXPECT_NE(Alloc(16 * HK_MIB), block) << "there was one";
  fake_os_fail_all(fake_os_unmap, false);
  EXPECT_TRUE(Free(block));
  Trim();
  EXPECT_FALSE(fake_os_is_mapped(block, 1)) << "this time the system took it";
}

HK_FRESH_TEST(Big, ARefusedPurgeAsWellIsNotCalledZero) {
  char *block = Alloc(16 * HK_MIB);
  Fill(block, 16 * HK_MIB, 5);
  fake_os_fail_all(fake_os_unmap, true);
  fake_os_fail_all(fake_os_purge, true);
  EXPECT_TRUE(Free(block));
  ExpectCached(16 * HK_MIB, 16 * HK_MIB);
  EXPECT_EQ(Count(hk_stat_given_back), 0u);
  EXPECT_EQ(Alloc(16 * HK_MIB), block);
  EXPECT_FALSE(zero);
  EXPECT_FALSE(Holds(block, 16 * HK_MIB, 0));
}

HK_FRESH_TEST(Big, AddressesThatWereRefusedGoLater) {
  char *start = FreeRange(8 * HK_MIB);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_EQ(hk_surplus_trim(0), 8 * HK_MIB);
  EXPECT_EQ(hk_surplus_trim(0), 0u) << "it holds no memory any more, and ends although the system still refuses";
  EXPECT_EQ(hk_surplus_trim(1), 0u);
  fake_os_fail_all(fake_os_unmap, false);
  EXPECT_EQ(hk_surplus_trim(1), 0u);
  EXPECT_TRUE(fake_os_is_mapped(start, 8 * HK_MIB)) << "addresses alone are no reason";
  EXPECT_EQ(hk_surplus_trim(0), 0u);
  EXPECT_FALSE(fake_os_is_mapped(start, 1));
  ExpectCached(0, 0);
  ExpectNothingLost();
}

// ---- Resize.

HK_FRESH_TEST(Big, ShrinkingLeavesAFreeRange) {
  char *block = Alloc(8 * HK_MIB);
  Fill(block, 4 * HK_MIB, 9);
  EXPECT_EQ(Resize(block, 4 * HK_MIB), block);
  ExpectBig(block, 4 * HK_MIB);
  ExpectUsage(1, 4 * HK_MIB);
  ExpectCached(4 * HK_MIB, 4 * HK_MIB);
  EXPECT_TRUE(Holds(block, 4 * HK_MIB, 9));
  EXPECT_EQ(Alloc(4 * HK_MIB), block + 4 * HK_MIB);
  ExpectNothingLost();
}

HK_FRESH_TEST(Big, GrowingAbsorbsWhatIsFreeBehindIt) {
  char *start = FreeRange(8 * HK_MIB);
  char *block = Alloc(2 * HK_MIB);
  ASSERT_EQ(block, start);
  Fill(block, 2 * HK_MIB, 9);
  EXPECT_EQ(Resize(block, 5 * HK_MIB), block);
  ExpectBig(block, 5 * HK_MIB);
  ExpectUsage(1, 5 * HK_MIB);
  ExpectCached(3 * HK_MIB, 3 * HK_MIB);
  EXPECT_EQ(hk_slab_state(SlabOf(block + 2 * HK_MIB)), hk_slab_none);
  EXPECT_EQ(Resize(block, 8 * HK_MIB), block) << "all of it";
  EXPECT_TRUE(Holds(block, 2 * HK_MIB, 9));
  ExpectBig(block, 8 * HK_MIB);
  ExpectCached(0, 0);
  EXPECT_EQ(hk_range_usage().count, 0u);
  EXPECT_EQ(fake_os_calls(fake_os_resize) + fake_os_calls(fake_os_move), 0u);
  EXPECT_TRUE(Free(block));
  ExpectCached(8 * HK_MIB, 8 * HK_MIB);
}

HK_FRESH_TEST(Big, WhatIsTooShortOrNotFreeIsNotAbsorbed) {
  char *start = FreeRange(8 * HK_MIB);
  char *block = Alloc(2 * HK_MIB);
  char *next = Alloc(2 * HK_MIB);
  ASSERT_EQ(next, start + 2 * HK_MIB);
  fake_os_fail_all(fake_os_resize, true);
  fake_os_fail_all(fake_os_move, true);
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(Resize(block, 3 * HK_MIB), nullptr) << "in use";
  EXPECT_EQ(Resize(next, 7 * HK_MIB), nullptr) << "too short";
  ExpectBig(block, 2 * HK_MIB);
  ExpectBig(next, 2 * HK_MIB);
  ExpectUsage(2, 4 * HK_MIB);
  ExpectCached(4 * HK_MIB, 4 * HK_MIB);
}

HK_FRESH_TEST(Big, ResizesWhereTheSystemHasRoom) {
  char *block = Alloc(8 * HK_MIB);
  Fill(block, 4 * HK_MIB, 9);
  EXPECT_EQ(Resize(block, 4 * HK_MIB), block);
  Trim();
  EXPECT_FALSE(fake_os_is_mapped(block + 4 * HK_MIB, 1));
  EXPECT_EQ(Resize(block, 6 * HK_MIB - 5), block) << "into the addresses that it gave up";
  ExpectBig(block, 6 * HK_MIB);
  ExpectUsage(1, 6 * HK_MIB);
  EXPECT_TRUE(Holds(block, 4 * HK_MIB, 9));
  EXPECT_EQ(fake_os_calls(fake_os_move), 0u);
  ExpectNothingLost();
  EXPECT_TRUE(Free(block));
  ExpectUsage(0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Big, WithinTheSameSlabsNothingIsAsked) {
  char *block = Alloc(4 * HK_MIB);
  EXPECT_EQ(Resize(block, 4 * HK_MIB - HK_SLAB_BYTES + 1), block);
  EXPECT_EQ(fake_os_calls(fake_os_resize) + fake_os_calls(fake_os_move), 0u);
  ExpectUsage(1, 4 * HK_MIB);
}

HK_FRESH_TEST(Big, MovesWhereItCannotGrow) {
  constexpr size_t kept = 4 * HK_MIB, new_bytes = 16 * HK_MIB;
  char *block = Alloc(kept);
  hk_slab_t *slab = SlabOf(block);
  Fill(block, kept, 9);
  fake_os_fail_all(fake_os_resize, true);
  char *moved = Resize(block, new_bytes);
  ASSERT_NE(moved, nullptr);
  EXPECT_NE(moved, block);
  ExpectBig(moved, new_bytes);
  EXPECT_TRUE(Holds(moved, kept, 9));
  ExpectUsage(1, new_bytes);
  EXPECT_EQ(hk_slab_state(slab), hk_slab_none);
  EXPECT_FALSE(fake_os_is_mapped(block, 1));
  ExpectNothingLost();
  EXPECT_TRUE(Free(moved));
  ExpectUsage(0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Big, MovesOntoAFreeRangeWhereThereAreNoNewAddresses) {
  RetainEverything();
  char *target = Alloc(8 * HK_MIB, HK_GIB);
  Fill(target, 8 * HK_MIB, 1);
  char *block = Alloc(4 * HK_MIB, HK_GIB);
  Fill(block, 4 * HK_MIB, 2);
  EXPECT_TRUE(Free(target));
  fake_os_fail_all(fake_os_resize, true);
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(Resize(block, 8 * HK_MIB), target);
  EXPECT_TRUE(Holds(target, 4 * HK_MIB, 2));
  ExpectUsage(1, 8 * HK_MIB);
  ExpectCached(0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Big, MovesToNewAddressesWhileThereAreAny) {
  RetainEverything();
  char *kept = Alloc(8 * HK_MIB, HK_GIB);
  char *block = Alloc(4 * HK_MIB, HK_GIB);
  EXPECT_TRUE(Free(kept));
  fake_os_fail_all(fake_os_resize, true);
  char *moved = Resize(block, 8 * HK_MIB);
  ASSERT_NE(moved, nullptr);
  EXPECT_NE(moved, kept) << "its memory is of more use than its addresses";
  ExpectCached(8 * HK_MIB, 8 * HK_MIB);
}

// The block is as it was, and nothing else is there.
void ExpectResizeRefused(char *block, size_t bytes) {
  EXPECT_EQ(Resize(block, bytes), nullptr);
  ExpectBig(block, 4 * HK_MIB);
  EXPECT_TRUE(Holds(block, 4 * HK_MIB, 9));
  ExpectUsage(1, 4 * HK_MIB);
  ExpectNothingLost();
}

HK_FRESH_TEST(Big, ARefusedResizeChangesNothing) {
  char *block = Alloc(4 * HK_MIB);
  Fill(block, 4 * HK_MIB, 9);
  ExpectResizeRefused(block, SIZE_MAX);
  ExpectResizeRefused(block, PTRDIFF_MAX);
  EXPECT_EQ(fake_os_calls(fake_os_resize), 0u);
  ExpectResizeRefused(block, size_t{PTRDIFF_MAX} - HK_SLAB_BYTES);
  fake_os_fail_all(fake_os_resize, true);
  fake_os_fail_all(fake_os_move, true);
  ExpectResizeRefused(block, 16 * HK_MIB);
  EXPECT_EQ(fake_os_calls(fake_os_move), 1u);
  Trim(); /* what it would have moved to */
  fake_os_fail_all(fake_os_reserve, true);
  ExpectResizeRefused(block, 16 * HK_MIB);
  EXPECT_EQ(fake_os_calls(fake_os_move), 1u) << "there was nowhere to move to";
  EXPECT_TRUE(Free(block));
  ExpectNothingLost();
}

// ---- Fork.

HK_FRESH_TEST(Big, RepairKeepsWhatNobodyWasChanging) {
  char *start = FreeRange(8 * HK_MIB);
  char *live = Alloc(2 * HK_MIB);
  hk_big_repair();
  ExpectBig(live, 2 * HK_MIB);
  ExpectCached(6 * HK_MIB, 6 * HK_MIB);
  EXPECT_EQ(Count(hk_stat_fork_lost), 0u);
  EXPECT_TRUE(Free(live));
  EXPECT_EQ(Alloc(8 * HK_MIB), start);
}

HK_FRESH_TEST(Big, RepairForgetsWhatAVanishedThreadWasChanging) {
  char *start = FreeRange(12 * HK_MIB);
  char *live = Alloc(4 * HK_MIB);
  char *second = Alloc(4 * HK_MIB);
  ASSERT_EQ(second, start + 4 * HK_MIB);
  hk_range_mark_changing_locked(); /* the lock is free here, as it is in the child */
  memset(&SlabOf(second + 4 * HK_MIB)->link, 0xdb, sizeof(hk_list_t)); /* what it may leave of the links */
  memset(&SlabOf(second + 4 * HK_MIB)->range.link, 0xdb, sizeof(hk_list_t));
  hk_big_repair();
  ExpectBig(live, 4 * HK_MIB);
  ExpectUsage(2, 8 * HK_MIB);
  ExpectCached(0, 0);
  EXPECT_EQ(Count(hk_stat_fork_lost), 4 * HK_MIB);

  EXPECT_TRUE(Free(second)) << "beside a forgotten range, which it must not become one with";
  ExpectCached(4 * HK_MIB, 4 * HK_MIB);
  EXPECT_NE(Alloc(8 * HK_MIB), second);
  EXPECT_EQ(Alloc(4 * HK_MIB), second);
  fake_os_fail_all(fake_os_resize, true);
  EXPECT_NE(Resize(second, 6 * HK_MIB), second) << "nor can it absorb it";
  hk_big_repair();
  EXPECT_TRUE(Free(live)) << "what is kept from now on is found";
  EXPECT_EQ(Alloc(4 * HK_MIB), live);
  EXPECT_EQ(Count(hk_stat_fork_lost), 4 * HK_MIB) << "once";
}

// ---- Against a model: every block that is held, with the number that is written into it.

class BigModel {
 public:
  explicit BigModel(uint64_t seed) : random_(seed) {}

  void Step() {
    size_t choice = random_.Below(100);
    if (choice < 45) {
      Take();
    } else if (choice < 80) {
      GiveBack();
    } else if (choice < 97) {
      Change();
    } else {
      (void)hk_surplus_trim(random_.Below(32) * HK_MIB);
    }
    fake_os_advance(random_.Below(20000000));
    size_t bytes = 0;
    for (auto &one : held_) bytes += one.second.bytes;
    ExpectUsage(held_.size(), bytes);
    ExpectNothingLost();
  }

  void GiveBackAll() {
    while (!held_.empty()) GiveBack();
  }

 private:
  struct Held {
    size_t bytes;
    uint64_t stamp;
  };

  void Hold(char *block, size_t bytes) {
    auto next = held_.lower_bound(block);
    ASSERT_TRUE(next == held_.end() || block + bytes <= next->first);
    ASSERT_TRUE(next == held_.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= block);
    held_[block] = {bytes, random_.Next() | 1};
    Fill(block, bytes, held_[block].stamp);
    ExpectBig(block, bytes);
  }

  void Take() {
    if (held_.size() >= 24) return;
    size_t asked = random_.LogBetween(1, 24 * HK_MIB);
    size_t alignment = size_t{1} << random_.Below(random_.OneIn(4) ? 25 : 17);
    char *block = Alloc(asked, alignment);
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(AddressOf(block) % alignment, 0u);
    size_t bytes = hk_big_good_size(asked);
    ASSERT_TRUE(!zero || Holds(block, bytes, 0));
    Hold(block, bytes);
  }

  std::map<char *, Held>::iterator Any() { return std::next(held_.begin(), random_.Below(held_.size())); }

  void GiveBack() {
    if (held_.empty()) return;
    auto any = Any();
    ASSERT_TRUE(Holds(any->first, any->second.bytes, any->second.stamp)) << "somebody else wrote into it";
    EXPECT_TRUE(Free(any->first));
    held_.erase(any);
  }

  void Change() {
    if (held_.empty()) return;
    auto any = Any();
    char *block = any->first;
    Held old = any->second;
    size_t bytes = hk_big_good_size(random_.LogBetween(1, 24 * HK_MIB));
    char *moved = Resize(block, bytes);
    if (moved == nullptr) return; /* its mapping is not whole, say */
    size_t kept = std::min(bytes, old.bytes);
    for (size_t at = 0; at + sizeof old.stamp < kept; at += HK_MIB) {
      ASSERT_EQ(memcmp(moved + at, &old.stamp, sizeof old.stamp), 0) << at;
    }
    held_.erase(any);
    Hold(moved, bytes);
  }

  hakmem_test::TestRandom random_;
  std::map<char *, Held> held_;
};

void RunAgainstModel(uint64_t seed) {
  hk_option.retain = 16 * HK_MIB;
  BigModel model(seed);
  for (int i = 0; i < 4000 && !testing::Test::HasFailure(); i++) model.Step();
  model.GiveBackAll();
  Trim();
  ExpectUsage(0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(BigModel, RandomBlocksNeverOverlap) {
  RunAgainstModel(1);
  ExpectCached(0, 0);
}

HK_FRESH_TEST(BigModel, NorWhileTheSystemTakesNothingBack) {
  fake_os_fail_all(fake_os_unmap, true);
  RunAgainstModel(2);
}

HK_FRESH_TEST(BigModel, NorWhileItDoesNotEvenPurge) {
  fake_os_fail_all(fake_os_unmap, true);
  fake_os_fail_all(fake_os_purge, true);
  fake_os_fail_all(fake_os_move, true);
  RunAgainstModel(3);
}

// ---- Threads.

HK_FRESH_TEST(Big, ThreadsShareNothing) {
  hk_option.retain = 4 * HK_MIB; /* ways back to the system all the time */
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; t++) {
    threads.emplace_back([&failures, t] {
      hakmem_test::TestRandom random(100 + t);
      std::vector<std::pair<char *, uint64_t>> held;
      bool is_zero;
      for (int i = 0; i < 3000; i++) {
        if (held.size() < 4 && !random.OneIn(3)) {
          size_t bytes = random.Between(HK_RUN_MAX_BYTES + 1, 3 * HK_MIB);
          char *block = static_cast<char *>(hk_big_alloc(bytes, 1, &is_zero));
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

}  // namespace
