// Blocks on their way from thread to thread, each of which says whether a thread has it.
#ifndef HK_TESTS_UNIT_HELD_BLOCKS_H
#define HK_TESTS_UNIT_HELD_BLOCKS_H

#include <mutex>
#include <utility>
#include <vector>

#include "unit/core_parts.h"

namespace hk_test {
inline namespace held_blocks {

// Any thread may put, any may take.
class BlockQueue {
 public:
  void Put(hk_block_t *block) {
    std::lock_guard<std::mutex> guard(mutex_);
    blocks_.push_back(block);
  }
  std::vector<hk_block_t *> TakeAll() {
    std::lock_guard<std::mutex> guard(mutex_);
    return std::exchange(blocks_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<hk_block_t *> blocks_;
};

inline constexpr uint64_t kHeld = 0x1de41de41de41de4;

// Behind what links a free block.
inline uint64_t *LabelOf(hk_block_t *block) { return reinterpret_cast<uint64_t *>(block + 1); }

// Takes a block; false if another thread has it.
inline bool Hold(hk_block_t *block) { return std::exchange(*LabelOf(block), kHeld) != kHeld; }
inline bool LetGo(hk_block_t *block) { return std::exchange(*LabelOf(block), 0) == kHeld; }

}  // namespace held_blocks
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_HELD_BLOCKS_H
