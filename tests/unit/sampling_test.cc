// policy/sampling: the chances, the distances and the weights, against the C library's mathematics.
#include "policy/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace {

constexpr uint64_t kRate = 512 * 1024;

TEST(Sampling, TheChanceIsThatOfOnePointAtLeast) {
  for (uint64_t rate : {uint64_t{1}, uint64_t{4096}, kRate, uint64_t{1} << 32}) {
    for (uint64_t bytes = 1; bytes < uint64_t{1} << 40; bytes += 1 + bytes / 3) {
      double exact = -std::expm1(-static_cast<double>(bytes) / static_cast<double>(rate));
      ASSERT_NEAR(hk_sampling_chance(bytes, rate) / exact, 1, 1e-9) << bytes << " at " << rate;
    }
  }
}

TEST(Sampling, TheWeightIsTheChanceUpsideDown) {
  EXPECT_EQ(hk_sampling_weight(100 * kRate, kRate), 65536u);
  for (uint64_t bytes : {16u, 1024u, 65536u, 524288u, 2097152u}) {
    double exact = 65536 / -std::expm1(-static_cast<double>(bytes) / kRate);
    EXPECT_NEAR(static_cast<double>(hk_sampling_weight(bytes, kRate)), exact, 0.501 + exact * 1e-9) << bytes;
  }
}

TEST(Sampling, ADistanceIsTheLogarithmOfItsNumber) {
  uint64_t state = 1;
  constexpr uint64_t kFine = uint64_t{1} << 32;
  for (int i = 0; i < 100000; i++) {
    uint64_t random = hk_random(&state) >> i % 64;
    double exact = -std::log(std::max(static_cast<double>(random), 1.0) / 0x1p64) * kFine;
    ASSERT_NEAR(static_cast<double>(hk_sampling_distance(random, kFine)), exact, 2 + exact * 1e-8) << random;
  }
  EXPECT_EQ(hk_sampling_distance(UINT64_MAX, kRate), 0u);
  EXPECT_LT(hk_sampling_distance(0, kRate), 45 * kRate);
}

// The largest gap between the distances' distribution and the exponential one. Beyond 2.7 / sqrt(n) it is once in a
// million (Kolmogorov's distribution).
TEST(Sampling, DistancesAreExponential) {
  constexpr size_t kCount = 200000;
  uint64_t state = 2;
  std::vector<double> distances(kCount);
  for (double &distance : distances) {
    distance = static_cast<double>(hk_sampling_distance(hk_random(&state), kRate));
  }
  std::sort(distances.begin(), distances.end());
  double gap = 0;
  for (size_t i = 0; i < kCount; i++) {
    double expected = -std::expm1(-distances[i] / kRate);
    gap = std::max(gap, std::fabs(expected - static_cast<double>(i) / kCount));
  }
  EXPECT_LT(gap, 2.7 / std::sqrt(kCount));
}

// ---- The pace. A program allocates so fast that at shift 0 it would meet `points_a_ms` in a millisecond.

struct Course {
  hk_sampling_pace_t pace{};
  double now_ms = 1000;
  uint64_t points = 0;

  void Run(double points_a_ms, double for_ms) {
    for (double end_ms = now_ms + for_ms; now_ms < end_ms; points++) {
      hk_sampling_keep_pace(&pace, static_cast<uint64_t>(now_ms) / 4 * 4);  // as a coarse clock goes
      now_ms += (1 << pace.shift) / points_a_ms;
    }
  }
};

constexpr double kPace = static_cast<double>(HK_SAMPLING_PACE_POINTS) / HK_SAMPLING_PACE_MS;
constexpr double kAtOnce = kPace * HK_SAMPLING_PACE_SAVED_MS;

TEST(SamplingPace, AFastProgramHasNoMorePointsThanItsPace) {
  for (double points_a_ms : {10.0, 20.0, 100.0, 300.0}) {
    Course course;
    course.Run(points_a_ms, 10000);
    EXPECT_LE(static_cast<double>(course.points), kPace * 10000 + 2 * kAtOnce) << points_a_ms;
    EXPECT_GE(static_cast<double>(course.points), kPace * 10000 / 4)
        << points_a_ms << ", and few are not enough either";
  }
}

TEST(SamplingPace, ASlowProgramHasThemAll) {
  for (double points_a_ms : {0.01, 1.0, 7.0}) {
    Course course;
    course.Run(points_a_ms, 10000);
    EXPECT_EQ(course.pace.shift, 0) << points_a_ms;
  }
}

TEST(SamplingPace, WhatWasSavedMayBeSpentAtOnce) {
  Course course;
  course.Run(100, (kAtOnce - HK_SAMPLING_PACE_POINTS) / 100);
  EXPECT_EQ(course.pace.shift, 0) << "at the start";
  course.Run(100, 1000);
  EXPECT_GT(course.pace.shift, 0);
  course.Run(0.5, 2000);
  EXPECT_EQ(course.pace.shift, 0) << "a second is enough to forget it";
  course.Run(100, (kAtOnce - 2 * HK_SAMPLING_PACE_POINTS) / 100);
  EXPECT_EQ(course.pace.shift, 0);
}

