// space/region_map: every address has a descriptor, and only entered slabs have one of their own. Nothing here is
// mapped: the map knows addresses, not memory.
#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/core_parts.h"
#include "unit/rendezvous.h"

namespace {

constexpr uintptr_t kRegionBytes = uintptr_t{1} << HK_REGION_SHIFT;
constexpr uintptr_t kAddressEnd = uintptr_t{1} << HK_ADDRESS_BITS;
constexpr uintptr_t kSomeRegion = 0x123 * kRegionBytes;

const void *At(uintptr_t address) { return reinterpret_cast<const void *>(address); }

bool Enter(uintptr_t start, size_t bytes = HK_SLAB_BYTES) { return hk_region_map_enter(At(start), bytes); }

// Whether the address has the descriptor of slabs that were never entered.
bool IsForeign(uintptr_t address) {
  hk_slab_t *slab = hk_slab_of(At(address));
  const hk_slab_t *nothing = hk_region_map.nothing.slab;
  return slab >= nothing && slab < nothing + HK_REGION_SLABS && hk_slab_state(slab) == hk_slab_none &&
         hk_load_relaxed(&slab->owner) == nullptr && hk_slab_of_any(address) == slab;
}

HK_FRESH_TEST(RegionMap, WhatWasNeverEnteredIsNotOurs) {
  static int in_data;
  int on_stack = 0;
  EXPECT_TRUE(IsForeign(0));
  EXPECT_TRUE(IsForeign(1));
  EXPECT_TRUE(IsForeign(4095));
  EXPECT_TRUE(IsForeign(reinterpret_cast<uintptr_t>(&in_data)));
  EXPECT_TRUE(IsForeign(reinterpret_cast<uintptr_t>(&on_stack)));
  EXPECT_TRUE(IsForeign(reinterpret_cast<uintptr_t>(&hk_region_map)));
  EXPECT_TRUE(IsForeign(reinterpret_cast<uintptr_t>(&hk_region_map_enter)));
  for (unsigned bit = 0; bit < 64; bit++) {
    EXPECT_TRUE(IsForeign(uintptr_t{1} << bit)) << bit;
    EXPECT_TRUE(IsForeign((uintptr_t{1} << bit) - 1)) << bit;
    EXPECT_TRUE(IsForeign(~(uintptr_t{1} << bit))) << bit;
  }
  EXPECT_TRUE(IsForeign(kAddressEnd - 1)) << "the last byte of the address space";
  EXPECT_TRUE(IsForeign(kAddressEnd));
  EXPECT_TRUE(IsForeign(UINTPTR_MAX));
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 0u);
  EXPECT_EQ(hk_region_map_mapped_bytes(), 0u);
}

HK_FRESH_TEST(RegionMap, EachSlabOfARegionHasItsOwnDescriptor) {
  ASSERT_TRUE(Enter(kSomeRegion));
  hk_slab_t *first = hk_slab_of(At(kSomeRegion));
  EXPECT_FALSE(IsForeign(kSomeRegion));
  EXPECT_TRUE(fake_os_is_mapped(first, sizeof(hk_region_t)));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % HK_CACHE_LINE_BYTES, 0u);
  for (size_t i = 0; i < HK_REGION_SLABS; i++) {
    uintptr_t start = kSomeRegion + i * HK_SLAB_BYTES;
    ASSERT_EQ(hk_slab_of(At(start)), first + i);
    ASSERT_EQ(hk_slab_of(At(start + 1)), first + i);
    ASSERT_EQ(hk_slab_of(At(start + HK_SLAB_BYTES - 1)), first + i);
    ASSERT_EQ(hk_slab_state(first + i), hk_slab_none);
    ASSERT_EQ(hk_load_relaxed(&first[i].owner), nullptr);
  }
  EXPECT_TRUE(IsForeign(kSomeRegion - 1));
  EXPECT_TRUE(IsForeign(kSomeRegion + kRegionBytes));
}

HK_FRESH_TEST(RegionMap, ARegionIsEnteredOnce) {
  ASSERT_TRUE(Enter(kSomeRegion));
  hk_slab_t *slab = hk_slab_of(At(kSomeRegion));
  EXPECT_TRUE(Enter(kSomeRegion));
  EXPECT_TRUE(Enter(kSomeRegion + kRegionBytes - HK_SLAB_BYTES));
  EXPECT_EQ(hk_slab_of(At(kSomeRegion)), slab);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 1u);
  EXPECT_EQ(hk_region_map_mapped_bytes(), sizeof(hk_region_t));
}

