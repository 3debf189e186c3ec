// policy/fill: which sizes of large blocks are made resident before the program fills them.
#include "policy/fill.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

class Fill : public ::testing::Test {
 protected:
  hk_fill_wish_t Wish(size_t bytes, size_t limit_bytes = 0) { return hk_fill_wish(&fill_, bytes, limit_bytes); }
  void Note(size_t bytes, bool was_filled, unsigned times = 1) {
    for (unsigned i = 0; i < times; i++) hk_fill_note(&fill_, bytes, was_filled);
  }
  hk_fill_t fill_ = {};
};

TEST_F(Fill, ASizeOfWhichNothingIsKnownIsLookedAt) {
  for (size_t bytes = HK_FILL_LEAST_BYTES; bytes <= HK_FILL_MOST_BYTES; bytes *= 2) {
    EXPECT_EQ(Wish(bytes), hk_fill_sample);
    Note(bytes, true, HK_FILL_ENOUGH - 1);
    EXPECT_EQ(Wish(bytes), hk_fill_sample) << "one says little";
  }
}

TEST_F(Fill, AsManyAreMadeResidentAsWereFilledAndThenOneHasToTell) {
  Note(HK_MIB, true, HK_FILL_ENOUGH - 1);
  for (unsigned filled = HK_FILL_ENOUGH; filled < 3 * HK_FILL_MOST; filled++) {
    Note(HK_MIB, true);
    for (unsigned i = 0; i < std::min<unsigned>(filled, HK_FILL_MOST); i++) ASSERT_EQ(Wish(HK_MIB), hk_fill_prefault);
    for (unsigned i = 0; i < 100; i++) ASSERT_EQ(Wish(HK_MIB), hk_fill_sample);
  }
}

TEST_F(Fill, OfLargeOnesNoMoreBytesThanAllowed) {
  for (size_t most = 8 * HK_MIB; most <= HK_FILL_MOST_BYTES; most *= 2) {
    Note(most, true, HK_FILL_MOST);
    for (size_t i = 0; i < HK_FILL_AHEAD_BYTES / most; i++) ASSERT_EQ(Wish(most / 2 + 1), hk_fill_prefault);
    EXPECT_EQ(Wish(most / 2 + 1), hk_fill_sample);
  }
}

TEST_F(Fill, WhereMemoryHasALimitNoneOfMoreThanAPartOfIt) {
  for (size_t bytes : {HK_FILL_LEAST_BYTES, 4 * HK_MIB, HK_FILL_MOST_BYTES}) {
    Note(bytes, true, HK_FILL_ENOUGH);
    EXPECT_EQ(Wish(bytes, bytes * HK_FILL_LIMIT_SHARE - 1), hk_fill_leave);
    EXPECT_EQ(Wish(bytes, bytes * HK_FILL_LIMIT_SHARE), hk_fill_prefault);
  }
}

TEST_F(Fill, OneThatWasNotFilledEndsIt) {
  Note(HK_MIB, true, 1000);
  Note(HK_MIB, false);
  Note(HK_MIB, true, HK_FILL_ENOUGH - 1);
  EXPECT_EQ(Wish(HK_MIB), hk_fill_sample);
  Note(HK_MIB, true);
  EXPECT_EQ(Wish(HK_MIB), hk_fill_prefault);
}

// From above a power of two up to the next one.
TEST_F(Fill, OneDoublingOfSizesSaysNothingOfTheNext) {
  for (size_t most = 64 * HK_KIB; most <= HK_FILL_MOST_BYTES; most *= 2) {
    for (size_t bytes = 64 * HK_KIB; bytes <= HK_FILL_MOST_BYTES; bytes *= 2) {
      for (size_t of_this : {bytes, bytes / 2 + 1}) {
        fill_ = {};
        Note(most, true, HK_FILL_ENOUGH);
        EXPECT_EQ(Wish(of_this), bytes == most ? hk_fill_prefault : hk_fill_sample);
      }
    }
  }
}

TEST_F(Fill, SmallerAndLargerOnesAreLeftAlone) {
  for (size_t bytes : {size_t{0}, size_t{1}, HK_FILL_LEAST_BYTES - 1, HK_FILL_MOST_BYTES + 1, SIZE_MAX})
    EXPECT_EQ(Wish(bytes), hk_fill_leave);
}

}  // namespace
