/* tests/api/trim_test.cc - memory goes back to the system: by collect, by malloc_trim, and by itself. */
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "policy/safety.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

struct Load {
  const char *name;
  size_t low, high; /* sizes of the blocks */
};

const Load kLoads[] = {{"tiny", 16, kTinyMax},        {"one tiny class", 64, 64},        {"mid", kTinyMax + 1, kMidMax},
                       {"run", kMidMax + 1, kRunMax}, {"large", kRunMax + 1, 10 * kMiB}, {"all", 16, 2 * kMiB}};

/* `total` bytes of touched blocks. */
std::vector<void *> AllocateTouched(const Load &load, size_t total) {
  TestRandom random(SeedFor(load.name));
  std::vector<void *> blocks;
  for (size_t bytes = 0; bytes < total;) {
    size_t size = random.LogBetween(load.low, load.high);
    void *block = hakmem_malloc(size);
    EXPECT_NE(block, nullptr);
    if (block == nullptr) break;
    std::memset(block, 1, size);
    blocks.push_back(block);
    bytes += size;
  }
  return blocks;
}

void Shuffle(std::vector<void *> *blocks) {
  TestRandom random(SeedFor("shuffle"));
  for (size_t i = blocks->size(); i > 1; i--) std::swap((*blocks)[i - 1], (*blocks)[random.Below(i)]);
}

/* The list goes too: it is the C library's memory, but it is resident. */
void FreeAll(std::vector<void *> *blocks) {
  for (void *block : *blocks) hakmem_free(block);
  std::vector<void *>().swap(*blocks);
}

class Trim : public testing::Test {
 protected:
  void SetUp() override {
    if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer's shadow counts as resident";
  }
};

constexpr size_t kTotal = 64 * kMiB;
/* Descriptors, what the C library keeps of its own, a spare slab here and there. A hardened heap also keeps a span of
 * each tiny class, 3.4 MiB in all where it kept none before. */
constexpr size_t kRest = (HK_HARDENED ? 4 : 3) * kMiB;

/* The purge thread may be about to give some of it back: it has that memory for the time of its system calls. */
size_t ResidentSoonBelow(size_t most) {
  for (int waits = 0; waits < 20 && ResidentBytes() > most; waits++)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return ResidentBytes();
}

TEST_F(Trim, CollectGivesEverythingBack) {
  for (const Load &load : kLoads) {
    hakmem_collect();
    size_t before = ResidentBytes();
    std::vector<void *> blocks = AllocateTouched(load, kTotal);
    size_t full = ResidentBytes();
    EXPECT_GE(full, before + kTotal / 2) << load.name;
    Shuffle(&blocks);
    FreeAll(&blocks);
    std::vector<void *>().swap(blocks); /* it would count as resident */
    hakmem_collect();
    EXPECT_LE(ResidentSoonBelow(before + kRest), before + kRest) << load.name;
  }
}

TEST_F(Trim, CollectSaysWhatItGaveBack) {
  for (const Load &load : kLoads) {
    hakmem_collect();
    std::vector<void *> blocks = AllocateTouched(load, kTotal);
    FreeAll(&blocks);
    size_t before = ResidentBytes();
    size_t said = hakmem_collect();
    size_t after = ResidentBytes();
    size_t seen = before > after ? before - after : 0;
    /* It counts address ranges, the system touched pages: they differ by free memory that was never touched. */
    EXPECT_GE(said + kRest, seen) << load.name;
    EXPECT_LE(hakmem_collect(), kRest) << load.name << ": a second time there is hardly anything left";
  }
}

TEST_F(Trim, TrimGivesBackAndSaysSo) {
  for (const Load &load : kLoads) {
    hakmem_malloc_trim(0);
    size_t before = ResidentBytes();
    std::vector<void *> blocks = AllocateTouched(load, 6 * kMiB); /* so little that it is kept until asked for */
    FreeAll(&blocks);
    size_t idle = ResidentBytes();
    int result = hakmem_malloc_trim(0);
    EXPECT_TRUE(result == 0 || result == 1);
    if (idle > before + 3 * kMiB) {
      EXPECT_EQ(result, 1) << load.name;
    }
    EXPECT_LE(ResidentBytes(), before + 3 * kMiB) << load.name;
    int again = 1;
    for (int i = 0; i < 3 && again == 1; i++) again = hakmem_malloc_trim(0);
    EXPECT_EQ(again, 0) << load.name << ": nothing is left, yet something was given back";
  }
}

