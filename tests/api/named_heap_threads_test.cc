/* tests/api/named_heap_threads_test.cc - named heaps that many threads share, and that a fork copies. */
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/in_child.h"
#include "support/scale.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

hakmem_heap_usage_t UsageOf(const hakmem_heap_t *heap) {
  hakmem_heap_usage_t usage;
  hakmem_heap_usage(heap, &usage, sizeof usage);
  return usage;
}

/* ---- Threads. */

TEST(NamedHeap, AThousandThreadsShareOne) {
  const size_t count = Scaled(1000);
  hakmem_heap_t *heap = hakmem_heap_create("thousand", nullptr);
  std::vector<std::thread> threads;
  std::atomic<bool> go = false;
  std::atomic<size_t> ready = 0;
  std::vector<std::atomic<char *>> blocks(count);
  for (size_t t = 0; t < count; t++) {
    threads.emplace_back([&, t] {
      blocks[t] = static_cast<char *>(hakmem_heap_malloc(heap, 100));
      memset(blocks[t], static_cast<int>(t), 100);
      ready++;
      while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      size_t neighbour = (t + 1) % count;
      ASSERT_EQ(hakmem_heap_of(blocks[neighbour]), heap);
      ASSERT_EQ(blocks[neighbour][99], static_cast<char>(neighbour));
      hakmem_free(blocks[neighbour]);
    });
  }
  while (ready < count) std::this_thread::yield();
  go = true;
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(UsageOf(heap).bytes, 0u) << "no thread and no block is left";
  hakmem_heap_destroy(heap);
}

/* Calls `work` in another thread, again and again, while `check` runs. */
template <class Work, class Check>
void Beside(Work work, Check check) {
  std::atomic<bool> stop = false;
  std::thread other([&] {
    while (!stop) work();
  });
  check();
  stop = true;
  other.join();
}

TEST(NamedHeap, ARefusedRequestRefusesNoOther) {
  hakmem_heap_options_t options = {};
  options.size = sizeof options;
  options.soft_limit = 32 << 20;
  options.hard_limit = 64 << 20;
  hakmem_heap_t *heap = hakmem_heap_create("refusals", &options);
  Beside([&] { EXPECT_EQ(hakmem_heap_malloc(heap, size_t{1} << 30), nullptr); },
         [&] {
           for (size_t i = 0; i < Scaled(100000); i++) {
             void *block = hakmem_heap_malloc(heap, 1 << 20);
             ASSERT_NE(block, nullptr) << i;
             hakmem_free(block);
           }
         });
  EXPECT_EQ(UsageOf(heap).soft_count, 0u);
  hakmem_heap_destroy(heap);
}

/* The limit allows the request that the system refuses, and it allows the other. Not both at once. */
TEST(NamedHeap, ARequestThatTheSystemRefusesRefusesNoOther) {
  const size_t refused = size_t{1} << 60;
  hakmem_heap_options_t options = {};
  options.size = sizeof options;
  options.hard_limit = refused + (1 << 20);
  hakmem_heap_t *heap = hakmem_heap_create("refused by the system", &options);
  Beside([&] { EXPECT_EQ(hakmem_heap_malloc(heap, refused), nullptr); },
         [&] {
           for (size_t i = 0; i < Scaled(20000); i++) {
             void *block = hakmem_heap_malloc(heap, 2 << 20);
             ASSERT_NE(block, nullptr) << i;
             hakmem_free(block);
           }
         });
  hakmem_heap_destroy(heap);
}

TEST(NamedHeap, AResizeLeavesNoRoomAboveTheLimit) {
  hakmem_heap_options_t options = {};
  options.size = sizeof options;
  options.hard_limit = 8 << 20;
  hakmem_heap_t *heap = hakmem_heap_create("resizes", &options);
  void *resized = hakmem_heap_malloc(heap, 5 << 20);
  Beside(
      [&] {
        void *block = hakmem_heap_malloc(heap, 4 << 20);
        EXPECT_EQ(block, nullptr) << "the other block is charged at each moment";
        hakmem_free(block);
      },
      [&] {
        for (size_t i = 0; i < Scaled(20000); i++) {
          void *moved = hakmem_heap_realloc(heap, resized, i % 2 == 0 ? 6 << 20 : 5 << 20);
          ASSERT_NE(moved, nullptr);
          resized = moved;
        }
      });
  EXPECT_LE(UsageOf(heap).peak_bytes, options.hard_limit);
  hakmem_heap_destroy(heap);
}

