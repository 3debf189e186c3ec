/* tests/model/named_model_test.cc - random calls on named heaps and tags beside a model of each block: contents, heap
 * or tag, limits, and the tags' counts. */
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/scale.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

struct Block {
  size_t size;
  unsigned char mark;
  hakmem_heap_t *heap; /* or */
  int tag;             /* its index; -1: none */
};

struct Counts {
  uint64_t blocks_in = 0, bytes_in = 0, blocks_out = 0, bytes_out = 0;
};

constexpr size_t kHeaps = 6, kTags = 4;
constexpr size_t kHardLimit = 3 << 20;

class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {
    for (size_t i = 0; i < kTags; i++) tags_[i] = hakmem_tag_create(("model " + std::to_string(i)).c_str());
    for (size_t i = 0; i < kTags; i++) base_[i] = Counted(i);
    for (size_t i = 0; i < kHeaps; i++) heaps_[i] = NewHeap(i);
  }

  void Run(size_t steps) {
    for (size_t step = 0; step < steps && !testing::Test::HasFailure(); step++) {
      Step();
      if (step % 5000 == 4999) CheckCounts();
    }
    while (!pushed_.empty()) Pop(pushed_.size() - 1);
    while (!blocks_.empty()) Free(blocks_.begin()->first);
    CheckCounts();
    for (hakmem_heap_t *heap : heaps_) {
      (void)hakmem_heap_collect(heap);
      EXPECT_EQ(Usage(heap).bytes, 0u);
      hakmem_heap_destroy(heap);
    }
  }

 private:
  static hakmem_heap_t *NewHeap(size_t i) {
    hakmem_heap_options_t options = {};
    options.size = sizeof options;
    if (i % 2 == 1) options.hard_limit = kHardLimit;
    return hakmem_heap_create("model", &options);
  }

  static hakmem_heap_usage_t Usage(hakmem_heap_t *heap) {
    hakmem_heap_usage_t usage;
    hakmem_heap_usage(heap, &usage, sizeof usage);
    return usage;
  }

  hakmem_tag_counts_t Counted(size_t tag) const {
    hakmem_tag_counts_t counts;
    hakmem_tag_counts(tags_[tag], &counts, sizeof counts);
    return counts;
  }

  void CheckCounts() {
    for (size_t i = 0; i < kTags; i++) {
      hakmem_tag_counts_t now = Counted(i);
      EXPECT_EQ(now.allocated_blocks - base_[i].allocated_blocks, counts_[i].blocks_in);
      EXPECT_EQ(now.allocated_bytes - base_[i].allocated_bytes, counts_[i].bytes_in);
      EXPECT_EQ(now.freed_blocks - base_[i].freed_blocks, counts_[i].blocks_out);
      EXPECT_EQ(now.freed_bytes - base_[i].freed_bytes, counts_[i].bytes_out);
    }
  }

  size_t Size() { return random_.Below(30) == 0 ? random_.LogBetween(1, 1 << 21) : random_.LogBetween(1, 40000); }

  void Step() {
    switch (random_.Below(16)) {
      case 0:
        Push();
        break;
      case 1:
        if (!pushed_.empty()) Pop(random_.Below(pushed_.size()));
        break;
      case 2:
      case 3:
      case 4:
        Allocate(nullptr);
        break;
      case 5:
      case 6:
      case 7:
        Allocate(heaps_[random_.Below(kHeaps)]);
        break;
      case 8:
      case 9:
        Resize();
        break;
      case 10:
        if (random_.Below(300) == 0) Destroy(random_.Below(kHeaps));
        break;
      case 11:
        if (random_.Below(500) == 0) (void)hakmem_heap_collect(heaps_[random_.Below(kHeaps)]);
        break;
      default:
        if (blocks_.size() > random_.Below(600)) Free(Any());
    }
  }

  void Push() {
    if (pushed_.size() >= 20) return;
    pushed_.push_back(static_cast<int>(random_.Below(kTags)));
    hakmem_tag_push(tags_[static_cast<size_t>(pushed_.back())]);
  }

  /* By the index, or by its tag: then the innermost push of that goes. */
  void Pop(size_t i) {
    if (i + 1 == pushed_.size() && random_.Below(2) == 0) {
      hakmem_tag_pop();
    } else {
      int tag = pushed_[i];
      i = pushed_.size() - 1;
      while (pushed_[i] != tag) i--;
      hakmem_tag_remove(tags_[static_cast<size_t>(tag)]);
    }
    pushed_.erase(pushed_.begin() + static_cast<ptrdiff_t>(i));
  }

  void Allocate(hakmem_heap_t *heap) {
    size_t size = Size();
    void *block = nullptr;
    size_t alignment = size_t{16} << random_.Below(9);
    switch (random_.Below(3)) {
      case 0:
        block = heap != nullptr ? hakmem_heap_malloc(heap, size) : hakmem_malloc(size);
        break;
      case 1:
        block = heap != nullptr ? hakmem_heap_calloc(heap, 1, size) : hakmem_calloc(1, size);
        break;
      default:
        block =
            heap != nullptr ? hakmem_heap_aligned_alloc(heap, alignment, size) : hakmem_aligned_alloc(alignment, size);
        if (block != nullptr) ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u);
    }
    if (block == nullptr) {
      ASSERT_NE(heap, nullptr);
      ASSERT_GT(Usage(heap).refused_count, 0u);
      return;
    }
    Enter(block, {size, static_cast<unsigned char>(random_.Next()), heap, heap == nullptr ? Tag() : -1});
    CountIn(block);
    Fill(block);
  }

  int Tag() const { return pushed_.empty() ? -1 : pushed_.back(); }

  void Enter(void *block, const Block &known) {
    ASSERT_EQ(blocks_.count(block), 0u);
    blocks_[block] = known;
    ASSERT_EQ(hakmem_heap_of(block), known.heap);
    ASSERT_EQ(hakmem_tag_of(block), known.tag < 0 ? nullptr : tags_[known.tag]);
    if (known.heap != nullptr && Usage(known.heap).hard_limit != 0) ASSERT_LE(Usage(known.heap).bytes, kHardLimit);
  }

  void CountIn(void *block) {
    int tag = blocks_[block].tag;
    if (tag < 0) return;
    counts_[tag].blocks_in++;
    counts_[tag].bytes_in += hakmem_malloc_usable_size(block);
  }

  void Leave(void *block) {
    const Block &known = blocks_[block];
    if (known.tag >= 0) {
      counts_[known.tag].blocks_out++;
      counts_[known.tag].bytes_out += hakmem_malloc_usable_size(block);
    }
    blocks_.erase(block);
  }

  void Fill(void *block) { memset(block, blocks_[block].mark, blocks_[block].size); }

  void Check(void *block, size_t size) {
    auto *bytes = static_cast<unsigned char *>(block);
    unsigned char mark = blocks_[block].mark;
    for (size_t i = 0; i < size; i += i + 64 < size ? 61 : 1) ASSERT_EQ(bytes[i], mark);
  }

  void *Any() {
    auto it = blocks_.lower_bound(reinterpret_cast<void *>(last_ += 0x9e3779b97f4a7c15u >> 16));
    if (it == blocks_.end()) {
      it = blocks_.begin();
      last_ = reinterpret_cast<uintptr_t>(it->first) + random_.Below(1 << 24);
      it = blocks_.lower_bound(reinterpret_cast<void *>(last_));
      if (it == blocks_.end()) it = blocks_.begin();
    }
    return it->first;
  }

  void Free(void *block) {
    Check(block, blocks_[block].size);
    Leave(block);
    hakmem_free(block);
  }

  void Resize() {
    if (blocks_.empty()) return;
    void *block = Any();
    Block known = blocks_[block];
    size_t size = Size(), before = hakmem_malloc_usable_size(block);
    bool by_heap = known.heap != nullptr && random_.Below(2) == 0;
    void *resized = by_heap ? hakmem_heap_realloc(known.heap, block, size) : hakmem_realloc(block, size);
    if (resized == nullptr) {
      ASSERT_NE(known.heap, nullptr);
      Check(block, known.size);
      return;
    }
    blocks_.erase(block);
    size_t after = hakmem_malloc_usable_size(resized), kept = known.size < size ? known.size : size;
    int tag = known.tag;
    bool is_plain = known.heap == nullptr && tag < 0; /* where it moves, it is an allocation under the pushed tag */
    if (is_plain && resized != block && hakmem_tag_of(resized) != nullptr) tag = Tag();
    Enter(resized, {size, known.mark, known.heap, tag});
    if (is_plain) CountIn(resized);
    Check(resized, kept);
    Fill(resized);
    if (known.tag < 0) return;
    Counts &counts = counts_[known.tag];
    if (resized == block) {
      counts.bytes_in += after > before ? after - before : 0;
      counts.bytes_out += before > after ? before - after : 0;
    } else {
      CountMove(known.tag, before, after);
    }
  }

  /* Pages of a large block may move to another address: then that is a resize in place, which the counts tell. */
  void CountMove(int tag, size_t before, size_t after) {
    Counts &counts = counts_[tag];
    hakmem_tag_counts_t now = Counted(static_cast<size_t>(tag));
    if (before > 32768 && now.allocated_blocks - base_[tag].allocated_blocks == counts.blocks_in) {
      counts.bytes_in += after > before ? after - before : 0;
      counts.bytes_out += before > after ? before - after : 0;
      return;
    }
    counts.blocks_in++;
    counts.bytes_in += after;
    counts.blocks_out++;
    counts.bytes_out += before;
  }

  void Destroy(size_t i) {
    for (auto it = blocks_.begin(); it != blocks_.end();) {
      if (it->second.heap == heaps_[i]) {
        Check(it->first, it->second.size);
        it = blocks_.erase(it);
      } else {
        ++it;
      }
    }
    hakmem_heap_destroy(heaps_[i]);
    heaps_[i] = NewHeap(i);
    ASSERT_EQ(Usage(heaps_[i]).bytes, 0u);
  }

  TestRandom random_;
  hakmem_heap_t *heaps_[kHeaps] = {};
  hakmem_tag_t *tags_[kTags] = {};
  hakmem_tag_counts_t base_[kTags] = {};
  Counts counts_[kTags];
  std::vector<int> pushed_;
  std::map<void *, Block> blocks_;
  uintptr_t last_ = 0;
};

TEST(NamedModel, RandomCallsAgree) {
  const uint64_t seed = TestSeed();
  for (size_t round = 0; round < Scaled(6); round++) Model(seed + round).Run(20000);
}

}  // namespace
