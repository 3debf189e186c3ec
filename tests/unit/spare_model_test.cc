// heap/spare: random runs and spans against a model.
#include <algorithm>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/spare_driver.h"

using namespace hk_test;

namespace {

// A heap beside a model of the free slabs that it keeps: which row serves a request, and which rows go where room is
// short.
class SpareModel {
 public:
  explicit SpareModel(uint64_t seed) : heap_(hk_heap_take()), before_(InUseSlabs()), random_(seed) {}

  void Step() {
    if (runs_.size() + spans_.size() < 40 && random_.OneIn(2)) {
      Allocate();
    } else if (!runs_.empty() && random_.OneIn(2)) {
      FreeARun();
    } else if (!spans_.empty()) {
      FreeASpan();
    }
    if (random_.OneIn(200)) {
      hk_spare_flush(heap_);
      ForgetAll();
      (void)hk_purge_down_to(0); /* free memory is untouched again */
    }
    ASSERT_EQ(KeptSlabs(heap_), kept_slabs_);
    ASSERT_EQ(InUseSlabs() - before_, held_slabs_ + kept_slabs_ + ReservedSlabs(heap_));
  }

  void End() {
    EXPECT_EQ(reserves_ > 20, room_ > 0) << "slabs were taken in advance, again and again";
    for (void *run : runs_) EXPECT_TRUE(Put(heap_, run));
    for (hk_slab_t *span : spans_) hk_span_release(heap_, span);
    EXPECT_EQ(StatOf(heap_, hk_stat_slab_acquire), StatOf(heap_, hk_stat_slab_release));
    hk_spare_flush(heap_);
    EXPECT_EQ(InUseSlabs(), before_);
  }

 private:
  // The row that a request for that number of slabs gets; NULL: none.
  void *Expected(size_t slabs) {
    if (kept_[slabs].empty()) return nullptr;
    void *row = kept_[slabs].back();
    kept_[slabs].pop_back();
    kept_slabs_ -= slabs;
    return row;
  }

  void Keep(void *row, size_t slabs) {
    kept_[slabs].push_back(row);
    kept_slabs_ += slabs;
  }

  void ForgetAll() {
    for (std::vector<void *> &list : kept_) list.clear();
    kept_slabs_ = 0;
  }

  void Free(void *row, size_t slabs) {
    held_slabs_ -= slabs;
    if (kept_slabs_ + slabs > room_) {
      ForgetAll();
      room_ = std::min(4 + ++shortages_ / 16, SpareRoom());
    }
    if (slabs <= room_) Keep(row, slabs);
  }

  void Allocate() {
    bool is_span = random_.OneIn(2);
    unsigned class_index = static_cast<unsigned>(random_.Between(1, HK_CLASS_COUNT - 1));
    size_t slabs = is_span ? hk_class_span_slabs(class_index) : random_.Between(1, HK_RUN_MAX_SLABS);
    void *expected = Expected(slabs);
    held_slabs_ += slabs;
    if (is_span) {
      AllocateASpan(class_index, slabs, expected);
    } else {
      AllocateARun(slabs, expected);
    }
  }

  void AllocateARun(size_t slabs, const void *expected) {
    void *run = Take(heap_, slabs);
    ASSERT_EQ(run, expected);
    if (run == nullptr) run = NewRun(slabs);
    ASSERT_NE(run, nullptr);
    ExpectRun(run, slabs);
    WriteInto(HeadOf(run));
    runs_.push_back(run);
  }

  void AllocateASpan(unsigned class_index, size_t slabs, const void *expected) {
    Reserve old = ReserveOf(heap_);
    size_t share = ReserveShare(heap_);
    hk_slab_t *span = hk_span_acquire(heap_, class_index);
    ASSERT_NE(span, nullptr);
    spans_.push_back(span);
    EXPECT_EQ(span->slab_count, slabs);
    ASSERT_NO_FATAL_FAILURE(ExpectKnownZero(span));
    Reserve now = ReserveOf(heap_);
    if (expected != nullptr) {
      EXPECT_EQ(span, HeadOf(expected));
      EXPECT_EQ(now, old);
    } else if (old.slabs >= slabs) {
      EXPECT_EQ(span, old.first + (old.slabs - slabs)) << "from its upper end";
      EXPECT_EQ(now, (Reserve{old.slabs > slabs ? old.first : nullptr, old.slabs - slabs}));
    } else if (now != old) {
      EXPECT_LE(now.slabs, share);
      EndReserve(old);
    }
    reserves_ += now.slabs > old.slabs;
    WriteInto(span);
  }

  // A reserve that is too short becomes a kept row, or all kept rows go with it.
  void EndReserve(const Reserve &old) {
    if (old.slabs == 0) return;
    if (kept_slabs_ + old.slabs > room_) {
      ForgetAll();
    } else {
      Keep(reinterpret_cast<void *>(hk_slab_start(old.first)), old.slabs);
    }
  }

  void FreeARun() {
    std::swap(runs_[random_.Below(runs_.size())], runs_.back());
    void *run = runs_.back();
    Free(run, HeadOf(run)->slab_count);
    ASSERT_TRUE(Put(heap_, run));
    EXPECT_FALSE(Put(heap_, run));
    runs_.pop_back();
  }

  void FreeASpan() {
    std::swap(spans_[random_.Below(spans_.size())], spans_.back());
    Free(reinterpret_cast<void *>(hk_slab_start(spans_.back())), spans_.back()->slab_count);
    hk_span_release(heap_, spans_.back());
    spans_.pop_back();
  }

  hk_heap_t *heap_;
  size_t before_;
  TestRandom random_;
  std::vector<void *> runs_;
  std::vector<hk_slab_t *> spans_;
  std::vector<void *> kept_[HK_RUN_MAX_SLABS + 1]; /* by length, the last freed at the end */
  size_t held_slabs_ = 0, kept_slabs_ = 0, reserves_ = 0, shortages_ = 0, room_ = std::min(size_t{4}, SpareRoom());
};

void RunAgainstModel(uint64_t seed) {
  fake_os_fail_all(fake_os_resident, true); /* no run is known to be sparse */
  SpareModel model(seed);
  for (int i = 0; i < 20000 && !testing::Test::HasFailure(); i++) model.Step();
  model.End();
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
