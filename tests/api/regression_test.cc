/* tests/api/regression_test.cc - the mistakes that this system has made before, one test each, seen from outside. */
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/free_blocks.h"
#include "support/malloc_report.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/shadow_model.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

/* ---- 1. Memory of two allocators mixed: foreign metadata under our free. */

TEST(Regression, MemoryOfTwoAllocatorsIsNeverMixed) {
  /* Each size is served by hakmem itself, whatever the band; the C library's blocks live between ours all the while. */
  TestRandom random(SeedFor("TwoAllocators"));
  ShadowModel ours;
  std::vector<std::pair<char *, size_t>> theirs;
  for (size_t i = 0; i < Scaled(120000, 2000); i++) {
    size_t size = random.LogBetween(0, random.OneIn(50) ? 3 * kMiB : 70000);
    if (random.OneIn(2)) {
      void *block = hakmem_malloc(size);
      ASSERT_NE(block, nullptr);
      ASSERT_TRUE(hakmem_check_owned(block)) << size;
      ASSERT_TRUE(ours.Add(block, size, hakmem_malloc_usable_size(block), 16)) << ours.problem();
    } else {
      char *block = static_cast<char *>(std::malloc(size));
      ASSERT_NE(block, nullptr);
      ASSERT_FALSE(hakmem_check_owned(block)) << size;
      if (size > 0) std::memset(block, 0x77, size < 200 ? size : 200);
      theirs.emplace_back(block, size);
    }
    while (ours.count() > 150) {
      ASSERT_TRUE(FreeBlock(&ours, random.Below(ours.count()))) << ours.problem();
    }
    while (theirs.size() > 150) {
      size_t victim = random.Below(theirs.size());
      auto [block, bytes] = theirs[victim];
      for (size_t k = 0; k < bytes && k < 200; k++) ASSERT_EQ(block[k], 0x77);
      std::free(block);
      theirs[victim] = theirs.back();
      theirs.pop_back();
    }
  }
  for (auto &[block, bytes] : theirs) std::free(block);
  ASSERT_TRUE(FreeBlocks(&ours)) << ours.problem();
}

TEST(Regression, NoSizeIsHandedToAnotherAllocator) {
  /* An earlier design sent 1 KiB to 8 KiB to the C library. */
  for (size_t size = 0; size <= 80000; size += size < 9000 ? 1 : 97) {
    void *block = hakmem_malloc(size);
    ASSERT_TRUE(hakmem_check_owned(block)) << size;
    block = hakmem_realloc(block, size + 4000);
    ASSERT_TRUE(hakmem_check_owned(block)) << size;
    hakmem_free(block);
  }
  for (size_t size = 80000; size < 64 * kMiB; size += size / 7) {
    void *block = hakmem_calloc(1, size);
    ASSERT_TRUE(hakmem_check_owned(block)) << size;
    hakmem_free(block);
  }
}

/* ---- 2. Thread-local state that is all zero taken for an empty segment. */

/* A block of another thread, which a thread's first call may move or free: it is then null. */
struct TheirBlock {
  char *start;
  size_t size;
};

const struct {
  const char *name;
  void (*call)(TheirBlock *theirs);
} kFirstCalls[] = {
    {"free", [](TheirBlock *theirs) { hakmem_free(std::exchange(theirs->start, nullptr)); }},
    {"realloc by a byte",
     [](TheirBlock *theirs) { theirs->start = static_cast<char *>(hakmem_realloc(theirs->start, theirs->size + 1)); }},
    {"realloc to much more",
     [](TheirBlock *theirs) { theirs->start = static_cast<char *>(hakmem_realloc(theirs->start, theirs->size * 40)); }},
    {"realloc to nothing",
     [](TheirBlock *theirs) { EXPECT_EQ(hakmem_realloc(std::exchange(theirs->start, nullptr), 0), nullptr); }},
    {"usable size", [](TheirBlock *theirs) { EXPECT_GE(hakmem_malloc_usable_size(theirs->start), theirs->size); }},
    {"check", [](TheirBlock *theirs) { EXPECT_TRUE(hakmem_check_owned(theirs->start)); }},
    {"check of null", [](TheirBlock *) { EXPECT_FALSE(hakmem_check_owned(nullptr)); }},
    {"free of null", [](TheirBlock *) { hakmem_free(nullptr); }},
    {"collect", [](TheirBlock *) { hakmem_collect(); }},
    {"mallinfo2", [](TheirBlock *) { hakmem_mallinfo2(); }},
    {"malloc_trim", [](TheirBlock *) { hakmem_malloc_trim(0); }},
    {"calloc",
     [](TheirBlock *theirs) {
       void *own = hakmem_calloc(1, theirs->size);
       EXPECT_EQ(FindNonZero(own, theirs->size), kIntact);
       hakmem_free(own);
     }},
    {"aligned_alloc",
     [](TheirBlock *theirs) {
       void *own = hakmem_aligned_alloc(4096, theirs->size);
       EXPECT_NE(own, nullptr);
       hakmem_free(own);
     }},
    {"malloc",
     [](TheirBlock *theirs) {
       void *own = hakmem_malloc(theirs->size);
       EXPECT_NE(own, theirs->start);
       std::memset(own, 0x44, theirs->size);
       hakmem_free(own);
     }},
};

