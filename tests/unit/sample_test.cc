// profile/sample: the table of sampled blocks.
#include "inspect/sample.h"

#include <atomic>
#include <map>
#include <thread>

#include "fake_os.h"
#include "fresh_test.h"
#include "scale.h"

namespace {

constexpr uintptr_t kFirst = 0x7f0000000010;

hk_sample_t SampleAt(uintptr_t address) {
  return {.address = address,
          .offset = 16,
          .weight = {.requested_bytes = address * 3, .block_bytes = address * 5, .weight_q16 = address * 7},
          .site = nullptr,
          .born_ms = address * 11};
}

bool IsWhole(const hk_sample_t &sample) {
  hk_sample_t right = SampleAt(sample.address);
  return sample.offset == 16 && sample.weight.requested_bytes == right.weight.requested_bytes &&
         sample.weight.block_bytes == right.weight.block_bytes && sample.weight.weight_q16 == right.weight.weight_q16 &&
         sample.born_ms == right.born_ms;
}

bool Enter(uintptr_t address) {
  hk_sample_t sample = SampleAt(address);
  return hk_sample_enter(&sample);
}

hk_sample_life_t LifeOf(uintptr_t address) {
  hk_sample_t sample = {};
  hk_sample_life_t life = hk_sample_hook_find(address, &sample);
  if (life != hk_sample_none) {
    EXPECT_EQ(sample.address, address);
    EXPECT_TRUE(IsWhole(sample));
  }
  return life;
}

bool Leave(uintptr_t address, bool is_freed = true) {
  hk_sample_t sample = {};
  bool left = hk_sample_leave(address, is_freed, &sample);
  if (left) EXPECT_TRUE(IsWhole(sample) && sample.address == address);
  return left;
}

size_t CountLive() {
  size_t count = 0;
  hk_sample_visit(
      [](const hk_sample_t *sample, void *context) {
        EXPECT_TRUE(IsWhole(*sample));
        ++*static_cast<size_t *>(context);
      },
      &count);
  return count;
}

HK_FRESH_TEST(Sample, KnowsNothingAtFirst) {
  for (uintptr_t address : {uintptr_t{0}, uintptr_t{1}, kFirst, kFirst + 1, ~uintptr_t{0}, ~uintptr_t{15}}) {
    EXPECT_EQ(LifeOf(address), hk_sample_none);
  }
  EXPECT_FALSE(Leave(kFirst));
  EXPECT_EQ(CountLive(), 0u);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), 0u) << "no table yet";
}

HK_FRESH_TEST(Sample, LivesUntilItIsFreedOnce) {
  EXPECT_TRUE(Enter(kFirst));
  EXPECT_EQ(LifeOf(kFirst), hk_sample_live);
  EXPECT_EQ(LifeOf(kFirst + 16), hk_sample_none);
  EXPECT_EQ(LifeOf(kFirst + 1), hk_sample_none);
  EXPECT_EQ(CountLive(), 1u);
  EXPECT_TRUE(Leave(kFirst));
  EXPECT_EQ(LifeOf(kFirst), hk_sample_freed);
  EXPECT_FALSE(Leave(kFirst)) << "it is free already";
  EXPECT_EQ(CountLive(), 0u);
  EXPECT_TRUE(Enter(kFirst)) << "the address is handed out again";
  EXPECT_EQ(LifeOf(kFirst), hk_sample_live);
  EXPECT_TRUE(Leave(kFirst, false));
  EXPECT_EQ(LifeOf(kFirst), hk_sample_none) << "it has become another block, and was not freed";
}

// The places of one table come to an end; there are more, and none is lost or found twice.
HK_FRESH_TEST(Sample, HasRoomForMany) {
  constexpr size_t kCount = 100000;
  for (size_t i = 0; i < kCount; i++) ASSERT_TRUE(Enter(kFirst + i * 4096));
  EXPECT_EQ(CountLive(), kCount);
  for (size_t i = 0; i < kCount; i += 2) ASSERT_TRUE(Leave(kFirst + i * 4096));
  EXPECT_EQ(CountLive(), kCount / 2);
  for (size_t i = 0; i < kCount; i++) {
    ASSERT_EQ(LifeOf(kFirst + i * 4096), i % 2 == 0 ? hk_sample_freed : hk_sample_live) << i;
  }
  uint64_t reserved = fake_os_calls(fake_os_reserve);
  const size_t rounds = hk_test::Scaled(32, 8); /* in which more places are freed than all tables have */
  for (size_t round = 0; round < rounds; round++) {
    for (size_t i = 0; i < kCount; i += 2) ASSERT_TRUE(Enter(kFirst + (round * kCount + i) * 4096 + 16));
    for (size_t i = 0; i < kCount; i += 2) ASSERT_TRUE(Leave(kFirst + (round * kCount + i) * 4096 + 16));
  }
  EXPECT_EQ(fake_os_calls(fake_os_reserve), reserved) << "places of those that were freed are used again";
  EXPECT_EQ(CountLive(), kCount / 2);
}

HK_FRESH_TEST(Sample, WithoutMemoryThereIsNoRoom) {
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_FALSE(Enter(kFirst));
  EXPECT_EQ(LifeOf(kFirst), hk_sample_none);
  fake_os_fail_all(fake_os_reserve, false);
  EXPECT_TRUE(Enter(kFirst));
  fake_os_fail_all(fake_os_reserve, true);
  size_t entered = 1;
  while (entered < 2000 && Enter(kFirst + entered * 16)) entered++;
  EXPECT_LE(entered, 512u);
  EXPECT_GE(entered, 300u) << "three fifths of the first table at least";
  EXPECT_EQ(CountLive(), entered);
}

// One of two threads that free the same sample is the first; an onlooker sees whole samples.
HK_FRESH_TEST(Sample, IsFreedByOneOfTwo) {
  constexpr size_t kCount = 2000;
  std::atomic<size_t> first{0};
  std::atomic<bool> done{false};
  std::thread reader([&done] {
    while (!done) (void)CountLive();
  });
  for (int round = 0; round < 10; round++) {
    for (size_t i = 0; i < kCount; i++) ASSERT_TRUE(Enter(kFirst + i * 64));
    auto free_all = [&first] {
      for (size_t i = 0; i < kCount; i++) first += Leave(kFirst + i * 64);
    };
    std::thread other(free_all);
    free_all();
    other.join();
    ASSERT_EQ(first.exchange(0), kCount);
  }
  done = true;
  reader.join();
}

}  // namespace
