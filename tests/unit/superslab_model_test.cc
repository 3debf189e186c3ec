// space/superslab: random ranges against a model, and threads at it together.
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "scale.h"
#include "test_random.h"
#include "unit/superslab_driver.h"

extern "C" {
#include "space/shortage.h"
}

using namespace hk_test;

namespace {

// ---- Against a model: every range that is held, with the number that is written into it.

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {}

  void Step() {
    size_t choice = random_.Below(100);
    if (choice < 52) {
      Take();
    } else if (choice < 97) {
      GiveBack();
    } else if (choice < 98) {
      (void)hk_purge_down_to(random_.Below(16) * HK_MIB);
      if (hk_shortage_is_on()) (void)hk_purge_unmap_free();
    } else {
      Extend();
    }
  }

  void GiveBackAll() {
    while (!held_.empty() && !testing::Test::HasFailure()) GiveBack();
  }

  size_t held_slabs() const { return held_slabs_; }

 private:
  struct Range {
    hk_slab_t *first;
    unsigned count;
    uint64_t stamp;
  };

  static uintptr_t EndOf(const Range &extent) { return hk_slab_start(extent.first) + extent.count * HK_SLAB_BYTES; }

  void ExpectFreeOfOthers(const Range &extent) {
    uintptr_t start = hk_slab_start(extent.first);
    auto next = held_.lower_bound(start);
    ASSERT_TRUE(next == held_.end() || EndOf(extent) <= next->first);
    ASSERT_TRUE(next == held_.begin() || start >= EndOf(std::prev(next)->second));
  }

  void Hold(Range extent, bool is_zero) {
    ASSERT_TRUE(!is_zero || Holds(extent.first, extent.count, 0));
    if (extent.stamp != 0) Touch(extent.first, extent.count, extent.stamp);
    held_[hk_slab_start(extent.first)] = extent;
    held_slabs_ += extent.count;
  }

  void Take() {
    Range extent = {};
    extent.count = static_cast<unsigned>(random_.LogBetween(1, kAll));
    unsigned alignment = 1u << random_.Below(random_.OneIn(3) ? 6 : 1);
    extent.stamp = random_.Next() | 1;
    if (random_.OneIn(4)) {
      TakeSome(extent);
      return;
    }
    extent.first = Acquire(extent.count, alignment, random_.OneIn(2) ? hk_from_bottom : hk_from_top);
    ASSERT_NE(extent.first, nullptr);
    ASSERT_EQ(hk_slab_start(extent.first) % (alignment * HK_SLAB_BYTES), 0u);
    ASSERT_EQ(extent.first->slab_count, extent.count);
    ExpectFreeOfOthers(extent);
    Hold(extent, extent.first->is_zero);
  }

  // As a heap does for its reserve: now and then the taken slabs stay untouched.
  void TakeSome(Range extent) {
    unsigned most = static_cast<unsigned>(random_.Between(extent.count, kAll));
    extent.first = hk_superslab_acquire_some(extent.count, most);
    ASSERT_NE(extent.first, nullptr);
    ASSERT_GE(extent.first->slab_count, extent.count);
    ASSERT_LE(extent.first->slab_count, most);
    bool is_zero = extent.first->is_zero;
    if (extent.first->slab_count > extent.count) ASSERT_TRUE(is_zero) << "only untouched ones come on top";
    extent.count = extent.first->slab_count;
    if (is_zero && random_.OneIn(2)) extent.stamp = 0;
    ExpectFreeOfOthers(extent);
    Hold(extent, is_zero);
  }

  std::map<uintptr_t, Range>::iterator Any() { return std::next(held_.begin(), random_.Below(held_.size())); }

  void GiveBack() {
    if (held_.empty()) return;
    auto any = Any();
    Range extent = any->second;
    ASSERT_TRUE(Holds(extent.first, extent.count, extent.stamp)) << "another owner wrote into it";
    held_.erase(any);
    held_slabs_ -= extent.count;
    if (extent.stamp != 0) {
      Release(extent.first, extent.count);
      return;
    }
    extent.first->is_zero = true;
    ReleaseAll({extent.first});
  }

  void Extend() {
    if (held_.empty()) return;
    Range extent = Any()->second;
    Range more = {extent.first + extent.count, 1 + static_cast<unsigned>(random_.Below(3)), random_.Next() | 1};
    bool is_zero;
    if (!hk_superslab_extend(more.first, more.count, &is_zero)) return;
    ExpectFreeOfOthers(more);
    Hold(more, is_zero);
  }

