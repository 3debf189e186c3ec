/* tests/api/alignment_test.cc - the functions that take an alignment: the whole grid, and every way to be wrong. */
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/free_blocks.h"
#include "support/process_memory.h"
#include "support/scale.h"
#include "support/shadow_model.h"
#include "support/test_random.h"

using namespace hk_test;

namespace {

const std::vector<size_t> kGridSizes = {
    0,       1,       8,       15,      16,      17,      24,      48,     63,     64,     65,     100,
    127,     128,     129,     255,     256,     257,     500,     512,    1000,   1023,   1024,   1025,
    1040,    1500,    2048,    3000,    4095,    4096,    4097,    5000,   8192,   10000,  16384,  20000,
    32767,   32768,   32769,   40000,   65535,   65536,   65537,   100000, 131072, 200000, 262144, 500000,
    1048575, 1048576, 1048577, 1500000, 2097152, 2097153, 3000000, 5000000};

enum class How { kAlignedAlloc, kPosixMemalign, kMemalign };

void *Allocate(How how, size_t alignment, size_t size) {
  switch (how) {
    case How::kAlignedAlloc:
      return hakmem_aligned_alloc(alignment, size);
    case How::kMemalign:
      return hakmem_memalign(alignment, size);
    case How::kPosixMemalign:
      break;
  }
  void *block = nullptr;
  /* Smaller alignments are an error there; the grid asks the smallest that is none instead. */
  size_t allowed = alignment < sizeof(void *) ? sizeof(void *) : alignment;
  return hakmem_posix_memalign(&block, allowed, size) == 0 ? block : nullptr;
}

/* All sizes at one alignment live together, so that overlaps show; then half go, come again, and all are freed. */
void RunGridRow(How how, size_t alignment, const std::vector<size_t> &sizes) {
  ShadowModel model;
  for (int round = 0; round < 2; round++) {
    for (size_t size : sizes) {
      void *block = Allocate(how, alignment, size);
      ASSERT_NE(block, nullptr) << alignment << " " << size;
      size_t usable = hakmem_malloc_usable_size(block);
      ASSERT_TRUE(model.Add(block, size, usable, alignment)) << model.problem();
      ASSERT_TRUE(hakmem_check_owned(block)) << alignment << " " << size;
    }
    for (size_t index = model.count(); index-- > 0;) {
      if (round == 0 && index % 2 == 1) continue;
      void *start = model.at(index).start;
      ASSERT_TRUE(model.Check(index, hakmem_malloc_usable_size(start))) << model.problem();
      ASSERT_TRUE(model.Remove(index)) << model.problem();
      hakmem_free(start);
    }
  }
  EXPECT_EQ(model.count(), 0u);
}

class AlignmentGrid : public testing::TestWithParam<How> {};

TEST_P(AlignmentGrid, EverySizeAtAlignmentsTo1MiB) {
  for (size_t alignment = 1; alignment <= kMiB; alignment *= 2) {
    RunGridRow(GetParam(), alignment, kGridSizes);
    if (HasFatalFailure()) return;
  }
}

TEST_P(AlignmentGrid, SomeSizesAtAlignmentsTo32MiB) {
  for (size_t alignment = 2 * kMiB; alignment <= 32 * kMiB; alignment *= 2) {
    RunGridRow(GetParam(), alignment, {0, 1, 24, 1000, 5000, 32769, 200000, kMiB, 3 * kMiB});
    if (HasFatalFailure()) return;
  }
}

TEST_P(AlignmentGrid, FewSizesAtAlignmentsTo1GiB) {
  for (size_t alignment = 64 * kMiB; alignment <= kGiB; alignment *= 2) {
    RunGridRow(GetParam(), alignment, {1, 70000, 3 * kMiB});
    if (HasFatalFailure()) return;
  }
}

TEST_P(AlignmentGrid, EverySmallSizeAtSmallAlignments) {
  for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    for (size_t size = 0; size <= 2100; size += 1 + size / 512) {
      char *block = static_cast<char *>(Allocate(GetParam(), alignment, size));
      ASSERT_NE(block, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u) << alignment << " " << size;
      size_t usable = hakmem_malloc_usable_size(block);
      ASSERT_GE(usable, size);
      std::memset(block, 0x5a, usable);
      hakmem_free(block);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(How, AlignmentGrid, testing::Values(How::kAlignedAlloc, How::kPosixMemalign, How::kMemalign),
                         [](const auto &how) {
                           switch (how.param) {
                             case How::kAlignedAlloc:
                               return "AlignedAlloc";
                             case How::kPosixMemalign:
                               return "PosixMemalign";
                             default:
                               return "Memalign";
                           }
                         });

TEST(Alignment, AlignedBlocksShareNothingWithOthers) {
  TestRandom random(SeedFor("AlignedBlocksShareNothing"));
  ShadowModel model;
  for (size_t i = 0; i < Scaled(60000, 2000); i++) {
    if (model.count() > 400 || (model.count() > 0 && random.OneIn(3))) {
      ASSERT_TRUE(FreeBlock(&model, random.Below(model.count()))) << model.problem();
      continue;
    }
    size_t alignment = size_t{1} << random.Below(random.OneIn(20) ? 22 : 14);
    size_t size = random.LogBetween(0, random.OneIn(20) ? 2 * kMiB : 20000);
    void *block = random.OneIn(3) ? hakmem_malloc(size) : hakmem_aligned_alloc(alignment, size);
    ASSERT_NE(block, nullptr);
    if (reinterpret_cast<uintptr_t>(block) % alignment != 0) alignment = 16;
    ASSERT_TRUE(model.Add(block, size, hakmem_malloc_usable_size(block), alignment)) << model.problem();
  }
  ASSERT_TRUE(FreeBlocks(&model)) << model.problem();
}

TEST(Alignment, AlignedAllocKeepsItsAlignmentWhenItMust) {
  /* The shadow model above cannot tell an aligned block that is not aligned from one of malloc: this one can. */
  TestRandom random(SeedFor("AlignedAllocKeeps"));
  std::vector<void *> live;
  for (size_t i = 0; i < Scaled(40000, 1000); i++) {
    size_t alignment = size_t{1} << random.Below(16);
    void *block = hakmem_aligned_alloc(alignment, random.LogBetween(0, 70000));
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u) << alignment;
    live.push_back(block);
    if (live.size() > 200) {
      size_t victim = random.Below(live.size());
      hakmem_free(live[victim]);
      live[victim] = live.back();
      live.pop_back();
    }
  }
  for (void *block : live) hakmem_free(block);
}

TEST(Alignment, PosixMemalignRefusesBadAlignmentsAndTouchesNothing) {
  for (size_t alignment : {size_t{0}, size_t{1}, size_t{2}, size_t{4}, size_t{3}, size_t{12}, size_t{24}, size_t{40},
                           size_t{4097}, SIZE_MAX, SIZE_MAX - 7, (size_t{1} << 63) + 8}) {
    int marker = 0;
    void *out = &marker;
    errno = 4321;
    EXPECT_EQ(hakmem_posix_memalign(&out, alignment, 100), EINVAL) << alignment;
    EXPECT_EQ(out, &marker) << alignment;
    EXPECT_EQ(errno, 4321) << alignment;
  }
}

// In errno too, as glibc has it, whose own tests look there.
TEST(Alignment, PosixMemalignReportsEnomem) {
  struct {
    size_t alignment, size;
  } cases[] = {{16, size_t{PTRDIFF_MAX} + 1}, {16, SIZE_MAX},
               {4096, SIZE_MAX - 4095},       {size_t{1} << 62, 1},
               {size_t{1} << 63, 1},          {size_t{1} << 62, size_t{1} << 62},
               {2 * kMiB, PTRDIFF_MAX},       {size_t{1} << 63, SIZE_MAX},
               {size_t{1} << 48, 16},         {64, size_t{1} << 62}};
  for (auto &c : cases) {
    int marker = 0;
    void *out = &marker;
    errno = 4321;
    EXPECT_EQ(hakmem_posix_memalign(&out, c.alignment, c.size), ENOMEM) << c.alignment << " " << c.size;
    EXPECT_EQ(out, &marker);
    EXPECT_EQ(errno, ENOMEM);
  }
}

TEST(Alignment, PosixMemalignLeavesErrnoOnSuccess) {
  for (size_t size : {size_t{0}, size_t{100}, size_t{5000}, size_t{100000}, 5 * kMiB}) {
    void *out = nullptr;
    errno = 4321;
    EXPECT_EQ(hakmem_posix_memalign(&out, 64, size), 0);
    EXPECT_EQ(errno, 4321) << size;
    EXPECT_NE(out, nullptr);
    hakmem_free(out);
  }
}

TEST(Alignment, AlignedAllocRefusesWhatIsNoPowerOfTwo) {
  for (size_t alignment :
       {size_t{0}, size_t{3}, size_t{6}, size_t{24}, size_t{100}, size_t{4097}, SIZE_MAX, (size_t{1} << 63) + 1}) {
    errno = 0;
    EXPECT_EQ(hakmem_aligned_alloc(alignment, 100), nullptr) << alignment;
    EXPECT_EQ(errno, EINVAL) << alignment;
  }
  /* Any power of two will do, and the size need not be a multiple of it. */
  for (size_t alignment : {size_t{1}, size_t{2}, size_t{4}, size_t{8}, size_t{128}}) {
    void *block = hakmem_aligned_alloc(alignment, 13);
    EXPECT_NE(block, nullptr) << alignment;
    hakmem_free(block);
  }
}

TEST(Alignment, TooLargeIsEnomem) {
  for (size_t size : {size_t{PTRDIFF_MAX} + 1, SIZE_MAX - 4096, SIZE_MAX - 63, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(hakmem_aligned_alloc(64, size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(hakmem_memalign(64, size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(hakmem_valloc(size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(hakmem_pvalloc(size), nullptr); /* rounding up to a page must not wrap to nothing */
    EXPECT_EQ(errno, ENOMEM);
  }
  for (unsigned shift = 48; shift < 64; shift++) {
    errno = 0;
    EXPECT_EQ(hakmem_aligned_alloc(size_t{1} << shift, 100), nullptr) << shift;
    EXPECT_EQ(errno, ENOMEM) << shift;
  }
}

TEST(Alignment, MemalignRoundsTheAlignmentUp) {
  struct {
    size_t asked, expected;
  } cases[] = {{0, 16}, {1, 16}, {3, 16}, {17, 32}, {24, 32}, {33, 64}, {100, 128}, {4097, 8192}, {70000, 131072}};
  for (auto &c : cases) {
    for (size_t size : {size_t{1}, size_t{100}, size_t{3000}, size_t{100000}}) {
      std::vector<void *> blocks;
      for (int i = 0; i < 5; i++) {
        void *block = hakmem_memalign(c.asked, size);
        ASSERT_NE(block, nullptr) << c.asked;
        EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % c.expected, 0u) << c.asked << " " << size;
        blocks.push_back(block);
      }
      for (void *block : blocks) hakmem_free(block);
    }
  }
}

TEST(Alignment, MemalignRefusesWhatCannotBeRoundedUp) {
  errno = 0;
  EXPECT_EQ(hakmem_memalign((size_t{1} << 63) + 1, 16), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(hakmem_memalign(SIZE_MAX, 16), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Alignment, VallocAndPvallocArePages) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  ShadowModel model;
  for (size_t size : {size_t{0}, size_t{1}, page - 1, page, page + 1, 3 * page, 40 * page + 5, 2 * kMiB + 1}) {
    void *block = hakmem_valloc(size);
    ASSERT_NE(block, nullptr);
    ASSERT_TRUE(model.Add(block, size, hakmem_malloc_usable_size(block), page)) << model.problem();
    size_t rounded = (size + page - 1) / page * page;
    block = hakmem_pvalloc(size);
    ASSERT_NE(block, nullptr);
    ASSERT_TRUE(model.Add(block, rounded, hakmem_malloc_usable_size(block), page)) << model.problem();
  }
  for (size_t index = 0; index < model.count(); index++) {
    ASSERT_TRUE(model.Check(index)) << model.problem();
    hakmem_free(model.at(index).start);
  }
}

TEST(Alignment, SizedFrees) {
  for (size_t size : kGridSizes) {
    void *block = hakmem_malloc(size);
    ASSERT_NE(block, nullptr);
    errno = 4321;
    hakmem_free_sized(block, size);
    EXPECT_EQ(errno, 4321);
    for (size_t alignment : {size_t{8}, size_t{64}, size_t{4096}, size_t{65536}}) {
      block = hakmem_aligned_alloc(alignment, size);
      ASSERT_NE(block, nullptr);
      errno = 4321;
      hakmem_free_aligned_sized(block, alignment, size);
      EXPECT_EQ(errno, 4321);
    }
  }
  hakmem_free_sized(nullptr, 100);
  hakmem_free_sized(nullptr, 0);
  hakmem_free_aligned_sized(nullptr, 64, 100);
  void *block = hakmem_calloc(10, 10);
  hakmem_free_sized(block, 100);
  block = hakmem_realloc(hakmem_malloc(10), 5000);
  hakmem_free_sized(block, 5000);
}

TEST(Alignment, AlignedBlocksGiveTheirMemoryBack) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer's shadow counts as resident";
  size_t before = 0;
  for (int i = 0; i < 3000; i++) {
    void *block = hakmem_aligned_alloc(size_t{1} << (6 + i % 17), 20000);
    ASSERT_NE(block, nullptr);
    std::memset(block, 1, 20000);
    hakmem_free(block);
    if (i == 300) before = ReadProcessMemory().virtual_bytes;
  }
  EXPECT_LE(ReadProcessMemory().virtual_bytes, before + 64 * kMiB);
}

} /* namespace */
