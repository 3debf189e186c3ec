// space/superslab: ranges of slabs, idle memory and its way back to the system, refusals, and the repair after fork.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "nodes_test.h"
#include "test_random.h"
#include "unit/core_parts.h"

namespace {

using hakmem_test::TestRandom;

constexpr unsigned kAll = HK_SUPERSLAB_SLABS;

hk_slab_t *Acquire(unsigned count, unsigned alignment = 1, hk_end_t end = hk_from_bottom) {
  return hk_superslab_acquire(count, alignment, end);
}
hk_slab_t *AcquireTop(unsigned count, unsigned alignment = 1) { return Acquire(count, alignment, hk_from_top); }

void Release(hk_slab_t *first, unsigned count) {
  hk_slab_retire(first, count);
  hk_superslab_release(first, count);
}
void Release(hk_slab_t *first) { Release(first, first->slab_count); }

// Which of its superslab's slabs it is.
unsigned PlaceOf(const hk_slab_t *slab) { return static_cast<unsigned>(slab - slab->superslab->slabs); }

uint64_t *WordAt(uintptr_t address) { return reinterpret_cast<uint64_t *>(address); }

// Makes a range resident, and not zero.
void Touch(const hk_slab_t *first, unsigned count, uint64_t stamp = UINT64_MAX) {
  for (unsigned i = 0; i < count; i++) {
    uintptr_t start = hk_slab_start(first + i);
    *WordAt(start) = stamp;
    *WordAt(start + HK_SLAB_BYTES - sizeof(uint64_t)) = stamp;
  }
}

bool Holds(const hk_slab_t *first, unsigned count, uint64_t stamp) {
  for (unsigned i = 0; i < count; i++) {
    uintptr_t start = hk_slab_start(first + i);
    if (*WordAt(start) != stamp || *WordAt(start + HK_SLAB_BYTES - sizeof(uint64_t)) != stamp) return false;
  }
  return true;
}

// A superslab whose slabs were all taken singly, lowest first.
std::vector<hk_slab_t *> AcquireSingles() {
  std::vector<hk_slab_t *> slabs;
  for (unsigned i = 0; i < kAll; i++) slabs.push_back(Acquire(1));
  return slabs;
}

void ReleaseSingles(const std::vector<hk_slab_t *> &slabs, unsigned from, unsigned to) {
  for (unsigned i = from; i < to; i++) Release(slabs[i]);
}

void ExpectUsage(size_t superslabs, size_t in_use_slabs, size_t idle_slabs) {
  hk_superslab_usage_t usage = hk_superslab_usage();
  EXPECT_EQ(usage.superslab_count, superslabs);
  EXPECT_EQ(usage.mapped_bytes, superslabs * HK_SUPERSLAB_BYTES);
  EXPECT_EQ(usage.in_use_bytes, in_use_slabs * HK_SLAB_BYTES);
  EXPECT_EQ(usage.idle_bytes, idle_slabs * HK_SLAB_BYTES);
}

// All that is mapped is a superslab, a leaf of the region map or a chunk of records: nothing was lost on the way.
void ExpectNothingLost() {
  size_t ours = hk_superslab_usage().mapped_bytes + hk_region_map_mapped_bytes() + hk_meta_mapped_bytes();
  EXPECT_EQ(fake_os_mapped_bytes(), ours);
}

void RetainEverything() { hk_option.retain = HK_TIB; }

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
        if (is_new) (void)hk_surplus_trim(0);
      }
    }
  }
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
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
  EXPECT_TRUE(slab->zero);
  EXPECT_TRUE(Holds(slab, 4, 0));
  Touch(slab, 4);
  Release(slab);
  EXPECT_EQ(Acquire(4), slab);
  EXPECT_FALSE(slab->zero);
  Release(slab);
  hk_slab_t *half = Acquire(5); /* four used slabs, or fresh ones */
  EXPECT_EQ(half, slab);
  EXPECT_FALSE(half->zero) << "one slab that is not known to be zero is enough";
  EXPECT_TRUE(Acquire(2)->zero);
  EXPECT_TRUE(other->zero);
}

HK_FRESH_TEST(Superslab, TrimmedMemoryIsZeroAgain) {
  ASSERT_NE(Acquire(1), nullptr); /* the superslab stays mapped */
  hk_slab_t *slab = Acquire(4);
  Touch(slab, 4);
  Release(slab);
  EXPECT_EQ(hk_surplus_trim(0), 4 * HK_SLAB_BYTES);
  ExpectUsage(1, 1, 0);
  EXPECT_EQ(Acquire(4), slab);
  EXPECT_TRUE(slab->zero);
  EXPECT_TRUE(Holds(slab, 4, 0));
}

// ---- More than was asked for.

// A list of ranges, each known to be zero or not, as its head says.
void ReleaseAll(const std::vector<hk_slab_t *> &ranges) {
  hk_list_t list;
  hk_list_init(&list);
  for (hk_slab_t *first : ranges) {
    hk_slab_retire(first, first->slab_count);
    hk_list_push_back(&list, &first->link);
  }
  hk_superslab_release_all(&list);
  EXPECT_TRUE(hk_list_is_empty(&list));
  for (hk_slab_t *first : ranges) EXPECT_FALSE(hk_list_is_linked(&first->link));
}

