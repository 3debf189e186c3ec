// unwind/site: one site a stack, for every caller; stacks that have outer frames in common; and a table without room.
#include "unwind/site.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "scale.h"
#include "unwind/site_sums.h"

namespace {

hk_site_t *SiteOf(std::vector<uintptr_t> frames) {
  return hk_site_of(frames.data(), static_cast<unsigned>(frames.size()));
}

std::vector<uintptr_t> FramesOf(const hk_site_t *site) {
  std::vector<uintptr_t> frames(HK_SITE_FRAMES_MAX);
  frames.resize(hk_site_frames(site, frames.data()));
  EXPECT_EQ(frames.size(), site->frame_count);
  return frames;
}

size_t CountSites() {
  std::set<const hk_site_t *> sites;
  size_t count = 0;
  for (const hk_site_t *site = hk_site_next(nullptr); site != nullptr; site = hk_site_next(site), count++) {
    sites.insert(site);
  }
  EXPECT_EQ(sites.size(), count) << "each once";
  return count;
}

constexpr hk_sample_weight_t kOne = {100, 112, 1 << 16};

HK_FRESH_TEST(Site, OneAStack) {
  EXPECT_EQ(CountSites(), 0u);
  hk_site_t *first = SiteOf({1, 2, 3});
  EXPECT_EQ(SiteOf({1, 2, 3}), first);
  EXPECT_NE(SiteOf({1, 2}), first);
  EXPECT_NE(SiteOf({1, 2, 4}), first);
  EXPECT_NE(SiteOf({3, 2, 1}), first);
  EXPECT_NE(SiteOf({}), first);
  EXPECT_EQ(first->frame_count, 3u);
  EXPECT_EQ(FramesOf(first), (std::vector<uintptr_t>{1, 2, 3}));
  EXPECT_EQ(CountSites(), 5u);
  EXPECT_FALSE(hk_site_is_shared(first));
}

HK_FRESH_TEST(Site, OfALongStackTheInnermostFrames) {
  std::vector<uintptr_t> frames(HK_SITE_FRAMES_MAX + 10);
  for (size_t i = 0; i < frames.size(); i++) frames[i] = i + 1;
  hk_site_t *site = SiteOf(frames);
  EXPECT_EQ(site->frame_count, unsigned{HK_SITE_FRAMES_MAX});
  frames.back()++;
  EXPECT_EQ(SiteOf(frames), site);
  frames.front()++;
  EXPECT_NE(SiteOf(frames), site);
}

// ---- Stacks that have outer frames in common.

HK_FRESH_TEST(Site, PartsOfAStackAreStacksOfTheirOwn) {
  const std::vector<uintptr_t> whole = {11, 12, 13, 14, 15, 16};
  std::set<hk_site_t *> sites;
  size_t made = 0;
  for (size_t from = 0; from <= whole.size(); from++) {
    for (size_t to = from; to <= whole.size(); to++) {
      std::vector<uintptr_t> part(whole.begin() + from, whole.begin() + to);
      if (part.empty() && made > 0) continue;
      hk_site_t *site = SiteOf(part);
      EXPECT_EQ(FramesOf(site), part);
      EXPECT_EQ(SiteOf(part), site);
      sites.insert(site);
      made++;
    }
  }
  EXPECT_EQ(sites.size(), made);
  EXPECT_EQ(CountSites(), made);
}

HK_FRESH_TEST(Site, OfAStackThatGrowsFrameByFrameEachIsFoundAgain) {
  for (size_t length : {size_t{0}, size_t{1}, size_t{HK_SITE_FRAMES_MAX}}) {  // outwards, and then inwards
    for (size_t i = 0; i <= HK_SITE_FRAMES_MAX; i++) {
      std::vector<uintptr_t> frames(length == 0 ? i : HK_SITE_FRAMES_MAX - i);
      for (size_t k = 0; k < frames.size(); k++) frames[k] = 1000 + frames.size() - k;
      EXPECT_EQ(FramesOf(SiteOf(frames)), frames);
    }
  }
  EXPECT_EQ(CountSites(), HK_SITE_FRAMES_MAX + 1u);
}

// Few frames, so that nearly all stacks meet others and part from them somewhere.
HK_FRESH_TEST(Site, FramesAreTheStacksWhateverIsShared) {
  std::mt19937 random(4711);
  std::map<std::vector<uintptr_t>, hk_site_t *> sites;
  for (unsigned i = 0; i < 20000; i++) {
    std::vector<uintptr_t> frames(random() % (i % 2 == 0 ? 6 : HK_SITE_FRAMES_MAX + 1));
    unsigned same = random() % 60;  // recursion: outer frames that are all one
    for (size_t k = 0; k < frames.size(); k++) frames[frames.size() - 1 - k] = k < same ? 7 : 1 + random() % 3;
    hk_site_t *site = SiteOf(frames);
    auto [known, is_new] = sites.emplace(frames, site);
    ASSERT_EQ(known->second, site);
    ASSERT_EQ(FramesOf(site), frames);
  }
  EXPECT_EQ(CountSites(), sites.size());
  for (const auto &[frames, site] : sites) ASSERT_EQ(FramesOf(site), frames);
  std::set<hk_site_t *> different;
  for (const auto &[frames, site] : sites) different.insert(site);
  EXPECT_EQ(different.size(), sites.size());
}

// So many that some have the same hash.
HK_FRESH_TEST(Site, StacksAreNotMistakenForOneAnother) {
  std::mt19937 random(4711);
  std::map<uint32_t, uintptr_t> frame_of;
  unsigned met = 0;
  for (unsigned i = 0; i < 120000; i++) {
    uintptr_t frame = random();
    hk_site_t *site = SiteOf({frame});
    ASSERT_EQ(FramesOf(site), std::vector<uintptr_t>{frame});
    if (frame_of.emplace(site->hash, frame).first->second != frame) met++;
  }
  EXPECT_GT(met, 0u) << "take more of them";
}

// Some 400 stacks of this depth would fill 256 KiB.
HK_FRESH_TEST(Site, OuterFramesThatAreSharedTakeNoRoom) {
  fake_os_limit_mapped(256 << 10);
  std::vector<uintptr_t> frames(HK_SITE_FRAMES_MAX);
  for (size_t i = 0; i < frames.size(); i++) frames[i] = i + 1;
  unsigned made = 0;
  hk_site_t *site;
  for (; !hk_site_is_shared(site = SiteOf(frames)); made++) {
    ASSERT_EQ(FramesOf(site), frames);
    frames[made % 2] += 1000;  // the innermost, or the one before it
  }
  EXPECT_GT(made, 1200u);
  EXPECT_TRUE(FramesOf(SiteOf(frames)).empty());
}

HK_FRESH_TEST(Site, ThreadsThatGrowOneTree) {
  constexpr unsigned kThreads = 4, kStacks = 3000;
  auto stack_of = [](unsigned i) {
    std::vector<uintptr_t> frames = {i + 1};
    for (unsigned k = i; k > 0; k /= 3) frames.push_back(k % 3 + 10);
    return frames;
  };
  std::vector<std::vector<hk_site_t *>> found(kThreads, std::vector<hk_site_t *>(kStacks));
  static std::atomic<unsigned> arrived{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      arrived++;
      while (arrived < kThreads) std::this_thread::yield();
      for (unsigned i = 0; i < kStacks; i++) found[t][i] = SiteOf(stack_of(i));
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(CountSites(), kStacks);
  for (unsigned i = 0; i < kStacks; i++) {
    ASSERT_EQ(FramesOf(found[0][i]), stack_of(i)) << i;
    for (unsigned t = 1; t < kThreads; t++) ASSERT_EQ(found[t][i], found[0][i]) << i;
  }
}

HK_FRESH_TEST(Site, WhatFindsNoRoomSharesOne) {
  fake_os_limit_mapped(256 << 10);
  unsigned made = 0;
  while (!hk_site_is_shared(SiteOf({made + 1, 7}))) made++;
  EXPECT_GT(made, 500u);
  EXPECT_LT(made, 2000u);
  EXPECT_FALSE(hk_site_is_shared(SiteOf({1, 7}))) << "an existing site is found";
  EXPECT_EQ(CountSites(), made) << "without the shared one, which counts nothing yet";
  hk_site_t *shared = SiteOf({made + 1, 7});
  hk_site_sums_count_alloc(shared, &kOne);
  EXPECT_EQ(CountSites(), made + 1);
  EXPECT_EQ(fake_os_calls(fake_os_reserve) - fake_os_failures(fake_os_reserve), 1u);
}

HK_FRESH_TEST(Site, WithoutMemoryAllShareOne) {
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_TRUE(hk_site_is_shared(SiteOf({1})));
  uint64_t calls = fake_os_calls(fake_os_reserve);
  EXPECT_TRUE(hk_site_is_shared(SiteOf({2})));
  EXPECT_EQ(fake_os_calls(fake_os_reserve), calls) << "the system is not asked again";
}

// Another thread makes the table while this one asks for memory.
HK_FRESH_TEST(Site, OneTableWhicheverThreadIsFirst) {
  static hk_site_t *others;
  fake_os_set_hook(fake_os_reserve, [] {
    fake_os_set_hook(fake_os_reserve, nullptr);
    others = SiteOf({1});
  });
  EXPECT_EQ(SiteOf({1}), others);
  EXPECT_EQ(fake_os_calls(fake_os_unmap), 1u) << "the second one is given back";
  EXPECT_EQ(CountSites(), 1u);
}

// Two threads that come with a new stack at the same moment, again and again.
HK_FRESH_TEST(Site, TwoThreadsMeetWithOneStack) {
  static const auto rounds = static_cast<unsigned>(hk_test::Scaled(5000, 200)); /* each waits for both threads */
  static std::atomic<unsigned> arrived{0};
  auto run = [] {
    for (unsigned i = 0; i < rounds; i++) {
      arrived++;
      while (arrived < 2 * (i + 1)) std::this_thread::yield();
      hk_site_sums_count_alloc(SiteOf({i + 1, 98}), &kOne);
    }
  };
  std::thread other(run);
  run();
  other.join();
  EXPECT_EQ(CountSites(), rounds);
}

}  // namespace
