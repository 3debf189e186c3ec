/* tests/api/tag_test.cc - tags: charges by each function and by many threads, limits, nesting, thread end, fork. */
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/in_child.h"
#include "support/malloc_report.h"
#include "support/scale.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

const std::vector<size_t> kSizes = {1, 100, 1024, 5000, 32768, 40000, 1 << 20, 3 << 20};

/* A tag lives as long as the process, so each test has its own. */
hakmem_tag_t *NewTag(const char *name) {
  hakmem_tag_t *tag = hakmem_tag_create(name);
  EXPECT_NE(tag, nullptr);
  return tag;
}

hakmem_heap_usage_t UsageOf(const hakmem_tag_t *tag) {
  hakmem_heap_usage_t usage;
  hakmem_tag_usage(tag, &usage, sizeof usage);
  return usage;
}

class Pushed {
 public:
  explicit Pushed(hakmem_tag_t *tag) { hakmem_tag_push(tag); }
  ~Pushed() { hakmem_tag_pop(); }
};

TEST(Tag, EachFunctionIsCharged) {
  hakmem_tag_t *tag = NewTag("each function");
  EXPECT_STREQ(hakmem_tag_name(tag), "each function");
  void *before = hakmem_malloc(100);
  for (size_t size : kSizes) {
    std::vector<void *> blocks;
    {
      Pushed pushed(tag);
      blocks = {hakmem_malloc(size), hakmem_calloc(1, size), hakmem_aligned_alloc(64, size),
                hakmem_realloc(nullptr, size), hakmem_valloc(size)};
    }
    for (void *block : blocks) {
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(hakmem_tag_of(block), tag) << size;
      EXPECT_EQ(hakmem_heap_of(block), nullptr) << "a tag is no heap";
      memset(block, 1, size);
      hakmem_free(block);
    }
    void *after = hakmem_malloc(size);
    EXPECT_EQ(hakmem_tag_of(after), nullptr) << size;
    hakmem_free(after);
  }
  EXPECT_EQ(hakmem_tag_of(before), nullptr);
  hakmem_free(before);
  EXPECT_EQ(UsageOf(tag).larger_blocks, 0u);
  EXPECT_EQ(UsageOf(tag).larger_bytes, 0u);
}

TEST(Tag, PushesNest) {
  hakmem_tag_t *outer = NewTag("outer"), *inner = NewTag("inner");
  {
    Pushed first(outer);
    void *a = hakmem_malloc(10);
    {
      Pushed second(inner);
      void *b = hakmem_malloc(10);
      EXPECT_EQ(hakmem_tag_of(b), inner);
      hakmem_free(a); /* of the outer one, while the inner one is charged */
      Pushed third(outer);
      void *c = hakmem_malloc(10);
      EXPECT_EQ(hakmem_tag_of(c), outer);
      hakmem_free(b);
      hakmem_free(c);
    }
    void *d = hakmem_malloc(10);
    EXPECT_EQ(hakmem_tag_of(d), outer);
    hakmem_free(d);
  }
  for (int i = 0; i < 50; i++) hakmem_tag_push(outer);
  for (int i = 0; i < 50; i++) hakmem_tag_pop();
  hakmem_tag_pop(); /* one too many has no effect */
  void *plain = hakmem_malloc(10);
  EXPECT_EQ(hakmem_tag_of(plain), nullptr);
  hakmem_free(plain);
}

TEST(Tag, ATagIsRemovedFromTheMiddle) {
  hakmem_tag_t *tags[3] = {NewTag("first of three"), NewTag("second of three"), NewTag("third of three")};
  auto charged = [] {
    void *block = hakmem_malloc(20);
    hakmem_tag_t *tag = hakmem_tag_of(block);
    hakmem_free(block);
    return tag;
  };
  for (hakmem_tag_t *tag : tags) hakmem_tag_push(tag);
  hakmem_tag_remove(tags[1]);
  EXPECT_EQ(charged(), tags[2]);
  hakmem_tag_pop();
  EXPECT_EQ(charged(), tags[0]);
  hakmem_tag_remove(tags[1]); /* not pushed: no effect */
  EXPECT_EQ(charged(), tags[0]);
  hakmem_tag_push(tags[2]);
  hakmem_tag_remove(tags[0]);
  EXPECT_EQ(charged(), tags[2]);
  hakmem_tag_remove(tags[2]);
  EXPECT_EQ(charged(), nullptr);
  for (int i = 0; i < 40; i++) hakmem_tag_push(tags[i % 3]);
  for (int i = 39; i >= 0; i--) hakmem_tag_remove(tags[i % 3]);
  EXPECT_EQ(charged(), nullptr);
}

hakmem_tag_t *Charged() {
  void *block = hakmem_malloc(20);
  hakmem_tag_t *tag = hakmem_tag_of(block);
  hakmem_free(block);
  return tag;
}