TEST(Regression, AnythingMayBeAThreadsFirstCall) {
  for (size_t size : {size_t{1}, size_t{24}, kTinyMax, size_t{3000}, kMidMax, size_t{100000}, kRunMax, 3 * kMiB}) {
    for (const auto &first : kFirstCalls) {
      SCOPED_TRACE(std::string(first.name) + ", size " + std::to_string(size));
      TheirBlock theirs = {static_cast<char *>(hakmem_malloc(size)), size};
      char *untouched = static_cast<char *>(hakmem_malloc(size));
      ASSERT_NE(theirs.start, nullptr);
      ASSERT_NE(untouched, nullptr);
      std::memset(theirs.start, 0, size); /* zeros everywhere, so that a read by mistake gives zero too */
      std::memset(untouched, 0x33, size);
      std::thread(first.call, &theirs).join();
      for (size_t i = 0; i < size; i += 97) ASSERT_EQ(untouched[i], 0x33);
      hakmem_free(theirs.start);
      hakmem_free(untouched);
    }
  }
}

/* ---- 3. The allocator's own bookkeeping calling malloc under its lock: see also reentry_test.cc. */

#ifdef __GLIBC__ /* musl's malloc has no numbers */
TEST(Regression, BookkeepingTakesNothingFromTheCLibrary) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "glibc's numbers are not there";
  auto work = [] {
    static void *blocks[30000];
    for (void *&block : blocks) block = hakmem_malloc(static_cast<size_t>(&block - blocks) % 3000);
    for (void *block : blocks) hakmem_free(block);
    for (int i = 0; i < 200; i++) blocks[i] = hakmem_malloc(kMidMax + 1 + static_cast<size_t>(i) * 10000);
    for (int i = 0; i < 200; i++) hakmem_free(blocks[i]);
  };
  work(); /* first use registers the hooks for thread exit and fork */
  struct mallinfo2 before = mallinfo2();
  work();
  struct mallinfo2 after = mallinfo2();
  EXPECT_EQ(after.uordblks, before.uordblks);
  EXPECT_EQ(after.arena, before.arena);
  EXPECT_EQ(after.hblks, before.hblks);
}
#endif

/* ---- 4. Chunks so small that a refill serves two blocks. Of memory that was never used, or was purged, a refill
 * serves the blocks of a page: the page's fault costs ten times as much. From 4 KiB on each block is a page fault by
 * itself. unit/carving_test.cc has what a refill serves of used memory. */

TEST(Regression, ARefillServesManyBlocks) {
  if (!HK_TEST_INSTRUMENTS) GTEST_SKIP() << "this build reports no counters";
  ASSERT_TRUE(ReadCounter("refill").has_value()) << "malloc_info reports the counters";
  struct {
    size_t size, blocks_each;
  } cases[] = {{16, 100}, {64, 60}, {256, 15}, {1000, 4}, {2000, 2}, {4000, 1}, {8000, 1}, {16000, 1}, {kMidMax, 1}};
  for (auto &c : cases) {
    size_t count = 24 * kMiB / c.size;
    if (count > 50000) count = 50000;
    std::vector<void *> blocks(count);
    size_t before = ReadCounter("refill").value_or(0);
    for (void *&block : blocks) block = hakmem_malloc(c.size);
    size_t refills = ReadCounter("refill").value_or(0) - before;
    EXPECT_GE(refills, 1u) << "the counter counts";
    EXPECT_LE(refills, count / c.blocks_each + 8) << count << " blocks of " << c.size;
    for (void *block : blocks) hakmem_free(block);
  }
}

