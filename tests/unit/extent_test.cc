// space/extent: freed blocks become extents, which are split and merged.
#include <array>
#include <map>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/large_driver.h"

using namespace hk_test;

namespace {

HK_FRESH_TEST(Extent, AFreedBlockBecomesOneWithTheExtentsOnBothSides) {
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
    EXPECT_EQ(hk_extent_usage().count, 1u);
    for (size_t at = HK_SLAB_BYTES; at < 12 * HK_MIB - HK_SLAB_BYTES; at += HK_SLAB_BYTES) {
      ASSERT_EQ(SlabOf(start + at)->extent.since, 0u) << "no tag inside an extent, " << at;
    }
    EXPECT_EQ(Alloc(12 * HK_MIB), start);
    EXPECT_TRUE(Free(start));
    Trim();
    ExpectNothingLost();
  }
}

HK_FRESH_TEST(Extent, WhatTouchesNoExtentStaysAlone) {
  char *start = FreeRange(12 * HK_MIB);
  char *blocks[3];
  for (char *&block : blocks) block = Alloc(4 * HK_MIB);
  EXPECT_TRUE(Free(blocks[0]));
  EXPECT_TRUE(Free(blocks[2]));
  EXPECT_EQ(hk_extent_usage().count, 2u);
  EXPECT_EQ(Alloc(4 * HK_MIB), blocks[2]) << "the one freed last, of two alike";
  EXPECT_EQ(Alloc(4 * HK_MIB), start);
}

HK_FRESH_TEST(Extent, AnExtentIsSplit) {
  char *start = FreeRange(16 * HK_MIB);
  uint64_t calls = fake_os_calls(fake_os_reserve);
  char *block = Alloc(5 * HK_MIB);
  EXPECT_EQ(block, start);
  ExpectCached(11 * HK_MIB, 11 * HK_MIB);
  EXPECT_EQ(Alloc(2 * HK_MIB - HK_SLAB_BYTES), start + 5 * HK_MIB) << "too small for a huge page: anywhere";
  EXPECT_EQ(Alloc(2 * HK_MIB), start + 8 * HK_MIB) << "at a boundary, for there is room";
  EXPECT_EQ(hk_extent_usage().count, 2u);
  ExpectCached(7 * HK_MIB + HK_SLAB_BYTES, 7 * HK_MIB + HK_SLAB_BYTES);
  EXPECT_EQ(Alloc(6 * HK_MIB), start + 10 * HK_MIB) << "all of the rest";
  EXPECT_EQ(fake_os_calls(fake_os_reserve), calls);
  EXPECT_EQ(hk_extent_usage().count, 1u);
  ExpectUsage(4, 15 * HK_MIB - HK_SLAB_BYTES);
  ExpectNothingLost();
}

HK_FRESH_TEST(Extent, TheBestFitIsTaken) {
  RetainEverything();
  std::map<size_t, char *> extents;
  for (size_t mib : {40, 7, 20, 6, 11}) extents[mib] = Alloc(mib * HK_MIB, HK_GIB);
  for (auto &extent : extents) EXPECT_TRUE(Free(extent.second));
  ASSERT_EQ(hk_extent_usage().count, 5u);
  EXPECT_EQ(Alloc(7 * HK_MIB - 1), extents[7]);
  EXPECT_EQ(Alloc(7 * HK_MIB), extents[11]);
  EXPECT_EQ(Alloc(5 * HK_MIB), extents[6]);
  EXPECT_EQ(Alloc(20 * HK_MIB + 1), extents[40]);
  EXPECT_EQ(Alloc(3 * HK_MIB), extents[11] + 8 * HK_MIB) << "the rest of one, from a boundary on";
}

