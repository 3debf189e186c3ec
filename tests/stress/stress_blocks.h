/* tests/stress/stress_blocks.h - blocks that prove themselves.
 *
 * Each block carries its size and the stamp of its contents in its first words and is filled with the pattern that
 * follows from it, so each thread that gets a block can check it.
 */
#ifndef HK_TESTS_STRESS_STRESS_BLOCKS_H
#define HK_TESTS_STRESS_STRESS_BLOCKS_H

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "hakmem/hakmem.h"
#include "support/process_memory.h"
#include "support/shadow_model.h"
#include "support/test_random.h"

namespace hk_test {

struct Header {
  size_t size;
  uint64_t stamp;
};

/* From any thread; the first thing wrong is kept, the others may be its consequences. */
inline std::atomic<int> wrong_count;

inline void Wrong(const char *what, const void *block, size_t detail) {
  if (wrong_count++ < 5) std::fprintf(stderr, "wrong: %s: block %p, 0x%zx\n", what, block, detail);
}

inline void Stamp(void *block, size_t size, uint64_t stamp) {
  Header header = {size, stamp};
  FillPattern(static_cast<char *>(block) + sizeof header, size - sizeof header, stamp);
  std::memcpy(block, &header, sizeof header);
}

/* Its size, or 0 when something is wrong. */
inline size_t Verify(const void *block) {
  Header header;
  std::memcpy(&header, block, sizeof header);
  if (header.size < sizeof header || header.size > 64 * kMiB) {
    Wrong("header is damaged", block, header.size);
    return 0;
  }
  size_t body = header.size - sizeof header;
  size_t offset = FindBrokenPattern(static_cast<const char *>(block) + sizeof header, body, body, header.stamp);
  if (offset == kIntact) return header.size;
  Wrong("contents are damaged", block, offset);
  return 0;
}

inline size_t DrawSize(TestRandom *random) {
  size_t kind = random->Below(1000);
  if (kind < 800) return random->LogBetween(sizeof(Header), kTinyMax);
  if (kind < 985) return random->LogBetween(kTinyMax, kMidMax);
  if (kind < 998) return random->LogBetween(kMidMax, kRunMax);
  return random->LogBetween(kRunMax, 4 * kMiB);
}

inline void *MakeOfSize(TestRandom *random, size_t size) {
  void *block = nullptr;
  switch (random->Below(10)) {
    case 0:
      block = hakmem_calloc(1, size);
      if (block != nullptr && FindNonZero(block, size) != kIntact)
        Wrong("calloc is not zero", block, FindNonZero(block, size));
      break;
    case 1:
      block = hakmem_aligned_alloc(size_t{16} << random->Below(6), size);
      break;
    default:
      block = hakmem_malloc(size);
  }
  if (block == nullptr) {
    Wrong("out of memory", nullptr, size);
    std::abort(); /* the tests stay far below any limit */
  }
  Stamp(block, size, random->Next());
  return block;
}

inline void *Make(TestRandom *random) { return MakeOfSize(random, DrawSize(random)); }

inline void Drop(void *block) {
  if (block == nullptr) return;
  if (Verify(block) > 0) std::memset(block, 0xdd, sizeof(Header)); /* a second owner of it would notice */
  hakmem_free(block);
}

inline void *Resize(TestRandom *random, void *block) {
  size_t old = Verify(block);
  if (old == 0) return block;
  size_t size = DrawSize(random);
  if (random->OneIn(3)) size = old + random->Below(old) + 1;
  if (size > 8 * kMiB) size = old;
  Header header;
  std::memcpy(&header, block, sizeof header);
  char *moved = static_cast<char *>(hakmem_realloc(block, size));
  if (moved == nullptr) {
    Wrong("out of memory in realloc", block, size);
    return block;
  }
  size_t body = old - sizeof header, kept = (size < old ? size : old) - sizeof header;
  size_t offset = FindBrokenPattern(moved + sizeof header, body, kept, header.stamp);
  if (offset != kIntact) Wrong("contents lost in realloc", moved, offset);
  Stamp(moved, size, random->Next());
  return moved;
}

} /* namespace hk_test */

#endif
