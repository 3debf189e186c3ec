// policy/decay: a candidate that owes little has much, shares add up to all, and nothing overflows.
#include "policy/decay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "scale.h"
#include "test_random.h"

using namespace hk_test;

namespace {

using Owed = std::array<uint64_t, HK_PRICE_CANDIDATES>;

class Decay : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(hk_price_init(&price_, HK_PRICE_BALANCED)); }

  void Divide(const Owed &owed, uint64_t stake) { hk_decay_by_all(&decay_, &price_, owed.data(), stake); }

  // A candidate's own part of all, of HK_DECAY_WHOLE.
  uint32_t Share(unsigned candidate) const {
    for (unsigned i = 0; i < decay_.count; i++) {
      if (decay_.step[i].until_ms != price_.timeout_ms[candidate]) continue;
      return decay_.step[i].kept_q16 - (i + 1 < decay_.count ? decay_.step[i + 1].kept_q16 : 0);
    }
    return 0;
  }

  hk_price_t price_;
  hk_decay_t decay_;
};

TEST_F(Decay, OneTimeoutIsOneStep) {
  hk_decay_by_one(&decay_, 1800);
  ASSERT_EQ(decay_.count, 1u);
  EXPECT_EQ(decay_.step[0].until_ms, 1800u);
  EXPECT_EQ(decay_.step[0].kept_q16, HK_DECAY_WHOLE);
}

TEST_F(Decay, BeforeAnythingIsKnownNoUsualTimeoutIsMoreLikely) {
  Divide(Owed{}, 0);
  EXPECT_EQ(decay_.step[0].kept_q16, HK_DECAY_WHOLE);
  for (unsigned i = 1; i <= HK_PRICE_BREAK_EVEN + 1; i++) EXPECT_NEAR(Share(i), Share(0), 2) << i;
  for (unsigned i = HK_PRICE_BREAK_EVEN + 2; i < HK_PRICE_CANDIDATES; i++) {
    EXPECT_LT(Share(i), Share(0) / 8) << i;
    EXPECT_GT(Share(i), 0u) << i;
  }
}

TEST_F(Decay, WhereMemoryIsCheapItBeginsAroundTheBreakEvenTimeout) {
  ASSERT_TRUE(hk_price_init(&price_, HK_PRICE_BALANCED - 1));
  Divide(Owed{}, 0);
  EXPECT_GT(Share(HK_PRICE_BREAK_EVEN) + Share(HK_PRICE_BREAK_EVEN + 1), HK_DECAY_WHOLE * 3 / 4);
}

TEST_F(Decay, OneThatOwesAStakeMoreHasAQuarter) {
  Owed owed{};
  owed[3] = 1000;
  Divide(owed, 1000);
  EXPECT_NEAR(Share(3), Share(2) / 4, 2);
  Divide(owed, 2000);
  EXPECT_NEAR(Share(3), Share(2) / 2, 2);
  for (uint64_t &each : owed) each += 123'456;
  Divide(owed, 2000);
  EXPECT_NEAR(Share(3), Share(2) / 2, 2) << "what all owe is no difference";
}

TEST_F(Decay, OneThatOwesFarMoreHasNone) {
  Owed owed;
  owed.fill(100'000);
  owed[5] = 10'000;
  Divide(owed, 10'000);
  ASSERT_EQ(decay_.count, 1u);
  EXPECT_EQ(decay_.step[0].until_ms, price_.timeout_ms[5]);
  EXPECT_EQ(decay_.step[0].kept_q16, HK_DECAY_WHOLE);
}

// Also one that begins with little.
TEST_F(Decay, TheBestByFarHasAll) {
  for (unsigned best = 0; best < HK_PRICE_CANDIDATES; best++) {
    Owed owed;
    owed.fill(UINT64_MAX);
    owed[best] = 0;
    Divide(owed, 1);
    ASSERT_EQ(decay_.count, 1u) << best;
    EXPECT_EQ(decay_.step[0].until_ms, price_.timeout_ms[best]);
  }
}

TEST_F(Decay, LessOwedIsNeverASmallerShareAndStepsFall) {
  TestRandom random(SeedFor("shares"));
  for (size_t round = 0; round < Scaled(20000, 200); round++) {
    Owed owed;
    uint64_t most = random.LogBetween(1, UINT64_MAX);
    for (uint64_t &each : owed) each = random.LogBetween(0, most);
    Divide(owed, random.OneIn(10) ? 0 : random.LogBetween(1, most));
    ASSERT_GE(decay_.count, 1u);
    ASSERT_LE(decay_.count, HK_PRICE_CANDIDATES);
    ASSERT_EQ(decay_.step[0].kept_q16, HK_DECAY_WHOLE);
    for (unsigned i = 1; i < decay_.count; i++) {
      ASSERT_GT(decay_.step[i].until_ms, decay_.step[i - 1].until_ms);
      ASSERT_LE(decay_.step[i].kept_q16, decay_.step[i - 1].kept_q16);
    }
    for (unsigned i = 0; i < HK_PRICE_BREAK_EVEN; i++) {
      if (owed[i] < owed[i + 1]) ASSERT_GE(Share(i) + 2, Share(i + 1));
    }
  }
}

}  // namespace
