// Blocks that hold a sample, at their own address: the program may not free, resize or measure them there.
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "hakmem/hakmem.h"
#include "heap/sample_mark.h"
#include "unit/profile_driver.h"

using namespace hk_test;

namespace {

constexpr size_t kSizes[] = {0, 1, 16, 100, 1024, 5000, 32000, 32769, 100000, HK_MIB - 8, HK_MIB, 3 * HK_MIB};

uint64_t Misuses() { return hk_load_relaxed(&hk_stat_process.value[hk_stat_misuse]); }

// Every block is sampled, nearly.
void StartForAll() {
  hk_option.on_misuse = hk_misuse_ignore;
  ASSERT_TRUE(hakmem_profile_start(1));
}

char *HolderOf(const void *block) {
  return const_cast<char *>(static_cast<const char *>(block)) - hk_verify(block).offset;
}

void ExpectMisuse(char *holder) {
  EXPECT_EQ(hk_verify(holder).verdict, hk_verdict_interior);
  EXPECT_EQ(hk_verify_any(holder).verdict, hk_verdict_interior);
  EXPECT_FALSE(hakmem_check_owned(holder));
  uint64_t misuses = Misuses();
  EXPECT_EQ(hakmem_malloc_usable_size(holder), 0u);
  EXPECT_EQ(Misuses(), ++misuses);
  errno = 0;
  for (size_t size : {1u, 100u, 200000u, 8000000u}) {
    EXPECT_EQ(hakmem_realloc(holder, size), nullptr) << size;
    EXPECT_EQ(hakmem_aligned_realloc(holder, 64, size), nullptr) << size;
    misuses += 2;
  }
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(Misuses(), misuses);
  hakmem_free(holder);
  hakmem_free_sized(holder, 1);
  std::thread([holder] { hakmem_free(holder); }).join();
  std::thread([holder] {
    void *own = hakmem_malloc(40);  // a thread with a heap
    hakmem_free(holder);
    hakmem_free(own);
  }).join();
  EXPECT_EQ(Misuses(), misuses + 4);
}

// What ExpectMisuse tries changes nothing.
void ExpectHeld(void *block) {
  ASSERT_NE(block, nullptr);
  size_t bytes = hakmem_malloc_usable_size(block), samples = LiveSamples();
  char *holder = HolderOf(block);
  ASSERT_NE(holder, block);
  std::memset(block, 3, bytes);
  ExpectMisuse(holder);
  EXPECT_EQ(hakmem_malloc_usable_size(block), bytes);
  EXPECT_EQ(LiveSamples(), samples);
}

// The address serves as any other as soon as the sample is freed.
void ExpectFreedWhole(void *block) {
  char *holder = HolderOf(block);
  uint64_t misuses = Misuses();
  hakmem_free(block);
  EXPECT_EQ(Misuses(), misuses);
  EXPECT_NE(hk_verify(holder).verdict, hk_verdict_live);
}

HK_FRESH_TEST(SampleMark, ASampledBlock) {
  StartForAll();
  for (size_t size : kSizes) {
    SCOPED_TRACE(size);
    void *block = hakmem_malloc(size);
    ExpectHeld(block);
    ExpectFreedWhole(block);
  }
}

HK_FRESH_TEST(SampleMark, AClearedBlock) {
  StartForAll();
  for (size_t size : kSizes) {
    SCOPED_TRACE(size);
    void *block = hakmem_calloc(1, size);
    ExpectHeld(block);
    ExpectFreedWhole(block);
  }
}

HK_FRESH_TEST(SampleMark, AnAlignedBlock) {
  StartForAll();
  for (size_t alignment : {size_t{32}, size_t{4096}, 2 * HK_SLAB_BYTES, 4 * HK_MIB}) {
    for (size_t size : kSizes) {
      SCOPED_TRACE(alignment);
      void *block = hakmem_aligned_alloc(alignment, size);
      ExpectHeld(block);
      ExpectFreedWhole(block);
    }
  }
}

HK_FRESH_TEST(SampleMark, AReallocatedBlock) {
  StartForAll();
  for (size_t from : kSizes) {
    for (size_t to : kSizes) {
      if (to == 0) continue;
      SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
      void *block = hakmem_realloc(hakmem_malloc(from), to);
      ExpectHeld(block);
      ExpectFreedWhole(block);
    }
  }
}

// A block that is held by no sample after its resize has no mark.
HK_FRESH_TEST(SampleMark, ABlockThatLeftItsSample) {
  StartForAll();
  for (size_t from : kSizes) {
    void *block = hakmem_malloc(from);
    char *holder = HolderOf(block);
    ASSERT_TRUE(hakmem_profile_stop());
    void *moved = hakmem_realloc(block, 300000);
    ASSERT_NE(moved, nullptr);
    if (hk_verify(moved).offset == 0) {
      EXPECT_EQ(hk_verify(moved).verdict, hk_verdict_live) << from;
      EXPECT_FALSE(hk_sample_mark_may_be_on(hk_verify(moved).slab, moved)) << from;
    }
    if (holder != HolderOf(moved)) EXPECT_NE(hk_verify(holder).verdict, hk_verdict_interior) << from;
    uint64_t misuses = Misuses();
    hakmem_free(moved);
    EXPECT_EQ(Misuses(), misuses) << from;
    ASSERT_TRUE(hakmem_profile_start(1));
  }
}

HK_FRESH_TEST(SampleMark, AfterTheProfilesEnd) {
  StartForAll();
  std::vector<void *> blocks;
  for (size_t size : kSizes) blocks.push_back(hakmem_malloc(size));
  ASSERT_TRUE(hakmem_profile_stop());
  for (void *block : blocks) ExpectHeld(block);
  for (void *block : blocks) ExpectFreedWhole(block);
  EXPECT_EQ(LiveSamples(), 0u);
}

// Blocks at the same addresses as the former holders are used and freed as ever.
HK_FRESH_TEST(SampleMark, TheNextBlocksHaveNone) {
  StartForAll();
  std::vector<void *> blocks;
  for (size_t size : kSizes) {
    for (int i = 0; i < 20; i++) blocks.push_back(hakmem_malloc(size));
  }
  for (void *block : blocks) hakmem_free(block);
  ASSERT_TRUE(hakmem_profile_stop());
  blocks.clear();
  for (size_t size : kSizes) {
    for (int i = 0; i < 40; i++) {
      blocks.push_back(hakmem_malloc(size));
      if (size > 0) EXPECT_EQ(hk_verify(blocks.back()).verdict, hk_verdict_live);
    }
  }
  for (void *block : blocks) hakmem_free(block);
  EXPECT_EQ(Misuses(), 0u);
}

// The samples in a named heap go with it, and so do the marks.
HK_FRESH_TEST(SampleMark, ANamedHeap) {
  StartForAll();
  for (int round = 0; round < 2; round++) {
    hakmem_heap_t *heap = hakmem_heap_create("held", nullptr);
    std::vector<char *> larger;
    for (size_t size : kSizes) {
      SCOPED_TRACE(size);
      void *block = hakmem_heap_malloc(heap, size);
      ExpectHeld(block);
      EXPECT_EQ(hakmem_heap_of(HolderOf(block)), nullptr);
      if (size > HK_SMALL_MAX_BYTES) larger.push_back(HolderOf(block));
    }
    hakmem_heap_destroy(heap);
    EXPECT_EQ(LiveSamples(), 0u);
    for (const char *holder : larger) EXPECT_FALSE(hk_sample_mark_is_on_larger(hk_slab_of(holder)));
  }
}

// Spans that ended with blocks in use leave words in their descriptors, which the next run there clears. A large block
// in between, sampled or not, keeps what tells the run of them.
HK_FRESH_TEST(SampleMark, ARunWhereALargeBlockWas) {
  hakmem_heap_t *heap = hakmem_heap_create("ends with blocks in use", nullptr);
  for (int i = 0; i < 20000; i++) ASSERT_NE(hakmem_heap_malloc(heap, 1000), nullptr);
  hakmem_heap_destroy(heap);
  StartForAll();
  std::vector<void *> blocks;
  for (size_t i = 0; i < 12; i++) blocks.push_back(hakmem_malloc(HK_MIB + i * HK_SLAB_BYTES));
  for (void *block : blocks) hakmem_free(block);
  ASSERT_TRUE(hakmem_profile_stop());
  for (int i = 0; i < 100; i++) {
    bool is_zero;
    void *run = hk_run_alloc(100000, 1, &is_zero);
    ASSERT_NE(run, nullptr);
    EXPECT_EQ(hk_slab_of(run)->resident_pages, 0u) << i;
  }
}

// The mark is a hint: a block with such a word in it is the program's as any other.
HK_FRESH_TEST(SampleMark, AWordOfTheProgram) {
  StartForAll();
  hakmem_free(hakmem_malloc(40));  // the table of samples exists
  ASSERT_TRUE(hakmem_profile_stop());
  for (size_t size : {16u, 40u, 1000u, 20000u}) {
    auto *block = static_cast<hk_block_t *>(hakmem_malloc(size));
    hk_block_let_look_free(block);
    EXPECT_EQ(hk_verify(block).verdict, hk_verdict_live) << size;
    EXPECT_GE(hakmem_malloc_usable_size(block), size);
    block = static_cast<hk_block_t *>(hakmem_realloc(block, size + 1));
    block = static_cast<hk_block_t *>(hakmem_realloc(block, 100000));
    block = static_cast<hk_block_t *>(hakmem_realloc(block, size));
    ASSERT_NE(block, nullptr);
    hk_block_let_look_free(block);
    std::thread([block] { hakmem_free(block); }).join();
  }
  EXPECT_EQ(Misuses(), 0u);
}

}  // namespace
