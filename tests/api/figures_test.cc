/* tests/api/figures_test.cc - hakmem_stats_get and its kin: blocks are counted exactly, bands and classes add up, and
 * callers may know more or less than the library. */
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "api/figures_driver.h"
#include "hakmem/hakmem.h"
#include "support/in_child.h"
#include "support/process_memory.h"
#include "support/scale.h"

using namespace hk_test;

namespace {

uint64_t LiveOfClass(size_t bytes) { return Classes()[bytes].live_blocks; }

/* Tiny, mid, run and big: the first of a band, one within, its last. */
constexpr size_t kSizes[] = {16,        48,         1024,     1152,        5120,    32 * kKiB,
                             64 * kKiB, 256 * kKiB, 1 * kMiB, 1216 * kKiB, 5 * kMiB};

size_t CountOf(size_t size) { return size <= kMidMax ? 3000 * 16 / (size / 64 + 16) + 10 : 9; }

unsigned BandOf(size_t size) {
  return size <= kTinyMax  ? HAKMEM_BAND_TINY
         : size <= kMidMax ? HAKMEM_BAND_MID
         : size <= kRunMax ? HAKMEM_BAND_RUN
                           : HAKMEM_BAND_LARGE;
}

TEST(Figures, EachBlockIsCountedOnce) {
  for (size_t size : kSizes) {
    ASSERT_EQ(hakmem_good_size(size), size) << "blocks of these sizes have no bytes more";
    unsigned band = BandOf(size);
    auto before = Bands()[band];
    Blocks blocks = AllocMany(size, CountOf(size));
    auto full = Bands()[band];
    EXPECT_EQ(full.live_blocks, before.live_blocks + blocks.size()) << size;
    EXPECT_EQ(full.live_bytes, before.live_bytes + blocks.size() * size) << size;
    FreeSome(blocks);
    auto part = Bands()[band];
    EXPECT_EQ(part.live_blocks, before.live_blocks + blocks.size()) << size;
    EXPECT_EQ(part.live_bytes, before.live_bytes + blocks.size() * size) << size;
    FreeAll(blocks);
    EXPECT_EQ(Bands()[band].live_blocks, before.live_blocks) << size;
  }
}

/* Also while the bin allocates from a span: whatever was popped and pushed. */
TEST(Figures, AfterEachStepOfOneClass) {
  for (size_t size : {size_t{192}, size_t{2560}}) { /* classes that serve themselves from the first block on */
    uint64_t before = LiveOfClass(size);
    Blocks blocks;
    for (size_t step = 0; step < Scaled(300, 60); step++) {
      if (step % 5 == 4) {
        hakmem_free(blocks[blocks.size() / 2]);
        blocks.erase(blocks.begin() + static_cast<ptrdiff_t>(blocks.size() / 2));
      } else {
        blocks.push_back(hakmem_malloc(size));
      }
      ASSERT_EQ(LiveOfClass(size), before + blocks.size()) << size << " after step " << step;
    }
    FreeAll(blocks);
    EXPECT_EQ(LiveOfClass(size), before);
  }
}

TEST(Figures, ThreadsThatHoldBlocks) {
  constexpr int kThreads = 4;
  std::map<uint64_t, hakmem_stats_class_t> before = Classes();
  std::vector<Blocks> held(kThreads);
  std::vector<std::thread> threads;
  for (Blocks &blocks : held) {
    threads.emplace_back([&blocks] {
      for (size_t size : kSizes) {
        if (size > kMidMax) break;
        Blocks more = AllocMany(size, CountOf(size));
        FreeSome(more);
        blocks.insert(blocks.end(), more.begin(), more.end());
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  auto with = Classes();
  for (size_t size : kSizes) {
    if (size > kMidMax) break;
    size_t each = (CountOf(size) + 2) / 3;
    EXPECT_EQ(with[size].live_blocks, before[size].live_blocks + kThreads * each) << size;
  }
  for (Blocks &blocks : held) FreeAll(blocks); /* another thread's */
  hakmem_collect();
  hakmem_stats_t stats = Stats();
  EXPECT_EQ(stats.live_blocks_freed_remotely, 0u);
  auto after = Classes();
  for (size_t size : kSizes) EXPECT_EQ(after[size].live_blocks, before[size].live_blocks) << size;
}

/* Where the heaps of threads that are not there have counts that are no longer believed. */
TEST(Figures, AChildOfForkCountsTheSame) {
  constexpr size_t kMid = 4096, kTiny = 192;
  uint64_t mid = LiveOfClass(kMid), tiny = LiveOfClass(kTiny);
  std::promise<void> is_ready, is_over;
  std::thread other([&] {
    Blocks blocks = AllocMany(kMid, 10), more = AllocMany(kTiny, 10);
    for (int i = 0; i < 3; i++) {
      hakmem_free(blocks.back());
      blocks.pop_back();
    }
    is_ready.set_value();
    is_over.get_future().wait();
    FreeAll(blocks);
    FreeAll(more);
  });
  is_ready.get_future().wait();
  int result = hk_test::InChild([mid, tiny] {
    HK_CHILD_CHECK(LiveOfClass(kMid) == mid + 7);
    HK_CHILD_CHECK(LiveOfClass(kTiny) == tiny + 10);
    return 0;
  });
  is_over.set_value();
  other.join();
  EXPECT_EQ(result, 0);
}

/* They look while others work: nothing is promised but sense. */
TEST(Figures, WhileOthersAllocateAndFree) {
  std::atomic<bool> is_done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++) {
    threads.emplace_back([&is_done, i] {
      Blocks blocks;
      for (size_t step = 0; !is_done; step++) {
        blocks.push_back(hakmem_malloc(kSizes[(step * 7 + static_cast<size_t>(i)) % std::size(kSizes)]));
        if (blocks.size() > 100) FreeSome(blocks);
      }
      FreeAll(blocks);
    });
  }
  const size_t looks = Scaled(400, 30);
  for (size_t look = 0; look < looks; look++) {
    hakmem_stats_t stats = Stats();
    EXPECT_LT(stats.live_bytes, 4 * kGiB);
    EXPECT_LE(stats.live_blocks * 16, stats.live_bytes);
  }
  is_done = true;
  for (std::thread &thread : threads) thread.join();
}

TEST(Figures, PartsAddUp) {
  Blocks blocks = AllocMany(3000, 1000);
  for (void *block : blocks) memset(block, 1, 3000);
  hakmem_stats_t stats = Stats();
  uint64_t ours = stats.parts_live + stats.parts_free_in_slabs + stats.parts_uncarved + stats.parts_kept_by_heaps +
                  stats.parts_dirty_slabs + stats.parts_lazy + stats.parts_large_dirty + stats.parts_metadata;
  EXPECT_EQ(ours + stats.parts_not_malloc, stats.memory_resident);
  EXPECT_GE(stats.parts_live, 1000 * 3000u);
  auto bands = Bands();
  uint64_t live = 0, resident = 0;
  for (const hakmem_stats_band_t &band : bands) live += band.live_bytes, resident += band.resident;
  EXPECT_EQ(stats.live_bytes, live);
  EXPECT_LE(stats.parts_live, resident);
  FreeAll(blocks);
}

/* Dirty memory of one kind is not counted as another's. */
TEST(Figures, WhatIsFreedMovesFromOnePartToAnother) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "its shadow is resident memory";
  hakmem_collect();
  hakmem_stats_t before = Stats();
  Blocks blocks = AllocMany(3 * kMiB, 2);
  for (void *block : blocks) memset(block, 1, 3 * kMiB);
  hakmem_stats_t full = Stats();
  EXPECT_EQ(full.parts_live, before.parts_live + 6 * kMiB);
  FreeAll(blocks);
  hakmem_stats_t idle = Stats();
  EXPECT_EQ(idle.parts_live, before.parts_live);
  EXPECT_EQ(idle.parts_large_dirty, before.parts_large_dirty + 6 * kMiB);
  hakmem_collect();
  EXPECT_EQ(Stats().parts_large_dirty, before.parts_large_dirty);
}

/* The kernel's sums of all mappings. */
size_t Rss() {
  std::ifstream file("/proc/self/smaps");
  size_t kib = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("Rss:", 0) == 0) kib += std::strtoull(line.c_str() + 4, nullptr, 10);
  }
  return kib * kKiB;
}

/* As far as blocks of other parts of this process come and go. */
constexpr size_t kLittle = 128 * kKiB;

/* Less than the option `retain` lets stay in any case: of more, some may be given back as soon as it is freed. */
constexpr size_t kWaits = 6 * kMiB;

TEST(Figures, WhatWaitsIsDirtyUntilItIsPurged) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "its shadow is resident memory";
  for (size_t size : {3 * kMiB, 512 * kKiB, 20 * kKiB, size_t{640}}) {
    SCOPED_TRACE(size);
    hakmem_collect();
    Blocks blocks = AllocMany(size, kWaits / size);
    for (void *block : blocks) memset(block, 1, size);
    hakmem_stats_t full = Stats();
    size_t full_rss = Rss();
    FreeAll(blocks);
    hakmem_stats_t idle = Stats();
    EXPECT_NEAR(static_cast<double>(Rss()), static_cast<double>(full_rss), kLittle) << "nothing was given back yet";
    EXPECT_NEAR(static_cast<double>(idle.memory_dirty - full.memory_dirty), kWaits, 4 * kLittle);
    hakmem_collect();
    hakmem_stats_t purged = Stats();
    size_t gone = idle.memory_dirty - purged.memory_dirty;
    EXPECT_NEAR(static_cast<double>(full_rss - Rss()), static_cast<double>(gone), kLittle) << "and no more than that";
    EXPECT_GE(gone, kWaits - 4 * kLittle);
  }
}