HK_FRESH_TEST(SuperslabSome, OfANewOneAsManyAsMayBe) {
  for (unsigned least = 1; least <= kAll; least++) {
    for (unsigned most = least; most <= kAll; most++) {
      hk_slab_t *slab = hk_superslab_acquire_some(least, most);
      ExpectRange(slab, most, 1);
      EXPECT_TRUE(slab->zero);
      EXPECT_EQ(PlaceOf(slab), kAll - most) << "at the top";
      ExpectUsage(1, most, 0);
      Release(slab);
      (void)hk_surplus_trim(0);
      if (testing::Test::HasFailure()) return;
    }
  }
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabSome, DownwardsAsFarAsNobodyIs) {
  hk_slab_t *below = Acquire(3);
  EXPECT_EQ(PlaceOf(hk_superslab_acquire_some(2, 12)), 20u);
  EXPECT_EQ(PlaceOf(hk_superslab_acquire_some(1, 9)), 11u);
  hk_slab_t *rest = hk_superslab_acquire_some(1, kAll);
  EXPECT_EQ(rest, below + 3) << "all that is left";
  EXPECT_EQ(rest->slab_count, 8);
  EXPECT_TRUE(rest->zero);
  ExpectUsage(1, kAll, 0);
}

HK_FRESH_TEST(SuperslabSome, UsedSlabsAreTakenIfNeedBeButNoneOnTop) {
  ASSERT_NE(Acquire(1), nullptr);
  hk_slab_t *used = AcquireTop(3);
  Touch(used, 3);
  Release(used);
  hk_slab_t *slab = hk_superslab_acquire_some(2, 8);
  EXPECT_EQ(slab, used + 1) << "what is resident comes first";
  EXPECT_EQ(slab->slab_count, 2);
  EXPECT_FALSE(slab->zero);
  slab = hk_superslab_acquire_some(3, 8);
  EXPECT_EQ(slab, used - 2) << "one used slab among them";
  EXPECT_EQ(slab->slab_count, 3);
  EXPECT_FALSE(slab->zero);
  slab = hk_superslab_acquire_some(3, 8);
  EXPECT_EQ(slab, used - 10);
  EXPECT_EQ(slab->slab_count, 8);
  EXPECT_TRUE(slab->zero);
}

enum class Kind { untouched, used, in_use };

// A superslab in which slab i is of kinds[i]; at least one is in use. `held` gets those that are.
hk_slab_t *Arrange(const std::vector<Kind> &kinds, std::vector<hk_slab_t *> *held) {
  std::vector<hk_slab_t *> slabs = AcquireSingles();
  for (unsigned i = 0; i < kAll; i++) {
    if (kinds[i] == Kind::untouched) Release(slabs[i]);
  }
  (void)hk_surplus_trim(0);
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

// What superslab.h says: the highest place that is wholly resident, or the highest; and what is untouched below it, if
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
      ASSERT_EQ(slab->zero, AllAre(kinds, expected.first, expected.count, Kind::untouched));
      expected.count > least ? more++ : exact++;
    }
    held.push_back(slab);
    for (hk_slab_t *one : held) Release(one);
    (void)hk_surplus_trim(0);
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
    EXPECT_EQ(slab->superslab->shelf, &hk_shelf[node]);
  }
  ExpectUsage(nodes, 5 * nodes, 0);
  fake_os_fail_all(fake_os_reserve, true);
  fake_os_move_to_node(1);
  hk_slab_t *own = hk_superslab_acquire_some(1, kAll);
  EXPECT_EQ(own->superslab->shelf, &hk_shelf[1]);
  EXPECT_EQ(own->slab_count, kAll - 5) << "its own, however many are there";
  hk_slab_t *theirs = hk_superslab_acquire_some(2, 6);
  EXPECT_NE(theirs->superslab->shelf, &hk_shelf[1]);
  EXPECT_EQ(theirs->slab_count, 6);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_numa_miss]), 1u) << "one request";
}

// ---- Many ranges at once.

HK_FRESH_TEST(SuperslabReleaseAll, TouchedAndUntouchedOnesOfSeveralSuperslabs) {
  RetainEverything();
  std::vector<hk_slab_t *> ranges;
  size_t touched = 0;
  for (int i = 0; i < 40; i++) {
    hk_slab_t *range = Acquire(3 + i % 5, 1, i % 2 == 0 ? hk_from_bottom : hk_from_top);
    ASSERT_TRUE(range->zero);
    range->zero = i % 3 != 0;
    if (!range->zero) Touch(range, range->slab_count);
    if (!range->zero) touched += range->slab_count;
    ranges.push_back(range);
  }
  size_t superslabs = hk_superslab_usage().superslab_count;
  ASSERT_GT(superslabs, 4u);
  std::vector<hk_slab_t *> first(ranges.begin(), ranges.begin() + 20), second(ranges.begin() + 20, ranges.end());
  ReleaseAll(first);
  size_t left = 0, idle = 0;
  for (hk_slab_t *range : second) left += range->slab_count;
  for (hk_slab_t *range : first) idle += range->zero ? 0 : range->slab_count;
  ExpectUsage(superslabs, left, idle);
  ReleaseAll(second);
  ExpectUsage(superslabs, 0, touched);
  hk_shelf_repair(); /* the masks say so too */
  ExpectUsage(superslabs, 0, touched);
  EXPECT_EQ(hk_surplus_trim(0), touched * HK_SLAB_BYTES);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabReleaseAll, WhatWasNotTouchedIsStillZero) {
  RetainEverything();
  ASSERT_NE(Acquire(1), nullptr);
  hk_slab_t *untouched = Acquire(4), *touched = Acquire(4);
  Touch(touched, 4);
  touched->zero = false;
  ReleaseAll({touched, untouched});
  ExpectUsage(1, 1, 4);
  EXPECT_EQ(Acquire(4), touched) << "it is resident";
  EXPECT_FALSE(touched->zero);
  EXPECT_EQ(Acquire(4), untouched);
  EXPECT_TRUE(untouched->zero);
  EXPECT_TRUE(Holds(untouched, 4, 0));
}