TEST(Tag, AsManyRemovalsAsPushesLeaveNone) {
  hakmem_tag_t *tags[4] = {NewTag("many 0"), NewTag("many 1"), NewTag("many 2"), NewTag("many 3")};
  for (int i = 0; i < 32; i++) hakmem_tag_push(tags[0]);
  hakmem_tag_push(tags[1]);
  for (int i = 0; i < 32; i++) hakmem_tag_remove(tags[0]);
  hakmem_tag_remove(tags[1]);
  EXPECT_EQ(Charged(), nullptr);
  TestRandom random(TestSeed());
  for (size_t round = 0; round < Scaled(200); round++) {
    std::vector<hakmem_tag_t *> pushed;
    for (size_t steps = random.Below(300); steps > 0; steps--) {
      if (random.Below(3) != 0) {
        pushed.push_back(tags[random.Below(4)]);
        hakmem_tag_push(pushed.back());
      } else if (!pushed.empty()) {
        auto ended = pushed.begin() + static_cast<std::ptrdiff_t>(random.Below(pushed.size()));
        hakmem_tag_remove(*ended);
        pushed.erase(ended);
      }
    }
    while (!pushed.empty()) {
      std::swap(pushed[random.Below(pushed.size())], pushed.back());
      hakmem_tag_remove(pushed.back());
      pushed.pop_back();
    }
    ASSERT_EQ(Charged(), nullptr) << round;
    hakmem_tag_push(tags[3]);
    ASSERT_EQ(Charged(), tags[3]) << round;
    hakmem_tag_pop();
    ASSERT_EQ(Charged(), nullptr) << round;
  }
}

TEST(Tag, APushOfNullChargesNothingOfItsOwn) {
  hakmem_tag_t *tag = NewTag("beside NULL");
  hakmem_tag_push(nullptr);
  EXPECT_EQ(Charged(), nullptr);
  hakmem_tag_push(tag);
  hakmem_tag_push(nullptr);
  EXPECT_EQ(Charged(), tag);
  hakmem_tag_pop();
  EXPECT_EQ(Charged(), tag) << "the pop ended the push of NULL";
  hakmem_tag_remove(nullptr);
  EXPECT_EQ(Charged(), tag);
  hakmem_tag_pop();
  EXPECT_EQ(Charged(), nullptr);
}

TEST(Tag, OneNameIsOneTag) {
  hakmem_tag_t *tag = NewTag("one name");
  EXPECT_EQ(NewTag("one name"), tag);
  EXPECT_NE(NewTag("one namf"), tag);
  const std::string long_name(100, 'y');
  EXPECT_EQ(NewTag(long_name.c_str()), NewTag(long_name.substr(0, 63).c_str()));
  std::atomic<hakmem_tag_t *> made[8] = {};
  std::vector<std::thread> threads;
  for (auto &each : made) threads.emplace_back([&each] { each = NewTag("of eight threads"); });
  for (std::thread &thread : threads) thread.join();
  for (auto &each : made) EXPECT_EQ(each, made[0]);
}

TEST(Tag, AResizeKeepsTheTag) {
  hakmem_tag_t *tag = NewTag("resized"), *other = NewTag("other");
  for (size_t from : kSizes) {
    for (size_t to : kSizes) {
      hakmem_tag_push(tag);
      char *block = static_cast<char *>(hakmem_malloc(from));
      hakmem_tag_pop();
      block[0] = 'x';
      Pushed pushed(other);
      block = static_cast<char *>(hakmem_realloc(block, to));
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(hakmem_tag_of(block), tag) << from << " " << to;
      EXPECT_EQ(block[0], 'x');
      hakmem_free(block);
    }
  }
  EXPECT_EQ(UsageOf(tag).larger_bytes, 0u);
}

TEST(Tag, ALimitRefuses) {
  hakmem_tag_t *tag = NewTag("limited");
  hakmem_tag_limit(tag, 512 << 10, 1 << 20);
  std::vector<void *> blocks;
  {
    Pushed pushed(tag);
    errno = 0;
    for (void *block; (block = hakmem_malloc(1000)) != nullptr; blocks.push_back(block))
      ASSERT_LT(blocks.size(), 2000u);
  }
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_GE(blocks.size(), 900u);
  EXPECT_LE(UsageOf(tag).bytes, size_t{1} << 20);
  EXPECT_EQ(UsageOf(tag).soft_count, 1u);
  void *plain = hakmem_malloc(2 << 20);
  EXPECT_NE(plain, nullptr);
  hakmem_free(plain);
  for (void *block : blocks) hakmem_free(block);
}

