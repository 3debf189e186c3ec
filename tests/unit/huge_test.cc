// space/huge: which addresses are advised when superslabs and large blocks are made, grow old, and are
// purged.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "policy/ahead.h"
#include "unit/huge_driver.h"

using namespace hk_test;

namespace {

// ---- Settings.

HK_FRESH_TEST(Huge, WhereTheSystemHasNoneNothingIsAsked) {
  Set(hk_huge_pages_always, hk_os_huge_never);
  (void)Fill();
  MustFree(Alloc(8 * HK_MIB));
  GrowOld();
  EXPECT_EQ(Calls(), "");
}

HK_FRESH_TEST(Huge, NeverForbidsWhatTheSystemWouldDo) {
  Set(hk_huge_pages_never, hk_os_huge_everywhere);
  hk_slab_t *first = Fill();
  EXPECT_EQ(Calls(), "f");
  EXPECT_EQ(LastCall(fake_os_huge_forbid)->start, StartOf(first));
  char *block = Alloc(3 * HK_MIB);
  EXPECT_EQ(LastCall(fake_os_huge_forbid)->start, AddressOf(block));
  GrowOld();
  EXPECT_EQ(Calls(), "ff");
  EXPECT_EQ(Count(hk_stat_huge_asked) + Count(hk_stat_huge_refused), 0u);
}

HK_FRESH_TEST(Huge, AlwaysAsksForAllAtOnce) {
  Set(hk_huge_pages_always, hk_os_huge_on_request);
  (void)Fill(false);
  char *block = Alloc(3 * HK_MIB);
  EXPECT_EQ(Calls(), "aa");
  EXPECT_EQ(LastCall(fake_os_huge_ask)->start, AddressOf(block));
  EXPECT_EQ(LastCall(fake_os_huge_ask)->bytes, 3 * HK_MIB) << "one mapping, also where it ends between two";
  EXPECT_EQ(Count(hk_stat_huge_asked), 5 * HK_MIB);
}

HK_FRESH_TEST(Huge, ARefusalIsCountedAndLosesNothing) {
  Set(hk_huge_pages_always, hk_os_huge_on_request);
  fake_os_fail_all(fake_os_huge_ask, true);
  hk_slab_t *first = Fill();
  ASSERT_NE(first, nullptr);
  char *block = Alloc(4 * HK_MIB);
  ASSERT_NE(block, nullptr);
  memset(block, 1, 4 * HK_MIB);
  EXPECT_EQ(Calls(), "AA");
  EXPECT_EQ(Count(hk_stat_huge_refused), 6 * HK_MIB);
  EXPECT_EQ(Count(hk_stat_huge_asked), 0u);
  MustFree(block);
  Release(first, kAll);
  (void)hk_purge_down_to(0);
  EXPECT_EQ(fake_os_mapped_bytes(), hk_region_map_mapped_bytes() + hk_meta_mapped_bytes());
}

// ---- Large blocks.

HK_FRESH_TEST(Huge, LargeBlocksAreAskedForOnceSuchBlocksWereDense) {
  LearnFromWhatGoesBack();
  KnowThatBlocksAreDense(4 * HK_MIB);
  EXPECT_EQ(Calls(), "");
  char *block = Alloc(5 * HK_MIB);
  EXPECT_EQ(Calls(), "a");
  EXPECT_EQ(LastCall(fake_os_huge_ask)->start, AddressOf(block));
}

HK_FRESH_TEST(Huge, AfterOneFilledBlockLargerOnesAreNotAskedFor) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  hk_option.mode = HK_PRICE_FAST; /* where most is allowed */
  char *first = Alloc(16 * HK_MIB);
  memset(first, 1, 16 * HK_MIB);
  for (size_t mib : {64, 32, 12}) (void)Alloc(mib * HK_MIB);
  EXPECT_EQ(Calls(), "");
}