HK_FRESH_TEST(RegionMap, TheEndsOfTheAddressSpaceCanBeEntered) {
  ASSERT_TRUE(Enter(0));
  ASSERT_TRUE(Enter(kAddressEnd - HK_SLAB_BYTES));
  EXPECT_FALSE(IsForeign(0));
  EXPECT_FALSE(IsForeign(kAddressEnd - 1));
  EXPECT_TRUE(IsForeign(kRegionBytes));
  EXPECT_TRUE(IsForeign(kAddressEnd - kRegionBytes - 1));
  EXPECT_EQ(hk_slab_of(At(kAddressEnd - 1)) - hk_slab_of(At(kAddressEnd - kRegionBytes)),
            static_cast<ptrdiff_t>(HK_REGION_SLABS - 1));
}

HK_FRESH_TEST(RegionMap, BitsAboveTheAddressAreIgnored) {
  ASSERT_TRUE(Enter(kSomeRegion));
  hk_slab_t *slab = hk_slab_of(At(kSomeRegion + HK_SLAB_BYTES));
  for (unsigned bit = HK_ADDRESS_BITS; bit < 64; bit++) {
    const void *tagged = At((kSomeRegion + HK_SLAB_BYTES) | uintptr_t{1} << bit);
    EXPECT_TRUE(Enter(reinterpret_cast<uintptr_t>(tagged))) << bit;
    EXPECT_EQ(hk_slab_of(tagged), slab) << bit;
  }
}

HK_FRESH_TEST(RegionMap, ARefusedEntryChangesNothing) {
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_FALSE(Enter(kSomeRegion));
  EXPECT_TRUE(IsForeign(kSomeRegion));
  EXPECT_EQ(hk_region_map_mapped_bytes(), 0u);
  fake_os_fail_all(fake_os_reserve, false);
  EXPECT_TRUE(Enter(kSomeRegion));
  EXPECT_FALSE(IsForeign(kSomeRegion));
  EXPECT_EQ(hk_region_map_mapped_bytes(), sizeof(hk_region_t));
}

HK_FRESH_TEST(RegionMap, WhatWasEnteredCanBeWrittenTo) {
  ASSERT_TRUE(Enter(kSomeRegion - 40 * HK_SLAB_BYTES, 80 * HK_SLAB_BYTES));
  EXPECT_EQ(hk_region_map_mapped_bytes(), 2 * sizeof(hk_region_t)) << "of both regions";
  for (uintptr_t i = 0; i < 80; i++) {
    hk_slab_t *slab = hk_slab_of(At(kSomeRegion + (i - 40) * HK_SLAB_BYTES));
    hk_slab_set_state(slab, hk_slab_free);
    EXPECT_EQ(hk_slab_state(slab), hk_slab_free);
  }
}

HK_FRESH_TEST(RegionMap, WhatComesAndGoesIsMadeWritableOnce) {
  constexpr uintptr_t kRecent = 64, kGroup = 16 * HK_SUPERSLAB_BYTES, kAll = kRecent * kGroup;
  for (int round = 0; round < 3; round++) {
    for (uintptr_t i = 0; i < kRecent; i++) {
      ASSERT_TRUE(Enter(kSomeRegion + i * kGroup + i % 16 * HK_SUPERSLAB_BYTES + i % 3 * HK_SLAB_BYTES));
    }
    ASSERT_TRUE(Enter(kSomeRegion, kAll));
  }
  uint64_t calls = fake_os_calls(fake_os_allow_writes);
  EXPECT_EQ(calls, kAll / kRegionBytes + kRecent) << "each region's entry in the root, and the groups";
  ASSERT_TRUE(Enter(kSomeRegion + kAll)) << "which takes the first group's place, in a region of its own";
  ASSERT_TRUE(Enter(kSomeRegion, 2 * HK_SUPERSLAB_BYTES));
  EXPECT_EQ(fake_os_calls(fake_os_allow_writes), calls + 3);
  ASSERT_TRUE(Enter(kSomeRegion, kAll + kGroup)) << "too many to be known";
  EXPECT_EQ(fake_os_calls(fake_os_allow_writes), calls + 3 + kAll / kRegionBytes + 1) << "a call for each region";
}

HK_FRESH_TEST(RegionMap, NothingElseCanBeWrittenTo) {
  hk_region_map_init();
  ASSERT_TRUE(Enter(kSomeRegion));
  EXPECT_DEATH(hk_slab_set_state(hk_slab_of(At(kSomeRegion + kRegionBytes / 2)), hk_slab_free), "");
  EXPECT_DEATH(hk_slab_set_state(&hk_region_map.nothing.slab[HK_REGION_SLABS / 2], hk_slab_free), "");
}

