// The sampler as a whole over the fake OS: what becomes of sampled blocks.
#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "hakmem/hakmem.h"
#include "unit/profile_driver.h"

using namespace hk_test;

namespace {

constexpr size_t kSizes[] = {0,    1,     16,    100,    1000,       1024,   1025,
                             5000, 32768, 32769, 100000, HK_MIB - 8, HK_MIB, 3 * HK_MIB};

// Every block is sampled: with 16 bytes the chance that one is not is once in 9 million.
void StartForAll() { ASSERT_TRUE(hakmem_profile_start(1)); }

bool IsSampled(const void *block) { return hk_verify(block).offset != 0; }

uint64_t Misuses() { return hk_load_relaxed(&hk_stat_process.value[hk_stat_misuse]); }

bool IsFilled(const void *block, int byte, size_t bytes) {
  const char *text = static_cast<const char *>(block);
  // Each byte equals its successor. memcmp is faster than a loop, in sanitizers by far.
  return bytes == 0 || (text[0] == static_cast<char>(byte) && std::memcmp(text, text + 1, bytes - 1) == 0);
}

// Taken now while it runs, so that monitoring does not refuse what a server has told for hours; at its end when it has
// ended.
HK_FRESH_TEST(Profile, WhenItWasTaken) {
  constexpr uint64_t kSecond = 1000000000;
  fake_os_advance(7 * kSecond);
  ASSERT_TRUE(hk_profile_start(0));
  hk_profile_facts_t start = hk_profile_facts();
  EXPECT_EQ(start.taken_ns, start.time_ns);
  fake_os_advance(3600 * kSecond);
  hk_profile_facts_t running = hk_profile_facts();
  EXPECT_EQ(running.time_ns, start.time_ns);
  EXPECT_EQ(running.taken_ns, start.time_ns + 3600 * kSecond);
  EXPECT_EQ(running.duration_ns, 3600 * kSecond);
  EXPECT_TRUE(hk_profile_stop());
  fake_os_advance(50 * kSecond);
  EXPECT_EQ(hk_profile_facts().taken_ns, running.taken_ns);
  EXPECT_EQ(hk_profile_facts().duration_ns, running.duration_ns);
}

// ---- What becomes of a sampled block.

HK_FRESH_TEST(Profile, StartsAndStopsOnce) {
  EXPECT_FALSE(hk_profile_is_running());
  EXPECT_FALSE(hk_profile_stop());
  EXPECT_TRUE(hk_profile_start(0));
  EXPECT_TRUE(hk_profile_is_running());
  EXPECT_EQ(hk_profile_rate(), kRate) << "the option's default";
  EXPECT_FALSE(hk_profile_start(1));
  EXPECT_TRUE(hk_profile_stop());
  EXPECT_FALSE(hk_profile_is_running());
}

HK_FRESH_TEST(Profile, ASampledBlockIsABlock) {
  StartForAll();
  for (size_t size : kSizes) {
    void *block = hakmem_malloc(size);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(IsSampled(block)) << size;
    EXPECT_TRUE(hakmem_check_owned(block)) << size;
    EXPECT_FALSE(hakmem_check_owned(static_cast<char *>(block) + 1)) << size;
    size_t usable = hakmem_malloc_usable_size(block);
    EXPECT_GE(usable, size);
    std::memset(block, 7, usable);
    EXPECT_EQ(LiveSamples(), 1u);
    hakmem_free(block);
    EXPECT_EQ(LiveSamples(), 0u);
    EXPECT_FALSE(hakmem_check_owned(block)) << size;
  }
  EXPECT_EQ(Misuses(), 0u);
  EXPECT_EQ(hk_profile_sums().samples, std::size(kSizes));
  EXPECT_GT(EstimatedBytes(), 3 * HK_MIB);
  EXPECT_EQ(EstimatedBytes(true), 0u);
}

HK_FRESH_TEST(Profile, ASecondFreeIsADoubleFree) {
  hk_option.on_misuse = hk_misuse_ignore;
  StartForAll();
  uint64_t misuses = 0;
  for (size_t size : kSizes) {
    void *block = hakmem_malloc(size);
    hakmem_free(block);
    hk_verdict_t verdict = hk_verify(block).verdict;
    bool is_known = verdict == hk_verdict_free_block || verdict == hk_verdict_free;
    EXPECT_TRUE(is_known) << size << ": " << verdict;
    hakmem_free(block);
    EXPECT_EQ(Misuses(), ++misuses) << size;
  }
}

HK_FRESH_TEST(Profile, ClearedMemoryIsZero) {
  StartForAll();
  for (int round = 0; round < 3; round++) {
    for (size_t size : kSizes) {
      void *block = hakmem_calloc(1, size);
      ASSERT_TRUE(IsFilled(block, 0, size)) << size;
      std::memset(block, 0xa5, hakmem_malloc_usable_size(block));
      hakmem_free(block);
    }
  }
}

// Fresh and used memory, in blocks that are sampled and blocks that are not, in bins that are open and closed.
HK_FRESH_TEST(Profile, ClearedMemoryIsZeroAmongUnsampled) {
  ASSERT_TRUE(hakmem_profile_start(2000));
  for (size_t size : {16u, 48u, 512u, 1024u, 3000u, 20000u}) {
    std::vector<void *> blocks;
    for (int i = 0; i < 3000; i++) {
      void *block = hakmem_calloc(1, size);
      ASSERT_TRUE(IsFilled(block, 0, size)) << size << ", " << i;
      std::memset(block, 0xa5, size);
      blocks.push_back(block);
      if (i % 3 != 0) continue;
      hakmem_free(blocks[i / 2]);
      blocks[i / 2] = nullptr;
    }
    for (void *block : blocks) hakmem_free(block);
  }
}

// An idle heap's span with a freed block moves to a sampled heap, which carves on in it.
void ExpectZeroInStolenSpans(size_t rate) {
  SCOPED_TRACE(rate);
  ASSERT_TRUE(hakmem_profile_start(rate));
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) (void)hakmem_malloc(hk_class_bytes(i));
  std::thread([] {
    for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
      void *block = hakmem_malloc(hk_class_bytes(i));
      std::memset(block, 0xa5, hk_class_bytes(i));
      hakmem_free(block);
    }
  }).join();
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
    size_t bytes = hk_class_bytes(i);
    for (size_t count = 2 * HK_SLAB_BYTES / bytes; count > 0; count--) {
      ASSERT_TRUE(IsFilled(hakmem_calloc(1, bytes), 0, bytes)) << bytes << ", the last but " << count;
    }
  }
  EXPECT_TRUE(hakmem_profile_stop());
}
HK_FRESH_TEST(Profile, ClearedMemoryIsZeroInAStolenSpan1500) { ExpectZeroInStolenSpans(1500); }
HK_FRESH_TEST(Profile, ClearedMemoryIsZeroInAStolenSpan4096) { ExpectZeroInStolenSpans(4096); }
HK_FRESH_TEST(Profile, ClearedMemoryIsZeroInAStolenSpan32768) { ExpectZeroInStolenSpans(32768); }