/* ---- 5. A slab whose remote frees are never drained because it is still the active one.
 * ---- 6. Live counts that remote frees do not reduce, so no memory is ever purged. */

/* One producer, one consumer, a ring between them. */
class Handoff {
 public:
  explicit Handoff(size_t capacity) : ring_(capacity) {}

  void Put(void *block) {
    std::unique_lock<std::mutex> lock(mutex_);
    not_full_.wait(lock, [this] { return count_ < ring_.size(); });
    ring_[(first_ + count_++) % ring_.size()] = block;
    not_empty_.notify_one();
  }

  void *Take() {
    std::unique_lock<std::mutex> lock(mutex_);
    not_empty_.wait(lock, [this] { return count_ > 0; });
    void *block = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    count_--;
    not_full_.notify_one();
    return block;
  }

 private:
  std::vector<void *> ring_;
  size_t first_ = 0, count_ = 0;
  std::mutex mutex_;
  std::condition_variable not_full_, not_empty_;
};

void ProducerConsumer(size_t count, size_t low, size_t high, size_t in_flight, size_t allowed_growth) {
  /* Batches of 64 through the ring, so that the test does not measure the lock. */
  constexpr size_t kBatch = 64;
  Handoff ring(in_flight / kBatch + 1);
  size_t rounds = count / kBatch;
  std::thread consumer([&] {
    for (size_t round = 0; round < rounds; round++) {
      void **batch = static_cast<void **>(ring.Take());
      for (size_t i = 0; i < kBatch; i++) {
        EXPECT_EQ(*static_cast<unsigned char *>(batch[i]), (round + i) % 251);
        hakmem_free(batch[i]);
      }
      hakmem_free(batch);
    }
  });
  TestRandom random(SeedFor("ProducerConsumer"));
  size_t early = 0;
  for (size_t round = 0; round < rounds; round++) {
    void **batch = static_cast<void **>(hakmem_malloc(kBatch * sizeof(void *)));
    for (size_t i = 0; i < kBatch; i++) {
      unsigned char *block = static_cast<unsigned char *>(hakmem_malloc(random.Between(low, high)));
      if (block == nullptr) std::abort();
      *block = static_cast<unsigned char>((round + i) % 251);
      batch[i] = block;
    }
    ring.Put(batch);
    if (round == rounds / 10) early = ResidentBytes();
  }
  consumer.join();
  if (HAKMEM_TEST_SANITIZER) return;
  EXPECT_LE(ResidentBytes(), early + allowed_growth) << low << " to " << high;
}

TEST(Regression, RemoteFreesIntoTheActiveSlabAreDrained) {
  /* Few blocks in flight: all of them lie in the slab that the producer allocates from. */
  ProducerConsumer(Scaled(1500000, 20000), 48, 48, 64, 2 * kMiB);
  ProducerConsumer(Scaled(500000, 10000), 2000, 2000, 64, 2 * kMiB);
  ProducerConsumer(Scaled(200000, 5000), 20000, 20000, 64, 8 * kMiB);
}

TEST(Regression, MillionsOfRemoteFreesDoNotGrow) {
  ProducerConsumer(Scaled(1500000, 20000), 16, 400, 4096, 4 * kMiB);
  ProducerConsumer(Scaled(200000, 5000), 1000, 30000, 1024, 24 * kMiB);
  ProducerConsumer(Scaled(20000, 2000), 33000, 400000, 128, 64 * kMiB);
}

