// policy/prefault_policy: which sizes of large blocks are made resident before the program fills them.
#include "policy/prefault_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

class PrefaultPolicy : public ::testing::Test {
 protected:
  hk_prefault_advice_t Wish(size_t bytes, size_t limit_bytes = 0) {
    return hk_prefault_policy_advise(&fill_, bytes, limit_bytes);
  }
  void Note(size_t bytes, bool was_filled, unsigned times = 1) {
    for (unsigned i = 0; i < times; i++) hk_prefault_policy_note(&fill_, bytes, was_filled);
  }
  hk_prefault_policy_t fill_ = {};
};

TEST_F(PrefaultPolicy, ASizeOfWhichNothingIsKnownIsLookedAt) {
  for (size_t bytes = HK_PREFAULT_MIN_BYTES; bytes <= HK_PREFAULT_MAX_BYTES; bytes *= 2) {
    EXPECT_EQ(Wish(bytes), hk_prefault_sample);
    Note(bytes, true, HK_PREFAULT_ENOUGH - 1);
    EXPECT_EQ(Wish(bytes), hk_prefault_sample) << "one says little";
  }
}

TEST_F(PrefaultPolicy, AsManyAreMadeResidentAsWereFilledAndThenOneHasToTell) {
  Note(HK_MIB, true, HK_PREFAULT_ENOUGH - 1);
  for (unsigned filled = HK_PREFAULT_ENOUGH; filled < 3 * HK_PREFAULT_MAX; filled++) {
    Note(HK_MIB, true);
    for (unsigned i = 0; i < std::min<unsigned>(filled, HK_PREFAULT_MAX); i++)
      ASSERT_EQ(Wish(HK_MIB), hk_prefault_whole);
    for (unsigned i = 0; i < 100; i++) ASSERT_EQ(Wish(HK_MIB), hk_prefault_sample);
  }
}

TEST_F(PrefaultPolicy, OfLargeOnesNoMoreBytesThanAllowed) {
  for (size_t most = 8 * HK_MIB; most <= HK_PREFAULT_MAX_BYTES; most *= 2) {
    Note(most, true, HK_PREFAULT_MAX);
    for (size_t i = 0; i < HK_PREFAULT_AHEAD_BYTES / most; i++) ASSERT_EQ(Wish(most / 2 + 1), hk_prefault_whole);
    EXPECT_EQ(Wish(most / 2 + 1), hk_prefault_sample);
  }
}

TEST_F(PrefaultPolicy, WhereMemoryHasALimitNoneOfMoreThanAPartOfIt) {
  for (size_t bytes : {HK_PREFAULT_MIN_BYTES, 4 * HK_MIB, HK_PREFAULT_MAX_BYTES}) {
    Note(bytes, true, HK_PREFAULT_ENOUGH);
    EXPECT_EQ(Wish(bytes, bytes * HK_PREFAULT_LIMIT_SHARE - 1), hk_prefault_leave);
    EXPECT_EQ(Wish(bytes, bytes * HK_PREFAULT_LIMIT_SHARE), hk_prefault_whole);
  }
}

TEST_F(PrefaultPolicy, OneThatWasNotFilledEndsIt) {
  Note(HK_MIB, true, 1000);
  Note(HK_MIB, false);
  Note(HK_MIB, true, HK_PREFAULT_ENOUGH - 1);
  EXPECT_EQ(Wish(HK_MIB), hk_prefault_sample);
  Note(HK_MIB, true);
  EXPECT_EQ(Wish(HK_MIB), hk_prefault_whole);
}

// From above a power of two up to the next one.
TEST_F(PrefaultPolicy, OneDoublingOfSizesSaysNothingOfTheNext) {
  for (size_t most = 64 * HK_KIB; most <= HK_PREFAULT_MAX_BYTES; most *= 2) {
    for (size_t bytes = 64 * HK_KIB; bytes <= HK_PREFAULT_MAX_BYTES; bytes *= 2) {
      for (size_t of_this : {bytes, bytes / 2 + 1}) {
        fill_ = {};
        Note(most, true, HK_PREFAULT_ENOUGH);
        EXPECT_EQ(Wish(of_this), bytes == most ? hk_prefault_whole : hk_prefault_sample);
      }
    }
  }
}

TEST_F(PrefaultPolicy, SmallerAndLargerOnesAreLeftAlone) {
  for (size_t bytes : {size_t{0}, size_t{1}, HK_PREFAULT_MIN_BYTES - 1, HK_PREFAULT_MAX_BYTES + 1, SIZE_MAX})
    EXPECT_EQ(Wish(bytes), hk_prefault_leave);
}

}  // namespace