HK_FRESH_TEST(Profile, AlignedBlocksAreAligned) {
  StartForAll();
  for (size_t alignment = 16; alignment <= 4 * HK_MIB; alignment *= 2) {
    for (size_t size : kSizes) {
      char *block = static_cast<char *>(hakmem_aligned_alloc(alignment, size));
      ASSERT_NE(block, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u) << size;
      EXPECT_TRUE(IsSampled(block)) << size << " at " << alignment;
      EXPECT_GE(hakmem_malloc_usable_size(block), size);
      std::memset(block, 1, size);
      block = static_cast<char *>(hakmem_realloc(block, size + 1));
      EXPECT_TRUE(IsFilled(block, 1, size)) << size << " at " << alignment;
      hakmem_free(block);
    }
  }
  EXPECT_EQ(Misuses(), 0u);
  EXPECT_EQ(LiveSamples(), 0u);
}

HK_FRESH_TEST(Profile, ReallocKeepsContents) {
  StartForAll();
  for (size_t from : kSizes) {
    for (size_t to : kSizes) {
      if (to == 0) continue;
      char *block = static_cast<char *>(hakmem_malloc(from));
      std::memset(block, 3, from);
      block = static_cast<char *>(hakmem_realloc(block, to));
      ASSERT_TRUE(IsFilled(block, 3, std::min(from, to))) << from << " to " << to;
      EXPECT_GE(hakmem_malloc_usable_size(block), to);
      EXPECT_TRUE(IsSampled(block)) << from << " to " << to;
      EXPECT_EQ(LiveSamples(), 1u);
      hakmem_free(block);
      ASSERT_EQ(LiveSamples(), 0u);
    }
  }
  EXPECT_EQ(Misuses(), 0u);
}