/* More heaps than a thread's table has entries, and more threads than it looks at without a lock. */
TEST(NamedHeap, EachThreadFindsItsPartOfManyHeaps) {
  const unsigned heap_count = 100, thread_count = 12;
  std::vector<hakmem_heap_t *> heaps;
  for (unsigned i = 0; i < heap_count; i++)
    heaps.push_back(hakmem_heap_create(("many " + std::to_string(i)).c_str(), nullptr));
  std::atomic<unsigned> round = 0, done = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < thread_count; t++) {
    threads.emplace_back([&, t] {
      for (unsigned r = 1; r <= 4; r++) {
        while (round < r) std::this_thread::yield();
        for (unsigned i = 0; i < heap_count; i++) {
          hakmem_heap_t *heap = heaps[t % 2 == 0 ? i : i * 64 % heap_count];
          ASSERT_EQ(hakmem_heap_of(hakmem_heap_malloc(heap, 40)), heap); /* with a canary too, of one class for all */
        }
        done++;
      }
    });
  }
  for (unsigned r = 1; r <= 4; r++) {
    done = 0;
    round = r;
    while (done < thread_count) std::this_thread::yield();
  }
  for (std::thread &thread : threads) thread.join();
  for (hakmem_heap_t *heap : heaps) {
    EXPECT_LE(UsageOf(heap).bytes, size_t{thread_count} << 16) << "one slab for each thread's part";
    hakmem_heap_destroy(heap);
  }
}

TEST(NamedHeap, ThreadsUseNoPartOfAHeapThatEndedBefore) {
  std::atomic<int> turn = 0;
  const int threads_count = 4;
  hakmem_heap_t *heap = hakmem_heap_create("parts", nullptr);
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < threads_count; t++) {
    threads.emplace_back([&] {
      for (int i = 1; i <= 100; i++) {
        while (turn != i) std::this_thread::yield();
        char *kept = static_cast<char *>(hakmem_heap_malloc(heap, 300));
        memset(kept, 1, 300);
        for (int k = 0; k < 50; k++) hakmem_free(hakmem_heap_malloc(heap, 40));
        EXPECT_EQ(hakmem_heap_of(kept), heap);
        done++;
      }
    });
  }
  for (int i = 1; i <= 100; i++) {
    done = 0;
    turn = i;
    while (done != threads_count) std::this_thread::yield();
    EXPECT_GE(UsageOf(heap).bytes, size_t{1} << 16) << "a slab at least is the new heap's";
    hakmem_heap_destroy(heap); /* the threads' tables name it */
    heap = hakmem_heap_create(i % 2 == 0 ? "parts" : "others", nullptr);
  }
  for (std::thread &thread : threads) thread.join();
  hakmem_heap_destroy(heap);
}

TEST(NamedHeap, ManyThreadsShareHeaps) {
  const uint64_t seed = TestSeed();
  const int rounds = static_cast<int>(Scaled(20));
  for (int round = 0; round < rounds; round++) {
    std::vector<hakmem_heap_t *> heaps;
    for (int i = 0; i < 40; i++) heaps.push_back(hakmem_heap_create("shared", nullptr));
    std::vector<std::thread> threads;
    std::atomic<void *> exchange[64] = {};
    for (unsigned t = 0; t < 6; t++) {
      threads.emplace_back([&, t] {
        TestRandom random(seed + t * 77 + static_cast<unsigned>(round));
        for (int i = 0; i < 4000; i++) {
          hakmem_heap_t *heap = heaps[random.Below(heaps.size())];
          size_t size = random.Below(20) == 0 ? random.Below(100000) : random.Below(2000);
          auto *block = static_cast<uintptr_t *>(hakmem_heap_malloc(heap, size + 16));
          ASSERT_NE(block, nullptr);
          block[0] = reinterpret_cast<uintptr_t>(heap);
          block[1] = size;
          void *old = exchange[random.Below(64)].exchange(block);
          if (old == nullptr) continue;
          ASSERT_EQ(reinterpret_cast<uintptr_t>(hakmem_heap_of(old)), *static_cast<uintptr_t *>(old));
          if (random.Below(4) == 0) {
            uintptr_t was = *static_cast<uintptr_t *>(old);
            old = hakmem_realloc(old, random.Below(5000) + 16);
            ASSERT_EQ(*static_cast<uintptr_t *>(old), was);
            ASSERT_EQ(reinterpret_cast<uintptr_t>(hakmem_heap_of(old)), was);
          }
          hakmem_free(old);
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    for (hakmem_heap_t *heap : heaps) hakmem_heap_destroy(heap);
  }
}

TEST(NamedHeap, BlocksOutliveTheirThread) {
  hakmem_heap_t *heap = hakmem_heap_create("thread end", nullptr);
  std::vector<char *> blocks;
  for (int round = 0; round < 10; round++) {
    std::thread([&] {
      for (int i = 0; i < 1000; i++) {
        blocks.push_back(static_cast<char *>(hakmem_heap_malloc(heap, 200)));
        memset(blocks.back(), round, 200);
      }
    }).join();
  }
  for (size_t i = 0; i < blocks.size(); i++) ASSERT_EQ(blocks[i][199], static_cast<char>(i / 1000));
  EXPECT_LE(UsageOf(heap).bytes, 10000u * 208 + 4 * 65536) << "later threads adopt the parts of earlier ones";
  for (char *block : blocks) hakmem_free(block);
  EXPECT_EQ(UsageOf(heap).bytes, 0u) << "frees into idle parts give their spans back";
  hakmem_heap_destroy(heap);
}

TEST(NamedHeap, DestroyWhileOtherThreadsEndAndCollect) {
  const int rounds = static_cast<int>(Scaled(200));
  for (int round = 0; round < rounds; round++) {
    hakmem_heap_t *heap = hakmem_heap_create("ends", nullptr);
    std::atomic<int> done = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 100; i++) memset(hakmem_heap_malloc(heap, 500), t, 500);
        done++;
        if (t == 0) (void)hakmem_collect();
        for (int i = 0; i < 100; i++) hakmem_free(hakmem_malloc(300));
      });
    }
    while (done < 4) std::this_thread::yield();
    hakmem_heap_destroy(heap);
    for (std::thread &thread : threads) thread.join();
  }
}