// Each page of a huge page is resident, so the contents tell.
HK_FRESH_TEST(Huge, BlocksThatWereAskedForAndAreThinEndIt) {
  LearnFromWhatGoesBack();
  KnowThatBlocksAreDense(4 * HK_MIB);
  char *block = Alloc(4 * HK_MIB);
  ASSERT_EQ(Calls(), "a");
  memset(block, 0, 4 * HK_MIB); /* resident, and all zero but for some bytes */
  for (size_t at = 0; at < 4 * HK_MIB; at += 64 * HK_KIB) block[at] = 1;
  MustFree(block);
  (void)hk_purge_down_to(0);
  (void)Alloc(4 * HK_MIB);
  EXPECT_EQ(Calls(), "a");
}

HK_FRESH_TEST(Huge, AThinBlockOfSmallPagesIsNotTakenForAFilledOne) {
  LearnFromWhatGoesBack();
  char *block = Alloc(64 * HK_MIB);
  for (size_t at = 0; at < 64 * HK_MIB; at += 16 * HK_KIB) block[at] = 1;
  (void)Alloc(4 * HK_MIB);
  MustFree(block);
  (void)Alloc(4 * HK_MIB);
  EXPECT_EQ(Calls(), "");
}

// A share of the memory that was written in blocks, of which there are two.
HK_FRESH_TEST(Huge, OfABlockBeyondTheShareTheStartIsAskedFor) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  for (int i = 0; i < 2; i++) memset(Alloc(15 * HK_MIB), 1, 15 * HK_MIB);
  char *block = Alloc(32 * HK_MIB);
  EXPECT_EQ(Calls(), "a");
  size_t asked = LastCall(fake_os_huge_ask)->bytes;
  EXPECT_EQ(LastCall(fake_os_huge_ask)->start, AddressOf(block));
  EXPECT_LE(asked, 30 * HK_MIB / (HK_AHEAD_ROW - 1));
  EXPECT_GE(asked + HK_SUPERSLAB_BYTES, 30 * HK_MIB / (HK_AHEAD_ROW - 1));
  (void)Alloc(4 * HK_MIB);
  EXPECT_EQ(Calls(), "a") << "as much is ahead as may be";
  memset(block, 1, 32 * HK_MIB);
  (void)Alloc(4 * HK_MIB);
  EXPECT_EQ(Calls(), "aa");
}

HK_FRESH_TEST(Huge, AdviceThatABlockHasLeftIsTakenBack) {
  LearnFromWhatGoesBack();
  fake_os_fail_all(fake_os_unmap, true); /* the same addresses again */
  KnowThatBlocksAreDense(4 * HK_MIB);
  char *block = Alloc(4 * HK_MIB);
  ASSERT_EQ(Calls(), "a");
  MustFree(block); /* not filled */
  (void)hk_purge_down_to(0);
  ASSERT_EQ(Alloc(4 * HK_MIB), block);
  EXPECT_EQ(Calls(), "af");
}

HK_FRESH_TEST(Huge, ABlockThatGrowsBeyondTheShareLosesItsAdvice) {
  LearnFromWhatGoesBack();
  KnowThatBlocksAreDense(4 * HK_MIB);
  char *block = Alloc(4 * HK_MIB);
  ASSERT_EQ(Calls(), "a");
  hk_bump_relaxed(&hk_dirty_extents.in_use_bytes, -kWritten);
  for (int i = 0; i < 1000; i++) MustFree(Alloc(HK_MIB + 1)); /* and is forgotten */
  EXPECT_NE(Resize(block, 64 * HK_MIB), nullptr);
  EXPECT_EQ(Calls(), "af");
}

HK_FRESH_TEST(Huge, DenseBlocksInUseTellOfTheNext) {
  LearnFromWhatGoesBack();
  for (int i = 0; i < 2; i++) {
    char *block = Alloc(4 * HK_MIB);
    memset(block, 1, 4 * HK_MIB);
    EXPECT_EQ(Calls(), "");
  }
  char *next = Alloc(8 * HK_MIB);
  EXPECT_EQ(Calls(), "a");
  EXPECT_EQ(LastCall(fake_os_huge_ask)->start, AddressOf(next));
}

