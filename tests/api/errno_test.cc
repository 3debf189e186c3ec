/* tests/api/errno_test.cc - errno: free never changes it, success leaves it alone, failure sets exactly ENOMEM or
 * EINVAL.
 *
 * By POSIX 2024, free keeps errno also when a system call inside fails. In a child process a filter makes the calls
 * that give memory back fail, and everything is freed under it.
 */
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/in_child.h"
#include "support/process_memory.h"
#include "support/refuse_call.h"
#include "support/scale.h"

using namespace hk_test;

namespace {

constexpr int kMarker = 4321;

const std::vector<size_t> kSizes = {0,       1,           24,    1000,   kTinyMax, 1025,        5000,     20000,
                                    kMidMax, kMidMax + 1, 65537, 200000, kRunMax,  kRunMax + 1, 3 * kMiB, 40 * kMiB};

TEST(Errno, FreeKeepsIt) {
  errno = kMarker;
  hakmem_free(nullptr);
  EXPECT_EQ(errno, kMarker);
  hakmem_cfree(nullptr);
  EXPECT_EQ(errno, kMarker);
  for (size_t size : kSizes) {
    std::vector<void *> blocks;
    for (int i = 0; i < 20; i++) blocks.push_back(hakmem_malloc(size));
    for (void *block : blocks) {
      ASSERT_NE(block, nullptr);
      if (size >= 65536) std::memset(block, 1, 65536);
      errno = kMarker;
      hakmem_free(block);
      ASSERT_EQ(errno, kMarker) << size;
    }
    void *block = hakmem_malloc(size);
    errno = 0;
    hakmem_cfree(block);
    ASSERT_EQ(errno, 0) << size;
  }
}

TEST(Errno, SuccessLeavesItAlone) {
  /* C allows a successful malloc to change it, but programs rely on what glibc does. */
  for (size_t size : kSizes) {
    errno = kMarker;
    void *block = hakmem_malloc(size);
    EXPECT_EQ(errno, kMarker) << size;
    EXPECT_GE(hakmem_malloc_usable_size(block), size);
    EXPECT_TRUE(hakmem_check_owned(block));
    EXPECT_EQ(errno, kMarker) << size;
    block = hakmem_realloc(block, size * 2 + 1);
    EXPECT_EQ(errno, kMarker) << size;
    block = hakmem_realloc(block, size / 2 + 1);
    EXPECT_EQ(errno, kMarker) << size;
    hakmem_free(block);
    block = hakmem_calloc(size, 2);
    EXPECT_EQ(errno, kMarker) << size;
    hakmem_free(block);
    block = hakmem_aligned_alloc(4096, size);
    EXPECT_EQ(errno, kMarker) << size;
    hakmem_free(block);
    EXPECT_EQ(errno, kMarker) << size;
  }
  hakmem_collect();
  hakmem_malloc_trim(0);
  hakmem_good_size(1234);
  EXPECT_EQ(errno, kMarker);
}

TEST(Errno, FailureSetsIt) {
  errno = kMarker;
  EXPECT_EQ(hakmem_malloc(SIZE_MAX), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = kMarker;
  EXPECT_EQ(hakmem_calloc(SIZE_MAX, SIZE_MAX), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = kMarker;
  EXPECT_EQ(hakmem_realloc(nullptr, SIZE_MAX), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = kMarker;
  EXPECT_EQ(hakmem_reallocarray(nullptr, SIZE_MAX, 3), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = kMarker;
  EXPECT_EQ(hakmem_aligned_alloc(3, 3), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

/* ---- Under a filter that refuses system calls. */

/* Makes each of `calls` fail with `error` in this process from now on. For good: use it in a child. */
bool RefuseCalls(std::initializer_list<unsigned> calls, unsigned error) {
  return std::all_of(calls.begin(), calls.end(), [error](unsigned call) { return Refuse(call, error); });
}

constexpr int kSkipped = 77;

/* Runs the body in a child. It refuses calls there, and returns kSkipped where it cannot. */
template <typename Body>
void ExpectUnderAFilter(Body body) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer needs the refused calls";
  int result = InChild(body);
  if (result == kSkipped) GTEST_SKIP() << "no seccomp filter here";
  EXPECT_EQ(result, 0);
}

/* ---- Memory that the system does not take back. */

bool RefuseToTakeBack() { return RefuseCalls({SYS_munmap, SYS_madvise, SYS_mremap, SYS_mprotect}, ENOMEM); }

/* Returns resident blocks of each size, or none when the system refuses one. */
std::vector<void *> TouchedBlocks() {
  std::vector<void *> blocks;
  for (size_t size : kSizes) {
    for (int i = 0; i < (size > 10 * kMiB ? 3 : 60); i++) {
      char *block = static_cast<char *>(hakmem_malloc(size));
      if (block == nullptr) return {};
      for (size_t offset = 0; offset < size; offset += 16384) block[offset] = 1;
      blocks.push_back(block);
    }
  }
  return blocks;
}

TEST(Errno, FreeKeepsItWhenTheSystemTakesNothingBack) {
  ExpectUnderAFilter([] {
    std::vector<void *> blocks = TouchedBlocks();
    HK_CHILD_CHECK(!blocks.empty());
    if (!RefuseToTakeBack()) return kSkipped;
    for (void *block : blocks) {
      errno = kMarker;
      hakmem_free(block);
      HK_CHILD_CHECK(errno == kMarker);
    }
    errno = kMarker;
    hakmem_collect();
    hakmem_malloc_trim(0);
    HK_CHILD_CHECK(errno == kMarker);
    return 0;
  });
}

TEST(Errno, WhatTheSystemDoesNotTakeBackIsUsable) {
  ExpectUnderAFilter([] {
    std::vector<void *> blocks = TouchedBlocks();
    HK_CHILD_CHECK(!blocks.empty());
    if (!RefuseToTakeBack()) return kSkipped;
    for (void *block : blocks) hakmem_free(block);
    hakmem_collect();
    for (size_t size : kSizes) {
      char *block = static_cast<char *>(hakmem_calloc(1, size));
      HK_CHILD_CHECK(block != nullptr && std::count(block, block + size, 0) == static_cast<ptrdiff_t>(size));
      if (size > 0) block[size / 2] = 42;
      char *longer = static_cast<char *>(hakmem_realloc(block, size * 2 + 1));
      HK_CHILD_CHECK(longer != nullptr && (size == 0 || longer[size / 2] == 42));
      char *shorter = static_cast<char *>(hakmem_realloc(longer, size / 2 + 1));
      HK_CHILD_CHECK(shorter != nullptr);
      hakmem_free(shorter);
    }
    return 0;
  });
}

/* ---- No more mappings. */

bool RefuseMappings() { return RefuseCalls({SYS_mmap, SYS_mremap}, ENOMEM); }

/* Allocates, and returns whether errno is as it must be. */
bool AllocsByTheRules(size_t size, void **block) {
  errno = kMarker;
  *block = hakmem_malloc(size);
  return errno == (*block != nullptr ? kMarker : ENOMEM);
}

bool FreesByTheRules(void *block) {
  errno = kMarker;
  hakmem_free(block);
  return errno == kMarker;
}

/* For blocks that are too short for a list, and more than can be taken. */
bool AllocsAndFreesByTheRules(size_t size) {
  for (int i = 0; i < 1000; i++) {
    void *block;
    if (!AllocsByTheRules(size, &block) || !FreesByTheRules(block)) return false;
  }
  return true;
}

/* Allocates until NULL comes. Puts the blocks into a list that lies in themselves. */
bool TakesAllByTheRules(size_t size, void **list) {
  for (int taken = 0; taken < 2000000; taken++) {
    void *block;
    if (!AllocsByTheRules(size, &block)) return false;
    if (block == nullptr) return true;
    *static_cast<void **>(block) = *list;
    *list = block;
  }
  return false;
}

bool FreesAllByTheRules(void *list) {
  while (list != nullptr) {
    void *next = *static_cast<void **>(list);
    if (!FreesByTheRules(list)) return false;
    list = next;
  }
  return true;
}

/* Requires that no block of the size is left. One with an alignment may be. */
bool OthersFailByTheRules(size_t size) {
  errno = kMarker;
  if (hakmem_calloc(1, size) != nullptr || errno != ENOMEM) return false;
  errno = kMarker;
  void *unchanged = &errno, *out = unchanged;
  int error = hakmem_posix_memalign(&out, 64, size);
  if (errno != (error == 0 ? kMarker : ENOMEM)) return false;
  if (error == 0) hakmem_free(out);
  return error == 0 || (error == ENOMEM && out == unchanged);
}

TEST(Errno, NoMappingsIsEnomemAndNothingElse) {
  ExpectUnderAFilter([] {
    hakmem_free(hakmem_malloc(3 * kMiB)); /* the library has begun, and has some memory */
    if (!RefuseMappings()) return kSkipped;
    for (size_t size : kSizes) {
      if (size < sizeof(void *)) {
        HK_CHILD_CHECK(AllocsAndFreesByTheRules(size));
        continue;
      }
      void *list = nullptr;
      HK_CHILD_CHECK(TakesAllByTheRules(size, &list));
      HK_CHILD_CHECK(OthersFailByTheRules(size));
      HK_CHILD_CHECK(FreesAllByTheRules(list));
    }
    return 0;
  });
}

TEST(Errno, AFailedReallocKeepsTheBlock) {
  ExpectUnderAFilter([] {
    char *small = static_cast<char *>(hakmem_malloc(100)), *large = static_cast<char *>(hakmem_malloc(3 * kMiB));
    HK_CHILD_CHECK(small != nullptr && large != nullptr);
    std::memset(small, 7, 100);
    std::memset(large, 8, 3 * kMiB);
    if (!RefuseMappings()) return kSkipped;
    for (char *block : {small, large}) {
      errno = kMarker;
      HK_CHILD_CHECK(hakmem_realloc(block, 300 * kMiB) == nullptr && errno == ENOMEM);
    }
    HK_CHILD_CHECK(std::count(small, small + 100, 7) == 100);
    HK_CHILD_CHECK(std::count(large, large + 3 * kMiB, 8) == static_cast<ptrdiff_t>(3 * kMiB));
    hakmem_free(large);
    hakmem_free(small);
    HK_CHILD_CHECK(hakmem_malloc(100) != nullptr);
    return 0;
  });
}

} /* namespace */
