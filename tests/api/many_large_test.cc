/* tests/api/many_large_test.cc - more blocks above 32 KiB than a hardened build gives mappings of their own. */
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "hakmem/hakmem.h"
#include "support/process_memory.h"
#include "support/shadow_model.h"

using namespace hk_test;

namespace {

constexpr size_t kManyBlocks = 16500; /* a hardened build has up to 16,382 mappings */

void Fill(char *block, size_t bytes, char value) { block[0] = block[bytes / 2] = block[bytes - 1] = value; }

bool IsFilled(const char *block, size_t bytes, char value) {
  return block[0] == value && block[bytes / 2] == value && block[bytes - 1] == value;
}

std::vector<void *> AllocateMany(size_t count, size_t bytes) {
  std::vector<void *> many;
  for (size_t i = 0; i < count; i++) {
    many.push_back(hakmem_malloc(bytes));
    EXPECT_NE(many.back(), nullptr) << i;
  }
  return many;
}

void FreeAll(const std::vector<void *> &blocks) {
  for (void *block : blocks) hakmem_free(block);
}

size_t MappingCount() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count++;
  return count;
}

// What lies behind them goes back too.
TEST(ManyLarge, BlocksThatComeAndGoLeaveNoMappings) {
  std::vector<void *> many = AllocateMany(kManyBlocks, 40000);
  size_t first = 0;
  for (int round = 0; round < 4; round++) {
    FreeAll(AllocateMany(200, kRunMax));
    hakmem_collect();
    if (round == 0) first = MappingCount();
  }
  EXPECT_LE(MappingCount(), first + 20);
  FreeAll(many);
}

TEST(ManyLarge, BlocksOfAnySizeAreServed) {
  std::vector<void *> many = AllocateMany(kManyBlocks, 40000);
  void *aligned = hakmem_aligned_alloc(2 * kMidMax, 100);
  ASSERT_NE(aligned, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % (2 * kMidMax), 0u);
  hakmem_free_aligned_sized(aligned, 2 * kMidMax, 100); /* a hardened build compares the size */
  std::vector<char *> larger;
  constexpr size_t kSizes[] = {kRunMax, kRunMax + 1, 3 * kMiB, 3 * kMiB + 1, 20 * kMiB};
  char value = 1;
  for (size_t size : kSizes) {
    char *block = static_cast<char *>(hakmem_malloc(size));
    ASSERT_NE(block, nullptr) << size;
    EXPECT_GE(hakmem_malloc_usable_size(block), size);
    Fill(block, size, value++);
    larger.push_back(block);
  }
  value = 1;
  for (size_t i = 0; i < larger.size(); i++, value++) {
    EXPECT_TRUE(IsFilled(larger[i], kSizes[i], value));
    larger[i] = static_cast<char *>(hakmem_realloc(larger[i], 2 * kSizes[i]));
    ASSERT_NE(larger[i], nullptr);
    EXPECT_EQ(larger[i][0], value);
    EXPECT_EQ(larger[i][kSizes[i] / 2], value);
    larger[i] = static_cast<char *>(hakmem_realloc(larger[i], kSizes[i] / 2 + 1));
    ASSERT_NE(larger[i], nullptr);
    EXPECT_TRUE(larger[i][0] == value && larger[i][kSizes[i] / 2] == value);
  }
  FreeAll(many);
  for (size_t i = 0; i < larger.size(); i++) {
    EXPECT_EQ(larger[i][0], static_cast<char>(i + 1));
    larger[i] = static_cast<char *>(hakmem_realloc(larger[i], 3 * kSizes[i])); /* there is room for mappings again */
    ASSERT_NE(larger[i], nullptr);
    EXPECT_EQ(larger[i][0], static_cast<char>(i + 1));
    hakmem_free_sized(larger[i], 3 * kSizes[i]);
  }
  char *zero = static_cast<char *>(hakmem_calloc(1, 3 * kMiB));
  ASSERT_NE(zero, nullptr);
  EXPECT_TRUE(IsFilled(zero, 3 * kMiB, 0));
  hakmem_free(zero);
}

}  // namespace
