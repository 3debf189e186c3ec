/* tests/api/check_owned_test.cc - hakmem_check_owned: any value may be asked for, and the answer is right. */
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "base/compiler.h"
#include "hakmem/hakmem.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

const std::vector<size_t> kSizes = {0,     1,      16,      24,          100,     1000,    kTinyMax,
                                    1025,  2000,   5000,    8192,        20000,   kMidMax, kMidMax + 1,
                                    65536, 200000, kRunMax, kRunMax + 1, 3000000, 9 * kMiB};

int static_data;
const int static_constant = 1;

const void *Address(uintptr_t value) { return reinterpret_cast<const void *>(value); }

TEST(CheckOwned, LiveBlocksAreOwned) {
  std::vector<void *> blocks;
  for (int round = 0; round < 20; round++) {
    for (size_t size : kSizes) {
      void *block = round % 2 == 0 ? hakmem_malloc(size) : hakmem_aligned_alloc(size_t{16} << (round / 2), size);
      ASSERT_NE(block, nullptr);
      EXPECT_TRUE(hakmem_check_owned(block)) << size;
      blocks.push_back(block);
    }
  }
  for (void *block : blocks) EXPECT_TRUE(hakmem_check_owned(block));
  for (void *block : blocks) hakmem_free(block);
}

TEST(CheckOwned, WhatTheUserWritesChangesNothing) {
  /* A live block may hold any bytes: all zero, all ones, and what a freed neighbour of it holds. */
  for (size_t size : kSizes) {
    void *block = hakmem_malloc(size);
    void *freed = hakmem_malloc(size);
    ASSERT_NE(block, nullptr);
    ASSERT_NE(freed, nullptr);
    size_t usable = hakmem_malloc_usable_size(block);
    std::memset(block, 0, usable);
    EXPECT_TRUE(hakmem_check_owned(block)) << size;
    std::memset(block, 0xff, usable);
    EXPECT_TRUE(hakmem_check_owned(block)) << size;
    hakmem_free(freed);
    hakmem_free(block);
  }
}

TEST(CheckOwned, FreedBlocksAreNot) {
  for (size_t size : kSizes) {
    void *block = hakmem_malloc(size);
    ASSERT_NE(block, nullptr);
    hakmem_free(block);
    EXPECT_FALSE(hakmem_check_owned(block)) << size;
  }
  /* Also not when other blocks of the slab live on, in whatever order they were freed. */
  for (size_t size : kSizes) {
    if (size > 200000) continue;
    std::vector<void *> blocks;
    for (int i = 0; i < 60; i++) blocks.push_back(hakmem_malloc(size));
    for (size_t i = 0; i < blocks.size(); i += 2) hakmem_free(blocks[i]);
    for (size_t i = 0; i < blocks.size(); i++) {
      EXPECT_EQ(hakmem_check_owned(blocks[i]), i % 2 == 1) << size << " " << i;
    }
    for (size_t i = 1; i < blocks.size(); i += 2) hakmem_free(blocks[i]);
    hakmem_collect();
    for (void *block : blocks) EXPECT_FALSE(hakmem_check_owned(block)) << size;
  }
}

TEST(CheckOwned, BlocksFreedByAnotherThreadAreNot) {
  for (size_t size : kSizes) {
    void *block = hakmem_malloc(size);
    void *kept = hakmem_malloc(size);
    ASSERT_NE(block, nullptr);
    std::thread([block] { hakmem_free(block); }).join();
    EXPECT_FALSE(hakmem_check_owned(block)) << size;
    EXPECT_TRUE(hakmem_check_owned(kept)) << size;
    hakmem_free(kept);
  }
}

TEST(CheckOwned, BlocksOfAnotherThreadAre) {
  std::vector<void *> blocks;
  std::thread([&blocks] {
    for (size_t size : kSizes) blocks.push_back(hakmem_malloc(size));
  }).join();
  for (void *block : blocks) {
    EXPECT_TRUE(hakmem_check_owned(block));
    hakmem_free(block);
  }
}

#if !HK_SANITIZED  // it reads what the owners write plainly, and ThreadSanitizer says so
/* Emulators and some sandboxes refuse the copy: then a block that goes is still read. */
bool SystemCopies() {
  char from = 1, to = 0;
  iovec source = {&from, 1}, target = {&to, 1};
  return process_vm_readv(getpid(), &target, 1, &source, 1, 0) == 1;
}

/* The answer may be of any moment. But the memory of the block, and the superslab that it was in, may go meanwhile. */
TEST(CheckOwned, BlocksThatGoMeanwhileAreSafeToAsk) {
  if (!SystemCopies()) GTEST_SKIP() << "the system does not copy the process's memory";
  constexpr size_t kCount = 4096;
  std::vector<std::atomic<void *>> asked(kCount);
  std::atomic<bool> is_over{false};
  std::thread asker([&asked, &is_over] {
    while (!is_over) {
      for (std::atomic<void *> &block : asked) (void)hakmem_check_owned(block);
      for (std::atomic<void *> &block : asked) (void)hakmem_heap_of(block);
    }
  });
  for (size_t round = 0; round < Scaled(80, 20); round++) {
    size_t size = round % 8 < 6 ? 2000 : round % 8 == 6 ? 100000 : 3 * kMiB;
    std::vector<void *> blocks(std::min(kCount, 16 * kMiB / size));
    for (size_t i = 0; i < blocks.size(); i++) asked[i] = blocks[i] = hakmem_malloc(size);
    for (void *block : blocks) hakmem_free(block);
    if (size != 100000) (void)hakmem_collect(); /* else the large blocks are made of the runs' superslabs */
  }
  is_over = true;
  asker.join();
}
#endif

