// The sampler's estimates over the fake OS, whose secret gives the same random numbers each time. Each expected count
// of samples n has the standard deviation sqrt(n) at most: five and a half of them are exceeded less than once in ten
// million.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "fresh_test.h"
#include "hakmem/hakmem.h"
#include "scale.h"
#include "unit/profile_driver.h"

using namespace hk_test;

namespace {

constexpr double kDeviations = 5.5;

// As good as the default, and each sample is taken however often they come.
constexpr size_t kEachRate = kRate - 1;

// What the live blocks of one size are estimated to have.
struct Estimate {
  size_t requested;
  double bytes;
};

double EstimateLive(size_t requested) {
  Estimate estimate = {requested, 0};
  hk_sample_visit(
      [](const hk_sample_t *sample, void *context) {
        auto *sum = static_cast<Estimate *>(context);
        if (sample->weight.requested_bytes != sum->requested) return;
        sum->bytes +=
            static_cast<double>(sample->weight.block_bytes) * static_cast<double>(sample->weight.weight_q16) / 65536;
      },
      &estimate);
  return estimate.bytes;
}

double Chance(size_t size) { return hk_sampling_chance(hakmem_good_size(size), kEachRate); }

// The relative bound for the mean over `blocks` blocks: the deviation of one is sqrt((1 - p) / p).
double BoundFor(size_t size, double blocks) {
  double chance = Chance(size);
  return kDeviations * std::sqrt((1 - chance) / (chance * blocks)) + 1e-4;
}

HK_FRESH_TEST(ProfileEstimate, LiveBytesAreEstimatedWithoutBias) {
  constexpr size_t kSites[] = {16, 90, 400, 1000, 2000, 9000, 32000, 100000, 700000, 10 * HK_MIB};
  const size_t bytes = hk_test::Scaled(76 * HK_MIB, 2 * HK_MIB);
  constexpr int kRuns = 20;
  double error_sum = 0, bound_square_sum = 0;
  for (size_t size : kSites) {
    size_t good = hakmem_good_size(size);
    size_t count = std::max<size_t>(bytes / good, 3);
    double estimate = 0;
    for (int run = 0; run < kRuns; run++) {
      ASSERT_TRUE(hakmem_profile_start(kEachRate));
      void *last = nullptr;
      for (size_t i = 0; i < count; i++) {
        void **block = static_cast<void **>(hakmem_malloc(size));
        *block = last;
        last = block;
      }
      estimate += EstimateLive(size);
      while (last != nullptr) {
        void *block = last;
        last = *static_cast<void **>(last);
        hakmem_free(block);
      }
      ASSERT_EQ(LiveSamples(), 0u);
      ASSERT_TRUE(hakmem_profile_stop());
    }
    double error = estimate / (static_cast<double>(count * good) * kRuns) - 1;
    double bound = BoundFor(size, static_cast<double>(count) * kRuns);
    EXPECT_LE(std::fabs(error), bound) << size;
    if (hk_test::Scale() >= 1) EXPECT_LE(bound, 0.11) << "the test would notice one of 10%";
    error_sum += error;
    bound_square_sum += bound * bound;
    if (std::getenv("HAKMEM_TEST_VERBOSE") != nullptr) std::printf("%zu: %+.4f of %.4f\n", size, error, bound);
  }
  EXPECT_LE(std::fabs(error_sum), std::sqrt(bound_square_sum)) << "the mean of all";
  if (std::getenv("HAKMEM_TEST_VERBOSE") != nullptr) std::printf("mean: %+.4f\n", error_sum / std::size(kSites));
}

// One block that is freed and handed out again and again, with others beside it.
HK_FRESH_TEST(ProfileEstimate, OneBlockThatIsReusedCountsEachTime) {
  for (size_t held : {0u, 3u, 200u}) {
    for (size_t size : {16u, 64u, 1000u, 2000u, 30000u, 100000u, 2097152u}) {
      if (size > 100000 && held > 3) continue;
      std::vector<void *> others;
      while (others.size() < held) others.push_back(hakmem_malloc(size));
      size_t good = hakmem_good_size(size);
      size_t count = hk_test::Scaled(2000 * kRate / good, 1000);
      ASSERT_TRUE(hakmem_profile_start(kEachRate));
      for (size_t i = 0; i < count; i++) hakmem_free(hakmem_malloc(size));
      ASSERT_TRUE(hakmem_profile_stop());
      double estimate = static_cast<double>(EstimatedBytes());
      double error = estimate / static_cast<double>(count * good) - 1;
      EXPECT_LE(std::fabs(error), BoundFor(size, static_cast<double>(count))) << size << ", " << held << " held";
      if (std::getenv("HAKMEM_TEST_VERBOSE") != nullptr) std::printf("%zu beside %zu: %+.4f\n", size, held, error);
      for (void *block : others) hakmem_free(block);
    }
  }
}

// The fake clock stands still: after what a thread may spend at once, points lie as far apart as they ever do.
HK_FRESH_TEST(ProfileEstimate, AtAPaceThereAreFewerSamplesThatStandForMore) {
  for (size_t held : {0u, 3u}) {
    for (size_t size : {1000u, 30000u}) {
      std::vector<void *> others;
      while (others.size() < held) others.push_back(hakmem_malloc(size));
      size_t good = hakmem_good_size(size);
      size_t count = hk_test::Scaled(64000 * kRate / good, 1000);
      uint64_t before = hk_profile_sums().samples;
      ASSERT_TRUE(hakmem_profile_start(kRate));
      for (size_t i = 0; i < count; i++) hakmem_free(hakmem_malloc(size));
      ASSERT_TRUE(hakmem_profile_stop());
      double estimate = static_cast<double>(EstimatedBytes());
      double error = estimate / static_cast<double>(count * good) - 1;
      double rarest = static_cast<double>(count) / (1 << HK_SAMPLING_SHIFT_MAX);
      EXPECT_LE(std::fabs(error), BoundFor(size, rarest)) << size << ", " << held << " held";
      double each = Chance(size) * static_cast<double>(count);
      double samples = static_cast<double>(hk_profile_sums().samples - before);
      if (hk_test::Scale() >= 1) EXPECT_LT(samples, each / 8) << size << ", " << held << " held";
      for (void *block : others) hakmem_free(block);
    }
  }
}

// The same at each point, but now and then one is kept, so that lists run out a few times between two samples.
HK_FRESH_TEST(ProfileEstimate, ReuseCountsWhileListsRunOut) {
  for (size_t size : {64u, 1000u, 3000u}) {
    size_t count = hk_test::Scaled(3000 * kRate / hakmem_good_size(size), 1000);
    std::vector<void *> kept;
    ASSERT_TRUE(hakmem_profile_start(kEachRate));
    for (size_t i = 0; i < count; i++) {
      void *block = hakmem_malloc(size);
      if (i % 60 != 0) {
        hakmem_free(block);
        continue;
      }
      kept.push_back(block);
      if (kept.size() < 10000) continue;
      for (void *old : kept) hakmem_free(old);
      kept.clear();
    }
    ASSERT_TRUE(hakmem_profile_stop());
    for (void *old : kept) hakmem_free(old);
    double estimate = static_cast<double>(EstimatedBytes());
    double error = estimate / static_cast<double>(count * hakmem_good_size(size)) - 1;
    EXPECT_LE(std::fabs(error), BoundFor(size, static_cast<double>(count))) << size;
    if (std::getenv("HAKMEM_TEST_VERBOSE") != nullptr) std::printf("%zu, some kept: %+.4f\n", size, error);
  }
}

// Large blocks that change their size where they are.
HK_FRESH_TEST(ProfileEstimate, BlocksThatGrowCountAsWhatTheyAre) {
  const size_t count = hk_test::Scaled(4000, 200);
  for (auto [from, to] :
       {std::pair<size_t, size_t>{70000, 900000}, {900000, 70000}, {1500000, 2500000}, {2500000, 1200000}}) {
    double estimate = 0;
    ASSERT_TRUE(hakmem_profile_start(kEachRate));
    for (size_t i = 0; i < count; i++) {
      void *block = hakmem_realloc(hakmem_malloc(from), to);
      estimate += EstimateLive(to);
      hakmem_free(block);
    }
    ASSERT_TRUE(hakmem_profile_stop());
    double error = estimate / static_cast<double>(count * hakmem_good_size(to)) - 1;
    EXPECT_LE(std::fabs(error), BoundFor(to, static_cast<double>(count))) << from << " to " << to;
  }
}

}  // namespace