TEST(Regression, BlocksFreedFromAfarAreGivenBack) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer's shadow counts as resident";
  for (size_t size : {size_t{48}, size_t{1000}, size_t{5000}, kMidMax, size_t{200000}, 3 * kMiB}) {
    std::vector<void *> blocks(64 * kMiB / size);
    hakmem_collect();
    size_t before = ResidentBytes();
    /* The owner lives on and collects. */
    for (void *&block : blocks) std::memset(block = hakmem_malloc(size), 1, size);
    std::thread([&] {
      for (void *block : blocks) hakmem_free(block);
    }).join();
    hakmem_collect();
    EXPECT_LE(ResidentBytes(), before + 6 * kMiB) << size << ": freed by another thread, collected by the owner";
    /* The owner ended before its blocks were freed. */
    std::thread([&] {
      for (void *&block : blocks) std::memset(block = hakmem_malloc(size), 1, size);
    }).join();
    for (void *block : blocks) hakmem_free(block);
    hakmem_collect();
    EXPECT_LE(ResidentBytes(), before + 6 * kMiB) << size << ": freed after the owner's end";
    /* The owner ended, another thread freed and ended as well. */
    std::thread([&] {
      for (void *&block : blocks) std::memset(block = hakmem_malloc(size), 1, size);
    }).join();
    std::thread([&] {
      for (void *block : blocks) hakmem_free(block);
    }).join();
    hakmem_collect();
    EXPECT_LE(ResidentBytes(), before + 6 * kMiB) << size << ": owner and liberator ended";
  }
}

TEST(Regression, BlocksFreedFromAfarBitByBitAreGivenBack) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer's shadow counts as resident";
  /* Every slab gets a few of its blocks back in each of many rounds: counts must add up over drains that each settle
   * nothing. */
  for (size_t size : {size_t{48}, size_t{1000}, size_t{5000}}) {
    constexpr size_t kRounds = 40;
    std::vector<void *> blocks(32 * kMiB / size);
    hakmem_collect();
    size_t before = ResidentBytes();
    for (void *&block : blocks) std::memset(block = hakmem_malloc(size), 1, size);
    for (size_t round = 0; round < kRounds; round++) {
      std::thread([&] {
        for (size_t i = round; i < blocks.size(); i += kRounds) hakmem_free(blocks[i]);
      }).join();
      hakmem_collect(); /* collects the thread's remote frees */
    }
    EXPECT_LE(ResidentBytes(), before + 6 * kMiB) << size;
  }
}

TEST(Regression, MemoryFreedFromAfarServesItsOwnerAgain) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer's shadow counts as resident";
  /* No call collects: the owner has to find its remote frees itself, before it takes more memory. */
  for (size_t size : {size_t{48}, size_t{5000}, size_t{200000}}) {
    std::vector<void *> blocks(16 * kMiB / size);
    size_t early = 0;
    for (int round = 0; round < 20; round++) {
      for (void *&block : blocks) std::memset(block = hakmem_malloc(size), 1, size);
      std::thread([&] {
        for (void *block : blocks) hakmem_free(block);
      }).join();
      if (round == 2) early = ResidentBytes();
    }
    EXPECT_LE(ResidentBytes(), early + 8 * kMiB) << size;
  }
}

/* ---- 7. A fixed limit of slabs per class (of heaps, of large blocks, of anything) that turns into OOM. */

TEST(Regression, NoClassHasALimitOfItsOwn) {
  const size_t total = HAKMEM_TEST_SANITIZER ? 32 * kMiB : 200 * kMiB;
  for (size_t size : {size_t{16}, size_t{128}, kTinyMax, size_t{1200}, size_t{4096}, size_t{10000}, kMidMax,
                      size_t{40000}, size_t{150000}, kRunMax}) {
    /* Chained through their first words; only those are touched. */
    void **chain = nullptr;
    size_t count = total / size;
    for (size_t i = 0; i < count; i++) {
      void **block = static_cast<void **>(hakmem_malloc(size));
      ASSERT_NE(block, nullptr) << "block " << i << " of " << size;
      block[0] = chain;
      block[1] = reinterpret_cast<void *>(i);
      chain = block;
    }
    for (size_t i = count; i-- > 0;) {
      ASSERT_EQ(chain[1], reinterpret_cast<void *>(i)) << size;
      void **next = static_cast<void **>(chain[0]);
      hakmem_free(chain);
      chain = next;
    }
    ASSERT_EQ(chain, nullptr);
    hakmem_collect();
  }
}

TEST(Regression, NoLimitOfLargeBlocks) {
  std::vector<char *> blocks;
  for (int i = 0; i < 1000; i++) {
    char *block = static_cast<char *>(hakmem_malloc(kRunMax + 1 + static_cast<size_t>(i)));
    ASSERT_NE(block, nullptr) << i;
    block[kRunMax] = static_cast<char>(i);
    blocks.push_back(block);
  }
  for (size_t i = 0; i < blocks.size(); i++) {
    ASSERT_EQ(blocks[i][kRunMax], static_cast<char>(i));
    hakmem_free(blocks[i]);
  }
}