HK_FRESH_TEST(Extent, AmongNearlyEqualOnesTooTheBestFitIsTaken) {
  RetainEverything();
  std::map<size_t, char *> extents;
  for (size_t slabs : {1030, 1024, 1028, 1026}) extents[slabs] = Alloc(slabs * HK_SLAB_BYTES, HK_GIB);
  for (auto &extent : extents) EXPECT_TRUE(Free(extent.second));
  for (size_t slabs : {1026, 1024, 1030, 1028}) EXPECT_EQ(Alloc(slabs * HK_SLAB_BYTES), extents[slabs]) << slabs;
}

HK_FRESH_TEST(Extent, AnExtentIsOnlyUsedWhereItIsAlignedEnough) {
  char *start = FreeRange(8 * HK_MIB);
  char *first = Alloc(HK_RUN_MAX_BYTES + 1);
  ASSERT_EQ(first, start);
  char *aligned = Alloc(HK_RUN_MAX_BYTES + 1, HK_SUPERSLAB_BYTES);
  EXPECT_EQ(aligned, start + HK_SUPERSLAB_BYTES);
  EXPECT_EQ(Alloc(HK_RUN_MAX_BYTES - HK_SLAB_BYTES), first + HK_RUN_MAX_BYTES + HK_SLAB_BYTES) << "the gap, whole";
  size_t alignment = 256 * HK_MIB;
  char *reader = Alloc(HK_RUN_MAX_BYTES + 1, alignment);
  EXPECT_EQ(AddressOf(reader) % alignment, 0u);
  EXPECT_NE(reader, aligned);
  ExpectNothingLost();
}

HK_FRESH_TEST(Extent, WhatIsKeptServesWhileTheSystemRefuses) {
  char *start = FreeRange(8 * HK_MIB);
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(Alloc(16 * HK_MIB), nullptr);
  EXPECT_EQ(Alloc(8 * HK_MIB), start);
  EXPECT_EQ(Alloc(2 * HK_MIB), nullptr);
}

HK_FRESH_TEST(Extent, WhatIsKeptGoesWhenItIsInTheWay) {
  char *start = FreeRange(8 * HK_MIB);
  fake_os_limit_mapped(fake_os_mapped_bytes() + 8 * HK_MIB); /* the next one may need leaves of the region map, too */
  EXPECT_EQ(Alloc(9 * HK_MIB), nullptr);
  EXPECT_EQ(hk_purge_down_to(0), 8 * HK_MIB) << "what a request does before it fails";
  EXPECT_FALSE(fake_os_is_mapped(start, 1));
  EXPECT_NE(Alloc(9 * HK_MIB), nullptr);
}

HK_FRESH_TEST(Extent, ABlockMayCrossRegionsAndBeCutInEach) {
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
  EXPECT_EQ(hk_extent_usage().count, 1u);
  EXPECT_EQ(Alloc(kBytes), block);
  for (size_t i = 0; i < HK_REGION_SLABS; i++) ASSERT_EQ(hk_region_map.nothing.slab[i].extent.since, 0u) << i;
}

#if HK_DEBUG

// ---- The walk over free extents: each equation is broken by hand, and the next slow path notices it.

// Three ranges between large blocks in use: two of the same size, and the youngest, which is longer. The slow path
// frees a block elsewhere.
struct ThreeRanges {
  static constexpr size_t kBytes = 31 * HK_SLAB_BYTES;
  hk_slab_t *oldest, *second, *youngest;
  hk_slab_t *between;  // the last slab of what separates the first two
  char *elsewhere;

  ThreeRanges() {
    elsewhere = Alloc(HK_MIB + HK_SLAB_BYTES);
    char *start = FreeRange(12 * HK_MIB);
    for (int i = 0; i < 5; i++) EXPECT_EQ(Alloc(kBytes, HK_SLAB_BYTES), start + i * kBytes);
    for (int i = 0; i < 5; i += 2) EXPECT_TRUE(Free(start + i * kBytes));
    EXPECT_EQ(hk_extent_usage().count, 3u);
    oldest = SlabOf(start);
    second = SlabOf(start + 2 * kBytes);
    youngest = SlabOf(start + 4 * kBytes);
    between = second - 1;
  }