HK_FRESH_TEST(SuperslabReleaseAll, WhatMayNotStayGoesBackToTheSystem) {
  hk_option.retain = 0;
  std::vector<hk_slab_t *> ranges;
  for (int i = 0; i < 6; i++) {
    ranges.push_back(Acquire(kAll));
    ranges.back()->zero = i % 2 == 0;
  }
  ReleaseAll(ranges);
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
  EXPECT_EQ(hk_superslab_usage().idle_bytes, 0u);
  (void)hk_surplus_trim(0); /* addresses that hold no memory */
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

// ---- Extend.

HK_FRESH_TEST(Superslab, ExtendTakesWhatFollows) {
  hk_slab_t *slab = Acquire(2);
  bool zero = false;
  ASSERT_TRUE(hk_superslab_extend(slab + 2, 3, &zero));
  EXPECT_TRUE(zero);
  ExpectUsage(1, 5, 0);
  hk_slab_t *next = Acquire(1);
  EXPECT_EQ(next, slab + 5);
  EXPECT_FALSE(hk_superslab_extend(slab + 5, 1, &zero)) << "in use";
  EXPECT_FALSE(hk_superslab_extend(slab + 5, 2, &zero)) << "the first of them is in use";
  ExpectUsage(1, 6, 0);
  Touch(next, 1);
  Release(next);
  ASSERT_TRUE(hk_superslab_extend(slab + 5, 2, &zero));
  EXPECT_FALSE(zero) << "the first of them was used";
  Release(slab, 7);
  ExpectUsage(1, 0, 7);
}

HK_FRESH_TEST(Superslab, ExtendStopsAtTheSuperslabsEnd) {
  hk_slab_t *slab = Acquire(30);
  bool zero;
  EXPECT_FALSE(hk_superslab_extend(slab + 30, 3, &zero));
  EXPECT_TRUE(hk_superslab_extend(slab + 30, 2, &zero));
  EXPECT_FALSE(hk_superslab_extend(slab + kAll, 1, &zero));
  ExpectUsage(1, kAll, 0);
  Release(slab, kAll);
}

// ---- Idle memory.

HK_FRESH_TEST(Superslab, IdleMemoryStaysUpToTheOption) {
  hk_option.retain = 4 * HK_MIB;
  std::vector<hk_slab_t *> slabs;
  for (int i = 0; i < 300; i++) {
    slabs.push_back(Acquire(1 + i % 7));
    Touch(slabs.back(), slabs.back()->slab_count);
  }
  size_t most_idle = 0;
  for (hk_slab_t *slab : slabs) {
    Release(slab);
    hk_superslab_usage_t usage = hk_superslab_usage();
    ASSERT_LE(usage.idle_bytes, std::max(4 * HK_MIB, usage.in_use_bytes / 8));
    most_idle = std::max(most_idle, usage.idle_bytes);
  }
  EXPECT_GT(most_idle, 4 * HK_MIB) << "a twelfth of what is in use was allowed";
  EXPECT_GT(hk_superslab_usage().idle_bytes, HK_MIB) << "not everything was given back";
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, WithinTheBoundNothingIsGivenBack) {
  hk_option.retain = 2 * HK_MIB;
  hk_slab_t *slab = Acquire(kAll);
  ASSERT_NE(Acquire(1), nullptr);
  Release(slab);
  EXPECT_EQ(fake_os_calls(fake_os_unmap) + fake_os_calls(fake_os_purge), 0u);
  ExpectUsage(2, 1, kAll);
}

HK_FRESH_TEST(Superslab, AnEighthOfWhatIsInUseStaysWhateverTheOption) {
  hk_option.retain = 0;
  std::vector<hk_slab_t *> slabs;
  for (int i = 0; i < 16; i++) slabs.push_back(Acquire(kAll));
  hk_slab_t *small = Acquire(kAll);
  Release(small); /* 2 MiB idle, 32 MiB in use */
  ExpectUsage(17, 16 * kAll, kAll);
  EXPECT_EQ(fake_os_calls(fake_os_unmap) + fake_os_calls(fake_os_purge), 0u);
  for (hk_slab_t *slab : slabs) {
    Release(slab);
    hk_superslab_usage_t usage = hk_superslab_usage();
    ASSERT_LE(usage.idle_bytes, usage.in_use_bytes / 8);
  }
  ExpectUsage(0, 0, 0);
}

// Takes and releases 16 MiB on top of what is in use, `cycles` times. How often memory was given back.
unsigned CyclesThatGaveBack(unsigned cycles, uint64_t pause_ns = 1000000) {
  unsigned gave_back = 0;
  for (unsigned cycle = 0; cycle < cycles; cycle++) {
    std::vector<hk_slab_t *> slabs;
    for (int i = 0; i < 8; i++) slabs.push_back(Acquire(kAll));
    uint64_t before = fake_os_calls(fake_os_unmap);
    for (hk_slab_t *slab : slabs) Release(slab);
    gave_back += fake_os_calls(fake_os_unmap) > before;
    fake_os_advance(pause_ns);
  }
  return gave_back;
}

HK_FRESH_TEST(Superslab, WhatIsWantedAgainIsKeptFromThenOn) {
  hk_option.retain = 1;
  EXPECT_EQ(CyclesThatGaveBack(10), 1u) << "the first time: then it is known that it will be wanted";
  ExpectUsage(8, 0, 8 * kAll);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_wanted_again]), 16 * HK_MIB);
}

