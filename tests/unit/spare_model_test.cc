// heap/spare: random runs and spans against a model.
#include <algorithm>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/spare_driver.h"

using namespace hakmem_test;
using namespace hk_test;

namespace {

void RunAgainstModel(uint64_t seed) {
  fake_os_fail_all(fake_os_resident, true); /* no run is known to be sparse */
  hk_heap_t *heap = hk_heap_take();
  size_t before = InUseSlabs();
  TestRandom random(seed);
  std::vector<void *> runs;
  std::vector<hk_slab_t *> spans;
  std::vector<void *> kept[HK_RUN_MAX_SLABS + 1]; /* by length, the last freed at the end */
  size_t held_slabs = 0, kept_slabs = 0, reserves = 0, shortages = 0, room = std::min(size_t{4}, SpareRoom());
  auto take = [&](size_t slabs) -> void * {
    if (kept[slabs].empty()) return nullptr;
    void *range = kept[slabs].back();
    kept[slabs].pop_back();
    kept_slabs -= slabs;
    return range;
  };
  auto forget_all = [&] {
    for (std::vector<void *> &list : kept) list.clear();
    kept_slabs = 0;
  };
  auto put = [&](void *range, size_t slabs) {
    held_slabs -= slabs;
    if (kept_slabs + slabs > room) {
      forget_all();
      room = std::min(4 + ++shortages / 16, SpareRoom());
    }
    if (slabs > room) return;
    kept[slabs].push_back(range);
    kept_slabs += slabs;
  };
  for (int i = 0; i < 20000 && !testing::Test::HasFailure(); i++) {
    if (runs.size() + spans.size() < 40 && random.OneIn(2)) {
      bool is_span = random.OneIn(2);
      unsigned class_index = static_cast<unsigned>(random.Between(1, HK_CLASS_COUNT - 1));
      size_t slabs = is_span ? hk_class_span_slabs(class_index) : random.Between(1, HK_RUN_MAX_SLABS);
      void *expected = take(slabs);
      if (is_span) {
        Reserve old = ReserveOf(heap);
        size_t share = ReserveShare(heap);
        spans.push_back(hk_span_acquire(heap, class_index));
        ASSERT_NE(spans.back(), nullptr);
        EXPECT_EQ(spans.back()->slab_count, slabs);
        ASSERT_NO_FATAL_FAILURE(ExpectKnownZero(spans.back()));
        Reserve now = ReserveOf(heap);
        if (expected != nullptr) {
          EXPECT_EQ(spans.back(), HeadOf(expected));
          EXPECT_EQ(now, old);
        } else if (old.slabs >= slabs) {
          EXPECT_EQ(spans.back(), old.first + (old.slabs - slabs)) << "from its upper end";
          EXPECT_EQ(now, (Reserve{old.slabs > slabs ? old.first : nullptr, old.slabs - slabs}));
        } else if (now != old) {
          EXPECT_LE(now.slabs, share);
          if (old.slabs > 0 && kept_slabs + old.slabs > room) {
            forget_all();
          } else if (old.slabs > 0) {
            kept[old.slabs].push_back(reinterpret_cast<void *>(hk_slab_start(old.first)));
            kept_slabs += old.slabs;
          }
        }
        reserves += now.slabs > old.slabs;
        WriteInto(spans.back());
      } else {
        void *run = Take(heap, slabs);
        ASSERT_EQ(run, expected);
        if (run == nullptr) run = NewRun(slabs);
        ASSERT_NE(run, nullptr);
        ExpectRun(run, slabs);
        WriteInto(HeadOf(run));
        runs.push_back(run);
      }
      held_slabs += slabs;
    } else if (!runs.empty() && random.OneIn(2)) {
      std::swap(runs[random.Below(runs.size())], runs.back());
      void *run = runs.back();
      put(run, HeadOf(run)->slab_count);
      ASSERT_TRUE(Put(heap, run));
      EXPECT_FALSE(Put(heap, run));
      runs.pop_back();
    } else if (!spans.empty()) {
      std::swap(spans[random.Below(spans.size())], spans.back());
      put(reinterpret_cast<void *>(hk_slab_start(spans.back())), spans.back()->slab_count);
      hk_span_release(heap, spans.back());
      spans.pop_back();
    }
    if (random.OneIn(200)) {
      hk_spare_flush(heap);
      forget_all();
      (void)hk_purge_down_to(0); /* free memory is untouched again */
    }
    ASSERT_EQ(KeptSlabs(heap), kept_slabs);
    ASSERT_EQ(InUseSlabs() - before, held_slabs + kept_slabs + ReservedSlabs(heap));
  }
  EXPECT_EQ(reserves > 20, room > 0) << "slabs were taken in advance, again and again";
  for (void *run : runs) EXPECT_TRUE(Put(heap, run));
  for (hk_slab_t *span : spans) hk_span_release(heap, span);
  EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), StatOf(heap, hk_stat_slab_release));
  hk_spare_flush(heap);
  EXPECT_EQ(InUseSlabs(), before);
}

HK_FRESH_TEST(SpareModel, AnyOrder) { RunAgainstModel(7); }
HK_FRESH_TEST(SpareModel, WithRoomForFew) {
  hk_option.spare_slabs = 5;
  RunAgainstModel(8);
}
HK_FRESH_TEST(SpareModel, WithRoomForNone) {
  hk_option.retain = 0;
  RunAgainstModel(9);
}

}  // namespace
