// space/big: a mapping each: sizes, alignments, what a refused munmap leaves, and resizing by moving pages.
#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
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

// All that is mapped is what the usage says, leaves of the region map, and `refused_bytes` that the system left.
void ExpectNothingLost(size_t refused_bytes = 0) {
  EXPECT_EQ(fake_os_mapped_bytes(), hk_big_usage().mapped_bytes + hk_region_map_mapped_bytes() + refused_bytes);
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

// ---- Free.

HK_FRESH_TEST(Big, FreeUnmaps) {
  char *block = Alloc(4 * HK_MIB);
  hk_slab_t *slab = SlabOf(block);
  EXPECT_TRUE(hk_big_free(slab, block));
  EXPECT_FALSE(fake_os_is_mapped(block, 1));
  EXPECT_EQ(hk_slab_state(slab), hk_slab_none);
}

HK_FRESH_TEST(Big, ASecondFreeIsNoticed) {
  char *block = Alloc(4 * HK_MIB);
  hk_slab_t *slab = SlabOf(block);
  EXPECT_TRUE(hk_big_free(slab, block));
  EXPECT_FALSE(hk_big_free(slab, block));
  ExpectUsage(0, 0);
  EXPECT_EQ(fake_os_calls(fake_os_unmap), 1u);
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
  EXPECT_EQ(fake_os_calls(fake_os_unmap), uint64_t{kRounds});
  ExpectUsage(0, 0);
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
  char *block = Alloc(4 * HK_MIB);
  Fill(block, 4 * HK_MIB, 5);
  hk_slab_t *slab = SlabOf(block);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_TRUE(hk_big_free(slab, block)) << "it is free, whatever the system says";
  ExpectUsage(0, 0);
  ExpectNothingLost(4 * HK_MIB);
  EXPECT_EQ(fake_os_calls(fake_os_purge), 1u) << "its memory can go even where its addresses cannot";
  EXPECT_EQ(hk_slab_state(slab), hk_slab_free);
  EXPECT_FALSE(hk_big_free(slab, block)) << "a second time";

  uint64_t reserves = fake_os_calls(fake_os_reserve);
  EXPECT_EQ(Alloc(4 * HK_MIB), block);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), reserves);
  EXPECT_FALSE(zero) << "nobody knows whether the purge was refused too";
  ExpectBig(block, 4 * HK_MIB);
  ExpectUsage(1, 4 * HK_MIB);
  ExpectNothingLost();

  EXPECT_NE(Alloc(4 * HK_MIB), block) << "there was one";
  fake_os_fail_all(fake_os_unmap, false);
  EXPECT_TRUE(Free(block));
  EXPECT_FALSE(fake_os_is_mapped(block, 1)) << "this time the system took it";
}

HK_FRESH_TEST(Big, AKeptOneServesItsOwnSizeOnly) {
  char *block = Alloc(4 * HK_MIB);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_TRUE(Free(block));
  EXPECT_NE(Alloc(3 * HK_MIB), block);
  EXPECT_NE(Alloc(6 * HK_MIB), block);
  ExpectUsage(2, 9 * HK_MIB);
  ExpectNothingLost(4 * HK_MIB);
}

HK_FRESH_TEST(Big, SeveralCanBeKept) {
  fake_os_fail_all(fake_os_unmap, true);
  std::set<char *> blocks;
  for (int i = 0; i < 50; i++) blocks.insert(Alloc(3 * HK_MIB));
  for (char *block : blocks) EXPECT_TRUE(Free(block));
  ExpectUsage(0, 0);
  ExpectNothingLost(150 * HK_MIB);
  std::set<char *> again;
  for (int i = 0; i < 50; i++) again.insert(Alloc(3 * HK_MIB));
  EXPECT_EQ(again, blocks);
  ExpectNothingLost();
}