HK_FRESH_TEST(Superslab, WhatIsWantedAgainMuchLaterIsNotKept) {
  hk_option.retain = 1;
  EXPECT_EQ(CyclesThatGaveBack(10, 5000000000), 10u);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_wanted_again]), 0u);
}

HK_FRESH_TEST(Superslab, WhatIsNotWantedAnyMoreGoes) {
  hk_option.retain = 1;
  EXPECT_EQ(CyclesThatGaveBack(3), 1u);
  ExpectUsage(8, 0, 8 * kAll);
  fake_os_advance(4500000000);
  Release(Acquire(1)); /* whatever happens next */
  EXPECT_LE(hk_superslab_usage().idle_bytes, HK_SUPERSLAB_BYTES);
}

HK_FRESH_TEST(Superslab, NothingIsEarnedWhereNothingIsToBeRetained) {
  hk_option.retain = 0;
  EXPECT_EQ(CyclesThatGaveBack(10), 10u);
  ExpectUsage(0, 0, 0);
}

HK_FRESH_TEST(Superslab, ACollectForgetsWhatWasLearned) {
  hk_option.retain = 1;
  EXPECT_EQ(CyclesThatGaveBack(2), 1u);
  (void)hk_surplus_trim(0);
  EXPECT_EQ(CyclesThatGaveBack(1), 1u);
}

HK_FRESH_TEST(Superslab, BigRangesAreIdleMemoryToo) {
  hk_option.retain = 4 * HK_MIB;
  hk_slab_t *slab = Acquire(kAll);
  bool zero;
  void *old_big = hk_big_alloc(2 * HK_MIB, 1, &zero);
  void *wall = hk_big_alloc(2 * HK_MIB, HK_GIB, &zero); /* far away, so that nothing merges */
  ASSERT_TRUE(hk_big_free(hk_slab_of(old_big), old_big));
  Release(slab);
  EXPECT_TRUE(fake_os_is_mapped(old_big, 2 * HK_MIB));
  EXPECT_EQ(hk_big_usage().idle_bytes, 2 * HK_MIB);
  ExpectUsage(1, 0, kAll);
  ASSERT_TRUE(hk_big_free(hk_slab_of(wall), wall)); /* 6 MiB are idle, 4 may be, and 1 less is aimed at */
  EXPECT_FALSE(fake_os_is_mapped(old_big, 1)) << "the oldest goes first";
  ExpectUsage(0, 0, 0);
  EXPECT_TRUE(fake_os_is_mapped(wall, 2 * HK_MIB));
  EXPECT_EQ(hk_big_usage().idle_bytes, 2 * HK_MIB);
}

HK_FRESH_TEST(Superslab, WhollyFreeOnesServeBigBlocks) {
  RetainEverything();
  hk_slab_t *partly = Acquire(1);
  std::vector<hk_slab_t *> slabs;
  std::set<uintptr_t> starts;
  for (int i = 0; i < 8; i++) slabs.push_back(Acquire(kAll));
  for (hk_slab_t *slab : slabs) starts.insert(hk_slab_start(slab));
  for (hk_slab_t *slab : slabs) Touch(slab, kAll);
  for (hk_slab_t *slab : slabs) Release(slab);
  uint64_t reserves = fake_os_calls(fake_os_reserve);
  bool zero = true;
  std::vector<char *> bigs;
  for (int i = 0; i < 8; i++) {
    bigs.push_back(static_cast<char *>(hk_big_alloc(HK_SUPERSLAB_BYTES, 1, &zero)));
    EXPECT_FALSE(zero);
    EXPECT_EQ(starts.count(reinterpret_cast<uintptr_t>(bigs.back())), 1u) << i;
  }
  EXPECT_EQ(fake_os_calls(fake_os_reserve), reserves);
  ExpectUsage(1, 1, 0);
  EXPECT_EQ(hk_big_usage().mapped_bytes, 8 * HK_SUPERSLAB_BYTES);
  EXPECT_EQ(hk_slab_state(partly), hk_slab_free) << "acquired, and not described by this test";

  /* And back. */
  for (char *big : bigs) EXPECT_TRUE(hk_big_free(hk_slab_of(big), big));
  for (hk_slab_t *&slab : slabs) {
    slab = Acquire(kAll);
    EXPECT_EQ(starts.count(hk_slab_start(slab)), 1u);
    EXPECT_FALSE(slab->zero);
    for (unsigned i = 0; i < kAll; i++) {
      ASSERT_EQ(hk_slab_state(&slab[i]), hk_slab_free);
      ASSERT_EQ(slab[i].superslab, slab->superslab);
      ASSERT_EQ(slab[i].range.since, 0u);
    }
  }
  EXPECT_EQ(fake_os_calls(fake_os_reserve), reserves);
  ExpectUsage(9, 8 * kAll + 1, 0);
  EXPECT_EQ(hk_big_usage().cached_bytes, 0u);
  for (hk_slab_t *slab : slabs) Release(slab);
  Release(partly);
  (void)hk_surplus_trim(0);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, ForABlockThatIsTooLongForAllOfThemTheyStay) {
  RetainEverything();
  Release(Acquire(kAll));
  bool zero;
  ASSERT_NE(hk_big_alloc(2 * HK_SUPERSLAB_BYTES, 1, &zero), nullptr);
  ExpectUsage(1, 0, kAll);
}