HK_FRESH_TEST(Huge, ABlockInUseThatIsNotFullTellsNothingYet) {
  LearnFromWhatGoesBack();
  char *first = Alloc(4 * HK_MIB);
  memset(first, 1, 3 * HK_MIB);
  for (int i = 0; i < 2; i++) {
    char *next = Alloc(4 * HK_MIB);
    EXPECT_EQ(Calls(), "");
    memset(next, 1, 4 * HK_MIB);
  }
  (void)Alloc(4 * HK_MIB);
  EXPECT_EQ(Calls(), "a") << "the last one is looked at";
}

HK_FRESH_TEST(Huge, SparseBlocksAreNotAskedFor) {
  LearnFromWhatGoesBack();
  for (int i = 0; i < 50; i++) {
    char *block = Alloc(4 * HK_MIB);
    memset(block, 1, 3 * HK_MIB);
    MustFree(block);
  }
  EXPECT_EQ(Calls(), "");
}

HK_FRESH_TEST(Huge, WhatIsResidentAlreadyIsNotAskedFor) {
  Set(hk_huge_pages_always, hk_os_huge_on_request);
  RetainEverything();
  MustFree(Alloc(4 * HK_MIB));
  size_t before = fake_os_log_length();
  MustFree(Alloc(4 * HK_MIB));
  EXPECT_EQ(Calls(before), "");
}

HK_FRESH_TEST(Huge, AddressesThatWereGivenBackAreAskedForAgain) {
  Set(hk_huge_pages_always, hk_os_huge_on_request);
  fake_os_fail_all(fake_os_unmap, true);
  char *block = Alloc(4 * HK_MIB);
  MustFree(block);
  (void)hk_purge_down_to(0);
  size_t before = fake_os_log_length();
  EXPECT_EQ(Alloc(4 * HK_MIB), block);
  EXPECT_EQ(Calls(before), "a");
}

HK_FRESH_TEST(Huge, ABlockThatGrowsStaysOneMapping) {
  Set(hk_huge_pages_always, hk_os_huge_on_request);
  RetainEverything();
  char *block = Alloc(8 * HK_MIB);
  EXPECT_EQ(Resize(block, 4 * HK_MIB), block);
  EXPECT_EQ(Resize(block, 6 * HK_MIB), block);
  const fake_os_record_t *last = LastCall(fake_os_huge_ask);
  EXPECT_EQ(last->start, AddressOf(block) + 4 * HK_MIB);
  EXPECT_EQ(last->bytes, 2 * HK_MIB);
}

HK_FRESH_TEST(Huge, SmallPiecesOfALotAreLeftAlone) {
  Set(hk_huge_pages_always, hk_os_huge_on_request);
  hk_bump_relaxed(&hk_dirty_extents.in_use_bytes, 5 * HK_MIB * HK_HUGE_PIECES);
  (void)Fill(false);
  (void)Alloc(4 * HK_MIB);
  EXPECT_EQ(Calls(), "") << "mappings would become too many";
  (void)Alloc(8 * HK_MIB);
  EXPECT_EQ(Calls(), "a");
}

// ---- Superslabs.

HK_FRESH_TEST(Huge, ADenseSuperslabIsMadeHugeWhenItIsOld) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  hk_slab_t *first = Fill();
  Pass(HK_HUGE_LOOK_MS);
  Visit();
  Pass(kAgeMs - 1);
  Visit();
  EXPECT_EQ(Calls(), "") << "not yet";
  Pass(HK_HUGE_LOOK_MS);
  Visit();
  EXPECT_EQ(Calls(), "c");
  EXPECT_EQ(LastCall(fake_os_huge_collapse)->start, StartOf(first));
  EXPECT_EQ(Count(hk_stat_huge_asked), HK_SUPERSLAB_BYTES);
  GrowOld();
  EXPECT_EQ(Calls(), "c") << "once";
}