/* Of superslabs alone, in which the runs lie. */
size_t DirtySlabBytes() { return hakmem_mallinfo2().keepcost; }

TEST_F(Trim, TrimKeepsThePad) {
  hakmem_malloc_trim(0);
  std::vector<void *> blocks = AllocateTouched(kLoads[3], 6 * kMiB); /* so little that it is kept until asked for */
  FreeAll(&blocks);
  hakmem_malloc_trim(SIZE_MAX); /* everything may stay */
  if (HK_HARDENED) GTEST_SKIP() << "the blocks are mappings of their own, which no pad keeps";
  size_t all = DirtySlabBytes();
  EXPECT_GE(all, 4 * kMiB);
  EXPECT_EQ(hakmem_malloc_trim(size_t{1} << 40), 0);
  EXPECT_EQ(DirtySlabBytes(), all);
  EXPECT_EQ(hakmem_malloc_trim(3 * kMiB), 1);
  EXPECT_LE(DirtySlabBytes(), 3 * kMiB);
  EXPECT_GT(DirtySlabBytes(), kMiB / 2) << "no more went than the superslab that led below the pad";
  EXPECT_EQ(hakmem_malloc_trim(0), 1);
  EXPECT_EQ(DirtySlabBytes(), 0u);
}

TEST_F(Trim, LiveBlocksSurviveIt) {
  for (const Load &load : kLoads) {
    std::vector<void *> blocks = AllocateTouched(load, 24 * kMiB);
    for (size_t i = 0; i < blocks.size(); i++) {
      std::memset(blocks[i], static_cast<int>(i & 0xff), hakmem_malloc_usable_size(blocks[i]));
    }
    for (size_t i = 0; i < blocks.size(); i++) {
      if (i % 3 != 0) hakmem_free(blocks[i]);
    }
    hakmem_collect();
    hakmem_malloc_trim(0);
    for (size_t i = 0; i < blocks.size(); i += 3) {
      unsigned char *bytes = static_cast<unsigned char *>(blocks[i]);
      size_t usable = hakmem_malloc_usable_size(bytes);
      ASSERT_EQ(bytes[0], i & 0xff) << load.name;
      ASSERT_EQ(std::memcmp(bytes, bytes + 1, usable - 1), 0) << load.name;
      hakmem_free(bytes);
    }
  }
}

TEST_F(Trim, DirtyMemoryBeyondTheLimitGoesByItself) {
  /* No call collects: `retain` and an eighth of the bytes in use may be dirty. */
  for (const Load &load : kLoads) {
    hakmem_collect();
    size_t before = ResidentBytes();
    std::vector<void *> blocks = AllocateTouched(load, 128 * kMiB);
    Shuffle(&blocks);
    FreeAll(&blocks);
    EXPECT_LE(ResidentBytes(), before + 24 * kMiB) << load.name;
  }
}

TEST_F(Trim, MemoryThatWasGivenBackServesAgain) {
  size_t highest = 0;
  for (int round = 0; round < 12; round++) {
    for (const Load &load : kLoads) {
      std::vector<void *> blocks = AllocateTouched(load, 16 * kMiB);
      FreeAll(&blocks);
      hakmem_collect();
    }
    if (round == 3) highest = ReadProcessMemory().virtual_bytes;
  }
  EXPECT_LE(ReadProcessMemory().virtual_bytes, highest + 32 * kMiB) << "addresses leak";
}

TEST_F(Trim, WhatAFinishedThreadLeftIsGivenBack) {
  hakmem_collect();
  size_t before = ResidentBytes();
  for (int round = 0; round < 6; round++) {
    std::thread([] {
      for (const Load &load : kLoads) {
        std::vector<void *> blocks = AllocateTouched(load, 8 * kMiB);
        Shuffle(&blocks);
        FreeAll(&blocks);
      }
    }).join();
  }
  hakmem_collect();
  EXPECT_LE(ResidentSoonBelow(before + kRest), before + kRest);
}

TEST(Collect, WithNothingToDoReturns) {
  hakmem_collect();
  hakmem_collect();
  std::thread([] {
    hakmem_collect(); /* the first call of a thread that has no heap */
    hakmem_malloc_trim(0);
  }).join();
}

} /* namespace */
