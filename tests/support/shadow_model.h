/* tests/support/shadow_model.h - what must be true of the blocks that an allocator handed out.
 *
 * The model is the user's side of the contract: it knows each live block's start, size, alignment and what was written
 * to it, and notices when a block overlaps another, loses its contents, changes its usable size, or is not zero where
 * it has to be. It never calls the allocator, so one model serves every way of allocating. It keeps its own records in
 * the C library's memory: link it to programs where hakmem has not taken malloc's name.
 *
 * Not thread-safe. Threads check contents with the pattern functions alone.
 */
#ifndef HAKMEM_TESTS_SUPPORT_SHADOW_MODEL_H
#define HAKMEM_TESTS_SUPPORT_SHADOW_MODEL_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "block_pattern.h"

namespace hakmem_test {

/* Functions that return bool return false when the contract is broken; problem() then says how. */

class ShadowModel {
 public:
  struct Block {
    char *start;
    size_t requested;
    size_t usable; /* pattern covers all of it */
    size_t alignment;
    uint64_t stamp;
  };

  enum class Contents { kAny, kZero };

  /* A new block: aligned, large enough, overlapping none, and zero (as far as requested) where it must be. Fills it. */
  bool Add(void *start, size_t requested, size_t usable, size_t alignment, Contents contents = Contents::kAny);

  /* The block still has its contents and, unless `usable_now` is 0, its usable size. */
  bool Check(size_t index, size_t usable_now = 0);

  /* To be called before the block is freed: checks it, then forgets it. The last block takes its index. */
  bool Remove(size_t index);

  /* To be called after a realloc: the old contents are there up to the smaller size. Fills the rest. */
  bool Replace(size_t index, void *start, size_t requested, size_t usable);

  bool CheckAll();

  const Block &at(size_t index) const { return blocks_[index]; }
  size_t count() const { return blocks_.size(); }
  size_t live_bytes() const { return live_bytes_; }
  const std::string &problem() const { return problem_; }

 private:
  bool Fail(const Block &block, const char *what, size_t detail);
  bool Occupy(const Block &block);
  void Vacate(const Block &block);

  std::vector<Block> blocks_;
  std::map<uintptr_t, uintptr_t> intervals_; /* start to end of each live block: disjoint, by construction */
  size_t live_bytes_ = 0;
  uint64_t next_stamp_ = 0x5851f42d4c957f2du;
  std::string problem_;
};

} /* namespace hakmem_test */

#endif