  TestRandom random_;
  std::map<uintptr_t, Range> held_;
  size_t held_slabs_ = 0;
};

void RunAgainstModel(uint64_t seed) {
  hk_option.retain = 2 * HK_MIB;
  Model model(seed);
  const size_t steps = Scaled(80000, 5000);
  for (size_t i = 0; i < steps && !testing::Test::HasFailure(); i++) {
    model.Step();
    ASSERT_EQ(hk_superslab_usage().in_use_bytes, model.held_slabs() * HK_SLAB_BYTES) << "step " << i;
    if (i % 5000 == 4999) model.GiveBackAll();
    if (i % 1000 == 500) hk_superslab_index_repair(); /* changes nothing */
  }
  model.GiveBackAll();
  (void)hk_purge_down_to(0);
}

HK_FRESH_TEST(SuperslabModel, RandomRangesNeverOverlap) {
  RunAgainstModel(1);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabModel, NorWhereMemoryIsGivenBackLazily) {
  hk_option.purge = hk_purge_free;
  RunAgainstModel(4);
  EXPECT_GT(fake_os_calls(fake_os_purge_lazily), 100u);
  EXPECT_EQ(hk_superslab_usage().lazy_bytes, 0u);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabModel, NorWhileItUnmapsNothingAndIsLazy) {
  hk_option.purge = hk_purge_free;
  fake_os_fail_all(fake_os_unmap, true);
  RunAgainstModel(5);
  EXPECT_EQ(hk_superslab_usage().lazy_bytes, 0u);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabModel, NorWhileTheSystemGivesNothingBack) {
  fake_os_fail_all(fake_os_unmap, true);
  fake_os_fail_all(fake_os_purge, true);
  RunAgainstModel(2);
  hk_superslab_usage_t usage = hk_superslab_usage();
  EXPECT_EQ(usage.in_use_bytes, 0u);
  EXPECT_LE(usage.dirty_bytes, usage.mapped_bytes);
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabModel, NorWhileItUnmapsNothing) {
  fake_os_fail_all(fake_os_unmap, true);
  RunAgainstModel(3);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabModel, NorInAShortage) {
  hk_store_relaxed(&hk_shortage_until_ms, UINT64_MAX);
  RunAgainstModel(6);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(SuperslabModel, NorInAShortageWhileItUnmapsNothing) {
  hk_store_relaxed(&hk_shortage_until_ms, UINT64_MAX);
  fake_os_fail_all(fake_os_unmap, true);
  RunAgainstModel(7);
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
  ExpectNothingLost();
}

// ---- Threads.

HK_FRESH_TEST(Superslab, ThreadsShareNothing) {
  hk_option.retain = 0; /* ways back to the system all the time */
  constexpr int kThreads = 4;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&failures, t] {
      TestRandom random(100 + t);
      struct Held {
        hk_slab_t *first;
        uint64_t stamp;
      };
      std::vector<Held> held;
      for (int i = 0; i < 4000; i++) {
        if (held.size() < 12 && !random.OneIn(3)) {
          hk_slab_t *slab = Acquire(static_cast<unsigned>(random.LogBetween(1, kAll)));
          if (slab == nullptr || (slab->is_zero && !Holds(slab, slab->slab_count, 0))) failures++;
          if (slab == nullptr) return;
          held.push_back({slab, random.Next()});
          Touch(slab, slab->slab_count, held.back().stamp);
        } else if (!held.empty()) {
          std::swap(held[random.Below(held.size())], held.back());
          if (!Holds(held.back().first, held.back().first->slab_count, held.back().stamp)) failures++;
          Release(held.back().first);
          held.pop_back();
        }
        if (random.OneIn(200)) (void)hk_purge_down_to(0);
      }
      for (const Held &one : held) Release(one.first);
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
  (void)hk_purge_down_to(0);
  ExpectUsage(0, 0, 0);
  ExpectNothingLost();
}

#if HK_DEBUG
HK_FRESH_TEST(SuperslabDeathTest, ASecondReleaseIsNoticed) {
  hk_slab_t *slab = Acquire(1);
  Release(slab);
  EXPECT_DEATH(hk_superslab_release(slab, 1), "a slab is given back once");
}
#endif

}  // namespace