/* Each free slab, and each free extent, is in it once. */
TEST(Figures, WhatIsCachedIsDirtyOrPurgedOrAHugePages) {
  hakmem_collect(); /* the memory of earlier tests: the purge thread would give it back between two looks */
  Blocks blocks = AllocMany(3000, 1000), big = AllocMany(3 * kMiB, 3);
  FreeSome(blocks);
  FreeSome(big);
  hakmem_stats_t stats = Stats();
  uint64_t slabs = 0;
  for (const hakmem_stats_band_t &band : Bands()) slabs += band.band == HAKMEM_BAND_LARGE ? 0 : band.slabs;
  EXPECT_EQ(stats.memory_cached, stats.memory_superslabs - slabs * 64 * kKiB + stats.memory_large_cached);
  EXPECT_EQ(stats.memory_dirty, stats.parts_kept_by_heaps + stats.parts_dirty_slabs + stats.parts_large_dirty);
  EXPECT_EQ(stats.parts_lazy, 0u) << "by default nothing goes lazily";
  EXPECT_LE(stats.memory_dirty + stats.memory_purged, stats.memory_cached);
  EXPECT_GE(stats.memory_dirty + stats.memory_purged + stats.parts_uncarved, stats.memory_cached);
  EXPECT_LE(stats.huge_excess, stats.parts_uncarved);
  FreeAll(blocks);
  FreeAll(big);
}

