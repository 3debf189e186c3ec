// space/large: the blocks of a shortage, of whole pages.
#include <cstring>

#include "fake_os.h"
#include "fresh_test.h"
#include "unit/large_driver.h"

extern "C" {
#include "space/shortage.h"
}

using namespace hk_test;

namespace {

constexpr size_t kPage = 4 * HK_KIB;

char *AllocPages(size_t bytes, size_t alignment = HK_BLOCK_ALIGNMENT) {
  return static_cast<char *>(hk_large_alloc_pages(bytes, alignment, &is_zero));
}

HK_FRESH_TEST(LargePages, TakeNoMoreThanPages) {
  char *block = AllocPages(70001);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(is_zero);
  EXPECT_EQ(AddressOf(block) % HK_SLAB_BYTES, 0u);
  ExpectBig(block, 72 * HK_KIB);
  ExpectUsage(1, 72 * HK_KIB);
  ExpectNothingLost();
  memset(block, 1, 72 * HK_KIB);
  EXPECT_TRUE(Free(block));
  EXPECT_FALSE(Free(block)) << "once";
  EXPECT_FALSE(fake_os_is_mapped(block, kPage));
  ExpectUsage(0, 0);
  ExpectCached(0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(LargePages, AreAligned) {
  char *block = AllocPages(100, HK_MIB);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(AddressOf(block) % HK_MIB, 0u);
  ExpectBig(block, kPage);
  EXPECT_TRUE(Free(block));
  EXPECT_EQ(AllocPages(PTRDIFF_MAX), nullptr);
  ExpectNothingLost();
}

// A free extent is whole slabs, and stays so.
HK_FRESH_TEST(LargePages, DoNotMoveIntoAPartOfAFreeExtent) {
  char *start = FreeRange(8 * HK_MIB);
  char *block = AllocPages(HK_MIB + kPage);
  ASSERT_NE(block, nullptr);
  fake_os_fail_all(fake_os_reserve, true);
  fake_os_fail_all(fake_os_resize, true);
  EXPECT_EQ(Resize(block, 3 * HK_MIB + kPage), nullptr) << "the caller copies";
  ExpectBig(block, HK_MIB + kPage);
  ExpectCached(8 * HK_MIB, 8 * HK_MIB);
  EXPECT_EQ(Alloc(8 * HK_MIB), start) << "it is whole";
  ExpectNothingLost();
}

HK_FRESH_TEST(LargePages, ChangeTheirSize) {
  char *block = AllocPages(9 * kPage);
  ASSERT_NE(block, nullptr);
  memset(block, 7, 9 * kPage);
  EXPECT_EQ(Resize(block, 9 * kPage - 1), block);
  EXPECT_EQ(Resize(block, 3 * kPage), block);
  ExpectBig(block, 3 * kPage);
  EXPECT_FALSE(fake_os_is_mapped(block, 4 * kPage));
  block = Resize(block, 21 * kPage);
  ASSERT_NE(block, nullptr);
  EXPECT_GE(hk_load_relaxed(&SlabOf(block)->bytes), 21 * kPage);
  EXPECT_EQ(block[0], 7);
  EXPECT_EQ(block[3 * kPage - 1], 7);
  EXPECT_EQ(block[3 * kPage], 0);
  fake_os_fail_all(fake_os_reserve, true);
  fake_os_fail_all(fake_os_resize, true);
  EXPECT_EQ(Resize(block, 100 * kPage), nullptr);
  EXPECT_EQ(Resize(block, kPage), block) << "what cannot become smaller stays";
  EXPECT_EQ(block[0], 7);
  EXPECT_TRUE(Free(block));
  ExpectUsage(0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(LargePages, AreWhatAShortageMakes) {
  hk_shortage_begin();
  char *block = Alloc(HK_RUN_MAX_BYTES + 1);
  ExpectBig(block, HK_RUN_MAX_BYTES + kPage);
  EXPECT_TRUE(Free(block));
  fake_os_advance(HK_SHORTAGE_MS * 1000000);
  block = Alloc(HK_RUN_MAX_BYTES + 1);
  ExpectBig(block, HK_RUN_MAX_BYTES + HK_SLAB_BYTES);
  EXPECT_TRUE(Free(block));
  Trim();
  ExpectNothingLost();
}

HK_FRESH_TEST(LargePages, AFreeExtentServesWhereNothingIsMapped) {
  char *start = FreeRange(4 * HK_MIB);
  hk_shortage_begin();
  fake_os_fail_all(fake_os_reserve, true);
  char *block = Alloc(2 * HK_MIB + 1);
  EXPECT_EQ(block, start);
  ExpectBig(block, 2 * HK_MIB + HK_SLAB_BYTES);
  EXPECT_TRUE(Free(block));
  ExpectCached(4 * HK_MIB, 4 * HK_MIB);
  ExpectNothingLost();
}

}  // namespace