HK_FRESH_TEST(Huge, ASparseSuperslabIsNot) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  hk_slab_t *first = Fill(false);
  memset(reinterpret_cast<void *>(hk_slab_start(first)), 1, HK_SUPERSLAB_BYTES - HK_SLAB_BYTES);
  for (int i = 0; i < 5; i++) GrowOld();
  EXPECT_EQ(Calls(), "");
}

// A superslab is there before that, and the program has run for so long.
void GrowOldFirst() {
  (void)Fill();
  Pass(HK_THP_STAY_MAX_MS);
}

HK_FRESH_TEST(Huge, AProgramThatGrowsGetsThemEarlierWhereMemoryIsCheap) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  GrowOldFirst();
  EXPECT_EQ(UnaskedAt(HK_PRICE_FAST) + 1, HK_THP_GROWN_MIN_BYTES / HK_SUPERSLAB_BYTES);
}

HK_FRESH_TEST(Huge, AProgramThatGrowsGetsThemEarlierWhileItIsYoung) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  EXPECT_EQ(UnaskedAt(HK_PRICE_BALANCED), HK_THP_GROWN_MIN_BYTES / HK_SUPERSLAB_BYTES);
}

HK_FRESH_TEST(Huge, AYoungProgramDoesNotGetThemEarlierWhereMemoryIsDear) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  EXPECT_EQ(UnaskedAt(HK_PRICE_LEAN), HK_THP_GROWN_MAX_BYTES / HK_SUPERSLAB_BYTES);
}

HK_FRESH_TEST(Huge, AProgramThatGrowsSlowlyDoesNot) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  auto is_asked = [] { return Calls().find('a') != std::string::npos; };
  for (unsigned i = 0; i < 2 * kGrown; i++) {
    (void)Fill();
    Pass(60000);
  }
  (void)Fill();
  EXPECT_FALSE(is_asked()) << "the last one is a minute ago";
  (void)Fill();
  EXPECT_TRUE(is_asked());
}

HK_FRESH_TEST(Huge, ADenseProgramThatGrowsGetsMore) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  hk_option.mode = HK_PRICE_LEAN;
  GrowOldFirst();
  for (unsigned i = 1; i < kGrown; i++) (void)Fill();
  EXPECT_EQ(Calls(), "") << "it is small yet";
  hk_slab_t *first = Fill(false);
  EXPECT_EQ(Calls(), "a");
  EXPECT_EQ(LastCall(fake_os_huge_ask)->start, StartOf(first));
  EXPECT_EQ(LastCall(fake_os_huge_ask)->bytes, HK_SUPERSLAB_BYTES);
  EXPECT_TRUE(first->superslab->is_huge && first->superslab->is_allowed);

  hk_option.retain = 0;
  memset(reinterpret_cast<void *>(hk_slab_start(first)), 1, HK_SUPERSLAB_BYTES);
  Release(first + 4, kAll - 4);
  (void)hk_purge_down_to(0);
  EXPECT_EQ(Calls(), "af") << "taken apart, it must not become huge again by itself";
  EXPECT_EQ(LastCall(fake_os_huge_forbid)->start, StartOf(first));
}

HK_FRESH_TEST(Huge, ASparseProgramThatGrowsDoesNot) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  for (unsigned i = 0; i < kGrown + 4; i++) (void)Fill(false);
  EXPECT_EQ(Calls(), "");
}

HK_FRESH_TEST(Huge, WhereNothingIsFullItsDensityIsUnknown) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  for (unsigned i = 0; i < 2 * kGrown; i++) (void)hk_superslab_acquire(kAll / 2 + 1, 1, hk_from_bottom);
  EXPECT_EQ(Calls(), "");
}