TEST(Figures, EstimatesAreNothingWithoutAProfile) {
  hakmem_stats_t stats = Stats();
  EXPECT_EQ(stats.live_requested_estimate, 0u);
  EXPECT_EQ(stats.live_inside_estimate, 0u);
  EXPECT_EQ(stats.live_allocated_estimate, 0u);
  EXPECT_EQ(stats.live_freed_estimate, 0u);
}

TEST(Figures, PartsHaveNoEstimatesWithoutAProfile) {
  Blocks blocks = AllocMany(100, 10);
  for (const hakmem_stats_band_t &band : Bands()) EXPECT_EQ(band.requested_estimate, 0u);
  for (const auto &[bytes, one] : Classes()) EXPECT_EQ(one.requested_estimate, 0u);
  for (const hakmem_stats_heap_t &heap : Heaps()) EXPECT_EQ(heap.requested_estimate, 0u);
  FreeAll(blocks);
}

TEST(Figures, ClassesOfABandAddUpToIt) {
  Blocks blocks = AllocMany(100, 1000), others = AllocMany(6000, 50);
  auto bands = Bands();
  ASSERT_EQ(bands.size(), size_t{HAKMEM_STATS_BANDS});
  uint64_t live[HAKMEM_STATS_BANDS] = {}, slabs[HAKMEM_STATS_BANDS] = {};
  for (const auto &[bytes, one] : Classes()) {
    ASSERT_LE(one.band, unsigned{HAKMEM_BAND_MID});
    EXPECT_EQ(one.live_bytes, one.live_blocks * bytes);
    EXPECT_EQ(one.free_bytes, one.free_blocks * bytes);
    EXPECT_LE(one.spans, one.slabs);
    EXPECT_LE(one.spans_nearly_empty, one.spans);
    live[one.band] += one.live_blocks;
    slabs[one.band] += one.slabs;
  }
  for (unsigned band : {HAKMEM_BAND_TINY, HAKMEM_BAND_MID}) {
    EXPECT_EQ(bands[band].band, band);
    EXPECT_EQ(bands[band].live_blocks, live[band]);
    EXPECT_EQ(bands[band].slabs, slabs[band]);
  }
  FreeAll(blocks);
  FreeAll(others);
}

