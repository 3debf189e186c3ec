// space/superslab: where ranges of slabs lie, what they are made of, and how they grow.
#include <algorithm>
#include <set>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "nodes_test.h"
#include "os/lock.h"
#include "test_random.h"
#include "unit/superslab_driver.h"

using namespace hk_test;

namespace {

hk_slab_t *AcquireTop(unsigned count, unsigned alignment = 1) { return Acquire(count, alignment, hk_from_top); }

// ---- Where ranges lie.

void ExpectRange(hk_slab_t *slab, unsigned count, unsigned alignment) {
  ASSERT_NE(slab, nullptr);
  uintptr_t start = hk_slab_start(slab);
  EXPECT_EQ(start % (alignment * HK_SLAB_BYTES), 0u) << count << " at " << alignment;
  EXPECT_EQ(slab->slab_count, count);
  ASSERT_TRUE(fake_os_is_mapped(reinterpret_cast<void *>(start), count * HK_SLAB_BYTES));
  EXPECT_EQ(start / HK_SUPERSLAB_BYTES, (start + count * HK_SLAB_BYTES - 1) / HK_SUPERSLAB_BYTES);
  for (unsigned i = 0; i < count; i++) {
    EXPECT_EQ(hk_slab_of(reinterpret_cast<void *>(start + i * HK_SLAB_BYTES)), slab + i);
    EXPECT_EQ(hk_slab_state(slab + i), hk_slab_free);
    EXPECT_EQ(hk_slab_start(slab + i), start + i * HK_SLAB_BYTES);
  }
  Touch(slab, count);
}

// From a superslab that is there, and with `is_new` from one that is mapped for it.
void ExpectEachCountAndAlignment(bool is_new) {
  RetainEverything();
  for (hk_end_t end : {hk_from_bottom, hk_from_top}) {
    for (unsigned count = 1; count <= kAll; count++) {
      for (unsigned alignment = 1; alignment <= kAll; alignment *= 2) {
        hk_slab_t *slab = Acquire(count, alignment, end);
        ExpectRange(slab, count, alignment);
        if (testing::Test::HasFailure()) return;
        EXPECT_EQ(PlaceOf(slab), end == hk_from_bottom ? 0 : (kAll - count) / alignment * alignment);
        Release(slab);
        if (is_new) (void)hk_purge_down_to(0);
      }
    }
  }
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
}

// The system makes a new mapping resident whole.
HK_FRESH_TEST(Superslab, WhereMemoryIsLockedAllButWhatIsUsedIsGivenBack) {
  hk_slab_t *before = Acquire(kAll);
  EXPECT_EQ(fake_os_locked_purge_bytes(), 0u);
  fake_os_lock_memory(true);
  hk_slab_t *first = Acquire(kAll);
  size_t map_bytes = fake_os_locked_purge_bytes() - HK_SUPERSLAB_BYTES;
  EXPECT_LE(map_bytes, sizeof hk_region_map.nothing);
  EXPECT_GT(map_bytes + 2 * hk_os_page_size(), sizeof hk_region_map.nothing) << "its part that no thread writes";
  (void)Acquire(kAll);
  EXPECT_EQ(fake_os_locked_purge_bytes(), map_bytes + 2 * HK_SUPERSLAB_BYTES);
  Release(first);
  Release(before);
  (void)Acquire(kAll);
  EXPECT_EQ(fake_os_locked_purge_bytes(), map_bytes + 2 * HK_SUPERSLAB_BYTES) << "a superslab that is there";
}

HK_FRESH_TEST(Superslab, EachCountAndAlignment) {
  hk_slab_t *all = Acquire(kAll); /* all of it has been used: no place is better than another for being resident */
  Release(all);
  ExpectEachCountAndAlignment(false);
  ExpectUsage(1, 0, kAll);
}

HK_FRESH_TEST(Superslab, EachCountAndAlignmentInANewOne) {
  ExpectEachCountAndAlignment(true);
  ExpectUsage(0, 0, 0);
}

HK_FRESH_TEST(Superslab, TheEndsGrowTowardsEachOther) {
  EXPECT_EQ(PlaceOf(AcquireTop(1)), 31u);
  EXPECT_EQ(PlaceOf(Acquire(2)), 0u);
  EXPECT_EQ(PlaceOf(AcquireTop(3)), 28u);
  EXPECT_EQ(PlaceOf(Acquire(1)), 2u);
  EXPECT_EQ(PlaceOf(AcquireTop(1, 4)), 24u);
  EXPECT_EQ(PlaceOf(AcquireTop(2)), 26u) << "above what the alignment chose";
  EXPECT_EQ(PlaceOf(AcquireTop(21)), 3u) << "all that is left between them";
  EXPECT_EQ(PlaceOf(AcquireTop(1)), 25u);
  ExpectUsage(1, kAll, 0);
}

HK_FRESH_TEST(Superslab, AlignmentHoldsAmongOtherRanges) {
  hk_slab_t *odd = Acquire(1);
  ASSERT_EQ(PlaceOf(odd), 0u);
  EXPECT_EQ(PlaceOf(Acquire(1, 16)), 16u);
  EXPECT_EQ(PlaceOf(Acquire(1, 8)), 8u);
  EXPECT_EQ(PlaceOf(Acquire(3, 4)), 4u);
  EXPECT_EQ(PlaceOf(Acquire(1, 2)), 2u);
  hk_slab_t *other = Acquire(1, 32);
  EXPECT_EQ(PlaceOf(other), 0u);
  EXPECT_NE(other->superslab, odd->superslab);
  ExpectUsage(2, 8, 0);
}

HK_FRESH_TEST(Superslab, ASuperslabIsAMappingAlignedToItsSize) {
  hk_slab_t *slab = Acquire(1);
  EXPECT_EQ(slab->superslab->start % HK_SUPERSLAB_BYTES, 0u);
  unsigned found = 0;
  for (size_t i = 0; i < fake_os_log_length(); i++) {
    const fake_os_record_t *record = fake_os_log(i);
    if (record->start != slab->superslab->start) continue;
    found++;
    EXPECT_EQ(record->call, fake_os_reserve);
    EXPECT_EQ(record->bytes, HK_SUPERSLAB_BYTES);
    EXPECT_EQ(record->alignment, HK_SUPERSLAB_BYTES);
  }
  EXPECT_EQ(found, 1u);
}

HK_FRESH_TEST(Superslab, TheShortestLongEnoughHoleIsTaken) {
  RetainEverything();
  std::vector<hk_slab_t *> first = AcquireSingles();
  std::vector<hk_slab_t *> second = AcquireSingles();
  ReleaseSingles(second, 10, 16);
  ReleaseSingles(first, 4, 6);
  EXPECT_EQ(Acquire(3), second[10]);
  EXPECT_EQ(Acquire(1), first[4]) << "a hole of two, and one of three";
  Release(first[4]);
  EXPECT_EQ(Acquire(2), first[4]);
  EXPECT_EQ(Acquire(2), second[13]);
  EXPECT_EQ(Acquire(1), second[15]);
  ExpectUsage(2, 64, 0);
  EXPECT_NE(Acquire(1)->superslab, first[0]->superslab);
  ExpectUsage(3, 65, 0);
}

HK_FRESH_TEST(Superslab, ALongRunStaysWholeWhileAShorterOneFits) {
  RetainEverything();
  hk_slab_t *whole = Acquire(kAll);
  std::vector<hk_slab_t *> singles = AcquireSingles();
  Release(whole);
  ReleaseSingles(singles, 7, 9);
  EXPECT_EQ(Acquire(1), singles[7]);
  EXPECT_EQ(Acquire(1), singles[8]);
  EXPECT_EQ(Acquire(kAll), whole);
}

HK_FRESH_TEST(Superslab, WhatIsResidentIsTakenBeforeWhatIsLower) {
  hk_slab_t *first = Acquire(1);
  hk_slab_t *resident = Acquire(2, 8);
  ASSERT_EQ(PlaceOf(resident), 8u);
  Release(resident);
  EXPECT_EQ(Acquire(1), resident);
  EXPECT_EQ(Acquire(2), first + 1) << "only one resident slab is left: the lowest place";
  EXPECT_EQ(Acquire(1), resident + 1);
}

HK_FRESH_TEST(Superslab, WhatIsResidentIsTakenBeforeWhatIsHigher) {
  ASSERT_NE(AcquireTop(1), nullptr);
  hk_slab_t *resident = Acquire(2, 8);
  Release(resident);
  EXPECT_EQ(AcquireTop(1), resident + 1);
  EXPECT_EQ(AcquireTop(1), resident);
  EXPECT_EQ(PlaceOf(AcquireTop(1)), 30u);
}

HK_FRESH_TEST(Superslab, NeighboursBecomeOneRunAgain) {
  RetainEverything();
  std::vector<hk_slab_t *> slabs = AcquireSingles();
  for (unsigned i = 0; i < kAll; i += 2) Release(slabs[i]);
  hk_slab_t *elsewhere = Acquire(2);
  EXPECT_NE(elsewhere->superslab, slabs[0]->superslab);
  for (unsigned i = 1; i < kAll; i += 2) Release(slabs[i]);
  EXPECT_EQ(Acquire(kAll), slabs[0]);
}

// ---- Zero.

HK_FRESH_TEST(Superslab, FreshMemoryIsKnownToBeZeroAndUsedMemoryIsNot) {
  hk_slab_t *other = Acquire(1);
  hk_slab_t *slab = Acquire(4);
  EXPECT_TRUE(slab->is_zero);
  EXPECT_TRUE(Holds(slab, 4, 0));
  Touch(slab, 4);
  Release(slab);
  EXPECT_EQ(Acquire(4), slab);
  EXPECT_FALSE(slab->is_zero);
  Release(slab);
  hk_slab_t *half = Acquire(5); /* four used slabs, or fresh ones */
  EXPECT_EQ(half, slab);
  EXPECT_FALSE(half->is_zero) << "one slab that is not known to be zero is enough";
  EXPECT_TRUE(Acquire(2)->is_zero);
  EXPECT_TRUE(other->is_zero);
}

HK_FRESH_TEST(Superslab, PurgedMemoryIsZeroAgain) {
  ASSERT_NE(Acquire(1), nullptr); /* the superslab stays mapped */
  hk_slab_t *slab = Acquire(4);
  Touch(slab, 4);
  Release(slab);
  EXPECT_EQ(hk_purge_down_to(0), 4 * HK_SLAB_BYTES);
  ExpectUsage(1, 1, 0);
  EXPECT_EQ(Acquire(4), slab);
  EXPECT_TRUE(slab->is_zero);
  EXPECT_TRUE(Holds(slab, 4, 0));
}

// ---- More than the request.

HK_FRESH_TEST(SuperslabSome, OfANewOneAsManyAsMayBe) {
  for (unsigned least = 1; least <= kAll; least++) {
    for (unsigned most = least; most <= kAll; most++) {
      hk_slab_t *slab = hk_superslab_acquire_some(least, most);
      ExpectRange(slab, most, 1);
      EXPECT_TRUE(slab->is_zero);
      EXPECT_EQ(PlaceOf(slab), kAll - most) << "at the top";
      ExpectUsage(1, most, 0);
      Release(slab);
      (void)hk_purge_down_to(0);
      if (testing::Test::HasFailure()) return;
    }
  }
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabSome, DownwardsAsFarAsSlabsAreFree) {
  hk_slab_t *below = Acquire(3);
  EXPECT_EQ(PlaceOf(hk_superslab_acquire_some(2, 12)), 20u);
  EXPECT_EQ(PlaceOf(hk_superslab_acquire_some(1, 9)), 11u);
  hk_slab_t *rest = hk_superslab_acquire_some(1, kAll);
  EXPECT_EQ(rest, below + 3) << "all that is left";
  EXPECT_EQ(rest->slab_count, 8);
  EXPECT_TRUE(rest->is_zero);
  ExpectUsage(1, kAll, 0);
}

HK_FRESH_TEST(SuperslabSome, UsedSlabsAreTakenIfNeedBeButNoneOnTop) {
  ASSERT_NE(Acquire(1), nullptr);
  hk_slab_t *used = AcquireTop(3);
  Touch(used, 3);
  Release(used);
  hk_slab_t *slab = hk_superslab_acquire_some(2, 8);
  EXPECT_EQ(slab, used + 1) << "resident slabs come first";
  EXPECT_EQ(slab->slab_count, 2);
  EXPECT_FALSE(slab->is_zero);
  slab = hk_superslab_acquire_some(3, 8);
  EXPECT_EQ(slab, used - 2) << "one used slab among them";
  EXPECT_EQ(slab->slab_count, 3);
  EXPECT_FALSE(slab->is_zero);
  slab = hk_superslab_acquire_some(3, 8);
  EXPECT_EQ(slab, used - 10);
  EXPECT_EQ(slab->slab_count, 8);
  EXPECT_TRUE(slab->is_zero);
}

enum class Kind { untouched, used, in_use };

// A superslab in which slab i is of kinds[i]; at least one is in use. `held` gets those that are.
hk_slab_t *Arrange(const std::vector<Kind> &kinds, std::vector<hk_slab_t *> *held) {
  std::vector<hk_slab_t *> slabs = AcquireSingles();
  for (unsigned i = 0; i < kAll; i++) {
    if (kinds[i] == Kind::untouched) Release(slabs[i]);
  }
  (void)hk_purge_down_to(0);
  for (unsigned i = 0; i < kAll; i++) {
    if (kinds[i] == Kind::used) Release(slabs[i]);
    if (kinds[i] == Kind::in_use) held->push_back(slabs[i]);
  }
  return slabs[0];
}

bool AllAre(const std::vector<Kind> &kinds, unsigned first, unsigned count, Kind kind) {
  return std::all_of(kinds.begin() + first, kinds.begin() + first + count, [kind](Kind k) { return k == kind; });
}

bool NoneIsInUse(const std::vector<Kind> &kinds, unsigned first, unsigned count) {
  return std::none_of(kinds.begin() + first, kinds.begin() + first + count, [](Kind k) { return k == Kind::in_use; });
}

// After superslab.h: the highest place that is wholly resident, or the highest; and the untouched slabs below it, if
// it is untouched itself. {0, 0}: no place.
struct Place {
  unsigned first, count;
};
Place Expected(const std::vector<Kind> &kinds, unsigned least, unsigned most) {
  int best = -1, resident = -1;
  for (unsigned first = 0; first + least <= kAll; first++) {
    if (NoneIsInUse(kinds, first, least)) best = static_cast<int>(first);
    if (AllAre(kinds, first, least, Kind::used)) resident = static_cast<int>(first);
  }
  if (resident >= 0) best = resident;
  if (best < 0) return {0, 0};
  Place place = {static_cast<unsigned>(best), least};
  if (!AllAre(kinds, place.first, least, Kind::untouched)) return place;
  while (place.count < most && place.first > 0 && kinds[place.first - 1] == Kind::untouched) {
    place.first--;
    place.count++;
  }
  return place;
}

HK_FRESH_TEST(SuperslabSome, FromEveryArrangementWhatTheHeaderSays) {
  RetainEverything();
  TestRandom random(3);
  size_t more = 0, exact = 0, elsewhere = 0;
  for (int round = 0; round < 3000 && !testing::Test::HasFailure(); round++) {
    std::vector<Kind> kinds(kAll);
    Kind kind = Kind::untouched;
    for (Kind &one : kinds) {
      if (random.OneIn(4)) kind = static_cast<Kind>(random.Below(3));
      one = kind;
    }
    kinds[random.Below(kAll)] = Kind::in_use;
    std::vector<hk_slab_t *> held;
    hk_slab_t *bottom = Arrange(kinds, &held);
    unsigned least = static_cast<unsigned>(random.LogBetween(1, 8));
    unsigned most = static_cast<unsigned>(random.Between(least, kAll));
    Place expected = Expected(kinds, least, most);
    hk_slab_t *slab = hk_superslab_acquire_some(least, most);
    if (expected.count == 0) {
      EXPECT_NE(slab->superslab, bottom->superslab);
      elsewhere++;
    } else {
      ASSERT_EQ(slab, bottom + expected.first);
      ASSERT_EQ(slab->slab_count, expected.count);
      ASSERT_EQ(slab->is_zero, AllAre(kinds, expected.first, expected.count, Kind::untouched));
      expected.count > least ? more++ : exact++;
    }
    held.push_back(slab);
    for (hk_slab_t *one : held) Release(one);
    (void)hk_purge_down_to(0);
    ExpectUsage(0, 0, 0);
  }
  for (size_t count : {more, exact, elsewhere}) EXPECT_GT(count, 50u) << "each was tried";
}

HK_FRESH_TEST(SuperslabSome, WhereTheSystemRefusesWhatThereIs) {
  hk_slab_t *most_of_it = Acquire(27);
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(hk_superslab_acquire_some(6, 20), nullptr);
  ExpectUsage(1, 27, 0);
  hk_slab_t *slab = hk_superslab_acquire_some(2, 20);
  EXPECT_EQ(slab, most_of_it + 27) << "fewer than the most, and not refused";
  EXPECT_EQ(slab->slab_count, 5);
  EXPECT_EQ(hk_superslab_acquire_some(1, 20), nullptr);
  ExpectUsage(1, kAll, 0);
}

HK_NODES_SUITE(SuperslabNodes);

HK_NODES_TEST(SuperslabNodes, MoreThanWasAskedForIsOfTheOwnNodeToo) {
  for (unsigned node = 0; node < nodes; node++) {
    fake_os_move_to_node(node);
    hk_slab_t *slab = hk_superslab_acquire_some(1, 5);
    EXPECT_EQ(slab->slab_count, 5);
    EXPECT_EQ(slab->superslab->shard, node);
  }
  ExpectUsage(nodes, 5 * nodes, 0);
  fake_os_fail_all(fake_os_reserve, true);
  fake_os_move_to_node(1);
  hk_slab_t *own = hk_superslab_acquire_some(1, kAll);
  EXPECT_EQ(own->superslab->shard, 1u);
  EXPECT_EQ(own->slab_count, kAll - 5) << "its own, however many are there";
  hk_slab_t *theirs = hk_superslab_acquire_some(2, 6);
  EXPECT_NE(theirs->superslab->shard, 1u);
  EXPECT_EQ(theirs->slab_count, 6);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_numa_miss]), 1u) << "one request";
}

