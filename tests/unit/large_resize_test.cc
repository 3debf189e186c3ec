// space/large: blocks that grow and shrink.
#include "fake_os.h"
#include "fresh_test.h"
#include "unit/large_driver.h"

extern "C" {
#include "space/large_prefault.h"
}

using namespace hk_test;

namespace {

HK_FRESH_TEST(Large, ShrinkingLeavesAFreeExtent) {
  char *block = Alloc(8 * HK_MIB);
  Fill(block, 4 * HK_MIB, 9);
  EXPECT_EQ(Resize(block, 4 * HK_MIB), block);
  ExpectBig(block, 4 * HK_MIB);
  ExpectUsage(1, 4 * HK_MIB);
  ExpectCached(4 * HK_MIB, 4 * HK_MIB);
  EXPECT_TRUE(Holds(block, 4 * HK_MIB, 9));
  EXPECT_EQ(Alloc(4 * HK_MIB), block + 4 * HK_MIB);
  ExpectNothingLost();
}

HK_FRESH_TEST(Large, GrowingAbsorbsWhatIsFreeBehindIt) {
  char *start = FreeRange(8 * HK_MIB);
  char *block = Alloc(2 * HK_MIB);
  ASSERT_EQ(block, start);
  Fill(block, 2 * HK_MIB, 9);
  EXPECT_EQ(Resize(block, 5 * HK_MIB), block);
  ExpectBig(block, 5 * HK_MIB);
  ExpectUsage(1, 5 * HK_MIB);
  ExpectCached(3 * HK_MIB, 3 * HK_MIB);
  EXPECT_EQ(hk_slab_state(SlabOf(block + 2 * HK_MIB)), hk_slab_none);
  EXPECT_EQ(Resize(block, 8 * HK_MIB), block) << "all of it";
  EXPECT_TRUE(Holds(block, 2 * HK_MIB, 9));
  ExpectBig(block, 8 * HK_MIB);
  ExpectCached(0, 0);
  EXPECT_EQ(hk_extent_usage().count, 0u);
  EXPECT_EQ(fake_os_calls(fake_os_resize) + fake_os_calls(fake_os_move), 0u);
  EXPECT_TRUE(Free(block));
  ExpectCached(8 * HK_MIB, 8 * HK_MIB);
}

HK_FRESH_TEST(Large, WhatIsTooShortOrNotFreeIsNotAbsorbed) {
  char *start = FreeRange(8 * HK_MIB);
  char *block = Alloc(2 * HK_MIB);
  char *next = Alloc(2 * HK_MIB);
  ASSERT_EQ(next, start + 2 * HK_MIB);
  fake_os_fail_all(fake_os_resize, true);
  fake_os_fail_all(fake_os_move, true);
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(Resize(block, 2 * HK_MIB + HK_SLAB_BYTES), nullptr) << "in use";
  EXPECT_EQ(Resize(next, 7 * HK_MIB), nullptr) << "too short";
  ExpectBig(block, 2 * HK_MIB);
  ExpectBig(next, 2 * HK_MIB);
  ExpectUsage(2, 4 * HK_MIB);
  ExpectCached(4 * HK_MIB, 4 * HK_MIB);
}

HK_FRESH_TEST(Large, ResizesWhereTheSystemHasRoom) {
  char *block = Alloc(8 * HK_MIB);
  Fill(block, 4 * HK_MIB, 9);
  EXPECT_EQ(Resize(block, 4 * HK_MIB), block);
  Trim();
  EXPECT_FALSE(fake_os_is_mapped(block + 4 * HK_MIB, 1));
  EXPECT_EQ(Resize(block, 6 * HK_MIB - 5), block) << "into the addresses that it gave up";
  ExpectBig(block, 6 * HK_MIB);
  ExpectUsage(1, 6 * HK_MIB);
  EXPECT_TRUE(Holds(block, 4 * HK_MIB, 9));
  EXPECT_EQ(fake_os_calls(fake_os_move), 0u);
  ExpectNothingLost();
  EXPECT_TRUE(Free(block));
  ExpectUsage(0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Large, WithinTheSameSlabsNothingIsAsked) {
  char *block = Alloc(4 * HK_MIB);
  EXPECT_EQ(Resize(block, 4 * HK_MIB - HK_SLAB_BYTES + 1), block);
  EXPECT_EQ(fake_os_calls(fake_os_resize) + fake_os_calls(fake_os_move), 0u);
  ExpectUsage(1, 4 * HK_MIB);
}

HK_FRESH_TEST(Large, MovesWhereItCannotGrow) {
  constexpr size_t kept = 4 * HK_MIB, new_bytes = 16 * HK_MIB;
  char *block = Alloc(kept);
  hk_slab_t *slab = SlabOf(block);
  Fill(block, kept, 9);
  fake_os_fail_all(fake_os_resize, true);
  char *moved = Resize(block, new_bytes);
  ASSERT_NE(moved, nullptr);
  EXPECT_NE(moved, block);
  ExpectBig(moved, new_bytes);
  EXPECT_TRUE(Holds(moved, kept, 9));
  ExpectUsage(1, new_bytes);
  EXPECT_EQ(hk_slab_state(slab), hk_slab_none);
  EXPECT_FALSE(fake_os_is_mapped(block, 1));
  ExpectNothingLost();
  EXPECT_TRUE(Free(moved));
  ExpectUsage(0, 0);
  ExpectNothingLost();
}

// Another thread may map the old addresses before realloc returns, and describe its own memory there.
hk_slab_t *left;
hk_slab_t others;

void DescribeAnothersMemory() {
  left->class_index = 5;
  left->drain_round = 7;
  left->huge = hk_part_of_tag;
  left->born_ms = 11;
  hk_store_relaxed(&left->bytes, HK_SLAB_BYTES);
  memcpy(static_cast<void *>(&others), static_cast<const void *>(left), sizeof others);
}

HK_FRESH_TEST(Large, TheDescriptorOfAMovedBlockIsLeftToWhoMapsItsAddresses) {
  char *block = Alloc(4 * HK_MIB);
  Fill(block, 4 * HK_MIB, 9);
  left = SlabOf(block);
  uint32_t born_ms = left->born_ms;
  uint8_t advice = left->huge;
  fake_os_fail_all(fake_os_resize, true);
  fake_os_set_hook(fake_os_move, DescribeAnothersMemory);
  char *moved = Resize(block, 6 * HK_MIB);
  ASSERT_NE(moved, nullptr);
  ASSERT_NE(moved, block);
  ASSERT_EQ(fake_os_calls(fake_os_move), 1u);
  EXPECT_EQ(memcmp(static_cast<const void *>(left), static_cast<const void *>(&others), sizeof others), 0);
  ExpectBig(moved, 6 * HK_MIB);
  EXPECT_TRUE(SlabOf(moved)->is_open);
  EXPECT_EQ(SlabOf(moved)->born_ms, born_ms);
  EXPECT_EQ(SlabOf(moved)->huge, advice);
  EXPECT_TRUE(Holds(moved, 4 * HK_MIB, 9));
}

HK_FRESH_TEST(Large, MovesOntoAFreeExtentWhereThereAreNoNewAddresses) {
  RetainEverything();
  char *target = Alloc(8 * HK_MIB, HK_GIB);
  Fill(target, 8 * HK_MIB, 1);
  char *block = Alloc(7 * HK_MIB, HK_GIB);
  Fill(block, 7 * HK_MIB, 2);
  EXPECT_TRUE(Free(target));
  fake_os_fail_all(fake_os_resize, true);
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(Resize(block, 8 * HK_MIB), target);
  EXPECT_TRUE(Holds(target, 7 * HK_MIB, 2));
  ExpectUsage(1, 8 * HK_MIB);
  ExpectCached(0, 0);
  ExpectNothingLost();
}

HK_FRESH_TEST(Large, MovesToNewAddressesWhileThereAreAny) {
  RetainEverything();
  char *kept = Alloc(8 * HK_MIB, HK_GIB);
  char *block = Alloc(7 * HK_MIB, HK_GIB);
  EXPECT_TRUE(Free(kept));
  fake_os_fail_all(fake_os_resize, true);
  char *moved = Resize(block, 8 * HK_MIB);
  ASSERT_NE(moved, nullptr);
  EXPECT_NE(moved, kept) << "its memory is of more use than its addresses";
  ExpectCached(8 * HK_MIB, 8 * HK_MIB);
}

HK_FRESH_TEST(Large, IsCopiedToTheLongestDirtyExtentWhereItGrowsByAQuarter) {
  RetainEverything();
  char *fitting = Alloc(5 * HK_MIB, HK_GIB), *roomy = Alloc(9 * HK_MIB, HK_GIB);
  char *block = Alloc(4 * HK_MIB, HK_GIB);
  memset(fitting, 1, 5 * HK_MIB);
  memset(roomy, 1, 9 * HK_MIB);
  memset(block, 2, 4 * HK_MIB);
  Fill(block, 4 * HK_MIB, 2);
  fake_os_fail_all(fake_os_resize, true);
  EXPECT_TRUE(Free(fitting));
  EXPECT_TRUE(Free(roomy));
  uint64_t calls = fake_os_calls(fake_os_reserve);
  bool is_copied = false;
  EXPECT_EQ(hk_large_resize(SlabOf(block), block, 5 * HK_MIB, &is_copied), roomy);
  EXPECT_TRUE(is_copied);
  ExpectBig(roomy, 5 * HK_MIB);
  EXPECT_TRUE(Holds(roomy, 4 * HK_MIB, 2));
  ExpectBig(block, 4 * HK_MIB);
  EXPECT_TRUE(Free(block));
  ExpectUsage(1, 5 * HK_MIB);
  ExpectCached((5 + 4 + 4) * HK_MIB, (5 + 4 + 4) * HK_MIB);
  EXPECT_EQ(hk_large_resize(SlabOf(roomy), roomy, 9 * HK_MIB, &is_copied), roomy) << "into the room behind it";
  EXPECT_FALSE(is_copied);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), calls);
  ExpectNothingLost();
}

