/* tests/api/named_heap_test.cc - named heaps: each function, the ways of their blocks, limits, misuse. */
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/block_pattern.h"
#include "support/in_child.h"

using namespace hk_test;

namespace {

const std::vector<size_t> kSizes = {0,     1,     16,    100,   1000,   1024,    1025,   4096,
                                    20000, 32768, 32769, 65536, 200000, 1 << 20, 3 << 20};

hakmem_heap_usage_t UsageOf(const hakmem_heap_t *heap) {
  hakmem_heap_usage_t usage;
  hakmem_heap_usage(heap, &usage, sizeof usage);
  return usage;
}

TEST(NamedHeap, EachFunctionAllocatesInTheHeap) {
  hakmem_heap_t *heap = hakmem_heap_create("all functions", nullptr);
  ASSERT_NE(heap, nullptr);
  EXPECT_STREQ(hakmem_heap_name(heap), "all functions");
  for (size_t size : kSizes) {
    void *block = hakmem_heap_malloc(heap, size);
    ASSERT_NE(block, nullptr) << size;
    EXPECT_GE(hakmem_malloc_usable_size(block), size);
    EXPECT_EQ(hakmem_heap_of(block), heap) << size;
    memset(block, 0xA5, size);
    hakmem_free(block);

    auto *zero = static_cast<unsigned char *>(hakmem_heap_calloc(heap, 1, size));
    ASSERT_NE(zero, nullptr) << size;
    EXPECT_EQ(hakmem_heap_of(zero), heap) << size;
    ASSERT_EQ(FindNonZero(zero, size), kIntact) << size;
    hakmem_free(zero);

    for (size_t alignment : {size_t{16}, size_t{64}, size_t{4096}, size_t{1} << 17}) {
      void *aligned = hakmem_heap_aligned_alloc(heap, alignment, size);
      ASSERT_NE(aligned, nullptr) << size;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % alignment, 0u);
      EXPECT_EQ(hakmem_heap_of(aligned), heap) << size << " " << alignment;
      hakmem_free(aligned);
    }
  }
  char *copy = hakmem_heap_strdup(heap, "text");
  EXPECT_STREQ(copy, "text");
  EXPECT_EQ(hakmem_heap_of(copy), heap);
  hakmem_heap_destroy(heap);
}

TEST(NamedHeap, NullAndOptionsWithoutASize) {
  hakmem_heap_destroy(nullptr);
  EXPECT_EQ(hakmem_heap_collect(nullptr), 0u);
  hakmem_heap_options_t options = {};
  options.hard_limit = 1 << 20;
  errno = 0;
  EXPECT_EQ(hakmem_heap_create("no size", &options), nullptr) << "its limit would be lost";
  EXPECT_EQ(errno, EINVAL);
  options.size = offsetof(hakmem_heap_options_t, soft_limit);
  hakmem_heap_t *heap = hakmem_heap_create("an older caller", &options);
  EXPECT_EQ(UsageOf(heap).hard_limit, 0u);
  hakmem_heap_destroy(heap);
}

TEST(NamedHeap, BlocksOfNoHeapHaveNone) {
  void *block = hakmem_malloc(100);
  int local = 0;
  EXPECT_EQ(hakmem_heap_of(block), nullptr);
  EXPECT_EQ(hakmem_heap_of(nullptr), nullptr);
  EXPECT_EQ(hakmem_heap_of(&local), nullptr);
  hakmem_free(block);
  EXPECT_EQ(hakmem_heap_of(block), nullptr);
}