HK_FRESH_TEST(RegionMap, RefusedWritesAreARefusal) {
  fake_os_fail_all(fake_os_allow_writes, true);
  EXPECT_FALSE(Enter(kSomeRegion));
  fake_os_fail_all(fake_os_allow_writes, false);
  ASSERT_TRUE(Enter(kSomeRegion));
  fake_os_fail_all(fake_os_allow_writes, true);
  EXPECT_FALSE(Enter(kSomeRegion + kRegionBytes / 2));
  EXPECT_EQ(hk_region_map_mapped_bytes(), sizeof(hk_region_t));
}

// The descriptor that malloc and free use.
hk_slab_t *Found(uintptr_t address) {
  hk_slab_place_t place = hk_slab_place_of(At(address));
  return hk_slab_at(&place);
}

struct Window {
  uintptr_t start, leaf;
  size_t bytes;
};

Window TheWindow() { return {hk_region_window.start, hk_region_window.leaf, hk_load_relaxed(&hk_region_window.bytes)}; }

HK_FRESH_TEST(RegionMap, TheWindowLeadsToTheSameDescriptors) {
  if (HK_HARDENED) GTEST_SKIP() << "a hardened build has no window";
  hk_region_map_init();
  const Window window = TheWindow();
  ASSERT_GE(window.bytes, HK_GIB);
  EXPECT_EQ(window.start % kRegionBytes, 0u);
  EXPECT_LT(window.leaf - window.start, window.bytes) << "addresses near the leaves are in it";
  EXPECT_EQ(hk_region_map_mapped_bytes(), window.bytes / HK_SLAB_BYTES * sizeof(hk_slab_t));
  uintptr_t end = window.start + window.bytes, middle = window.start + window.bytes / 2;
  ASSERT_TRUE(Enter(window.start - HK_SLAB_BYTES, 2 * HK_SLAB_BYTES));
  ASSERT_TRUE(Enter(end - HK_SLAB_BYTES));
  ASSERT_TRUE(Enter(middle - kRegionBytes, 2 * kRegionBytes));
  std::vector<uintptr_t> starts = {window.start - HK_SLAB_BYTES, window.start, end - HK_SLAB_BYTES,
                                   middle - HK_SLAB_BYTES,       middle,       middle + HK_SLAB_BYTES};
  size_t outside = 1;
  if (end < kAddressEnd) { /* without randomised addresses the window ends with them */
    ASSERT_TRUE(Enter(end));
    starts.push_back(end);
    outside++;
  }
  std::set<hk_slab_t *> slabs;
  for (uintptr_t start : starts) {
    hk_slab_t *slab = hk_slab_of(At(start));
    EXPECT_EQ(Found(start), slab) << start;
    EXPECT_EQ(Found(start + HK_SLAB_BYTES - 1), slab) << start;
    hk_slab_set_state(slab, hk_slab_free);
    slabs.insert(slab);
  }
  EXPECT_EQ(slabs.size(), starts.size());
  EXPECT_EQ(hk_region_map_mapped_bytes(),
            window.bytes / HK_SLAB_BYTES * sizeof(hk_slab_t) + outside * sizeof(hk_region_t));
}

HK_FRESH_TEST(RegionMap, WhatIsInTheWindowAndWasNotEnteredIsNotOurs) {
  hk_region_map_init();
  const Window window = TheWindow();
  ASSERT_TRUE(Enter(window.start));
  for (uintptr_t address = window.start + HK_SLAB_BYTES; address < window.start + window.bytes; address += 77777777) {
    ASSERT_EQ(hk_slab_state(Found(address)), hk_slab_none);
    ASSERT_EQ(hk_load_relaxed(&Found(address)->owner), nullptr);
  }
  for (unsigned bit = 0; bit < 64; bit++) {
    ASSERT_EQ(hk_slab_state(Found(uintptr_t{1} << bit)), hk_slab_none) << bit;
    ASSERT_EQ(hk_slab_state(Found(window.start ^ uintptr_t{1} << bit)), hk_slab_none) << bit;
  }
  EXPECT_EQ(hk_slab_state(Found(window.start - 1)), hk_slab_none);
  EXPECT_EQ(hk_slab_state(Found(window.start + window.bytes)), hk_slab_none);
  EXPECT_EQ(hk_slab_state(Found(UINTPTR_MAX)), hk_slab_none);
}