bool IsCopied(char *block, size_t bytes) {
  bool is_copied = true;
  EXPECT_NE(hk_large_resize(SlabOf(block), block, bytes, &is_copied), nullptr);
  return is_copied;
}

HK_FRESH_TEST(Large, IsNotCopiedToMemoryThatWasPurged) {
  char *purged = FreeRange(12 * HK_MIB);
  Trim();
  EXPECT_FALSE(fake_os_is_mapped(purged, 1));
  char *block = Alloc(4 * HK_MIB, HK_GIB);
  memset(block, 2, 4 * HK_MIB);
  fake_os_fail_all(fake_os_resize, true);
  EXPECT_FALSE(IsCopied(block, 8 * HK_MIB));
}

HK_FRESH_TEST(Large, IsNotCopiedToOrFromMemoryThatTheProgramDidNotWrite) {
  (void)FreeRange(12 * HK_MIB);
  char *block = Alloc(4 * HK_MIB, HK_GIB), *hollow = Alloc(4 * HK_MIB, HK_GIB);
  memset(block, 2, 4 * HK_MIB);
  fake_os_fail_all(fake_os_resize, true);
  EXPECT_FALSE(IsCopied(block, 8 * HK_MIB)) << "the dirty extent is hollow";
  char *full = Alloc(12 * HK_MIB, HK_GIB);
  memset(full, 1, 12 * HK_MIB);
  EXPECT_TRUE(Free(full));
  EXPECT_FALSE(IsCopied(hollow, 8 * HK_MIB)) << "the block is hollow";
}