HK_FRESH_TEST(Huge, ASuperslabThatIsNotWhollyInUseIsNot) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  hk_slab_t *first = Fill();
  Release(first + kAll - 1, 1);
  for (int i = 0; i < 5; i++) GrowOld();
  EXPECT_EQ(Calls(), "");
}

HK_FRESH_TEST(Huge, WhatIsFreedMeanwhileBeginsAnew) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  hk_slab_t *first = Fill();
  Pass(HK_HUGE_LOOK_MS);
  Visit();
  Release(first + kAll - 1, 1);
  ASSERT_EQ(hk_superslab_acquire(1, 1, hk_from_bottom), first + kAll - 1);
  Pass(kAgeMs + 1);
  Visit();
  EXPECT_EQ(Calls(), "");
  Pass(kAgeMs + 1);
  Visit();
  EXPECT_EQ(Calls(), "c");
}

HK_FRESH_TEST(Huge, WhatIsTakenApartIsHugeAgainOnlyAfterAsLong) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  hk_slab_t *first = Fill();
  GrowOld();
  ASSERT_EQ(Calls(), "c");
  Release(first, 1);
  EXPECT_EQ(hk_purge_down_to(0), HK_SLAB_BYTES) << "what stays as small pages is in use";
  EXPECT_EQ(hk_superslab_usage().dirty_bytes, 0u);
  ASSERT_EQ(hk_superslab_acquire(1, 1, hk_from_bottom), first);
  memset(reinterpret_cast<void *>(hk_slab_start(first)), 1, HK_SLAB_BYTES);
  Pass(HK_HUGE_LOOK_MS);
  Visit();
  EXPECT_EQ(Calls(), "c");
  Pass(kAgeMs + 1);
  Visit();
  EXPECT_EQ(Calls(), "cc");
}

HK_FRESH_TEST(Huge, WhereTheBareCallIsRefusedTheyAreAllowedUntilTakenApart) {
  Set(hk_huge_pages_auto, hk_os_huge_everywhere);
  fake_os_fail_nth(fake_os_huge_collapse, 1); /* as it is where they are forbidden */
  hk_slab_t *first = Fill();
  GrowOld();
  EXPECT_EQ(Calls(), "fCac");
  EXPECT_EQ(Count(hk_stat_huge_asked), HK_SUPERSLAB_BYTES);
  Release(first, 1);
  (void)hk_purge_down_to(0);
  EXPECT_EQ(Calls(), "fCacf") << "or the sparse one would become huge again";
}

HK_FRESH_TEST(Huge, ASuperslabThatIsRefusedIsCountedAndTriedAgainLater) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  fake_os_fail_all(fake_os_huge_collapse, true);
  fake_os_fail_all(fake_os_huge_ask, true);
  (void)Fill();
  GrowOld();
  EXPECT_EQ(Calls(), "CA");
  EXPECT_EQ(Count(hk_stat_huge_refused), HK_SUPERSLAB_BYTES);
  fake_os_fail_all(fake_os_huge_collapse, false);
  Pass(HK_HUGE_LOOK_MS);
  Visit();
  EXPECT_EQ(Calls(), "CA");
  Pass(kAgeMs + 1);
  Visit();
  EXPECT_EQ(Calls(), "CAc");
}

HK_FRESH_TEST(Huge, AVisitMakesAFewAndTheNextOneGoesOn) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  GrowOldFirst(); /* or the fifth would be asked for */
  for (unsigned i = 1; i < HK_HUGE_VISIT_MAX + 1; i++) (void)Fill();
  GrowOld();
  EXPECT_EQ(Calls(), std::string(HK_HUGE_VISIT_MAX, 'c'));
  Visit();
  EXPECT_EQ(Calls(), std::string(HK_HUGE_VISIT_MAX, 'c')) << "not due";
  Pass(HK_HUGE_LOOK_MS);
  Visit();
  EXPECT_EQ(Calls(), std::string(HK_HUGE_VISIT_MAX + 1, 'c'));
}