TEST(SamplingPace, HasAnEnd) {
  Course course;
  course.Run(1e6, 100);
  EXPECT_EQ(course.pace.shift, HK_SAMPLING_SHIFT_MAX);
}

// As where the system refuses to tell the time.
TEST(SamplingPace, AClockThatGoesBackIsNoTime) {
  hk_sampling_pace_t pace{};
  while (pace.shift < 3) hk_sampling_keep_pace(&pace, 5000);
  for (unsigned i = 0; i < 10 * HK_SAMPLING_PACE_POINTS; i++) {
    hk_sampling_keep_pace(&pace, 0);
    ASSERT_GE(pace.shift, 3);
  }
}

TEST(Sampling, BeginsAndEndsOnce) {
  uint64_t before = hk_load_relaxed(&hk_sampling_state);
  EXPECT_FALSE(hk_sampling_is_on());
  EXPECT_FALSE(hk_sampling_end());
  EXPECT_TRUE(hk_sampling_begin(kRate));
  EXPECT_TRUE(hk_sampling_is_on());
  EXPECT_FALSE(hk_sampling_begin(1));
  EXPECT_EQ(hk_sampling_rate_of(hk_load_relaxed(&hk_sampling_state)), kRate);
  EXPECT_TRUE(hk_sampling_end());
  EXPECT_FALSE(hk_sampling_is_on());
  EXPECT_NE(hk_load_relaxed(&hk_sampling_state), before) << "an onlooker sees now and then that something has been";
  EXPECT_TRUE(hk_sampling_begin(HK_SAMPLING_RATE_MAX));
  EXPECT_EQ(hk_sampling_rate_of(hk_load_relaxed(&hk_sampling_state)), HK_SAMPLING_RATE_MAX);
  EXPECT_TRUE(hk_sampling_end());
}

TEST(Sampling, APurposeHasItsOwnChanceWhateverTheOtherIs) {
  struct Case {
    uint64_t bytes, rate, guard_rate;
  };
  for (const Case &test : {Case{64, 0, 1}, Case{64, 0, 7}, Case{64, 256, 5}, Case{64, 256, 1}, Case{4096, 1024, 50},
                           Case{16, 4096, 1000}, Case{64, 64, 2}}) {
    hk_sampling_points_t points = hk_sampling_points(test.bytes, test.rate, test.guard_rate);
    uint64_t random = 42;
    constexpr uint64_t kBlocks = 4000000;
    double samples = 0, guarded = 0, both = 0;
    for (uint64_t at = hk_sampling_blocks_before(hk_random(&random), points); at < kBlocks;) {
      hk_sampling_purpose_t purpose = hk_sampling_purpose(&random, points);
      ASSERT_TRUE(purpose.is_sample || purpose.is_guarded);
      samples += purpose.is_sample;
      guarded += purpose.is_guarded;
      both += purpose.is_sample && purpose.is_guarded;
      at += 1 + hk_sampling_blocks_before(hk_random(&random), points);
    }
    double sample_chance = test.rate != 0 ? hk_sampling_chance(test.bytes, test.rate) : 0;
    double guard_chance = 1.0 / static_cast<double>(test.guard_rate);
    auto expect = [&](double count, double chance) {
      double mean = chance * kBlocks, deviation = std::sqrt(mean * (1 - chance)) + 1e-9;
      EXPECT_NEAR(count, mean, 5 * deviation + 0.5) << test.bytes << " " << test.rate << " " << test.guard_rate;
    };
    expect(samples, sample_chance);
    expect(guarded, guard_chance);
    expect(both, sample_chance * guard_chance);
  }
}

TEST(Sampling, GuardsAndTheProfileBeginAndEndByThemselves) {
  hk_sampling_set_guard_rate(5);
  uint64_t guarded = hk_load_relaxed(&hk_sampling_state);
  EXPECT_TRUE(hk_sampling_is_on());
  EXPECT_EQ(hk_sampling_rate_of(guarded), 0u);
  EXPECT_FALSE(hk_sampling_end()) << "no profile runs";
  EXPECT_TRUE(hk_sampling_begin(kRate));
  EXPECT_EQ(hk_sampling_rate_of(hk_load_relaxed(&hk_sampling_state)), kRate);
  EXPECT_NE(hk_load_relaxed(&hk_sampling_state) & HK_SAMPLING_GUARD_BIT, 0u);
  hk_sampling_set_guard_rate(0);
  EXPECT_TRUE(hk_sampling_is_on());
  EXPECT_EQ(hk_sampling_rate_of(hk_load_relaxed(&hk_sampling_state)), kRate);
  EXPECT_TRUE(hk_sampling_end());
  EXPECT_FALSE(hk_sampling_is_on());
}

}  // namespace