// Other threads take a dirty extent apart while a thread looks at it without a lock: the block before it ends, two
// blocks get all of its addresses, and the first of them ends. The last slab of what that one leaves was the first one
// of the extent, and its descriptor still says what began there.
char *before_extent, *behind_it;

void TakeTheExtentApart() {
  fake_os_set_hook(fake_os_resident, nullptr);
  EXPECT_TRUE(Free(before_extent));
  char *over_its_start = Alloc(HK_MIB + 2 * HK_SLAB_BYTES);
  EXPECT_EQ(over_its_start, before_extent);
  behind_it = Alloc(8 * HK_MIB - HK_SLAB_BYTES);
  EXPECT_EQ(behind_it, over_its_start + HK_MIB + 2 * HK_SLAB_BYTES);
  EXPECT_TRUE(Free(over_its_start));
}

HK_FRESH_TEST(Large, IsNotCopiedToAnExtentThatOthersTookApartMeanwhile) {
  constexpr size_t kBefore = HK_MIB + HK_SLAB_BYTES;
  RetainEverything();
  char *range = Alloc(kBefore + 8 * HK_MIB, HK_SUPERSLAB_BYTES), *block = Alloc(4 * HK_MIB, HK_GIB);
  memset(range, 1, kBefore + 8 * HK_MIB);
  memset(block, 2, 4 * HK_MIB);
  EXPECT_TRUE(Free(range));
  before_extent = Alloc(kBefore);
  ASSERT_EQ(before_extent, range);
  hk_large_prefault_note_end(AddressOf(block)); /* no other look comes first */
  fake_os_fail_all(fake_os_resize, true);
  fake_os_set_hook(fake_os_resident, TakeTheExtentApart);
  bool is_copied = true;
  char *moved = static_cast<char *>(hk_large_resize(SlabOf(block), block, 6 * HK_MIB, &is_copied));
  ASSERT_NE(moved, nullptr);
  EXPECT_FALSE(is_copied);
  EXPECT_TRUE(moved + 6 * HK_MIB <= range || moved >= range + kBefore + 8 * HK_MIB);
  memset(behind_it, 3, 8 * HK_MIB - HK_SLAB_BYTES);
  ExpectBig(behind_it, 8 * HK_MIB - HK_SLAB_BYTES);
  EXPECT_TRUE(Holds(moved, 4 * HK_MIB, UINT64_C(0x0202020202020202)));
  EXPECT_EQ(Alloc(HK_MIB + 2 * HK_SLAB_BYTES), range);
  ExpectNothingLost();
}