HK_FRESH_TEST(RegionMap, TheWindowEndsWhenASuperslabLiesOutside) {
  if (HK_HARDENED) GTEST_SKIP() << "a hardened build has no window";
  hk_region_map_init();
  const Window window = TheWindow();
  ASSERT_TRUE(Enter(window.start));
  hk_slab_t *slab = Found(window.start);
  hk_region_map_note_superslab(window.start);
  hk_region_map_note_superslab(window.start + window.bytes - HK_SUPERSLAB_BYTES);
  EXPECT_EQ(TheWindow().bytes, window.bytes);
  hk_region_map_note_superslab(window.start - HK_SUPERSLAB_BYTES);
  EXPECT_EQ(TheWindow().bytes, 0u);
  EXPECT_EQ(Found(window.start), slab);
  ASSERT_TRUE(Enter(window.start + kRegionBytes)) << "in the leaves that stay";
  EXPECT_EQ(Found(window.start + kRegionBytes), slab + HK_REGION_SLABS);
  EXPECT_EQ(hk_region_map_mapped_bytes(), window.bytes / HK_SLAB_BYTES * sizeof(hk_slab_t));
}

HK_FRESH_TEST(RegionMap, ThereIsNoWindowWhereAddressesAreLimited) {
  fake_os_limit_mapped(HK_GIB);
  hk_region_map_init();
  EXPECT_EQ(TheWindow().bytes, 0u);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 0u);
  ASSERT_TRUE(Enter(kSomeRegion));
  EXPECT_EQ(Found(kSomeRegion), hk_slab_of(At(kSomeRegion)));
}

HK_FRESH_TEST(RegionMap, ARefusedWindowIsNone) {
  fake_os_fail_all(fake_os_reserve, true);
  hk_region_map_init();
  fake_os_fail_all(fake_os_reserve, false);
  EXPECT_EQ(TheWindow().bytes, 0u);
  ASSERT_TRUE(Enter(kSomeRegion));
  EXPECT_EQ(Found(kSomeRegion), hk_slab_of(At(kSomeRegion)));
}

constexpr int kThreads = 4;
constexpr uintptr_t kRegions = 1000;

// All threads enter the same regions at the same time. True when every entry of every thread was one.
bool EnterTogether() {
  std::atomic<int> failures{0};
  hk_test::Rendezvous rendezvous(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&failures, &rendezvous] {
      for (uintptr_t i = 0; i < kRegions; i++) {
        rendezvous.Wait();
        uintptr_t start = (i + 1) * kRegionBytes;
        if (!Enter(start) || IsForeign(start)) failures++;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  return failures == 0;
}

HK_FRESH_TEST(RegionMap, ThreadsThatEnterTogetherAgree) {
  EXPECT_TRUE(EnterTogether());
  EXPECT_EQ(hk_region_map_mapped_bytes(), kRegions * sizeof(hk_region_t));
  EXPECT_EQ(fake_os_mapped_bytes(), kRegions * sizeof(hk_region_t)) << "the second thread gave its leaf back";
  std::set<hk_slab_t *> leaves;
  for (uintptr_t i = 0; i < kRegions; i++) leaves.insert(hk_slab_of(At((i + 1) * kRegionBytes)));
  EXPECT_EQ(leaves.size(), kRegions);
}

HK_FRESH_TEST(RegionMap, AThreadLooksWhileAnotherEnters) {
  // No thread hands over an address: ThreadSanitizer reports a look that does not pair with the entry itself.
  std::atomic<uintptr_t> entered{0};
  std::thread looker([&entered] {
    for (uintptr_t i = 0; i < kRegions; i = entered.load(std::memory_order_relaxed)) {
      uintptr_t start;
      hk_slab_state_t state = hk_slab_state(hk_slab_of_any((i + 1) * kRegionBytes));
      if (state != hk_slab_none || hk_region_map_find_below((i + 2) * kRegionBytes, &start) != nullptr) std::abort();
    }
  });
  for (uintptr_t i = 0; i < kRegions; i++) {
    if (!Enter((i + 1) * kRegionBytes)) std::abort();
    entered.store(i + 1, std::memory_order_relaxed);
  }
  looker.join();
  for (uintptr_t i = 0; i < kRegions; i++) {
    EXPECT_EQ(hk_slab_of_any((i + 1) * kRegionBytes), hk_slab_of(At((i + 1) * kRegionBytes)));
  }
}

HK_FRESH_TEST(RegionMap, TheSecondThreadNeedNotBeAbleToUnmap) {
  fake_os_fail_all(fake_os_unmap, true);
  EXPECT_TRUE(EnterTogether());
  EXPECT_EQ(hk_region_map_mapped_bytes(), kRegions * sizeof(hk_region_t)) << "a leaf not entered counts nowhere";
}

}  // namespace