// ---- Many ranges at once.

HK_FRESH_TEST(SuperslabReleaseAll, TouchedAndUntouchedOnesOfSeveralSuperslabs) {
  RetainEverything();
  std::vector<hk_slab_t *> extents;
  size_t touched = 0;
  for (int i = 0; i < 40; i++) {
    hk_slab_t *extent = Acquire(3 + i % 5, 1, i % 2 == 0 ? hk_from_bottom : hk_from_top);
    ASSERT_TRUE(extent->is_zero);
    extent->is_zero = i % 3 != 0;
    if (!extent->is_zero) Touch(extent, extent->slab_count);
    if (!extent->is_zero) touched += extent->slab_count;
    extents.push_back(extent);
  }
  size_t superslabs = hk_superslab_usage().superslab_count;
  ASSERT_GT(superslabs, 4u);
  std::vector<hk_slab_t *> first(extents.begin(), extents.begin() + 20), second(extents.begin() + 20, extents.end());
  ReleaseAll(first);
  size_t left = 0, idle = 0;
  for (hk_slab_t *extent : second) left += extent->slab_count;
  for (hk_slab_t *extent : first) idle += extent->is_zero ? 0 : extent->slab_count;
  ExpectUsage(superslabs, left, idle);
  ReleaseAll(second);
  ExpectUsage(superslabs, 0, touched);
  hk_superslab_index_repair(); /* the masks say so too */
  ExpectUsage(superslabs, 0, touched);
  EXPECT_EQ(hk_purge_down_to(0), touched * HK_SLAB_BYTES);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabReleaseAll, WhatWasNotTouchedIsStillZero) {
  RetainEverything();
  ASSERT_NE(Acquire(1), nullptr);
  hk_slab_t *untouched = Acquire(4), *touched = Acquire(4);
  Touch(touched, 4);
  touched->is_zero = false;
  ReleaseAll({touched, untouched});
  ExpectUsage(1, 1, 4);
  EXPECT_EQ(Acquire(4), touched) << "it is resident";
  EXPECT_FALSE(touched->is_zero);
  EXPECT_EQ(Acquire(4), untouched);
  EXPECT_TRUE(untouched->is_zero);
  EXPECT_TRUE(Holds(untouched, 4, 0));
}