HK_FRESH_TEST(Superslab, OneMadeOfAPurgedRangeIsZero) {
  RetainEverything();
  bool zero;
  char *big = static_cast<char *>(hk_big_alloc(2 * HK_SUPERSLAB_BYTES, 1, &zero));
  memset(big, 1, 2 * HK_SUPERSLAB_BYTES);
  ASSERT_TRUE(hk_big_free(hk_slab_of(big), big));
  fake_os_fail_all(fake_os_unmap, true);
  (void)hk_surplus_trim(0);
  hk_slab_t *slab = Acquire(3);
  EXPECT_EQ(hk_slab_start(slab), reinterpret_cast<uintptr_t>(big));
  EXPECT_TRUE(slab->zero);
  EXPECT_TRUE(Holds(slab, 3, 0));
  ExpectUsage(1, 3, 0);
}

HK_FRESH_TEST(Superslab, WhatDoesNotFitGivesWay) {
  hk_option.retain = 1;
  EXPECT_EQ(CyclesThatGaveBack(2), 1u); /* 16 MiB are idle, and all that was ever in use */
  bool zero;
  void *wall = hk_big_alloc(20 * HK_MIB, 1, &zero); /* none of it serves this */
  ASSERT_NE(wall, nullptr);
  EXPECT_LE(hk_superslab_usage().idle_bytes + hk_big_usage().idle_bytes, 5 * HK_MIB);
}

HK_FRESH_TEST(Superslab, WhatIsReleasedIntoMakesItYounger) {
  RetainEverything();
  hk_slab_t *first = Acquire(20);
  hk_slab_t *rest = Acquire(12);
  hk_slab_t *second = Acquire(kAll);
  uintptr_t second_start = hk_slab_start(second);
  Release(rest);
  Release(second);
  Release(first);
  EXPECT_EQ(hk_surplus_trim(2 * HK_MIB), 2 * HK_MIB);
  EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(second_start), 1));
}

HK_FRESH_TEST(Superslab, WithNothingToRetainTheLastReleaseUnmaps) {
  hk_option.retain = 0;
  hk_slab_t *slab = Acquire(3);
  uintptr_t start = slab->superslab->start;
  Touch(slab, 3);
  Release(slab);
  ExpectUsage(0, 0, 0);
  EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(start), 1));
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, TrimKeepsWhatItIsTold) {
  RetainEverything();
  std::vector<hk_slab_t *> slabs;
  for (int i = 0; i < 10; i++) slabs.push_back(Acquire(kAll));
  for (hk_slab_t *slab : slabs) Release(slab);
  ExpectUsage(10, 0, 10 * kAll);
  EXPECT_EQ(hk_surplus_trim(SIZE_MAX), 0u);
  EXPECT_EQ(hk_surplus_trim(20 * HK_MIB), 0u);
  EXPECT_EQ(hk_surplus_trim(20 * HK_MIB - 1), 2 * HK_MIB);
  EXPECT_EQ(hk_surplus_trim(7 * HK_MIB), 12 * HK_MIB);
  ExpectUsage(3, 0, 3 * kAll);
  EXPECT_EQ(hk_surplus_trim(0), 6 * HK_MIB);
  ExpectUsage(0, 0, 0);
  EXPECT_EQ(hk_surplus_trim(0), 0u);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[hk_stat_given_back]), 20 * HK_MIB);
}

HK_FRESH_TEST(Superslab, TheLongestIdleGoesFirst) {
  RetainEverything();
  hk_slab_t *slabs[3] = {Acquire(kAll), Acquire(kAll), Acquire(kAll)};
  uintptr_t start[3];
  for (int i = 0; i < 3; i++) start[i] = hk_slab_start(slabs[i]);
  Release(slabs[1]);
  Release(slabs[2]);
  Release(slabs[0]);
  EXPECT_EQ(hk_surplus_trim(4 * HK_MIB), 2 * HK_MIB);
  EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(start[1]), 1));
  EXPECT_EQ(hk_surplus_trim(2 * HK_MIB), 2 * HK_MIB);
  EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(start[2]), 1));
  EXPECT_TRUE(fake_os_is_mapped(reinterpret_cast<void *>(start[0]), HK_SUPERSLAB_BYTES));
}

HK_FRESH_TEST(Superslab, WhollyFreeSuperslabsAreUnmappedAndNotOursAnyMore) {
  hk_slab_t *slab = Acquire(5);
  uintptr_t start = slab->superslab->start;
  EXPECT_EQ(hk_surplus_trim(0), 0u) << "it is in use";
  EXPECT_TRUE(fake_os_is_mapped(reinterpret_cast<void *>(start), HK_SUPERSLAB_BYTES));
  Release(slab);
  EXPECT_EQ(hk_surplus_trim(0), 5 * HK_SLAB_BYTES) << "what may have been resident";
  EXPECT_FALSE(fake_os_is_mapped(reinterpret_cast<void *>(start), 1));
  for (unsigned i = 0; i < kAll; i++) {
    EXPECT_EQ(hk_slab_state(hk_slab_of(reinterpret_cast<void *>(start + i * HK_SLAB_BYTES))), hk_slab_none);
  }
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
  hk_slab_t *again = Acquire(kAll);
  ASSERT_NE(again, nullptr);
  EXPECT_TRUE(again->zero);
  EXPECT_EQ(hk_slab_state(again), hk_slab_free);
}