TEST(NamedHeap, ARecreatedHeapHasNoPartsOfTheOldOne) {
  std::atomic<int> turn = 0;
  hakmem_heap_t *heap = hakmem_heap_create("first", nullptr);
  std::thread other([&] {
    for (int i = 0; i < 50; i++) {
      while (turn != 2 * i + 1) std::this_thread::yield();
      for (int k = 0; k < 20; k++) memset(hakmem_heap_malloc(heap, 100), 7, 100);
      turn++;
    }
  });
  for (int i = 0; i < 50; i++) {
    turn = 2 * i + 1;
    while (turn != 2 * i + 2) std::this_thread::yield();
    hakmem_heap_t *old = heap;
    hakmem_heap_destroy(heap);
    heap = hakmem_heap_create("next", nullptr);
    EXPECT_EQ(heap, old) << "the record is used again, so a stale entry would show";
    EXPECT_EQ(UsageOf(heap).bytes, 0u);
  }
  other.join();
  hakmem_heap_destroy(heap);
}

/* ---- Fork. */

TEST(NamedHeap, AChildOfForkGoesOn) {
  hakmem_heap_t *heap = hakmem_heap_create("forks", nullptr);
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++) {
    threads.emplace_back([&] {
      while (!stop) {
        void *blocks[50];
        for (void *&block : blocks) block = hakmem_heap_malloc(heap, 700);
        void *run = hakmem_heap_malloc(heap, 70000);
        for (void *block : blocks) hakmem_free(block);
        hakmem_free(run);
      }
    });
  }
  char *mine = static_cast<char *>(hakmem_heap_malloc(heap, 300));
  strcpy(mine, "mine");
  for (int i = 0; i < 30; i++) {
    int result = hk_test::InChild([&] {
      HK_CHILD_CHECK(strcmp(mine, "mine") == 0);
      HK_CHILD_CHECK(hakmem_heap_of(mine) == heap);
      for (int k = 0; k < 2000; k++) {
        char *block = static_cast<char *>(hakmem_heap_malloc(heap, static_cast<size_t>(k)));
        HK_CHILD_CHECK(block != nullptr);
        memset(block, 1, static_cast<size_t>(k));
        if (k % 2 == 0) hakmem_free(block);
      }
      void *run = hakmem_heap_malloc(heap, 200000);
      HK_CHILD_CHECK(run != nullptr);
      hakmem_free(run);
      if (!HAKMEM_TEST_SANITIZER) /* ThreadSanitizer follows no thread of a child */
        std::thread([&] { hakmem_free(hakmem_heap_malloc(heap, 100)); }).join();
      hakmem_free(mine);
      hakmem_heap_destroy(heap);
      hakmem_heap_t *next = hakmem_heap_create("in the child", nullptr);
      HK_CHILD_CHECK(hakmem_heap_malloc(next, 100) != nullptr);
      hakmem_heap_destroy(next);
      return 0;
    });
    EXPECT_EQ(result, 0);
  }
  stop = true;
  for (std::thread &thread : threads) thread.join();
  hakmem_heap_destroy(heap);
}

}  // namespace
