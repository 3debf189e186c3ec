/* tests/api/exhaustion_test.cc - when the system has no more: NULL and ENOMEM, and full service once it has again.
 *
 * Limits are set in child processes; each child's exit status says which of its steps went wrong.
 */
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/in_child.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/shadow_model.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

constexpr size_t kRunUnit = 65536;

bool SetSoftLimit(int resource, rlim_t value) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0) return false;
  limit.rlim_cur = value < limit.rlim_max ? value : limit.rlim_max;
  return setrlimit(resource, &limit) == 0;
}

/* Purging cannot help where a request exceeds the address space. */
TEST(Exhaustion, ARequestBeyondAllAddressesPurgesNothing) {
  hakmem_free(std::memset(hakmem_malloc(3 * kMiB), 1, 3 * kMiB));
  hakmem_stats_t before, after;
  ASSERT_EQ(hakmem_stats_get(&before, sizeof before), 0);
  for (size_t size : {size_t{1} << 48, size_t{1} << 60, size_t{PTRDIFF_MAX}}) {
    errno = 0;
    EXPECT_EQ(hakmem_malloc(size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  ASSERT_EQ(hakmem_stats_get(&after, sizeof after), 0);
  EXPECT_EQ(after.memory_dirty, before.memory_dirty);
}

/* Allocates blocks of `size` until NULL; chains them through their first word, so that no other memory is needed.
 * Returns the count, or -1 when NULL came without ENOMEM. */
long TakeAll(size_t size, void ***chain, bool touch) {
  long count = 0;
  for (;;) {
    errno = 0;
    void **block = static_cast<void **>(hakmem_malloc(size));
    if (block == nullptr) return errno == ENOMEM ? count : -1;
    if (touch) std::memset(block, 1, size);
    *block = *chain;
    *chain = block;
    count++;
  }
}

void FreeAll(void **chain) {
  while (chain != nullptr) {
    void **next = static_cast<void **>(*chain);
    hakmem_free(chain);
    chain = next;
  }
}

class Exhaustion : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer needs the address space";
  }
};

TEST_P(Exhaustion, EndsInEnomemAndRecovers) {
  size_t size = GetParam();
  int result = InChild([size] {
    size_t now = ReadProcessMemory().virtual_bytes;
    const size_t room = 48 * kMiB;
    if (!SetSoftLimit(RLIMIT_AS, now + room)) return 2;
    long first = 0;
    for (int round = 0; round < 4; round++) {
      void **chain = nullptr;
      long count = TakeAll(size, &chain, true);
      if (count < 0) return 3;
      /* What fits must succeed: half of the room at least, for large blocks and their alignment a third. */
      if (static_cast<size_t>(count) * size < room / 3) return 4;
      if (round == 0) first = count;
      /* All that was taken and freed is there again. */
      if (count < first - first / 8 - 1) return 5;
      /* realloc and calloc at the limit fail without harm. */
      errno = 0;
      if (hakmem_calloc(1, room) != nullptr || errno != ENOMEM) return 6;
      if (chain == nullptr) return 7;
      errno = 0;
      if (hakmem_realloc(chain, room) != nullptr || errno != ENOMEM) return 8;
      FreeAll(chain);
    }
    /* Memory taken by one band serves the others. */
    for (size_t other : {size_t{32}, size_t{3000}, kMidMax, size_t{200000}, kRunMax, 2 * kMiB}) {
      void **chain = nullptr;
      long count = TakeAll(other, &chain, false);
      if (count < 0) return 9;
      if (static_cast<size_t>(count) * other < room / 4) return 10;
      FreeAll(chain);
    }
    if (!SetSoftLimit(RLIMIT_AS, RLIM_INFINITY)) return 11;
    void *large = hakmem_malloc(200 * kMiB);
    if (large == nullptr) return 12;
    hakmem_free(large);
    return 0;
  });
  EXPECT_EQ(result, 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Exhaustion,
                         testing::Values(16, 64, 1000, 1500, 10000, kMidMax, kMidMax + 1, 100000, 700000, kRunMax,
                                         3 * kMiB));

class Limits : public testing::Test {
 protected:
  void SetUp() override {
    if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer needs the address space";
  }
};

// Keeps one block more each time, and asks for what the system refuses: the heap trims its spans before that fails.
int KeepWhileOthersAreRefused(size_t size) {
  if (!SetSoftLimit(RLIMIT_AS, ReadProcessMemory().virtual_bytes + 16 * kMiB)) return 2;
  std::vector<char *> blocks(24);
  for (size_t i = 0; i < blocks.size(); i++) {
    blocks[i] = static_cast<char *>(hakmem_malloc(size));
    if (blocks[i] == nullptr) return 3;
    std::memset(blocks[i], static_cast<int>(i), size);
    errno = 0;
    if (hakmem_malloc(64 * kMiB) != nullptr || errno != ENOMEM) return 4;
  }
  for (size_t i = 0; i < blocks.size(); i++) {
    if (blocks[i][0] != static_cast<char>(i) || blocks[i][size - 1] != static_cast<char>(i)) return 5;
    hakmem_free(blocks[i]);
  }
  return 0;
}

TEST_F(Limits, ASpanIsTrimmedAfterEachOfItsBlocks) {
  for (size_t size = 1000; size <= kMidMax; size += 500) {
    EXPECT_EQ(InChild([size] { return KeepWhileOthersAreRefused(size); }), 0) << size;
  }
}

TEST_F(Limits, ReallocAtTheLimitKeepsTheBlock) {
  int result = InChild([] {
    char *big = static_cast<char *>(hakmem_malloc(10 * kMiB));
    char *run = static_cast<char *>(hakmem_malloc(300000));
    char *mid = static_cast<char *>(hakmem_malloc(9000));
    if (big == nullptr || run == nullptr || mid == nullptr) return 2;
    FillPattern(big, 10 * kMiB, 1);
    FillPattern(run, 300000, 2);
    FillPattern(mid, 9000, 3);
    if (!SetSoftLimit(RLIMIT_AS, ReadProcessMemory().virtual_bytes + 4 * kMiB)) return 3;
    for (size_t huge : {30 * kMiB, kGiB}) {
      errno = 0;
      if (hakmem_realloc(big, huge) != nullptr || errno != ENOMEM) return 4;
      errno = 0;
      if (hakmem_realloc(run, huge) != nullptr || errno != ENOMEM) return 5;
      errno = 0;
      if (hakmem_realloc(mid, huge) != nullptr || errno != ENOMEM) return 6;
    }
    if (FindBrokenPattern(big, 10 * kMiB, 10 * kMiB, 1) != kIntact) return 7;
    if (FindBrokenPattern(run, 300000, 300000, 2) != kIntact) return 8;
    if (FindBrokenPattern(mid, 9000, 9000, 3) != kIntact) return 9;
    /* Shrinking needs no new memory that is not there. */
    char *smaller = static_cast<char *>(hakmem_realloc(big, 5 * kMiB));
    if (smaller == nullptr || FindBrokenPattern(smaller, 10 * kMiB, 5 * kMiB, 1) != kIntact) return 10;
    hakmem_free(smaller);
    hakmem_free(run);
    hakmem_free(mid);
    return 0;
  });
  EXPECT_EQ(result, 0);
}

TEST_F(Limits, DataLimitEndsInEnomem) {
  int result = InChild([] {
    hakmem_free(hakmem_malloc(1));
    if (!SetSoftLimit(RLIMIT_DATA, ReadProcessMemory().virtual_bytes + 64 * kMiB)) return 2;
    for (size_t size : {size_t{48}, size_t{5000}, size_t{100000}, 3 * kMiB}) {
      void **chain = nullptr;
      long count = TakeAll(size, &chain, false);
      if (count < 0) return 3;
      if (count == 0) return 4;
      FreeAll(chain);
    }
    return 0;
  });
  EXPECT_EQ(result, 0);
}

TEST_F(Limits, OneRequestMayTakeMostOfTheRoom) {
  int result = InChild([] {
    hakmem_free(hakmem_malloc(1));
    if (!SetSoftLimit(RLIMIT_AS, ReadProcessMemory().virtual_bytes + 100 * kMiB)) return 2;
    /* Aligning may not need twice the size. */
    void *most = hakmem_malloc(90 * kMiB);
    if (most == nullptr) return 3;
    if (hakmem_malloc(90 * kMiB) != nullptr) return 4;
    /* And the rest serves small ones. */
    void *small = hakmem_malloc(1000);
    if (small == nullptr) return 5;
    hakmem_free(small);
    hakmem_free(most);
    most = hakmem_malloc(90 * kMiB);
    if (most == nullptr) return 6;
    hakmem_free(most);
    return 0;
  });
  EXPECT_EQ(result, 0);
}

/* The hardened library then serves blocks of whole slabs instead of whole pages. */
TEST_F(Limits, ANamedHeapKeepsToItsHardLimitNearALimitOnAddresses) {
  int result = InChild([] {
    hakmem_heap_options_t options = {};
    options.size = sizeof options;
    options.hard_limit = 42 * kRunUnit;
    hakmem_heap_t *heap = hakmem_heap_create("near", &options);
    HK_CHILD_CHECK(heap != nullptr);
    HK_CHILD_CHECK(SetSoftLimit(RLIMIT_AS, ReadProcessMemory().virtual_bytes + 48 * kMiB));
    TestRandom random(SeedFor("ANamedHeapKeepsToItsHardLimit"));
    std::vector<void *> own(60), others(400);
    for (size_t i = 0; i < Scaled(60000, 15000); i++) {
      void *&block = own[random.Below(own.size())], *&other = others[random.Below(others.size())];
      size_t size = 1 + random.Below(size_t{8} << random.Below(16));
      if (block == nullptr) {
        block = hakmem_heap_malloc(heap, size);
      } else if (random.Below(2) == 0) {
        hakmem_free(block);
        block = nullptr;
      } else if (void *moved = hakmem_heap_realloc(heap, block, size)) {
        block = moved;
      }
      hakmem_heap_usage_t usage;
      hakmem_heap_usage(heap, &usage, sizeof usage);
      HK_CHILD_CHECK(usage.bytes <= options.hard_limit);
      hakmem_free(other);
      other = random.Below(4) == 0 ? nullptr : hakmem_malloc(1 + random.Below(size_t{8} << random.Below(17)));
    }
    return 0;
  });
  EXPECT_EQ(result, 0);
}

TEST_F(Limits, ThreadsShareWhatIsThere) {
  /* Several threads exhaust the memory together, again and again: each gets blocks or ENOMEM, all end. */
  int result = InChild([] {
    static std::atomic<int> wrong;
    pthread_t threads[4];
    hakmem_free(hakmem_malloc(1));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * kKiB);
    static std::atomic<bool> go;
    for (pthread_t &thread : threads) {
      if (pthread_create(
              &thread, &attributes,
              [](void *) -> void * {
                while (!go) sched_yield();
                for (int round = 0; round < 20; round++) {
                  for (size_t size : {size_t{100}, size_t{4000}, size_t{90000}, 2 * kMiB}) {
                    void **chain = nullptr;
                    if (TakeAll(size, &chain, false) < 0) wrong = 1;
                    FreeAll(chain);
                  }
                }
                return nullptr;
              },
              nullptr) != 0) {
        return 2;
      }
    }
    if (!SetSoftLimit(RLIMIT_AS, ReadProcessMemory().virtual_bytes + 32 * kMiB)) return 3;
    go = true;
    for (pthread_t &thread : threads) pthread_join(thread, nullptr);
    if (wrong != 0) return 4;
    void *block = hakmem_malloc(1000);
    return block != nullptr ? 0 : 5;
  });
  EXPECT_EQ(result, 0);
}

/* One block of each of many sizes, so that most of each span was never carved. */
void TakeManySizes(std::vector<void *> *blocks) {
  for (size_t size = 1024; size <= kMidMax; size += size / 8) blocks->push_back(hakmem_malloc(size));
}

TEST_F(Limits, AThreadThatRunsGivesUpTheUnusedEndsOfItsSpans) {
  int result = InChild([] {
    static std::vector<void *> blocks;
    blocks.reserve(1000);
    size_t before = ReadProcessMemory().virtual_bytes;
    TakeManySizes(&blocks);
    const size_t spans = ReadProcessMemory().virtual_bytes - before;
    if (spans < 2 * kMiB) return 2;
    static std::atomic<int> turn;
    static std::atomic<long> first, second;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * kKiB);
    auto taker = [](void *) -> void * {
      void **chain = nullptr;
      while (turn != 1) sched_yield();
      first = TakeAll(3000, &chain, false);
      turn = 2;
      while (turn != 3) sched_yield();
      second = TakeAll(3000, &chain, false);
      FreeAll(chain);
      return nullptr;
    };
    pthread_t thread;
    if (pthread_create(&thread, &attributes, taker, nullptr) != 0) return 3;
    const size_t room = 2 * kMiB;
    if (!SetSoftLimit(RLIMIT_AS, ReadProcessMemory().virtual_bytes + room)) return 4;
    turn = 1;
    while (turn != 2) sched_yield();
    /* Requests of new sizes take the slow path, whether they succeed or not. */
    for (size_t size = 16; size <= 512; size += 16) blocks.push_back(hakmem_malloc(size));
    turn = 3;
    pthread_join(thread, nullptr);
    for (void *block : blocks) hakmem_free(block);
    if (first < 0 || second < 0) return 5;
    return static_cast<size_t>(first + second) * 3000 >= room + spans / 4 ? 0 : 6;
  });
  EXPECT_EQ(result, 0);
}

} /* namespace */