HK_FRESH_TEST(Superslab, OnlyWhatIsIdleIsPurged) {
  RetainEverything();
  std::vector<hk_slab_t *> slabs = AcquireSingles();
  for (hk_slab_t *slab : slabs) Touch(slab, 1, 7);
  ReleaseSingles(slabs, 0, 1);
  ReleaseSingles(slabs, 5, 9);
  ReleaseSingles(slabs, 31, 32);
  EXPECT_EQ(hk_surplus_trim(0), 6 * HK_SLAB_BYTES);
  EXPECT_EQ(fake_os_calls(fake_os_purge), 3u) << "one call a run";
  for (unsigned i = 0; i < kAll; i++) {
    bool is_idle = i == 0 || (i >= 5 && i < 9) || i == 31;
    EXPECT_TRUE(Holds(slabs[i], 1, is_idle ? 0 : 7)) << i;
  }
  ExpectUsage(1, 26, 0);
}

// ---- Refusals.

HK_FRESH_TEST(Superslab, ARefusedUnmapLosesNothing) {
  RetainEverything();
  hk_slab_t *slabs[3] = {Acquire(kAll), Acquire(kAll), Acquire(kAll)};
  for (hk_slab_t *slab : slabs) Touch(slab, kAll);
  for (hk_slab_t *slab : slabs) Release(slab);
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_EQ(hk_surplus_trim(0), 6 * HK_MIB) << "purging gives the memory back too";
  ExpectUsage(3, 0, 0);
  ExpectNothingLost();
  for (int i = 0; i < 3; i++) {
    hk_slab_t *slab = Acquire(kAll);
    ASSERT_NE(slab, nullptr);
    EXPECT_TRUE(slab->zero);
    EXPECT_TRUE(Holds(slab, kAll, 0));
    EXPECT_EQ(hk_slab_state(slab), hk_slab_free);
    slabs[i] = slab;
  }
  ExpectUsage(3, 3 * kAll, 0);
  for (hk_slab_t *slab : slabs) Release(slab);
  fake_os_fail_all(fake_os_unmap, false);
  EXPECT_EQ(hk_surplus_trim(0), 6 * HK_MIB);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, WhatCouldNotBeUnmappedIsUnmappedLater) {
  Release(Acquire(kAll));
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_EQ(hk_surplus_trim(0), HK_SUPERSLAB_BYTES);
  EXPECT_EQ(hk_surplus_trim(0), 0u) << "it holds no memory any more, and ends although the system still refuses";
  ExpectUsage(1, 0, 0);
  fake_os_fail_all(fake_os_unmap, false);
  EXPECT_EQ(hk_surplus_trim(0), 0u);
  ExpectUsage(0, 0, 0);
}

HK_FRESH_TEST(Superslab, ARefusedPurgeLosesNothing) {
  RetainEverything();
  ASSERT_NE(Acquire(1), nullptr);
  hk_slab_t *slab = Acquire(8);
  Touch(slab, 8);
  Release(slab);
  fake_os_fail_all(fake_os_purge, true);
  EXPECT_EQ(hk_surplus_trim(0), 0u);
  ExpectUsage(1, 1, 8);
  EXPECT_EQ(Acquire(8), slab);
  EXPECT_FALSE(slab->zero);
  Release(slab);
  fake_os_fail_all(fake_os_purge, false);
  EXPECT_EQ(hk_surplus_trim(0), 8 * HK_SLAB_BYTES);
  ExpectUsage(1, 1, 0);
  EXPECT_EQ(Acquire(8), slab);
  EXPECT_TRUE(slab->zero);
  EXPECT_TRUE(Holds(slab, 8, 0));
}

HK_FRESH_TEST(Superslab, OneRefusedPurgeOfManyMakesNothingZeroThatIsNot) {
  RetainEverything();
  std::vector<hk_slab_t *> slabs = AcquireSingles();
  for (hk_slab_t *slab : slabs) Touch(slab, 1);
  for (unsigned i = 0; i < kAll; i += 2) Release(slabs[i]);
  fake_os_fail_nth(fake_os_purge, 9);
  (void)hk_surplus_trim(0);
  for (unsigned i = 0; i < kAll; i += 2) {
    hk_slab_t *slab = Acquire(1);
    ASSERT_EQ(slab->superslab, slabs[0]->superslab);
    EXPECT_TRUE(!slab->zero || Holds(slab, 1, 0)) << PlaceOf(slab);
  }
}

HK_FRESH_TEST(Superslab, BothRefusedLosesNothing) {
  RetainEverything();
  hk_slab_t *slab = Acquire(kAll);
  Touch(slab, kAll);
  Release(slab);
  fake_os_fail_all(fake_os_unmap, true);
  fake_os_fail_all(fake_os_purge, true);
  EXPECT_EQ(hk_surplus_trim(0), 0u);
  ExpectUsage(1, 0, kAll);
  EXPECT_EQ(Acquire(kAll), slab);
  EXPECT_FALSE(slab->zero);
  EXPECT_EQ(hk_slab_state(slab), hk_slab_free);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 3u) << "records, a leaf, one superslab";
}

HK_FRESH_TEST(Superslab, ReleasesGoOnWhileTheSystemRefuses) {
  hk_option.retain = 0;
  fake_os_fail_all(fake_os_unmap, true);
  fake_os_fail_all(fake_os_purge, true);
  for (int round = 0; round < 3; round++) {
    hk_slab_t *slabs[4];
    for (hk_slab_t *&slab : slabs) slab = Acquire(kAll);
    ExpectUsage(4, 4 * kAll, 0);
    for (hk_slab_t *slab : slabs) Release(slab);
    ExpectUsage(4, 0, 4 * kAll);
  }
}

