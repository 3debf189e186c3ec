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

TEST(Errno, FreeKeepsItWhenTheSystemTakesNothingBack) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer needs the refused calls";
  int result = InChild([] {
    std::vector<void *> blocks;
    blocks.reserve(2000);
    for (size_t size : kSizes) {
      for (int i = 0; i < (size > 10 * kMiB ? 3 : 60); i++) {
        char *block = static_cast<char *>(hakmem_malloc(size));
        if (block == nullptr) return 2;
        for (size_t offset = 0; offset < size; offset += 16384) block[offset] = 1;
        blocks.push_back(block);
      }
    }
    if (!RefuseCalls({SYS_munmap, SYS_madvise, SYS_mremap, SYS_mprotect}, ENOMEM)) return kSkipped;
    for (void *block : blocks) {
      errno = kMarker;
      hakmem_free(block);
      if (errno != kMarker) return 3;
    }
    errno = kMarker;
    hakmem_collect();
    hakmem_malloc_trim(0);
    if (errno != kMarker) return 4;
    /* And everything goes on: what could not be given back is still usable, calloc still gives zeros, realloc moves. */
    for (size_t size : kSizes) {
      char *block = static_cast<char *>(hakmem_calloc(1, size));
      if (block == nullptr) return 5;
      for (size_t i = 0; i < size; i++) {
        if (block[i] != 0) return 6;
      }
      if (size > 0) block[size / 2] = 42;
      char *moved = static_cast<char *>(hakmem_realloc(block, size * 2 + 1));
      if (moved == nullptr) return 7;
      if (size > 0 && moved[size / 2] != 42) return 8;
      moved = static_cast<char *>(hakmem_realloc(moved, size / 2 + 1));
      if (moved == nullptr) return 9;
      hakmem_free(moved);
    }
    return 0;
  });
  if (result == kSkipped) GTEST_SKIP() << "no seccomp filter here";
  EXPECT_EQ(result, 0);
}

TEST(Errno, NoMappingsIsEnomemAndNothingElse) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer needs the refused calls";
  int result = InChild([] {
    char *kept = static_cast<char *>(hakmem_malloc(100));
    char *kept_big = static_cast<char *>(hakmem_malloc(3 * kMiB));
    if (kept == nullptr || kept_big == nullptr) return 2;
    std::memset(kept, 7, 100);
    std::memset(kept_big, 8, 3 * kMiB);
    if (!RefuseCalls({SYS_mmap, SYS_mremap}, ENOMEM)) return kSkipped;
    for (size_t size : kSizes) {
      /* Until nothing is left: NULL must come with ENOMEM, and come at all. The list lives in the blocks themselves. */
      void **chain = nullptr;
      size_t taken = 0;
      for (;;) {
        errno = kMarker;
        void **block = static_cast<void **>(hakmem_malloc(size));
        if (block == nullptr) {
          if (errno != ENOMEM) return 3;
          break;
        }
        if (errno != kMarker) return 4;
        if (size < 16) {
          hakmem_free(block); /* too small to chain, and cheap to come by */
          if (++taken > 1000) break;
          continue;
        }
        *block = chain;
        chain = block;
        if (++taken > 2000000) return 5;
      }
      if (size >= 16) {
        errno = kMarker;
        if (hakmem_calloc(1, size) != nullptr || errno != ENOMEM) return 6;
        errno = kMarker;
        void *out = &taken;
        int error = hakmem_posix_memalign(&out, 64, size);
        if (error == 0) {
          hakmem_free(out);
        } else if (error != ENOMEM || out != &taken) {
          return 7;
        }
        if (errno != (error == 0 ? kMarker : ENOMEM)) return 8;
      }
      while (chain != nullptr) {
        void **next = static_cast<void **>(*chain);
        errno = kMarker;
        hakmem_free(chain);
        if (errno != kMarker) return 9;
        chain = next;
      }
    }
    errno = kMarker;
    if (hakmem_realloc(kept_big, 300 * kMiB) != nullptr || errno != ENOMEM) return 10;
    errno = kMarker;
    if (hakmem_realloc(kept, 300 * kMiB) != nullptr || errno != ENOMEM) return 11;
    for (int i = 0; i < 100; i++) {
      if (kept[i] != 7) return 12;
    }
    for (size_t i = 0; i < 3 * kMiB; i++) {
      if (kept_big[i] != 8) return 13;
    }
    /* The blocks that were had can be used. */
    hakmem_free(kept_big);
    void *small = hakmem_malloc(100);
    if (small == nullptr) return 14;
    hakmem_free(small);
    hakmem_free(kept);
    return 0;
  });
  if (result == kSkipped) GTEST_SKIP() << "no seccomp filter here";
  EXPECT_EQ(result, 0);
}

} /* namespace */
