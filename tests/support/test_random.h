/* tests/support/test_random.h - random numbers that a failed run can repeat.
 *
 * Each run draws and prints a new seed, so that runs test different sequences. HAKMEM_TEST_SEED sets the seed and so
 * repeats a run.
 */
#ifndef HK_TESTS_SUPPORT_TEST_RANDOM_H
#define HK_TESTS_SUPPORT_TEST_RANDOM_H

#include <sys/random.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace hk_test {

/* splitmix64: one word of state, and all seeds are equally good. */
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /* Returns 0 to bound - 1. */
  size_t Below(size_t bound) { return static_cast<size_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64); }

  /* Returns `low` to `high`, both included. */
  size_t Between(size_t low, size_t high) { return low + Below(high - low + 1); }

  /* Returns values of which each number of bits is equally frequent, as with the sizes of real programs. */
  size_t LogBetween(size_t low, size_t high) {
    unsigned low_bits = BitLength(low), high_bits = BitLength(high);
    unsigned bits = static_cast<unsigned>(Between(low_bits, high_bits));
    size_t floor = bits == 0 ? 0 : size_t{1} << (bits - 1);
    size_t ceiling = bits == 0 ? 0 : floor + (floor - 1);
    return Between(floor > low ? floor : low, ceiling < high ? ceiling : high);
  }

  bool OneIn(size_t n) { return Below(n) == 0; }

 private:
  static unsigned BitLength(size_t n) { return n == 0 ? 0 : 64u - static_cast<unsigned>(__builtin_clzll(n)); }

  uint64_t state_;
};

/* Returns the run's seed, the same in the whole process. Tests that need several sequences derive them by SeedFor. */
inline uint64_t TestSeed() {
  static const uint64_t seed = [] {
    uint64_t value = 0;
    const char *text = std::getenv("HAKMEM_TEST_SEED");
    if (text != nullptr && *text != '\0') {
      value = std::strtoull(text, nullptr, 0);
    } else if (getrandom(&value, sizeof value, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof value)) {
      value = static_cast<uint64_t>(std::time(nullptr));
    }
    std::printf("seed: HAKMEM_TEST_SEED=0x%llx repeats this run\n", static_cast<unsigned long long>(value));
    std::fflush(stdout);
    return value;
  }();
  return seed;
}

/* Returns the seed of the test, thread or phase that `name` and `index` name. It does not depend on which others ran
 * before. */
inline uint64_t SeedFor(const char *name, uint64_t index = 0) {
  uint64_t hash = TestSeed() ^ 0xcbf29ce484222325u;
  for (; *name != '\0'; name++) hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3u;
  return TestRandom(hash + index * 0x9e3779b97f4a7c15u).Next();
}

} /* namespace hk_test */

#endif
