/* tests/api/reentry_test.cc - hakmem's own bookkeeping calls no malloc, and holds no lock where the C library may.
 *
 * This program defines malloc, calloc and realloc. They count calls made from inside a hakmem function; each such call
 * also enters hakmem again, as it would where hakmem has malloc's name: a lock held across it would hang here.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "hakmem/hakmem.h"
#include "policy/option.h"
#include "support/process_memory.h"
#include "support/scale.h"

#if HAKMEM_TEST_SANITIZER

TEST(Reentry, NeedsTheNameMalloc) { GTEST_SKIP() << "a sanitizer has malloc's name itself"; }

#else

using namespace hk_test;

extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
}

namespace {

__attribute__((tls_model("initial-exec"))) thread_local bool inside;
std::atomic<long> calls_inside;

/* Every way back in; the blocks go at once. `inside` is off meanwhile, or this would never end. */
void EnterAgain() {
  if (!inside) return;
  inside = false;
  calls_inside++;
  for (size_t size : {size_t{40}, size_t{3000}, size_t{100000}, size_t{2} << 20}) {
    void *block = hakmem_malloc(size);
    block = hakmem_realloc(block, size * 2);
    hakmem_free(block);
  }
  inside = true;
}

/* Runs `body`, all of it calls of hakmem; returns how often it called malloc. */
template <typename Body>
long CallsInside(Body body) {
  long before = calls_inside;
  inside = true;
  body();
  inside = false;
  return calls_inside - before;
}

} /* namespace */

extern "C" void *malloc(size_t size) {
  EnterAgain();
  return __libc_malloc(size);
}

extern "C" void *calloc(size_t count, size_t size) {
  EnterAgain();
  return __libc_calloc(count, size);
}

extern "C" void *realloc(void *block, size_t size) {
  EnterAgain();
  return __libc_realloc(block, size);
}

namespace {

/* Creating the purge thread calls malloc, in the C library, and the clock decides when. */
class WithoutPurgeThread {
 public:
  WithoutPurgeThread() { hk_option.purge_thread = false; }
  ~WithoutPurgeThread() { hk_option.purge_thread = true; }
};

/* Arrays of fixed size: a vector would call malloc by itself. */
void Exercise() {
  static thread_local void *blocks[400];
  for (int round = 0; round < 3; round++) {
    for (size_t base :
         {size_t{0}, size_t{24}, size_t{1000}, size_t{1500}, size_t{9000}, kMidMax, size_t{50000}, kRunMax, 3 * kMiB}) {
      size_t count = base > kMidMax ? 12 : 400;
      for (size_t i = 0; i < count; i++) {
        switch (i % 4) {
          case 0:
            blocks[i] = hakmem_malloc(base + i);
            break;
          case 1:
            blocks[i] = hakmem_calloc(1, base + i);
            break;
          case 2:
            blocks[i] = hakmem_aligned_alloc(256, base + i);
            break;
          default:
            blocks[i] = hakmem_realloc(hakmem_malloc(base), base + i * 2 + 1);
        }
      }
      for (size_t i = 0; i < count; i++) {
        hakmem_check_owned(blocks[i]);
        hakmem_malloc_usable_size(blocks[i]);
      }
      for (size_t i = 0; i < count; i += 2) hakmem_free(blocks[i]);
      for (size_t i = 1; i < count; i += 2) hakmem_free(blocks[i]);
    }
    hakmem_collect();
    hakmem_malloc_trim(0);
    hakmem_mallinfo2();
    errno = 0;
    hakmem_malloc(SIZE_MAX);
  }
}

TEST(Reentry, NoCallOfMallocInASteadyState) {
  alarm(300);
  /* First use may make the C library allocate (it registers handlers for thread exit and fork), with no lock held. */
  CallsInside(Exercise);
  EXPECT_EQ(CallsInside(Exercise), 0);
  EXPECT_EQ(CallsInside(Exercise), 0);
  alarm(0);
}

TEST(Reentry, NewThreadsCallItRarelyAndHoldNoLock) {
  alarm(300);
  WithoutPurgeThread without;
  long first_calls = 0, later_calls = 0;
  for (int i = 0; i < 20; i++) {
    struct Result {
      long first, later;
    } result = {};
    pthread_t thread;
    ASSERT_EQ(pthread_create(
                  &thread, nullptr,
                  [](void *argument) -> void * {
                    Result *out = static_cast<Result *>(argument);
                    out->first = CallsInside(Exercise);
                    out->later = CallsInside(Exercise);
                    return nullptr;
                  },
                  &result),
              0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    first_calls += result.first;
    later_calls += result.later;
  }
  EXPECT_LE(first_calls, 40) << "two a thread: the C library's record of the exit hook";
  EXPECT_EQ(later_calls, 0);
  alarm(0);
}

TEST(Reentry, RemoteFreesCallNothing) {
  alarm(300);
  WithoutPurgeThread without;
  static void *blocks[20000];
  for (void *&block : blocks) block = hakmem_malloc(static_cast<size_t>(&block - blocks) % 5000);
  pthread_t thread;
  long calls = -1;
  ASSERT_EQ(pthread_create(
                &thread, nullptr,
                [](void *argument) -> void * {
                  hakmem_free(hakmem_malloc(10)); /* the thread's first use */
                  *static_cast<long *>(argument) = CallsInside([] {
                    for (void *block : blocks) hakmem_free(block);
                  });
                  return nullptr;
                },
                &calls),
            0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(CallsInside([] {
              for (void *&block : blocks) block = hakmem_malloc(static_cast<size_t>(&block - blocks) % 5000);
              for (void *block : blocks) hakmem_free(block);
            }),
            0);
  alarm(0);
}

} /* namespace */

#endif