// A large block's pages move, and its sample with it.
HK_FRESH_TEST(Profile, ALargeBlockThatGrowsIsNotCopied) {
  StartForAll();
  char *block = static_cast<char *>(hakmem_malloc(3 * HK_MIB));
  std::memset(block, 3, 3 * HK_MIB);
  const _Atomic(uint64_t) *in_place = &hk_thread_own()->stat.value[hk_stat_realloc_in_place];
  uint64_t before = hk_load_relaxed(in_place);
  block = static_cast<char *>(hakmem_realloc(block, 64 * HK_MIB));
  EXPECT_EQ(hk_load_relaxed(in_place), before + 1);
  EXPECT_TRUE(IsFilled(block, 3, 3 * HK_MIB));
  size_t bytes = 0;
  hk_sample_visit([](const hk_sample_t *sample,
                     void *context) { *static_cast<size_t *>(context) += sample->weight.requested_bytes; },
                  &bytes);
  EXPECT_EQ(bytes, 64 * HK_MIB);
  hakmem_free(block);
}

// Another thread may get a sample at the old address as soon as the pages have moved.
HK_FRESH_TEST(Profile, ALargeBlockHasNoEntryWhileItMoves) {
  static void *block;
  static unsigned reserves;
  StartForAll();
  block = hakmem_malloc(3 * HK_MIB);
  ASSERT_EQ(LiveSamples(), 1u);
  fake_os_set_hook(fake_os_reserve, [] {
    hk_sample_t sample;
    EXPECT_NE(hk_sample_hook_find(reinterpret_cast<uintptr_t>(block), &sample), hk_sample_live);
    reserves++;
  });
  void *moved = hakmem_realloc(block, 64 * HK_MIB);
  fake_os_set_hook(fake_os_reserve, nullptr);
  ASSERT_NE(moved, nullptr);
  EXPECT_GT(reserves, 0u) << "the new addresses";
  EXPECT_EQ(LiveSamples(), 1u);
  hakmem_free(moved);
  EXPECT_EQ(LiveSamples(), 0u);
  EXPECT_EQ(Misuses(), 0u);
}

// The pages cannot move, so the block is copied; its entry is renewed before its free.
HK_FRESH_TEST(Profile, ALargeBlockThatCannotMoveIsCopied) {
  StartForAll();
  char *block = static_cast<char *>(hakmem_malloc(3 * HK_MIB));
  std::memset(block, 3, 3 * HK_MIB);
  fake_os_fail_all(fake_os_move, true);
  fake_os_fail_all(fake_os_resize, true);
  block = static_cast<char *>(hakmem_realloc(block, 64 * HK_MIB));
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(IsFilled(block, 3, 3 * HK_MIB));
  EXPECT_EQ(LiveSamples(), 1u);
  hakmem_free(block);
  EXPECT_EQ(LiveSamples(), 0u);
  EXPECT_EQ(Misuses(), 0u);
}

HK_FRESH_TEST(Profile, OutlivesItsStop) {
  StartForAll();
  std::vector<char *> blocks;
  for (size_t size : kSizes) blocks.push_back(static_cast<char *>(hakmem_malloc(size)));
  ASSERT_TRUE(hakmem_profile_stop());
  for (size_t size : kSizes) {
    void *block = hakmem_malloc(size);
    EXPECT_FALSE(IsSampled(block)) << size;
    hakmem_free(block);
  }
  EXPECT_EQ(LiveSamples(), std::size(kSizes));
  for (char *block : blocks) {
    EXPECT_TRUE(hakmem_check_owned(block));
    hakmem_free(hakmem_realloc(block, hakmem_malloc_usable_size(block) + 1));
  }
  EXPECT_EQ(LiveSamples(), 0u);
  EXPECT_EQ(Misuses(), 0u);
}