/* Threads that all hold blocks at the same time. */
class Holders {
 public:
  ~Holders() {
    LetGo();
    for (pthread_t thread : threads_) pthread_join(thread, nullptr);
  }

  /* Starts a thread. Returns false at the system's limit. */
  bool Add() {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * kKiB);
    pthread_t thread;
    int error = pthread_create(&thread, &attributes, &Holders::Run, this);
    pthread_attr_destroy(&attributes);
    if (error == 0) threads_.push_back(thread);
    return error == 0;
  }

  size_t count() const { return threads_.size(); }
  int wrong_count() const { return wrong_count_; }

  void AwaitAll() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return holding_count_ == threads_.size(); });
  }

  /* Returns when all have freed their blocks. */
  void LetGo() {
    std::unique_lock<std::mutex> lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return holding_count_ == 0; });
  }

 private:
  static void *Run(void *holders) {
    static_cast<Holders *>(holders)->Hold();
    return nullptr;
  }

  void Hold() {
    char *blocks[16];
    for (int i = 0; i < 16; i++) {
      blocks[i] = static_cast<char *>(hakmem_malloc(size_t{8} << (i / 2)));
      if (blocks[i] != nullptr) blocks[i][0] = static_cast<char>(i);
    }
    AwaitTheEnd();
    for (int i = 0; i < 16; i++) {
      if (blocks[i] == nullptr || blocks[i][0] != static_cast<char>(i)) wrong_count_++;
      hakmem_free(blocks[i]);
    }
    std::unique_lock<std::mutex> lock(mutex_);
    holding_count_--;
    changed_.notify_all();
  }

  void AwaitTheEnd() {
    std::unique_lock<std::mutex> lock(mutex_);
    holding_count_++;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_over_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  size_t holding_count_ = 0;
  bool is_over_ = false;
  std::atomic<int> wrong_count_{0};
  std::vector<pthread_t> threads_;
};

TEST(Regression, NoLimitOfHeaps) {
  Holders holders;
  const int most = HAKMEM_TEST_SANITIZER ? 100 : 600;
  for (int i = 0; i < most && holders.Add(); i++) continue;
  EXPECT_GT(holders.count(), 50u);
  holders.AwaitAll();
  holders.LetGo();
  EXPECT_EQ(holders.wrong_count(), 0);
}

/* ---- 8. 64 KiB units not aligned to 64 KiB. */

TEST(Regression, UnitsOf64KiBAreAlignedAmongForeignMappings) {
  /* Odd mappings between ours make the system hand out addresses that are page-aligned and no better. */
  TestRandom random(SeedFor("UnitsOf64KiB"));
  std::vector<std::pair<void *, size_t>> foreign;
  ShadowModel model;
  for (size_t i = 0; i < Scaled(1500, 100); i++) {
    size_t bytes = (random.Below(64) + 1) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped != MAP_FAILED) foreign.emplace_back(mapped, bytes);
    if (foreign.size() > 500 || random.OneIn(3)) {
      size_t victim = random.Below(foreign.size());
      ASSERT_EQ(munmap(foreign[victim].first, foreign[victim].second), 0);
      foreign[victim] = foreign.back();
      foreign.pop_back();
    }
    size_t size = random.OneIn(4) ? random.LogBetween(1, kMidMax) : random.Between(kMidMax + 1, 3 * kMiB);
    char *block = static_cast<char *>(hakmem_malloc(size));
    ASSERT_NE(block, nullptr);
    if (size > kMidMax) {
      ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % (64 * kKiB), 0u) << size << ": whole slabs start at slabs";
    }
    ASSERT_TRUE(hakmem_check_owned(block)) << size;
    size_t usable = hakmem_malloc_usable_size(block);
    ASSERT_TRUE(model.Add(block, size, usable, 16)) << model.problem();
    ASSERT_FALSE(hakmem_check_owned(block + usable / 32 * 16 + 8)) << size;
    while (model.live_bytes() > 100 * kMiB || model.count() > 300) {
      ASSERT_TRUE(FreeBlock(&model, random.Below(model.count()))) << model.problem();
    }
  }
  ASSERT_TRUE(FreeBlocks(&model)) << model.problem();
  for (auto &[start, bytes] : foreign) ASSERT_EQ(munmap(start, bytes), 0);
}

} /* namespace */
