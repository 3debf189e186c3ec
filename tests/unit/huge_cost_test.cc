// space/huge: the advice where a huge page costs much CPU to make.
#include "fake_os.h"
#include "fresh_test.h"
#include "unit/huge_driver.h"

using namespace hk_test;

namespace {

HK_FRESH_TEST(HugeCost, ABlockIsTriedAtItsFirstWholePage) {
  LearnFromWhatGoesBack();
  KnowThatBlocksAreDense(4 * HK_MIB);
  char *block = Alloc(5 * HK_MIB);
  EXPECT_EQ(Calls(), "a");
  EXPECT_EQ(fake_os_huge_touched(), hk_align_up(AddressOf(block), HK_SUPERSLAB_BYTES));
  EXPECT_EQ(Count(hk_stat_huge_dear), 0u);
}

HK_FRESH_TEST(HugeCost, OfALargeBlockSeveralAreTriedAndTheLastPartIsNot) {
  LearnFromWhatGoesBack();
  KnowThatBlocksAreDense(64 * HK_MIB);
  fake_os_set_huge_fault(HK_THP_FAULT_NS);
  char *block = Alloc(16 * HK_MIB);
  EXPECT_EQ(fake_os_huge_touches(), 7u);
  EXPECT_EQ(fake_os_huge_touched(), hk_align_up(AddressOf(block), HK_SUPERSLAB_BYTES) + 6 * HK_SUPERSLAB_BYTES);
  (void)Alloc(256 * HK_MIB);
  EXPECT_EQ(fake_os_huge_touches(), 7u + HK_THP_TRIES_MAX);
}

HK_FRESH_TEST(HugeCost, ADearOneEndsTheTries) {
  LearnFromWhatGoesBack();
  KnowThatBlocksAreDense(64 * HK_MIB);
  fake_os_set_huge_fault(HK_THP_FAULT_NS);
  fake_os_set_later_huge_fault(3, HK_THP_DEAR_NS + 1);
  char *block = Alloc(64 * HK_MIB);
  EXPECT_EQ(fake_os_huge_touches(), 4u);
  EXPECT_EQ(Calls(), "af") << "the rest of it";
  EXPECT_EQ(LastCall(fake_os_huge_forbid)->start, AddressOf(block));
  EXPECT_EQ(Count(hk_stat_huge_dear), 1u);
}

HK_FRESH_TEST(HugeCost, WhereTheyAreDearTheyAreTriedNowAndThen) {
  LearnFromWhatGoesBack();
  KnowThatBlocksAreDense(4 * HK_MIB);
  fake_os_set_huge_fault(HK_THP_DEAR_NS + 1);
  char *dear = Alloc(4 * HK_MIB);
  EXPECT_EQ(Calls(), "af") << "the rest of it";
  EXPECT_EQ(LastCall(fake_os_huge_forbid)->start, AddressOf(dear));
  EXPECT_EQ(LastCall(fake_os_huge_forbid)->bytes, 4 * HK_MIB);
  Pass(HK_THP_PAUSE_MIN_MS - 1);
  (void)Alloc(4 * HK_MIB);
  EXPECT_EQ(Calls(), "af") << "not yet";
  Pass(1);
  (void)Alloc(4 * HK_MIB);
  EXPECT_EQ(Calls(), "afaf");
  Pass(HK_THP_PAUSE_MIN_MS);
  (void)Alloc(4 * HK_MIB);
  EXPECT_EQ(Calls(), "afaf") << "twice as long";
  EXPECT_EQ(Count(hk_stat_huge_dear), 2u);

  fake_os_set_huge_fault(HK_THP_FAULT_NS);
  Pass(HK_THP_PAUSE_MIN_MS);
  (void)Alloc(4 * HK_MIB);
  (void)Alloc(4 * HK_MIB);
  EXPECT_EQ(Calls(), "afafaa");
  EXPECT_EQ(Count(hk_stat_huge_dear), 2u);
}

HK_FRESH_TEST(HugeCost, AlwaysPaysWhatTheyCost) {
  Set(hk_huge_pages_always, hk_os_huge_on_request);
  fake_os_set_huge_fault(HK_THP_DEAR_NS + 1);
  for (int i = 0; i < 3; i++) (void)Alloc(4 * HK_MIB);
  (void)Fill(false);
  EXPECT_EQ(Calls(), "aaaa");
  EXPECT_EQ(fake_os_huge_touched(), 0u);
}

HK_FRESH_TEST(HugeCost, AProgramThatGrowsDoesNotWhereTheyAreDear) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  fake_os_set_huge_fault(HK_THP_DEAR_NS + 1);
  unsigned unasked = UnaskedAt(HK_PRICE_LEAN);
  EXPECT_EQ(Calls(), "a");
  const hk_superslab_t *asked = hk_slab_of(reinterpret_cast<void *>(fake_os_huge_touched()))->superslab;
  EXPECT_TRUE(asked->is_huge && asked->is_allowed) << "that one is one";
  for (unsigned i = 0; i < unasked; i++) (void)Fill();
  EXPECT_EQ(Calls(), "a");
}

HK_FRESH_TEST(HugeCost, NoSuperslabIsMadeHugeWhereTheyAreDear) {
  LearnFromWhatGoesBack();
  KnowThatBlocksAreDense(4 * HK_MIB);
  fake_os_set_huge_fault(HK_THP_DEAR_NS + 1);
  for (uint64_t ms = HK_THP_PAUSE_MIN_MS; ms < HK_THP_PAUSE_MAX_MS; ms *= 2) {
    (void)Alloc(4 * HK_MIB);
    Pass(ms);
  }
  (void)Alloc(4 * HK_MIB);
  size_t before = fake_os_log_length();
  (void)Fill();
  GrowOld();
  GrowOld();
  EXPECT_EQ(Calls(before), "");
  Pass(HK_THP_PAUSE_MAX_MS);
  GrowOld();
  EXPECT_EQ(Calls(before), "c");
}

HK_FRESH_TEST(HugeCost, WhereMakingOneOfWhatIsThereIsDearASuperslabHasToBeOlder) {
  Set(hk_huge_pages_auto, hk_os_huge_on_request);
  fake_os_set_huge_collapse(7 * HK_THP_COLLAPSE_NS);
  (void)Fill();
  GrowOld();
  EXPECT_EQ(Calls(), "c") << "the cost was unknown";
  (void)Fill();
  GrowOld();
  EXPECT_EQ(Calls(), "c");
  Pass(2 * kAgeMs);
  Visit();
  EXPECT_EQ(Calls(), "cc");
  fake_os_set_huge_collapse(0);
  for (int i = 0; i < 8; i++) {
    (void)Fill();
    GrowOld();
    Pass(8 * kAgeMs);
    Visit();
  }
  size_t before = fake_os_log_length();
  (void)Fill();
  GrowOld();
  EXPECT_EQ(Calls(before), "c") << "as soon as ever";
}

}  // namespace