HK_FRESH_TEST(SuperslabReleaseAll, WhatMayNotStayGoesBackToTheSystem) {
  hk_option.retain = 0;
  std::vector<hk_slab_t *> extents;
  for (int i = 0; i < 6; i++) {
    extents.push_back(Acquire(kAll));
    extents.back()->is_zero = i % 2 == 0;
  }
  ReleaseAll(extents);
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
  EXPECT_EQ(hk_superslab_usage().dirty_bytes, 0u);
  (void)hk_purge_down_to(0); /* addresses that hold no memory */
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

// ---- Extend.

HK_FRESH_TEST(Superslab, ExtendTakesWhatFollows) {
  hk_slab_t *slab = Acquire(2);
  bool is_zero = false;
  ASSERT_TRUE(hk_superslab_extend(slab + 2, 3, &is_zero));
  EXPECT_TRUE(is_zero);
  ExpectUsage(1, 5, 0);
  hk_slab_t *next = Acquire(1);
  EXPECT_EQ(next, slab + 5);
  EXPECT_FALSE(hk_superslab_extend(slab + 5, 1, &is_zero)) << "in use";
  EXPECT_FALSE(hk_superslab_extend(slab + 5, 2, &is_zero)) << "the first of them is in use";
  ExpectUsage(1, 6, 0);
  Touch(next, 1);
  Release(next);
  ASSERT_TRUE(hk_superslab_extend(slab + 5, 2, &is_zero));
  EXPECT_FALSE(is_zero) << "the first of them was used";
  Release(slab, 7);
  ExpectUsage(1, 0, 7);
}

HK_FRESH_TEST(Superslab, ExtendStopsAtTheSuperslabsEnd) {
  hk_slab_t *slab = Acquire(30);
  bool is_zero;
  EXPECT_FALSE(hk_superslab_extend(slab + 30, 3, &is_zero));
  EXPECT_TRUE(hk_superslab_extend(slab + 30, 2, &is_zero));
  EXPECT_FALSE(hk_superslab_extend(slab + kAll, 1, &is_zero));
  ExpectUsage(1, kAll, 0);
  Release(slab, kAll);
}

// ---- Many.

HK_FRESH_TEST(Superslab, HundredsOfThem) {
  RetainEverything();
  constexpr size_t kCount = 600;
  size_t records = 0;
  for (int round = 0; round < 2; round++) {
    std::vector<hk_slab_t *> slabs;
    std::set<uintptr_t> starts;
    for (size_t i = 0; i < kCount; i++) {
      hk_slab_t *slab = Acquire(17); /* so that no two share a superslab */
      ASSERT_NE(slab, nullptr);
      starts.insert(slab->superslab->start);
      Touch(slab, 1, i);
      slabs.push_back(slab);
    }
    EXPECT_EQ(starts.size(), kCount);
    ExpectUsage(kCount, 17 * kCount, 0);
    for (size_t i = 0; i < kCount; i++) ASSERT_TRUE(Holds(slabs[i], 1, i));
    for (hk_slab_t *slab : slabs) Release(slab);
    EXPECT_EQ(hk_purge_down_to(0), 17 * kCount * HK_SLAB_BYTES);
    ExpectUsage(0, 0, 0);
    ExpectNothingLost();
    if (round == 0) records = hk_meta_mapped_bytes();
    EXPECT_EQ(hk_meta_mapped_bytes(), records) << "records are used again";
  }
}

}  // namespace