TEST(CheckOwned, InteriorAddressesAreNot) {
  for (size_t size : kSizes) {
    char *block = static_cast<char *>(hakmem_malloc(size));
    ASSERT_NE(block, nullptr);
    size_t usable = hakmem_malloc_usable_size(block);
    for (size_t offset : {size_t{1}, size_t{2}, size_t{4}, size_t{8}, size_t{15}, size_t{16}, size_t{17}, size_t{64},
                          size_t{4096}, size_t{65536}, size_t{131072}, size_t{2} << 20, usable / 2, usable - 1}) {
      /* No block begins within the first 16 bytes, even if none of them is usable. */
      if (offset == 0 || offset >= std::max(usable, size_t{16})) continue;
      EXPECT_FALSE(hakmem_check_owned(block + offset)) << size << " + " << offset;
    }
    hakmem_free(block);
  }
}

TEST(CheckOwned, EveryAddressOfASlabIsAskedFor) {
  /* All 16-byte steps around a few hundred blocks of one class: exactly the live starts are owned. */
  for (size_t size : {size_t{48}, size_t{1000}, size_t{3000}}) {
    std::vector<char *> blocks;
    for (int i = 0; i < 300; i++) blocks.push_back(static_cast<char *>(hakmem_malloc(size)));
    for (char *block : blocks) {
      size_t usable = hakmem_malloc_usable_size(block);
      EXPECT_TRUE(hakmem_check_owned(block));
      for (size_t offset = 1; offset < usable; offset++) ASSERT_FALSE(hakmem_check_owned(block + offset)) << offset;
    }
    for (char *block : blocks) hakmem_free(block);
  }
}

TEST(CheckOwned, ForeignAddressesAreNot) {
  int on_stack = 0;
  EXPECT_FALSE(hakmem_check_owned(nullptr));
  EXPECT_FALSE(hakmem_check_owned(&on_stack));
  EXPECT_FALSE(hakmem_check_owned(&static_data));
  EXPECT_FALSE(hakmem_check_owned(&static_constant));
  EXPECT_FALSE(hakmem_check_owned(reinterpret_cast<const void *>(&hakmem_malloc)));
  EXPECT_FALSE(hakmem_check_owned(hakmem_version()));
  for (size_t size : {size_t{1}, size_t{100}, size_t{5000}, size_t{100000}, 3 * kMiB}) {
    char *block = static_cast<char *>(std::malloc(size));
    EXPECT_FALSE(hakmem_check_owned(block)) << size;
    std::free(block);
  }
  char *mapped =
      static_cast<char *>(mmap(nullptr, 8 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void *>(mapped), MAP_FAILED);
  for (size_t offset = 0; offset < 8 * kMiB; offset += 4096) ASSERT_FALSE(hakmem_check_owned(mapped + offset));
  ASSERT_EQ(munmap(mapped, 8 * kMiB), 0);
  for (size_t offset = 0; offset < 8 * kMiB; offset += 4096) ASSERT_FALSE(hakmem_check_owned(mapped + offset));
  mapped = static_cast<char *>(mmap(nullptr, 4 * kMiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void *>(mapped), MAP_FAILED);
  for (size_t offset = 0; offset < 4 * kMiB; offset += 4096) ASSERT_FALSE(hakmem_check_owned(mapped + offset));
  ASSERT_EQ(munmap(mapped, 4 * kMiB), 0);
}

TEST(CheckOwned, OddValuesAreNot) {
  for (unsigned shift = 0; shift < 64; shift++) {
    uintptr_t bit = uintptr_t{1} << shift;
    for (uintptr_t value : {bit, bit - 1, bit + 1, bit + 8, bit - 16, bit + 65536, ~bit, ~bit + 1}) {
      EXPECT_FALSE(hakmem_check_owned(Address(value))) << std::hex << value;
    }
  }
  TestRandom random(SeedFor("OddValues"));
  for (size_t i = 0; i < Scaled(1000000, 10000); i++) {
    uintptr_t value = random.Next() >> random.Below(64);
    ASSERT_FALSE(hakmem_check_owned(Address(value))) << std::hex << value;
  }
}

TEST(CheckOwned, TheTailsOfLiveBlocksWithAddressBitsSetAreNot) {
  /* A live block's address with high bits added is another address. */
  void *block = hakmem_malloc(100);
  ASSERT_NE(block, nullptr);
  uintptr_t value = reinterpret_cast<uintptr_t>(block);
  for (unsigned shift = 48; shift < 64; shift++) {
    EXPECT_FALSE(hakmem_check_owned(Address(value | uintptr_t{1} << shift))) << shift;
  }
  EXPECT_TRUE(hakmem_check_owned(block));
  hakmem_free(block);
}

TEST(CheckOwned, AddressesAroundEverythingAreSafeToAsk) {
  /* Nothing outside our memory may be read: walk far beyond both ends of some blocks. */
  for (size_t size : {size_t{24}, size_t{20000}, size_t{200000}, 3 * kMiB}) {
    char *block = static_cast<char *>(hakmem_malloc(size));
    ASSERT_NE(block, nullptr);
    uintptr_t start = reinterpret_cast<uintptr_t>(block);
    size_t owned = 0;
    for (uintptr_t value = start - 8 * kMiB; value < start + 8 * kMiB; value += 16)
      owned += hakmem_check_owned(Address(value));
    EXPECT_GE(owned, 1u);
    hakmem_free(block);
  }
}

} /* namespace */