TEST(Figures, EventsAreCounted) {
  hakmem_stats_events_t before, after;
  ASSERT_EQ(hakmem_stats_get_events(&before, sizeof before), 0);
  hakmem_free(hakmem_malloc(7 * kMiB));
  ASSERT_EQ(hakmem_stats_get_events(&after, sizeof after), 0);
  EXPECT_EQ(after.large_alloc, before.large_alloc + 1);
  EXPECT_EQ(after.large_free, before.large_free + 1);
  EXPECT_GE(after.lock_space_take, before.lock_space_take + 2) << "to take the addresses, and to give them back";
}

TEST(Figures, SystemCallsAreCounted) {
  hakmem_stats_events_t before, with, after;
  hakmem_collect();
  ASSERT_EQ(hakmem_stats_get_events(&before, sizeof before), 0);
  void *block = hakmem_malloc(300 * kMiB); /* more than there is room for */
  ASSERT_NE(block, nullptr);
  ASSERT_EQ(hakmem_stats_get_events(&with, sizeof with), 0);
  EXPECT_GT(with.system_call_map, before.system_call_map);
  memset(block, 1, 2 * kMiB);
  hakmem_free(block);
  hakmem_collect();
  ASSERT_EQ(hakmem_stats_get_events(&after, sizeof after), 0);
  EXPECT_GT(after.system_call_unmap + after.system_call_advise, with.system_call_unmap + with.system_call_advise);
}

/* ---- Callers of other versions. */

TEST(Figures, AShorterStructIsFilledAsFarAsItGoes) {
  hakmem_stats_t stats;
  memset(&stats, 0xab, sizeof stats);
  size_t known = offsetof(hakmem_stats_t, memory_peak);
  ASSERT_EQ(hakmem_stats_get(&stats, known), 0);
  EXPECT_EQ(stats.version, unsigned{HAKMEM_STATS_VERSION});
  EXPECT_EQ(stats.filled, sizeof stats);
  EXPECT_EQ(stats.memory_peak, 0xababababababababu) << "nothing behind it is written";
}

TEST(Figures, ALongerStructIsZeroWhereTheLibraryKnowsLess) {
  struct {
    hakmem_stats_t stats;
    uint64_t later[3];
  } newer;
  memset(&newer, 0xab, sizeof newer);
  ASSERT_EQ(hakmem_stats_get(&newer.stats, sizeof newer), 0);
  EXPECT_EQ(newer.stats.filled, sizeof newer.stats);
  for (uint64_t later : newer.later) EXPECT_EQ(later, 0u);
}

TEST(Figures, ElementsMayBeLongerToo) {
  struct Newer {
    hakmem_stats_band_t band;
    uint64_t later;
  } newer[3];
  memset(newer, 0xab, sizeof newer);
  size_t count = 2;
  ASSERT_EQ(hakmem_stats_get_bands(&newer[0].band, sizeof(Newer), &count), 0);
  EXPECT_EQ(count, size_t{HAKMEM_STATS_BANDS}) << "how many there are";
  EXPECT_EQ(newer[1].band.band, 1u);
  EXPECT_EQ(newer[1].later, 0u);
  EXPECT_EQ(newer[2].later, 0xababababababababu) << "there was no room for it";
}

TEST(Figures, WhatIsNoRequest) {
  errno = 12345;
  hakmem_stats_t stats;
  hakmem_stats_class_t one;
  size_t count = 1;
  EXPECT_EQ(hakmem_stats_get(nullptr, sizeof stats), EINVAL);
  EXPECT_EQ(hakmem_stats_get(&stats, 15), EINVAL);
  EXPECT_EQ(hakmem_stats_get_events(nullptr, 16), EINVAL);
  EXPECT_EQ(hakmem_stats_get_classes(&one, sizeof one, nullptr), EINVAL);
  EXPECT_EQ(hakmem_stats_get_classes(&one, 7, &count), EINVAL);
  EXPECT_EQ(hakmem_stats_get_classes(nullptr, sizeof one, &count), EINVAL);
  EXPECT_EQ(hakmem_stats_get_heaps(nullptr, 8, &count), EINVAL);
  EXPECT_EQ(hakmem_stats_get_bands(nullptr, 8, &count), EINVAL);
  EXPECT_EQ(count, 1u);
  (void)Stats();
  EXPECT_EQ(errno, 12345);
}

}  // namespace