HK_FRESH_TEST(Huge, WithoutVisitsSlowPathsDoIt) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  (void)Fill();
  (void)Fill();
  hk_slab_t *small = hk_superslab_acquire(1, 1, hk_from_bottom);
  for (uint64_t ms = 0; ms <= kAgeMs + 2 * HK_HUGE_LOOK_MS; ms += HK_HUGE_LOOK_MS) {
    Release(small, 1);
    small = hk_superslab_acquire(1, 1, hk_from_bottom);
    Pass(HK_HUGE_LOOK_MS);
  }
  EXPECT_EQ(Calls(), "cc");
}

HK_FRESH_TEST(Huge, ASuperslabOfABlocksAddressesIsForbidden) {
  LearnFromWhatGoesBack();
  KnowThatBlocksAreDense(4 * HK_MIB);
  RetainEverything();
  MustFree(Alloc(4 * HK_MIB));
  ASSERT_EQ(Calls(), "a");
  hk_slab_t *first = hk_superslab_acquire(1, 1, hk_from_bottom);
  EXPECT_EQ(Calls(), "af");
  EXPECT_EQ(LastCall(fake_os_huge_forbid)->start, StartOf(first));
  EXPECT_EQ(LastCall(fake_os_huge_forbid)->bytes, HK_SUPERSLAB_BYTES);
}

// ---- Giving back.

HK_FRESH_TEST(Huge, WhatIsWholeGoesBeforeAPartOfAHugePage) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  RetainEverything();
  hk_slab_t *old = Fill();
  GrowOld();
  ASSERT_EQ(Calls(), "c");
  hk_slab_t *other = Fill();
  char *block = Alloc(4 * HK_MIB);
  Release(old, 2); /* idle for longest */
  Release(other, kAll);
  MustFree(block);
  size_t before = fake_os_log_length();
  EXPECT_EQ(hk_purge_down_to(2 * HK_SLAB_BYTES), 6 * HK_MIB);
  EXPECT_EQ(fake_os_log_length(), before + 2) << "two unmapped, nothing purged";
  EXPECT_EQ(hk_superslab_usage().dirty_bytes, 2 * HK_SLAB_BYTES);
  EXPECT_EQ(hk_purge_down_to(0), 2 * HK_SLAB_BYTES) << "it goes when nothing else is left";
}

HK_FRESH_TEST(Huge, WhatIsNotHugeGoesByAge) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  RetainEverything();
  hk_slab_t *old = Fill();
  hk_slab_t *other = Fill();
  Release(old, 2);
  Release(other, kAll);
  EXPECT_EQ(hk_purge_down_to(HK_SUPERSLAB_BYTES), 2 * HK_SLAB_BYTES);
  EXPECT_EQ(LastCall(fake_os_purge)->start, hk_slab_start(old));
}

// ---- Others at the same time.

hk_slab_t *vanishing;
void GiveBackWhatIsBeingMade() {
  fake_os_set_hook(fake_os_huge_collapse, nullptr);
  Release(vanishing, 1);
  (void)hk_purge_down_to(0);
  ASSERT_EQ(hk_superslab_acquire(1, 1, hk_from_bottom), vanishing);
}

HK_FRESH_TEST(Huge, WhatIsTakenApartWhileItIsMadeIsNotBelievedToBeHuge) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  vanishing = Fill();
  fake_os_set_hook(fake_os_huge_collapse, GiveBackWhatIsBeingMade);
  GrowOld();
  EXPECT_EQ(Calls(), "c");
  EXPECT_FALSE(vanishing->superslab->is_huge);
}

HK_FRESH_TEST(Huge, AChildOfForkGoesOn) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  (void)Fill();
  Pass(HK_HUGE_LOOK_MS);
  Visit();
  EXPECT_EQ(hk_test::InChild([] {
              hk_superslab_index_repair();
              hk_large_repair();
              Pass(kAgeMs + 1);
              Visit();
              return Calls() == "c" ? 0 : 1;
            }),
            0);
}

}  // namespace
