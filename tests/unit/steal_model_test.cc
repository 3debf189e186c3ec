// heap/steal: many moves, against a model.
#include <map>
#include <set>
#include <vector>

#include "fresh_test.h"
#include "test_random.h"
#include "unit/steal_driver.h"

using namespace hk_test;

namespace {

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {
    for (hk_heap_t *&heap : heaps_) heap = hk_heap_take();
  }

  void Step(size_t most_blocks) {
    hk_heap_t *heap = heaps_[random_.Below(kHeaps)];
    if (idle_.count(heap) > 0) {
      if (random_.OneIn(50)) Adopt(heap);
    } else if (random_.OneIn(100) && idle_.size() < kHeaps - 1) {
      Leave(heap);
    } else if (held_.size() < most_blocks && random_.Below(100) < growth_) {
      Take(heap);
    } else if (!held_.empty()) {
      GiveBack(heap);
    }
    if (random_.OneIn(1500)) growth_ = random_.OneIn(2) ? 80 : 20;
    if (random_.OneIn(200)) hk_remote_drain_idle();
  }

  // All heaps are attached, and blocks in batches reach their owners.
  void Settle() {
    for (hk_heap_t *heap : std::set<hk_heap_t *>(idle_)) Adopt(heap);
    bool is_pending = true;
    for (int round = 0; is_pending && round < 20; round++) {
      is_pending = false;
      for (hk_heap_t *heap : heaps_) {
        Drain(heap);
        hk_remote_flush(heap);
      }
      for (hk_heap_t *heap : heaps_) is_pending |= hk_heap_has_incoming(heap);
    }
    ASSERT_FALSE(is_pending) << "blocks sent on arrive";
  }

  void CheckAll() {
    Settle();
    std::map<hk_slab_t *, unsigned> live;
    for (hk_block_t *block : held_) live[SpanOf(block)]++;
    size_t slabs = 0;
    for (hk_heap_t *heap : heaps_) {
      slabs += heap->spare_slabs + ReservedSlabs(heap);
      for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
        if (heap->state[i].active.load() != nullptr) live.insert({heap->state[i].active.load(), 0});
        if (!hk_class_is_mid(i)) continue;
        CheckMidBin(heap, i);
        for (hk_block_t *block = heap->bin[i].free; block != HK_LIST_END; block = block->next) {
          live.insert({SpanOf(block), 0});
        }
      }
    }
    std::map<hk_heap_t *, size_t> owned;
    for (const auto &[span, count] : live) {
      CheckSpan(OwnerOf(span), span, count);
      owned[OwnerOf(span)] += span->slab_count;
      slabs += span->slab_count;
    }
    for (hk_heap_t *heap : heaps_) EXPECT_EQ(heap->span_slabs, owned[heap]);
    EXPECT_EQ(InUseSlabs(), slabs) << "no other slab is in use";
  }

  void GiveBackAll() {
    Settle();
    while (!held_.empty() && !testing::Test::HasFailure()) GiveBack(heaps_[random_.Below(kHeaps)]);
    Settle();
    uint64_t freed = 0, home = 0, moved = 0;
    for (hk_heap_t *heap : heaps_) {
      hk_heap_flush(heap);
      EXPECT_EQ(heap->span_slabs, 0u);
      freed += StatOf(heap, hk_stat_remote_free);
      home += StatOf(heap, hk_stat_remote_drain);
      moved += StatOf(heap, hk_stat_slab_move);
    }
    EXPECT_EQ(InUseSlabs(), 0u);
    EXPECT_EQ(freed, home) << "each was collected once, whatever its way was";
    EXPECT_GT(moved, 100u) << "else the test has not seen much";
  }

 private:
  static constexpr unsigned kHeaps = 4;
  static constexpr unsigned kClasses[] = {2, 4, 33, 64, 66, 80, 93, 104};

  static uint64_t *WordOf(hk_block_t *block) { return reinterpret_cast<uint64_t *>(block + 1); }

  void Adopt(hk_heap_t *heap) {
    ASSERT_TRUE(hk_heap_take_this(heap));
    idle_.erase(heap);
  }

  // As a thread ends, or, one in two, as one that only borrowed it.
  void Leave(hk_heap_t *heap) {
    hk_remote_flush(heap);
    if (random_.OneIn(2)) hk_heap_deactivate_all(heap);
    hk_heap_give_back(heap);
    idle_.insert(heap);
  }

  void Take(hk_heap_t *heap) {
    unsigned class_index = kClasses[random_.Below(sizeof kClasses / sizeof kClasses[0])];
    bool fresh = hk_bin_is_fresh(&heap->bin[class_index]);
    hk_block_t *block = Pop(heap, class_index);
    if (block == nullptr) {
      block = Alloc(heap, class_index);
      fresh = hk_heap_was_fresh(heap, class_index);
    }
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(OwnerOf(hk_slab_of(block)), heap);
    ASSERT_TRUE(!fresh || *WordOf(block) == 0) << "fresh memory is zero";
    *WordOf(block) = reinterpret_cast<uint64_t>(block);
    held_.push_back(block);
  }

  void GiveBack(hk_heap_t *heap) {
    std::swap(held_[random_.Below(held_.size())], held_.back());
    hk_block_t *block = held_.back();
    held_.pop_back();
    ASSERT_EQ(*WordOf(block), reinterpret_cast<uint64_t>(block)) << "another owner wrote into it";
    Free(heap, block);
  }

  void Drain(hk_heap_t *heap) {
    if (hk_heap_has_incoming(heap)) hk_remote_drain(heap);
    ASSERT_EQ(heap->damaged, nullptr);
  }

  TestRandom random_;
  hk_heap_t *heaps_[kHeaps];
  std::set<hk_heap_t *> idle_;
  std::vector<hk_block_t *> held_;
  unsigned growth_ = 70;
};

void RunAgainstModel(uint64_t seed, size_t most_blocks) {
  Model model(seed);
  for (int i = 0; i < 80000 && !testing::Test::HasFailure(); i++) {
    model.Step(most_blocks);
    if (i % 4000 == 3999) model.CheckAll();
  }
  model.GiveBackAll();
}

HK_FRESH_TEST(StealModel, FewBlocks) { RunAgainstModel(1, 200); }
HK_FRESH_TEST(StealModel, ManyBlocks) { RunAgainstModel(2, 8000); }
HK_FRESH_TEST(StealModel, WithoutSpareSlabs) {
  hk_option.spare_slabs = 0;
  RunAgainstModel(3, 1500);
}

}  // namespace