  static hk_slab_t *LastOf(const hk_slab_t *extent) {
    return SlabOf(reinterpret_cast<char *>(extent->free_list) +
                  hk_load_relaxed(&const_cast<hk_slab_t *>(extent)->bytes) - 1);
  }
};

#define EXPECT_FREE_NOTICES(breakage, sentence) \
  EXPECT_DEATH(                                 \
      {                                         \
        breakage;                               \
        Free(at.elsewhere);                     \
      },                                        \
      sentence)

HK_FRESH_TEST(ExtentDeathTest, Tags) {
  ThreeRanges at;
  hk_slab_t *extent = at.oldest, *last = ThreeRanges::LastOf(extent);
  EXPECT_FREE_NOTICES(hk_bump_relaxed(&extent->bytes, 1), "a free extent is whole slabs");
  EXPECT_FREE_NOTICES(extent->free_list = reinterpret_cast<hk_free_list_t *>(AddressOf(extent->free_list) + HK_MIB),
                      "a free extent's first slab has its start");
  EXPECT_FREE_NOTICES(last->head = nullptr, "a free extent's tags lead to its first slab");
  EXPECT_FREE_NOTICES(last->extent.since++, "a free extent's tags have its age");
  EXPECT_FREE_NOTICES(hk_slab_set_state(extent, hk_slab_none), "a free extent's slabs are free");
  EXPECT_FREE_NOTICES(at.between->extent.since = UINT64_MAX, "free extents do not touch");
  EXPECT_TRUE(Free(at.elsewhere));
}

HK_FRESH_TEST(ExtentDeathTest, ListsAndSums) {
  ThreeRanges at;
  hk_slab_t *extent = at.oldest, *last = ThreeRanges::LastOf(extent), *other = at.youngest;
  EXPECT_FREE_NOTICES(extent->is_zero = true,
                      "a free extent is in the list of the zero ones, or of the dirty ones, as it is");
  EXPECT_FREE_NOTICES(extent->extent.since = last->extent.since = UINT64_MAX, "free extents lie in the order of age");
  EXPECT_FREE_NOTICES(extent->extent.link.next->previous = extent->extent.link.next,
                      "the list of free extents by age is whole");
  EXPECT_FREE_NOTICES(extent->link.next->previous = extent->link.next, "a bucket of free extents is whole");
  EXPECT_FREE_NOTICES((hk_list_remove(&other->link), hk_list_insert_after(&extent->link, &other->link)),
                      "a free extent is in the bucket of its size");
  EXPECT_FREE_NOTICES(hk_list_remove(&other->link), "a bucket that is marked has a free extent");
  EXPECT_FREE_NOTICES(hk_list_remove(&extent->extent.link), "each free extent is in a bucket and in the order of age");
  EXPECT_FREE_NOTICES((hk_list_remove(&extent->link), hk_list_remove(&extent->extent.link)),
                      "the count of free extents is their number");
  EXPECT_FREE_NOTICES(hk_bump_relaxed(&hk_dirty_extents.dirty_bytes, HK_SLAB_BYTES),
                      "the dirty bytes are those of the dirty extents");
  EXPECT_FREE_NOTICES(
      {
        hk_bump_relaxed(&extent->bytes, -HK_SLAB_BYTES);
        last[-1].head = extent;
        last[-1].extent.since = extent->extent.since;
        hk_slab_set_state(&last[-1], hk_slab_free);
        last->extent.since = 0;
      },
      "the free bytes are those of all free extents");
  EXPECT_DEATH((hk_extent_mark_changing_locked(), (void)hk_superslab_acquire(1, 1, hk_from_bottom)),
               "no change of the free extents is under way");
  EXPECT_TRUE(Free(at.elsewhere));
}

#endif

}  // namespace