HK_FRESH_TEST(Big, AKeptOneIsOnlyUsedWhereItIsAlignedEnough) {
  fake_os_fail_all(fake_os_unmap, true);
  char *first = Alloc(HK_RUN_MAX_BYTES + 1);
  char *second = Alloc(HK_RUN_MAX_BYTES + 1);
  char *odd = AddressOf(first) % HK_SUPERSLAB_BYTES != 0 ? first : second;
  ASSERT_NE(AddressOf(odd) % HK_SUPERSLAB_BYTES, 0u) << "one of two neighbours of less than 2 MiB";
  EXPECT_TRUE(Free(odd));
  char *aligned = Alloc(HK_RUN_MAX_BYTES + 1, HK_SUPERSLAB_BYTES);
  EXPECT_NE(aligned, odd);
  EXPECT_EQ(AddressOf(aligned) % HK_SUPERSLAB_BYTES, 0u);
  EXPECT_EQ(Alloc(HK_RUN_MAX_BYTES + 1), odd);
}

HK_FRESH_TEST(Big, ARefusedPurgeAsWellIsNotCalledZero) {
  char *block = Alloc(4 * HK_MIB);
  Fill(block, 4 * HK_MIB, 5);
  fake_os_fail_all(fake_os_unmap, true);
  fake_os_fail_all(fake_os_purge, true);
  EXPECT_TRUE(Free(block));
  EXPECT_EQ(Alloc(4 * HK_MIB), block);
  EXPECT_FALSE(zero);
  EXPECT_FALSE(Holds(block, 4 * HK_MIB, 0));
}

HK_FRESH_TEST(Big, RepairForgetsWhatWasKept) {
  char *block = Alloc(4 * HK_MIB);
  char *live = Alloc(4 * HK_MIB);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_TRUE(Free(block));
  hk_big_repair();
  char *other = Alloc(4 * HK_MIB);
  ASSERT_NE(other, nullptr);
  EXPECT_NE(other, block);
  ExpectBig(live, 4 * HK_MIB);
  EXPECT_TRUE(Free(other));
  EXPECT_EQ(Alloc(4 * HK_MIB), other) << "what is kept from now on is found";
}

// ---- Resize.

HK_FRESH_TEST(Big, ResizesWhereItStands) {
  char *block = Alloc(8 * HK_MIB);
  Fill(block, 4 * HK_MIB, 9);
  EXPECT_EQ(Resize(block, 4 * HK_MIB), block);
  ExpectBig(block, 4 * HK_MIB);
  ExpectUsage(1, 4 * HK_MIB);
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

void ExpectMoves(size_t new_bytes) {
  char *block = Alloc(4 * HK_MIB);
  hk_slab_t *slab = SlabOf(block);
  size_t kept = new_bytes < 4 * HK_MIB ? new_bytes : 4 * HK_MIB;
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

HK_FRESH_TEST(Big, MovesWhenItGrows) { ExpectMoves(16 * HK_MIB); }
HK_FRESH_TEST(Big, MovesWhenItShrinks) { ExpectMoves(2 * HK_MIB); }

HK_FRESH_TEST(Big, MovesOntoAKeptOne) {
  fake_os_fail_all(fake_os_unmap, true);
  char *target = Alloc(8 * HK_MIB);
  Fill(target, 8 * HK_MIB, 1);
  char *block = Alloc(4 * HK_MIB);
  Fill(block, 4 * HK_MIB, 2);
  EXPECT_TRUE(Free(target));
  fake_os_fail_all(fake_os_resize, true);
  EXPECT_EQ(Resize(block, 8 * HK_MIB), target);
  EXPECT_TRUE(Holds(target, 4 * HK_MIB, 2));
  ExpectUsage(1, 8 * HK_MIB);
  ExpectNothingLost();
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
  fake_os_fail_all(fake_os_resize, true);
  fake_os_fail_all(fake_os_move, true);
  ExpectResizeRefused(block, 16 * HK_MIB);
  ExpectResizeRefused(block, 2 * HK_MIB);
  EXPECT_EQ(fake_os_calls(fake_os_move), 2u);
  fake_os_fail_all(fake_os_reserve, true);
  ExpectResizeRefused(block, 16 * HK_MIB);
  EXPECT_EQ(fake_os_calls(fake_os_move), 2u) << "there was nowhere to move to";
  EXPECT_TRUE(Free(block));
  ExpectNothingLost();
}

}  // namespace