TEST(Tag, ManyThreadsChargeExactly) {
  std::vector<hakmem_tag_t *> tags;
  for (int i = 0; i < 8; i++) tags.push_back(NewTag(("threads " + std::to_string(i)).c_str()));
  const uint64_t seed = TestSeed();
  std::atomic<void *> exchange[64] = {};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; t++) {
    threads.emplace_back([&, t] {
      TestRandom random(seed + t);
      for (size_t i = 0; i < Scaled(30000); i++) {
        hakmem_tag_t *tag = tags[random.Below(8)];
        hakmem_tag_push(tag);
        size_t size = random.Below(50) == 0 ? random.Below(200000) : random.Below(3000);
        auto *block = static_cast<hakmem_tag_t **>(hakmem_malloc(size + 16));
        ASSERT_NE(block, nullptr);
        *block = tag;
        void *old = exchange[random.Below(64)].exchange(block);
        if (old != nullptr) {
          hakmem_tag_t *was = *static_cast<hakmem_tag_t **>(old);
          ASSERT_EQ(hakmem_tag_of(old), was);
          if (random.Below(4) == 0) old = hakmem_realloc(old, random.Below(5000) + 16);
          ASSERT_EQ(*static_cast<hakmem_tag_t **>(old), was);
          ASSERT_EQ(hakmem_tag_of(old), was);
          hakmem_free(old);
        }
        hakmem_tag_pop();
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (auto &block : exchange) hakmem_free(block);
  (void)hakmem_collect();
  for (hakmem_tag_t *tag : tags) EXPECT_EQ(UsageOf(tag).bytes, 0u);
}

size_t Batches() { return ReadCounter("remote_batch").value_or(0); }

// The owner has use for them; the thread may sleep next.
TEST(Tag, WhatWasFreedForAnotherThreadIsSentAtThePop) {
  if (!HK_TEST_INSTRUMENTS) GTEST_SKIP() << "this build reports no counters";
  hakmem_tag_t *tags[2] = {NewTag("freed for others"), NewTag("pushed later")};
  std::vector<void *> blocks;
  for (int i = 0; i < 20; i++) blocks.push_back(hakmem_malloc(100));
  std::thread([&] {
    void *own = hakmem_malloc(100); /* the thread has a heap */
    hakmem_tag_push(tags[0]);
    for (int i = 0; i < 10; i++) hakmem_free(blocks[i]);
    size_t batches = Batches();
    hakmem_tag_pop();
    EXPECT_EQ(Batches(), batches + 1);
    hakmem_tag_push(tags[0]);
    for (int i = 10; i < 20; i++) hakmem_free(blocks[i]);
    hakmem_tag_push(tags[1]);
    EXPECT_EQ(Batches(), batches + 1);
    hakmem_tag_remove(tags[0]);
    EXPECT_EQ(Batches(), batches + 2);
    hakmem_tag_pop();
    EXPECT_EQ(Batches(), batches + 2);
    hakmem_free(own);
  }).join();
}

TEST(Tag, AThreadThatEndsPopsItsTags) {
  hakmem_tag_t *tag = NewTag("thread end");
  std::vector<void *> blocks;
  for (int i = 0; i < 20; i++) {
    std::thread([&] {
      blocks.push_back(hakmem_malloc(100));
      hakmem_tag_push(tag);
      for (int k = 0; k < 100; k++) blocks.push_back(hakmem_malloc(100));
    }).join();
  }
  for (size_t i = 0; i < blocks.size(); i++) ASSERT_EQ(hakmem_tag_of(blocks[i]), i % 101 == 0 ? nullptr : tag);
  for (void *block : blocks) hakmem_free(block);
  (void)hakmem_collect(); /* sends the batches */
  EXPECT_EQ(UsageOf(tag).bytes, 0u);
}

TEST(Tag, AChildOfForkGoesOn) {
  hakmem_tag_t *tag = NewTag("fork");
  std::atomic<bool> stop = false;
  std::thread other([&] {
    Pushed pushed(tag);
    while (!stop) {
      void *blocks[40];
      for (void *&block : blocks) block = hakmem_malloc(500);
      for (void *block : blocks) hakmem_free(block);
    }
  });
  Pushed pushed(tag);
  void *mine = hakmem_malloc(300);
  for (int i = 0; i < 20; i++) {
    int result = hk_test::InChild([&] {
      HK_CHILD_CHECK(hakmem_tag_of(mine) == tag);
      void *block = hakmem_malloc(300);
      HK_CHILD_CHECK(hakmem_tag_of(block) == tag);
      hakmem_tag_pop();
      void *plain = hakmem_malloc(300);
      HK_CHILD_CHECK(hakmem_tag_of(plain) == nullptr);
      hakmem_tag_push(tag);
      for (int k = 0; k < 1000; k++) hakmem_free(hakmem_malloc(static_cast<size_t>(k) * 40));
      hakmem_free(block);
      hakmem_free(mine);
      hakmem_free(plain);
      return 0;
    });
    EXPECT_EQ(result, 0);
  }
  stop = true;
  other.join();
  hakmem_free(mine);
}

}  // namespace
