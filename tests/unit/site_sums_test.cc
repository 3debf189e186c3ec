// unwind/site_sums: what a site counts by weight, from many threads, since the profile began, and without room for it.
#include "unwind/site_sums.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"

namespace {

hk_site_t *SiteOf(std::vector<uintptr_t> frames) {
  return hk_site_of(frames.data(), static_cast<unsigned>(frames.size()));
}

hk_site_figures_t Allocated(const hk_site_t *site) {
  hk_site_figures_t allocated, in_use;
  hk_site_sums_read(site, &allocated, &in_use);
  return allocated;
}

hk_site_figures_t InUse(const hk_site_t *site) {
  hk_site_figures_t allocated, in_use;
  hk_site_sums_read(site, &allocated, &in_use);
  return in_use;
}

constexpr hk_sample_weight_t kOne = {100, 112, 1 << 16};

HK_FRESH_TEST(SiteSums, CountsByWeight) {
  hk_site_t *site = SiteOf({1});
  hk_sample_weight_t many = {100, 112, (10 << 16) + (1 << 15)};
  hk_site_sums_count_alloc(site, &many);
  hk_site_sums_count_alloc(site, &kOne);
  EXPECT_EQ(Allocated(site).samples, 2u);
  EXPECT_EQ(Allocated(site).objects, 12u) << "11.5, rounded";
  EXPECT_EQ(Allocated(site).requested_bytes, 1150u);
  EXPECT_EQ(Allocated(site).block_bytes, 1288u);
  hk_site_sums_count_free(site, &many, 5);
  EXPECT_EQ(InUse(site).samples, 1u);
  EXPECT_EQ(InUse(site).objects, 1u);
  EXPECT_EQ(InUse(site).requested_bytes, 100u);
  EXPECT_EQ(InUse(site).block_bytes, 112u);
  EXPECT_EQ(Allocated(site).objects, 12u);
  hk_site_sums_count_free(site, &kOne, 5);
  hk_site_sums_count_free(site, &kOne, 5);
  EXPECT_EQ(InUse(site).objects, 0u) << "never less than nothing";
  EXPECT_EQ(InUse(site).requested_bytes, 0u);
}

HK_FRESH_TEST(SiteSums, TheLargestBlockHasAWeightToo) {
  hk_site_t *site = SiteOf({1});
  hk_sample_weight_t large = {uint64_t{1} << 46, uint64_t{1} << 46, 3 << 16};
  hk_site_sums_count_alloc(site, &large);
  EXPECT_EQ(InUse(site).requested_bytes, uint64_t{3} << 46);
}

HK_FRESH_TEST(SiteSums, LifetimesByPowersOfTwo) {
  hk_site_t *site = SiteOf({1});
  for (uint64_t ms : {0, 1, 2, 3, 4, 7, 8, 16383, 16384, 1000000000}) hk_site_sums_count_free(site, &kOne, ms);
  uint64_t expected[HK_SITE_LIFETIMES] = {1, 1, 2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2};
  for (unsigned i = 0; i < HK_SITE_LIFETIMES; i++) EXPECT_EQ(hk_site_sums_lifetime(site, i), expected[i]) << i;
}

HK_FRESH_TEST(SiteSums, WithoutRoomForItsLivesASiteIsCountedAllTheSame) {
  fake_os_limit_mapped(256 << 10);
  hk_site_t *first = SiteOf({1});
  hk_site_t *second = SiteOf({2});
  for (hk_site_t *site : {first, second}) {
    hk_site_sums_count_alloc(site, &kOne);
    hk_site_sums_count_alloc(site, &kOne);
  }
  hk_site_sums_count_free(second, &kOne, 1);
  uintptr_t frame = 3;
  while (!hk_site_is_shared(SiteOf({frame, 7}))) frame++;
  for (uint64_t ms : {0, 10, 200, 5000})
    hk_site_sums_count_free(SiteOf({3, 7}), &kOne, ms);  // the room that is too small for a site
  hk_site_sums_begin_all();
  hk_site_sums_count_free(first, &kOne, 1);
  hk_site_sums_count_free(second, &kOne, 1);
  EXPECT_EQ(InUse(first).objects, 1u);
  EXPECT_EQ(InUse(second).objects, 0u);
  EXPECT_EQ(hk_site_sums_lifetime(first, 1), 0u) << "which is unknown";
  EXPECT_EQ(hk_site_sums_lifetime(second, 1), 2u) << "since it was made, not since the new begin";
}

// With the next start of the profile.
HK_FRESH_TEST(SiteSums, WhatWasAllocatedBeginsAnew) {
  hk_site_t *site = SiteOf({1, 2, 3});
  for (int i = 0; i < 3; i++) hk_site_sums_count_alloc(site, &kOne);
  hk_site_sums_count_free(site, &kOne, 5);
  EXPECT_EQ(hk_site_sums_lifetime(site, 3), 1u);
  hk_site_sums_begin_all();
  EXPECT_EQ(Allocated(site).samples + Allocated(site).objects + Allocated(site).requested_bytes, 0u);
  EXPECT_EQ(Allocated(site).block_bytes, 0u);
  EXPECT_EQ(hk_site_sums_lifetime(site, 3), 0u);
  EXPECT_EQ(InUse(site).samples, 2u) << "those of before";
  EXPECT_EQ(InUse(site).block_bytes, 224u);
  hk_site_sums_count_alloc(site, &kOne);
  hk_site_sums_count_free(site, &kOne, 6);
  hk_site_sums_count_free(site, &kOne, 7);
  EXPECT_EQ(Allocated(site).objects, 1u);
  EXPECT_EQ(Allocated(site).requested_bytes, 100u);
  EXPECT_EQ(hk_site_sums_lifetime(site, 3), 2u) << "of which one was sampled before";
  EXPECT_EQ(InUse(site).samples, 1u);
}

HK_FRESH_TEST(SiteSums, ManyThreadsCountAtTheSameSites) {
  constexpr unsigned kThreads = 4, kStacks = 2000, kRounds = 5;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; t++) {
    threads.emplace_back([] {
      for (unsigned i = 0; i < kStacks * kRounds; i++) {
        hk_site_t *site = SiteOf({i % kStacks + 1, 99});
        hk_site_sums_count_alloc(site, &kOne);
        if (i % 2 == 0) hk_site_sums_count_free(site, &kOne, i);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (unsigned i = 0; i < kStacks; i++) {
    hk_site_t *site = SiteOf({i + 1, 99});
    ASSERT_EQ(Allocated(site).samples, kThreads * kRounds) << i;
    ASSERT_EQ(InUse(site).samples, i % 2 == 0 ? 0u : kThreads * kRounds) << i;
  }
}

}  // namespace