// The first acquire asks for a chunk of records, the superslab and a leaf of the region map.
void ExpectRefusalIsOvercome(uint64_t nth) {
  fake_os_fail_nth(fake_os_reserve, nth);
  EXPECT_EQ(Acquire(1), nullptr);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
  hk_slab_t *slab = Acquire(kAll);
  ASSERT_NE(slab, nullptr);
  EXPECT_TRUE(slab->zero);
  ExpectUsage(1, kAll, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, RefusedRecords) { ExpectRefusalIsOvercome(1); }
HK_FRESH_TEST(Superslab, RefusedMapping) { ExpectRefusalIsOvercome(2); }
HK_FRESH_TEST(Superslab, RefusedDescriptors) { ExpectRefusalIsOvercome(3); }

HK_FRESH_TEST(Superslab, ManyRefusalsTakeNoRecords) {
  ASSERT_NE(Acquire(kAll), nullptr);
  size_t records = hk_meta_mapped_bytes();
  fake_os_fail_all(fake_os_reserve, true);
  for (int i = 0; i < 10000; i++) ASSERT_EQ(Acquire(1), nullptr);
  fake_os_fail_all(fake_os_reserve, false);
  ASSERT_NE(Acquire(1), nullptr);
  EXPECT_EQ(hk_meta_mapped_bytes(), records);
  ExpectUsage(2, kAll + 1, 0);
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
    EXPECT_EQ(hk_surplus_trim(0), 17 * kCount * HK_SLAB_BYTES);
    ExpectUsage(0, 0, 0);
    ExpectNothingLost();
    if (round == 0) records = hk_meta_mapped_bytes();
    EXPECT_EQ(hk_meta_mapped_bytes(), records) << "records are used again";
  }
}

// ---- Against a model: every range that is held, with the number that is written into it.

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {}

  void Step() {
    size_t choice = random_.Below(100);
    if (choice < 52) {
      Take();
    } else if (choice < 97) {
      GiveBack();
    } else if (choice < 98) {
      (void)hk_surplus_trim(random_.Below(16) * HK_MIB);
    } else {
      Extend();
    }
  }

  void GiveBackAll() {
    while (!held_.empty() && !testing::Test::HasFailure()) GiveBack();
  }

  size_t held_slabs() const { return held_slabs_; }

 private:
  struct Range {
    hk_slab_t *first;
    unsigned count;
    uint64_t stamp;
  };

  static uintptr_t EndOf(const Range &range) { return hk_slab_start(range.first) + range.count * HK_SLAB_BYTES; }

  void ExpectFreeOfOthers(const Range &range) {
    uintptr_t start = hk_slab_start(range.first);
    auto next = held_.lower_bound(start);
    ASSERT_TRUE(next == held_.end() || EndOf(range) <= next->first);
    ASSERT_TRUE(next == held_.begin() || start >= EndOf(std::prev(next)->second));
  }

  void Hold(Range range, bool zero) {
    ASSERT_TRUE(!zero || Holds(range.first, range.count, 0));
    if (range.stamp != 0) Touch(range.first, range.count, range.stamp);
    held_[hk_slab_start(range.first)] = range;
    held_slabs_ += range.count;
  }

  void Take() {
    Range range = {};
    range.count = static_cast<unsigned>(random_.LogBetween(1, kAll));
    unsigned alignment = 1u << random_.Below(random_.OneIn(3) ? 6 : 1);
    range.stamp = random_.Next() | 1;
    if (random_.OneIn(4)) {
      TakeSome(range);
      return;
    }
    range.first = Acquire(range.count, alignment, random_.OneIn(2) ? hk_from_bottom : hk_from_top);
    ASSERT_NE(range.first, nullptr);
    ASSERT_EQ(hk_slab_start(range.first) % (alignment * HK_SLAB_BYTES), 0u);
    ASSERT_EQ(range.first->slab_count, range.count);
    ExpectFreeOfOthers(range);
    Hold(range, range.first->zero);
  }

  // As a heap does for its reserve: now and then nobody touches what was taken.
  void TakeSome(Range range) {
    unsigned most = static_cast<unsigned>(random_.Between(range.count, kAll));
    range.first = hk_superslab_acquire_some(range.count, most);
    ASSERT_NE(range.first, nullptr);
    ASSERT_GE(range.first->slab_count, range.count);
    ASSERT_LE(range.first->slab_count, most);
    bool zero = range.first->zero;
    if (range.first->slab_count > range.count) ASSERT_TRUE(zero) << "only untouched ones come on top";
    range.count = range.first->slab_count;
    if (zero && random_.OneIn(2)) range.stamp = 0;
    ExpectFreeOfOthers(range);
    Hold(range, zero);
  }

  std::map<uintptr_t, Range>::iterator Any() { return std::next(held_.begin(), random_.Below(held_.size())); }

  void GiveBack() {
    if (held_.empty()) return;
    auto any = Any();
    Range range = any->second;
    ASSERT_TRUE(Holds(range.first, range.count, range.stamp)) << "somebody else wrote into it";
    held_.erase(any);
    held_slabs_ -= range.count;
    if (range.stamp != 0) {
      Release(range.first, range.count);
      return;
    }
    range.first->zero = true;
    ReleaseAll({range.first});
  }

  void Extend() {
    if (held_.empty()) return;
    Range range = Any()->second;
    Range more = {range.first + range.count, 1 + static_cast<unsigned>(random_.Below(3)), random_.Next() | 1};
    bool zero;
    if (!hk_superslab_extend(more.first, more.count, &zero)) return;
    ExpectFreeOfOthers(more);
    Hold(more, zero);
  }

  TestRandom random_;
  std::map<uintptr_t, Range> held_;
  size_t held_slabs_ = 0;
};