TEST(NamedHeap, RefusesWrongArguments) {
  errno = 0;
  EXPECT_EQ(hakmem_heap_create(nullptr, nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  hakmem_heap_t *heap = hakmem_heap_create("arguments", nullptr);
  EXPECT_EQ(hakmem_heap_aligned_alloc(heap, 24, 100), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(hakmem_heap_malloc(heap, SIZE_MAX), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  errno = 0;
  EXPECT_EQ(hakmem_heap_calloc(heap, SIZE_MAX / 2, 3), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(UsageOf(heap).larger_bytes, 0u);
  hakmem_heap_destroy(heap);
  hakmem_heap_destroy(nullptr);
}

TEST(NamedHeap, ADescriptionNamesIt) {
  hakmem_heap_t *heap = hakmem_heap_create("described", nullptr);
  hakmem_tag_t *tag = hakmem_tag_create("described tag");
  char text[512];
  (void)hakmem_describe(hakmem_heap_malloc(heap, 100), text, sizeof text);
  EXPECT_NE(strstr(text, "named heap \"described\""), nullptr) << text;
  hakmem_tag_push(tag);
  void *block = hakmem_malloc(100);
  hakmem_tag_pop();
  (void)hakmem_describe(block, text, sizeof text);
  EXPECT_NE(strstr(text, "tag \"described tag\""), nullptr) << text;
  hakmem_free(block);
  hakmem_heap_destroy(heap);
}

TEST(NamedHeap, ADescriptionIsOnePrintableLine) {
  hakmem_heap_t *heap = hakmem_heap_create("two\nlines\x1b[31m", nullptr);
  hakmem_tag_t *tag = hakmem_tag_create("tag\r");
  for (size_t size : {100, 5000, 40000, 3 << 20}) {
    char text[512];
    void *block = hakmem_heap_malloc(heap, size);
    (void)hakmem_describe(block, text, sizeof text);
    EXPECT_NE(strstr(text, "named heap \"two\\x0alines\\x1b[31m\""), nullptr) << text;
    hakmem_tag_push(tag);
    void *tagged = hakmem_malloc(size);
    hakmem_tag_pop();
    (void)hakmem_describe(tagged, text, sizeof text);
    EXPECT_NE(strstr(text, "tag \"tag\\x0d\""), nullptr) << text;
    hakmem_free(tagged);
    hakmem_free(block);
  }
  hakmem_heap_destroy(heap);
}

TEST(NamedHeap, ALongNameIsCut) {
  std::string name(100, 'x');
  hakmem_heap_t *heap = hakmem_heap_create(name.c_str(), nullptr);
  EXPECT_EQ(std::string(hakmem_heap_name(heap)), name.substr(0, 63));
  hakmem_heap_destroy(heap);
}

TEST(NamedHeap, ReallocKeepsContentsAndHeap) {
  hakmem_heap_t *heap = hakmem_heap_create("realloc", nullptr);
  for (size_t from : kSizes) {
    std::vector<unsigned char> contents(from + 1); /* compared as a whole: byte by byte takes sanitizers seconds */
    for (size_t i = 0; i < from; i++) contents[i] = static_cast<unsigned char>(i * 7 + from);
    for (size_t to : kSizes) {
      if (to == 0) continue;
      for (bool is_plain : {false, true}) {
        void *block = hakmem_heap_malloc(heap, from);
        memcpy(block, contents.data(), from);
        void *same = is_plain ? hakmem_realloc(block, to) : hakmem_heap_realloc(heap, block, to);
        ASSERT_NE(same, nullptr);
        EXPECT_EQ(hakmem_heap_of(same), heap) << from << " " << to;
        ASSERT_EQ(memcmp(same, contents.data(), std::min(from, to)), 0) << from << " " << to;
        hakmem_free(same);
      }
    }
  }
  EXPECT_EQ(UsageOf(heap).larger_blocks, 0u);
  EXPECT_EQ(UsageOf(heap).larger_bytes, 0u);
  hakmem_heap_destroy(heap);
}

TEST(NamedHeap, ReallocMovesForeignBlocksIntoTheHeap) {
  hakmem_heap_t *heap = hakmem_heap_create("target", nullptr), *other = hakmem_heap_create("source", nullptr);
  for (hakmem_heap_t *from : {static_cast<hakmem_heap_t *>(nullptr), other}) {
    char *block = static_cast<char *>(from != nullptr ? hakmem_heap_malloc(from, 40) : hakmem_malloc(40));
    strcpy(block, "contents");
    block = static_cast<char *>(hakmem_heap_realloc(heap, block, 40));
    EXPECT_STREQ(block, "contents");
    EXPECT_EQ(hakmem_heap_of(block), heap);
  }
  void *fresh = hakmem_heap_realloc(heap, nullptr, 10);
  EXPECT_EQ(hakmem_heap_of(fresh), heap);
  EXPECT_EQ(hakmem_heap_realloc(heap, fresh, 0), nullptr);
  hakmem_heap_destroy(heap);
  hakmem_heap_destroy(other);
}

TEST(NamedHeap, UsageCountsMemoryExactly) {
  hakmem_heap_t *heap = hakmem_heap_create("usage", nullptr);
  EXPECT_EQ(UsageOf(heap).bytes, 0u);
  void *run = hakmem_heap_malloc(heap, 100000), *large = hakmem_heap_malloc(heap, 5 << 20);
  size_t larger = hakmem_malloc_usable_size(run) + hakmem_malloc_usable_size(large);
  EXPECT_EQ(UsageOf(heap).bytes, larger);
  EXPECT_EQ(UsageOf(heap).larger_bytes, larger);
  EXPECT_EQ(UsageOf(heap).larger_blocks, 2u);
  run = hakmem_realloc(run, 150000);
  large = hakmem_realloc(large, 9 << 20);
  larger = hakmem_malloc_usable_size(run) + hakmem_malloc_usable_size(large);
  EXPECT_EQ(UsageOf(heap).bytes, larger);
  std::vector<void *> blocks;
  for (int i = 0; i < 3000; i++) blocks.push_back(hakmem_heap_malloc(heap, 64));
  size_t slabs = UsageOf(heap).bytes - larger;
  EXPECT_GE(slabs, 3000u * 64);
  EXPECT_LE(slabs, 3000u * 64 + 2 * 65536);
  for (void *block : blocks) hakmem_free(block);
  hakmem_free(run);
  hakmem_free(large);
  (void)hakmem_heap_collect(heap);
  EXPECT_EQ(UsageOf(heap).bytes, 0u);
  EXPECT_GE(UsageOf(heap).peak_bytes, larger + slabs);
  hakmem_heap_destroy(heap);
}

TEST(NamedHeap, AHardLimitRefusesAndLosesNothing) {
  hakmem_heap_options_t options = {};
  options.size = sizeof options;
  options.hard_limit = 1 << 20;
  hakmem_heap_t *heap = hakmem_heap_create("limited", &options);
  for (size_t size : {size_t{64}, size_t{2000}, size_t{40000}}) {
    std::vector<char *> blocks;
    for (;;) {
      errno = 0;
      char *block = static_cast<char *>(hakmem_heap_malloc(heap, size));
      if (block == nullptr) break;
      memset(block, 1, size);
      blocks.push_back(block);
      ASSERT_LT(blocks.size() * size, size_t{2} << 20);
    }
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_LE(UsageOf(heap).bytes, options.hard_limit);
    EXPECT_GE(blocks.size() * hakmem_good_size(size), options.hard_limit * 3 / 4) << size;
    EXPECT_GT(UsageOf(heap).refused_count, 0u);
    void *unbounded = hakmem_malloc(size);
    EXPECT_NE(unbounded, nullptr) << "other memory is not bounded";
    hakmem_free(unbounded);
    errno = 0;
    EXPECT_EQ(hakmem_realloc(blocks[0], 2 << 20), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    for (char *block : blocks) {
      EXPECT_EQ(block[size - 1], 1);
      hakmem_free(block);
    }
  }
  void *again = hakmem_heap_malloc(heap, 500000);
  EXPECT_NE(again, nullptr) << "freed memory serves again";
  hakmem_heap_destroy(heap);
}

struct Crossed {
  hakmem_heap_t *heap;
  size_t bytes;
  int count;
};

TEST(NamedHeap, ASoftLimitCallsBack) {
  Crossed crossed = {};
  hakmem_heap_options_t options = {};
  options.size = sizeof options;
  options.soft_limit = 1 << 20;
  options.context = &crossed;
  options.on_soft_limit = [](hakmem_heap_t *heap, size_t bytes, void *context) {
    auto *seen = static_cast<Crossed *>(context);
    seen->heap = heap;
    seen->bytes = bytes;
    seen->count++;
    hakmem_free(hakmem_heap_malloc(heap, 10));
  };
  hakmem_heap_t *heap = hakmem_heap_create("soft", &options);
  void *below = hakmem_heap_malloc(heap, 600000);
  EXPECT_EQ(crossed.count, 0);
  void *above = hakmem_heap_malloc(heap, 600000);
  EXPECT_EQ(crossed.count, 1);
  EXPECT_EQ(crossed.heap, heap);
  EXPECT_GT(crossed.bytes, options.soft_limit);
  hakmem_free(above);
  (void)hakmem_heap_malloc(heap, 600000);
  EXPECT_EQ(crossed.count, 2);
  EXPECT_EQ(UsageOf(heap).soft_count, 2u);
  hakmem_free(below);
  hakmem_heap_destroy(heap);
}

TEST(NamedHeap, WhatTheSystemRefusesIsInNoFigure) {
  int count = 0;
  hakmem_heap_options_t options = {};
  options.size = sizeof options;
  options.soft_limit = 16 << 20;
  options.context = &count;
  options.on_soft_limit = [](hakmem_heap_t *, size_t, void *context) { ++*static_cast<int *>(context); };
  hakmem_heap_t *heap = hakmem_heap_create("refused", &options);
  const size_t refused = size_t{1} << 60;
  void *block = hakmem_heap_malloc(heap, 2 << 20);
  EXPECT_EQ(hakmem_heap_malloc(heap, refused), nullptr);
  EXPECT_EQ(hakmem_heap_realloc(heap, block, refused), nullptr);
  hakmem_heap_usage_t usage = UsageOf(heap);
  EXPECT_EQ(usage.peak_bytes, usage.bytes);
  EXPECT_LT(usage.peak_bytes, options.soft_limit);
  EXPECT_EQ(usage.soft_count, 0u);
  hakmem_free(hakmem_heap_malloc(heap, 100)); /* a callback that is due comes now */
  EXPECT_EQ(count, 0);
  hakmem_heap_destroy(heap);
}

TEST(NamedHeap, EachResizeAboveASoftLimitCallsBack) {
  using Resize = void *(*)(hakmem_heap_t *, void *, size_t);
  const Resize resizes[] = {
      [](hakmem_heap_t *, void *block, size_t size) { return hakmem_realloc(block, size); },
      [](hakmem_heap_t *, void *block, size_t size) { return hakmem_reallocarray(block, 1, size); },
      [](hakmem_heap_t *, void *block, size_t size) { return hakmem_aligned_realloc(block, 64, size); },
      [](hakmem_heap_t *heap, void *block, size_t size) { return hakmem_heap_realloc(heap, block, size); },
  };
  for (Resize resize : resizes) {
    for (size_t from : {size_t{100}, size_t{5000}, size_t{40000}, size_t{800000}, size_t{1500000}}) {
      int count = 0;
      hakmem_heap_options_t options = {};
      options.size = sizeof options;
      options.soft_limit = 2 << 20;
      options.context = &count;
      options.on_soft_limit = [](hakmem_heap_t *heap, size_t bytes, void *context) {
        EXPECT_GT(bytes, size_t{2} << 20);
        hakmem_free(hakmem_heap_malloc(heap, 10));
        ++*static_cast<int *>(context);
      };
      hakmem_heap_t *heap = hakmem_heap_create("soft resize", &options);
      void *block = hakmem_heap_malloc(heap, from);
      ASSERT_EQ(count, 0);
      block = resize(heap, block, 3 << 20);
      EXPECT_EQ(count, 1) << from;
      EXPECT_EQ(hakmem_heap_of(block), heap);
      hakmem_heap_destroy(heap);
    }
  }
}

TEST(NamedHeap, DestroyFreesEverything) {
  size_t before = 0;
  for (int round = 0; round < 20; round++) {
    hakmem_heap_t *heap = hakmem_heap_create("destroyed", nullptr);
    for (int i = 0; i < 20000; i++)
      memset(hakmem_heap_malloc(heap, static_cast<size_t>(i % 3000)), 1, static_cast<size_t>(i % 3000));
    for (int i = 0; i < 10; i++) memset(hakmem_heap_malloc(heap, 300000), 1, 300000);
    memset(hakmem_heap_malloc(heap, 3 << 20), 1, 3 << 20);
    hakmem_heap_destroy(heap);
    (void)hakmem_collect();
    hakmem_stats_t stats;
    ASSERT_EQ(hakmem_stats_get(&stats, sizeof stats), 0);
    if (round == 2) before = stats.memory_in_use + stats.memory_large_blocks;
    if (round > 2) EXPECT_LE(stats.memory_in_use + stats.memory_large_blocks, before + 4 * 65536) << round;
  }
}

TEST(NamedHeap, TenThousandHeapsWork) {
  const size_t count = 10000;
  std::vector<hakmem_heap_t *> heaps(count);
  hakmem_stats_t before, created;
  ASSERT_EQ(hakmem_stats_get(&before, sizeof before), 0);
  for (size_t i = 0; i < count; i++) {
    heaps[i] = hakmem_heap_create(("heap " + std::to_string(i)).c_str(), nullptr);
    ASSERT_NE(heaps[i], nullptr);
  }
  ASSERT_EQ(hakmem_stats_get(&created, sizeof created), 0);
  EXPECT_LE(created.memory_records - before.memory_records, count * 256 + 65536 * 4)
      << "an unused heap costs 256 bytes";
  std::vector<char *> blocks;
  for (size_t round = 0; round < 2; round++) {
    for (size_t i = 0; i < count; i++) {
      blocks.push_back(static_cast<char *>(hakmem_heap_malloc(heaps[i], 48)));
      ASSERT_NE(blocks.back(), nullptr);
      snprintf(blocks.back(), 48, "%zu", i);
    }
  }
  for (size_t i = 0; i < 2 * count; i++) {
    ASSERT_EQ(hakmem_heap_of(blocks[i]), heaps[i % count]);
    ASSERT_EQ(std::stoul(blocks[i]), i % count);
    if (i % 3 == 0) hakmem_free(blocks[i]);
  }
  for (hakmem_heap_t *heap : heaps) hakmem_heap_destroy(heap);
}

TEST(NamedHeapDeathTest, UseAfterTheEndIsReported) {
  auto destroyed = [] {
    hakmem_heap_t *heap = hakmem_heap_create("ended", nullptr);
    hakmem_heap_destroy(heap);
    return heap;
  };
  EXPECT_DEATH(hakmem_heap_destroy(destroyed()), "destroyed-heap: .*\"ended\"");
  EXPECT_DEATH((void)hakmem_heap_malloc(destroyed(), 10), "destroyed-heap: .*\"ended\"");
  EXPECT_DEATH((void)hakmem_heap_calloc(destroyed(), 1, 100000), "destroyed-heap");
  EXPECT_DEATH((void)hakmem_heap_realloc(destroyed(), hakmem_malloc(10), 100), "destroyed-heap");
  EXPECT_DEATH((void)hakmem_heap_collect(destroyed()), "destroyed-heap");
  for (size_t size : {size_t{10}, size_t{3000}, size_t{100000}, size_t{3} << 20}) {
    auto block_of_destroyed = [size] {
      hakmem_heap_t *heap = hakmem_heap_create("ended", nullptr);
      void *block = hakmem_heap_malloc(heap, size);
      memset(block, 1, size);
      hakmem_heap_destroy(heap);
      return block;
    };
    EXPECT_DEATH(hakmem_free(block_of_destroyed()), "double-free|invalid-free") << size;
    EXPECT_DEATH((void)hakmem_realloc(block_of_destroyed(), size * 2), "use-after-free|invalid-pointer") << size;
  }
}

TEST(NamedHeapDeathTest, LeaksAreReportedAtTheEnd) {
  auto end_with = [](int count) {
    hakmem_heap_options_t options = {};
    options.size = sizeof options;
    options.report_leaks = 1;
    hakmem_heap_t *heap = hakmem_heap_create("leaky", &options);
    for (int i = 0; i < 1000; i++) hakmem_free(hakmem_heap_malloc(heap, static_cast<size_t>(i) * 50));
    for (int i = 0; i < count; i++) {
      (void)hakmem_heap_malloc(heap, 64);
      (void)hakmem_heap_malloc(heap, 2048);
      (void)hakmem_heap_malloc(heap, 65536);
    }
    std::thread([heap] { (void)hakmem_heap_malloc(heap, 64); }).join();
    hakmem_heap_destroy(heap);
    _exit(0);
  };
  EXPECT_EXIT(end_with(0), testing::ExitedWithCode(0), "\"leaky\" is destroyed with 1 block of 64 bytes in use");
  EXPECT_EXIT(end_with(20), testing::ExitedWithCode(0),
              "\"leaky\" is destroyed with 61 blocks of 1353024 bytes in use");
}

TEST(NamedHeap, AWrongHandleDoesNothingWhereMisuseIsIgnored) {
  int result = hk_test::InChild([] {
    hakmem_heap_t *heap = hakmem_heap_create("ended", nullptr);
    hakmem_heap_destroy(heap);
    hakmem_heap_t *other = hakmem_heap_create("other", nullptr);
    HK_CHILD_CHECK(other == heap); /* so the next call ends the other one, which nothing can tell */
    hakmem_heap_destroy(heap);
    HK_CHILD_CHECK(hakmem_heap_of(hakmem_malloc(10)) == nullptr);
    return 0;
  });
  EXPECT_EQ(result, 0);
}

}  // namespace