// The block is as it was, and nothing else is there.
void ExpectResizeRefused(char *block, size_t bytes) {
  EXPECT_EQ(Resize(block, bytes), nullptr);
  ExpectBig(block, 4 * HK_MIB);
  EXPECT_TRUE(Holds(block, 4 * HK_MIB, 9));
  ExpectUsage(1, 4 * HK_MIB);
  ExpectNothingLost();
}

HK_FRESH_TEST(Large, ARefusedResizeChangesNothing) {
  char *block = Alloc(4 * HK_MIB);
  Fill(block, 4 * HK_MIB, 9);
  ExpectResizeRefused(block, SIZE_MAX);
  ExpectResizeRefused(block, PTRDIFF_MAX);
  EXPECT_EQ(fake_os_calls(fake_os_resize), 0u);
  ExpectResizeRefused(block, size_t{PTRDIFF_MAX} - HK_SLAB_BYTES);
  fake_os_fail_all(fake_os_resize, true);
  fake_os_fail_all(fake_os_move, true);
  ExpectResizeRefused(block, 16 * HK_MIB);
  EXPECT_EQ(fake_os_calls(fake_os_move), 1u);
  EXPECT_TRUE(SlabOf(block)->is_open);
  Trim(); /* what it would have moved to */
  fake_os_fail_all(fake_os_reserve, true);
  ExpectResizeRefused(block, 16 * HK_MIB);
  EXPECT_EQ(fake_os_calls(fake_os_move), 1u) << "there was nowhere to move to";
  EXPECT_TRUE(Free(block));
  ExpectNothingLost();
}

}  // namespace
