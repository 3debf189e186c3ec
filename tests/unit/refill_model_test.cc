// heap/refill: whole heaps under random use, against a model of the blocks that are held.
#include <map>
#include <utility>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "test_random.h"
#include "unit/heap_driver.h"

using namespace hk_test;

namespace {

// Which blocks are held, by span.
class Model {
 public:
  Model(hk_heap_t *heap, hk_heap_t *other, uint64_t seed) : heap_(heap), other_(other), random_(seed) {}

  void Step(size_t most_blocks) {
    bool grows = held_.size() < most_blocks && random_.Below(100) < growth_;
    if (random_.OneIn(2000)) growth_ = random_.OneIn(2) ? 80 : 20;
    if (grows) {
      Take();
    } else if (!held_.empty()) {
      GiveBack();
    }
    if (random_.OneIn(500)) hk_remote_flush(other_);
    if (random_.OneIn(1000)) Drain();
    if (random_.OneIn(3000)) hk_heap_flush(heap_);
  }

  void GiveBackAll() {
    while (!held_.empty() && !testing::Test::HasFailure()) GiveBack();
    hk_remote_flush(other_);
    Drain();
  }

  // Each span that a held block lies in, each that the heap allocates from, and each that a mid bin has blocks of.
  void CheckAll() {
    hk_remote_flush(other_);
    Drain();
    std::map<hk_slab_t *, unsigned> live;
    for (hk_block_t *block : held_) live[SpanOf(block)]++;
    for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
      if (heap_->state[i].active.load() != nullptr) live.insert({heap_->state[i].active.load(), 0});
      if (!hk_class_is_mid(i)) continue;
      CheckMidBin(heap_, i);
      for (hk_block_t *block = heap_->bin[i].free; block != HK_LIST_END; block = block->next) {
        live.insert({SpanOf(block), 0});
      }
    }
    size_t slabs = heap_->spare_slabs + ReservedSlabs(heap_);
    for (const auto &[span, count] : live) {
      CheckSpan(heap_, span, count);
      slabs += span->slab_count;
    }
    EXPECT_EQ(InUseSlabs(), slabs) << "no other slab is in use";
  }

 private:
  static uint64_t *WordOf(hk_block_t *block) { return reinterpret_cast<uint64_t *>(block + 1); }

  void Drain() {
    if (hk_heap_has_incoming(heap_)) hk_remote_drain(heap_);
    ASSERT_EQ(heap_->damaged, nullptr);
  }

  void Take() {
    unsigned class_index = kClasses[random_.Below(sizeof kClasses / sizeof kClasses[0])];
    /* As calloc does it. */
    bool fresh = hk_bin_is_fresh(&heap_->bin[class_index]);
    hk_block_t *block = Pop(heap_, class_index);
    if (block == nullptr) {
      block = Alloc(heap_, class_index);
      fresh = hk_heap_was_fresh(heap_, class_index);
      if (hk_class_is_mid(class_index)) CheckMidBin(heap_, class_index);
    }
    ASSERT_NE(block, nullptr);
    ASSERT_TRUE(!fresh || *WordOf(block) == 0) << "fresh memory is zero";
    *WordOf(block) = reinterpret_cast<uint64_t>(block);
    held_.push_back(block);
    WalkSpan(heap_, SpanOf(block));
  }

  void GiveBack() {
    std::swap(held_[random_.Below(held_.size())], held_.back());
    hk_block_t *block = held_.back();
    held_.pop_back();
    ASSERT_EQ(*WordOf(block), reinterpret_cast<uint64_t>(block)) << "another owner wrote into it";
    hk_slab_t *span = SpanOf(block);
    if (random_.OneIn(4)) {
      hk_remote_free(other_, span, block);
    } else {
      (void)FreeOwn(heap_, block);
    }
    if (hk_slab_state(span) == hk_slab_small) WalkSpan(heap_, span);
    ASSERT_EQ(heap_->damaged, nullptr);
  }

  static constexpr unsigned kClasses[] = {2, 4, 5, 33, 64, 66, 80, 93, 104};
  hk_heap_t *heap_;
  hk_heap_t *other_;
  TestRandom random_;
  std::vector<hk_block_t *> held_;
  unsigned growth_ = 70;
};

void RunAgainstModel(uint64_t seed, size_t most_blocks) {
  hk_heap_t *heap = hk_heap_take(), *other = hk_heap_take();
  Model model(heap, other, seed);
  for (int i = 0; i < 60000 && !testing::Test::HasFailure(); i++) {
    model.Step(most_blocks);
    if (i % 2000 == 1999) model.CheckAll();
  }
  model.GiveBackAll();
  model.CheckAll();
  hk_heap_flush(heap);
  EXPECT_EQ(InUseSlabs(), 0u);
  EXPECT_EQ(StatOf(heap, hk_stat_slab_acquire), StatOf(heap, hk_stat_slab_release));
  EXPECT_EQ(StatOf(heap, hk_stat_remote_drain), StatOf(other, hk_stat_remote_free));
  ExpectStagesAddUp(heap);
  for (hk_stat_id_t stage : {hk_stat_refill_remote, hk_stat_refill_used, hk_stat_refill_carve}) {
    EXPECT_GT(StatOf(heap, stage), 0u) << hk_stat_text[stage].name;
  }
}

HK_FRESH_TEST(RefillModel, FewBlocks) { RunAgainstModel(1, 60); }
HK_FRESH_TEST(RefillModel, ManyBlocks) { RunAgainstModel(2, 8000); }
HK_FRESH_TEST(RefillModel, WithoutSpareSlabs) {
  hk_option.spare_slabs = 0;
  hk_option.retain = 0;
  RunAgainstModel(3, 1000);
}

}  // namespace