HK_FRESH_TEST(Profile, AnotherThreadFreesWhatWasSampled) {
  StartForAll();
  std::vector<void *> blocks;
  for (int i = 0; i < 2000; i++) blocks.push_back(hakmem_malloc(kSizes[i % 10]));
  std::thread([&blocks] {
    for (void *block : blocks) hakmem_free(block);
  }).join();
  EXPECT_EQ(LiveSamples(), 0u);
  EXPECT_EQ(Misuses(), 0u);
  (void)hakmem_profile_stop();
  (void)hakmem_collect();
  EXPECT_LE(hk_superslab_usage().in_use_bytes, 2 * HK_SUPERSLAB_BYTES) << "all was collected";
}

// A thread that ends leaves nothing out of other threads' reach; its memory is used and purged as ever.
HK_FRESH_TEST(Profile, AThreadThatEndsLeavesNothingBehind) {
  ASSERT_TRUE(hakmem_profile_start(kRate));
  for (int round = 0; round < 50; round++) {
    std::thread([round] {
      std::vector<void *> blocks;
      for (int i = 0; i < 3000; i++) blocks.push_back(hakmem_malloc((i * 37 + round) % 6000));
      for (void *block : blocks) hakmem_free(block);
      hk_thread_on_exit();
    }).join();
    for (hk_heap_t *heap = hk_heap_first(); heap != nullptr; heap = heap->all_next) {
      if (hk_heap_life(heap) != hk_heap_idle || !hk_heap_is_sampled(heap)) continue;
      for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
        if (hk_heap_effective_list(heap, i) != &heap->bin[i]) ASSERT_EQ(heap->bin[i].free, HK_LIST_END) << i;
      }
    }
  }
  (void)hakmem_collect();
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
}

// Lists, free lists and counts are where they were before.
HK_FRESH_TEST(Profile, AHeapIsAsBeforeWhenItIsStopped) {
  std::vector<void *> blocks;
  for (int i = 0; i < 20000; i++) blocks.push_back(hakmem_malloc(i * 7 % 9000));
  for (int round = 0; round < 10; round++) {
    ASSERT_TRUE(hakmem_profile_start(round % 2 == 0 ? 3000 : kRate));
    for (int i = 0; i < 20000; i += 1 + round) {
      hakmem_free(blocks[i]);
      blocks[i] = hakmem_malloc((i + round) * 7 % 9000);
    }
    ASSERT_TRUE(hakmem_profile_stop());
    hk_heap_t *heap = hk_thread_own();
    EXPECT_FALSE(hk_heap_is_sampled(heap));
    for (void *block : blocks) {
      const hk_slab_t *span = hk_slab_of(block)->head;
      bool leads_home = span->free_list == &heap->bin[span->class_index];
      if (hk_class_is_mid(span->class_index)) ASSERT_TRUE(leads_home);
      if (!leads_home) ASSERT_EQ(span->free_list, &span->own);
#if HK_DEBUG
      hk_span_check(heap, span);
#endif
    }
  }
  for (void *block : blocks) hakmem_free(block);
  (void)hakmem_collect();
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u) << "no block was lost";
  EXPECT_EQ(Misuses(), 0u);
}

HK_FRESH_TEST(Profile, AChildOfForkGoesOn) {
  StartForAll();
  void *block = hakmem_malloc(100);
  EXPECT_EQ(hk_test::InChild([block] {
              void *more = hakmem_malloc(100);
              bool right = IsSampled(more) && LiveSamples() == 2;
              hakmem_free(block);
              hakmem_free(more);
              return right && LiveSamples() == 0 && Misuses() == 0 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(LiveSamples(), 1u);
  hakmem_free(block);
}

// Where the sampled block cannot be had, an ordinary one can.
HK_FRESH_TEST(Profile, WithoutRoomForSamplesThereAreBlocks) {
  void *first = hakmem_malloc(100);
  StartForAll();
  void *other = hakmem_malloc(100); /* the heap's part, and a table */
  fake_os_fail_all(fake_os_reserve, true);
  size_t unsampled = 0;
  for (int i = 0; i < 300; i++) unsampled += !IsSampled(hakmem_malloc(100));
  for (int i = 0; i < 300; i++) unsampled += !IsSampled(hakmem_malloc(100));
  EXPECT_GT(unsampled, 0u);
  EXPECT_GT(hk_profile_sums().lost, 0u);
  hakmem_free(first);
  hakmem_free(other);
  EXPECT_EQ(Misuses(), 0u);
}

}  // namespace
