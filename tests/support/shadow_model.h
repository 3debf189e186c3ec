/* tests/support/shadow_model.h - checks the blocks that an allocator has handed out.
 *
 * The model records each live block's start, size, alignment and contents. It notices a block that overlaps another,
 * loses its contents, changes its usable size, or is not zero where it has to be. It never calls the allocator, so one
 * model serves every way of allocating. Its own records lie in the C library's memory: link it to programs in which
 * hakmem does not define malloc.
 *
 * Functions that return bool return false when a check fails; problem() then has the reason. Not thread-safe: threads
 * check contents with the pattern functions alone.
 */
#ifndef HK_TESTS_SUPPORT_SHADOW_MODEL_H
#define HK_TESTS_SUPPORT_SHADOW_MODEL_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "block_pattern.h"

namespace hk_test {

class ShadowModel {
 public:
  struct Block {
    char *start;
    size_t requested;
    size_t usable; /* the pattern covers all of them */
    size_t alignment;
    uint64_t stamp;
  };

  enum class Contents { kAny, kZero };

  /* Adds a new block and fills it. Checks that it is aligned and large enough, and overlaps no other. With kZero, also
   * checks that its requested bytes are zero. */
  bool Add(void *start, size_t requested, size_t usable, size_t alignment, Contents contents = Contents::kAny);

  /* Checks that the block still has its contents and, unless `usable_now` is 0, its usable size. */
  bool Check(size_t index, size_t usable_now = 0);

  /* Checks the block and removes it; call this before the block is freed. The last block takes its index. */
  bool Remove(size_t index);

  /* Checks that the block has its old contents up to the smaller size, and fills it anew; call this after a realloc.
   * realloc promises no more than the usual alignment, even for a block that had a larger one. */
  bool Replace(size_t index, void *start, size_t requested, size_t usable, size_t alignment = 16);

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
  std::map<uintptr_t, uintptr_t> intervals_; /* start and end of each live block; they never overlap */
  size_t live_bytes_ = 0;
  uint64_t next_stamp_ = 0x5851f42d4c957f2du;
  std::string problem_;
};

} /* namespace hk_test */

#endif
