/* tests/support/block_pattern.h - contents that show whether a block is intact.
 *
 * A word of a block follows from `stamp` and the word's place. Blocks of up to kFullPatternBytes have all words filled.
 * Larger ones have the first and last 64 bytes filled, and one word in each KiB, or in each 4 KiB from 1 MiB on. This
 * notices a lost page and is cheap enough for 10^9 blocks. These functions do not allocate.
 */
#ifndef HK_TESTS_SUPPORT_BLOCK_PATTERN_H
#define HK_TESTS_SUPPORT_BLOCK_PATTERN_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace hk_test {

constexpr size_t kFullPatternBytes = 4096;
constexpr size_t kPatternEdgeBytes = 64;
constexpr uint64_t kPatternStep = 0x9e3779b97f4a7c15u;
constexpr size_t kIntact = SIZE_MAX;

inline uint64_t PatternWord(uint64_t stamp, size_t offset) {
  return stamp + (offset / sizeof(uint64_t)) * kPatternStep;
}

/* Calls visit(offset, bytes) for each place with a part of the pattern, in ascending order, until it returns false.
 * `bytes` is 8, but less at the end of a block whose size is no multiple of 8. */
template <typename Visit>
bool VisitPattern(size_t size, Visit visit) {
  size_t words_end = size / sizeof(uint64_t) * sizeof(uint64_t);
  if (size <= kFullPatternBytes) {
    for (size_t offset = 0; offset < words_end; offset += sizeof(uint64_t)) {
      if (!visit(offset, sizeof(uint64_t))) return false;
    }
  } else {
    size_t stride = size < (size_t{1} << 20) ? 1024 : 4096;
    size_t tail = words_end - kPatternEdgeBytes;
    for (size_t offset = 0; offset < kPatternEdgeBytes; offset += sizeof(uint64_t)) {
      if (!visit(offset, sizeof(uint64_t))) return false;
    }
    for (size_t offset = stride; offset < tail; offset += stride) {
      if (!visit(offset, sizeof(uint64_t))) return false;
    }
    for (size_t offset = tail; offset < words_end; offset += sizeof(uint64_t)) {
      if (!visit(offset, sizeof(uint64_t))) return false;
    }
  }
  return words_end == size || visit(words_end, size - words_end);
}

inline void FillPattern(void *start, size_t size, uint64_t stamp) {
  char *bytes = static_cast<char *>(start);
  VisitPattern(size, [=](size_t offset, size_t count) {
    uint64_t word = PatternWord(stamp, offset);
    if (count == sizeof word) {
      std::memcpy(bytes + offset, &word, sizeof word); /* a constant size: one store */
    } else {
      std::memcpy(bytes + offset, &word, count);
    }
    return true;
  });
}

/* Returns the offset of the first wrong word among the first `limit` bytes of a block that was filled at `size` bytes;
 * kIntact when there is none. */
inline size_t FindBrokenPattern(const void *start, size_t size, size_t limit, uint64_t stamp) {
  const char *bytes = static_cast<const char *>(start);
  size_t broken = kIntact;
  VisitPattern(size, [&](size_t offset, size_t count) {
    if (offset >= limit) return false;
    if (count > limit - offset) count = limit - offset;
    uint64_t expected = PatternWord(stamp, offset), found = expected;
    if (count == sizeof found) {
      std::memcpy(&found, bytes + offset, sizeof found);
    } else {
      std::memcpy(&found, bytes + offset, count);
    }
    if (found == expected) return true;
    broken = offset;
    return false;
  });
  return broken;
}

/* Returns the offset of the first byte that is not zero; kIntact when all are zero. */
inline size_t FindNonZero(const void *start, size_t size) {
  const char *bytes = static_cast<const char *>(start);
  if (size == 0) return kIntact;
  /* All bytes are zero if the first is and each equals its successor. memcmp is faster than a loop. */
  if (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, size - 1) == 0) return kIntact;
  size_t offset = 0;
  while (bytes[offset] == 0) offset++;
  return offset;
}

} /* namespace hk_test */

#endif