void RunAgainstModel(uint64_t seed) {
  hk_option.retain = 2 * HK_MIB;
  Model model(seed);
  for (int i = 0; i < 20000 && !testing::Test::HasFailure(); i++) {
    model.Step();
    ASSERT_EQ(hk_superslab_usage().in_use_bytes, model.held_slabs() * HK_SLAB_BYTES) << "step " << i;
    if (i % 5000 == 4999) model.GiveBackAll();
    if (i % 1000 == 500) hk_shelf_repair(); /* changes nothing */
  }
  model.GiveBackAll();
  (void)hk_surplus_trim(0);
}

HK_FRESH_TEST(SuperslabModel, RandomRangesNeverOverlap) {
  RunAgainstModel(1);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabModel, NorWhileTheSystemGivesNothingBack) {
  fake_os_fail_all(fake_os_unmap, true);
  fake_os_fail_all(fake_os_purge, true);
  RunAgainstModel(2);
  hk_superslab_usage_t usage = hk_superslab_usage();
  EXPECT_EQ(usage.in_use_bytes, 0u);
  EXPECT_LE(usage.idle_bytes, usage.mapped_bytes);
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabModel, NorWhileItUnmapsNothing) {
  fake_os_fail_all(fake_os_unmap, true);
  RunAgainstModel(3);
  size_t superslabs = hk_superslab_usage().superslab_count;
  /* A trim ends at the first superslab that cannot go and holds nothing; the next one begins behind it. */
  for (size_t i = 0; i < superslabs; i++) (void)hk_surplus_trim(0);
  ExpectUsage(superslabs, 0, 0);
  ExpectNothingLost();
}

// ---- Repair.

HK_FRESH_TEST(Superslab, RepairMakesTheSameStateFromTheRecords) {
  RetainEverything();
  hk_slab_t *whole = Acquire(kAll);
  hk_slab_t *gone = Acquire(kAll);
  hk_superslab_t *spare = gone->superslab;
  std::vector<hk_slab_t *> singles = AcquireSingles();
  hk_slab_t *part = Acquire(20);
  Release(gone);
  (void)hk_surplus_trim(0); /* one spare record */
  ReleaseSingles(singles, 3, 9);
  hk_superslab_usage_t before = hk_superslab_usage();

  /* What a vanished thread may leave of the links, and worse. */
  for (hk_slab_t *slab : {whole, singles[0], part}) {
    memset(&slab->superslab->link, 0xdb, sizeof(hk_list_t));
    memset(&slab->superslab->idle_link, 0xdb, sizeof(hk_list_t));
  }
  hk_shelf_repair();

  hk_superslab_usage_t after = hk_superslab_usage();
  EXPECT_EQ(memcmp(&before, &after, sizeof before), 0);
  EXPECT_EQ(Acquire(6), singles[3]) << "the hole";
  EXPECT_FALSE(singles[3]->zero);
  EXPECT_EQ(Acquire(12), part + 20) << "the rest";
  EXPECT_TRUE((part + 20)->zero);
  hk_slab_t *next = Acquire(1);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->superslab, spare) << "in the record that was to spare";
  ExpectUsage(4, 3 * kAll + 1, 0);

  Release(next);
  Release(whole);
  Release(singles[3], 6);
  ReleaseSingles(singles, 0, 3);
  ReleaseSingles(singles, 9, kAll);
  Release(part, kAll);
  (void)hk_surplus_trim(0);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Superslab, RepairOfNothing) {
  hk_shelf_repair();
  ExpectUsage(0, 0, 0);
  ASSERT_NE(Acquire(1), nullptr);
  ExpectUsage(1, 1, 0);
}

// ---- Threads.

HK_FRESH_TEST(Superslab, ThreadsShareNothing) {
  hk_option.retain = 0; /* ways back to the system all the time */
  constexpr int kThreads = 4;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&failures, t] {
      TestRandom random(100 + t);
      struct Held {
        hk_slab_t *first;
        uint64_t stamp;
      };
      std::vector<Held> held;
      for (int i = 0; i < 4000; i++) {
        if (held.size() < 12 && !random.OneIn(3)) {
          hk_slab_t *slab = Acquire(static_cast<unsigned>(random.LogBetween(1, kAll)));
          if (slab == nullptr || (slab->zero && !Holds(slab, slab->slab_count, 0))) failures++;
          if (slab == nullptr) return;
          held.push_back({slab, random.Next()});
          Touch(slab, slab->slab_count, held.back().stamp);
        } else if (!held.empty()) {
          std::swap(held[random.Below(held.size())], held.back());
          if (!Holds(held.back().first, held.back().first->slab_count, held.back().stamp)) failures++;
          Release(held.back().first);
          held.pop_back();
        }
        if (random.OneIn(200)) (void)hk_surplus_trim(0);
      }
      for (const Held &one : held) Release(one.first);
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
  (void)hk_surplus_trim(0);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

#if HK_DEBUG
HK_FRESH_TEST(SuperslabDeathTest, ASecondReleaseIsNoticed) {
  hk_slab_t *slab = Acquire(1);
  Release(slab);
  EXPECT_DEATH(hk_superslab_release(slab, 1), "a slab is given back once");
}
#endif

}  // namespace
