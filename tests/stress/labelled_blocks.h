/* tests/stress/labelled_blocks.h - blocks that prove themselves by their first and last word: cheap enough for 10^9. */
#ifndef HK_TESTS_STRESS_LABELLED_BLOCKS_H
#define HK_TESTS_STRESS_LABELLED_BLOCKS_H

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ostream>

#include "hakmem/hakmem.h"
#include "stress/stress_blocks.h"
#include "support/test_random.h"

namespace hk_test {

struct SizeRange {
  const char *name;
  size_t least, most; /* at least two words */

  size_t Draw(TestRandom *random) const { return least == most ? least : random->LogBetween(least, most); }
};

/* In the messages of parameterised tests. */
inline void PrintTo(const SizeRange &sizes, std::ostream *out) { *out << sizes.name; }

/* The required last word. */
inline uint64_t ProofOf(const void *block, size_t size) {
  return (reinterpret_cast<uintptr_t>(block) ^ size) * 0x9e3779b97f4a7c15u;
}

inline void *MakeLabelled(size_t size) {
  char *block = static_cast<char *>(hakmem_malloc(size));
  if (block == nullptr) {
    Wrong("out of memory", nullptr, size);
    std::abort(); /* the tests stay far below any limit */
  }
  uint64_t proof = ProofOf(block, size);
  std::memcpy(block, &size, sizeof size);
  std::memcpy(block + size - sizeof proof, &proof, sizeof proof);
  return block;
}

/* Frees it, wrong or not. */
inline void DropLabelled(void *block, size_t most_bytes) {
  size_t size;
  uint64_t proof = 0;
  std::memcpy(&size, block, sizeof size);
  if (size < 2 * sizeof(uint64_t) || size > most_bytes) {
    Wrong("first word is damaged", block, size);
  } else {
    std::memcpy(&proof, static_cast<char *>(block) + size - sizeof proof, sizeof proof);
    if (proof != ProofOf(block, size)) Wrong("last word is damaged", block, size);
    std::memset(block, 0xdd, sizeof size); /* a second owner of it would notice */
  }
  hakmem_free(block);
}

} /* namespace hk_test */

#endif
