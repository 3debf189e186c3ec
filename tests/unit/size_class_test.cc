// policy/size_class: every size, every class, every offset. The expectations are written down from what the classes are
// meant to be, not from how the header computes them.
#include "policy/size_class.h"

#include <gtest/gtest.h>

#include <set>

#include <vector>

#include "policy/safety.h"

namespace {

// The block sizes, made by adding: 16 bytes a step up to 1 KiB, then an eighth of the doubling a step.
std::vector<size_t> ExpectedClassBytes() {
  std::vector<size_t> bytes = {0};
  while (bytes.back() < HK_TINY_MAX_BYTES) bytes.push_back(bytes.back() + 16);
  for (size_t doubling = HK_TINY_MAX_BYTES; doubling < HK_MID_MAX_BYTES; doubling *= 2) {
    for (int step = 1; step <= 8; step++) bytes.push_back(doubling + step * doubling / 8);
  }
  return bytes;
}

TEST(SizeClass, TheClassesAreThese) {
  std::vector<size_t> expected = ExpectedClassBytes();
  ASSERT_EQ(expected.size(), HK_CLASS_COUNT);
  EXPECT_EQ(HK_CLASS_COUNT, 105u);
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) EXPECT_EQ(hk_class_bytes(i), expected[i]) << i;
  EXPECT_EQ(hk_class_bytes(HK_CLASS_COUNT - 1), HK_MID_MAX_BYTES);
}

TEST(SizeClass, BlockSizesGrowAndKeepTheAlignment) {
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    EXPECT_GT(hk_class_bytes(i), hk_class_bytes(i - 1)) << i;
    EXPECT_EQ(hk_class_bytes(i) % HK_BLOCK_ALIGNMENT, 0u) << i;
  }
}

TEST(SizeClass, NothingIsClassZero) {
  EXPECT_EQ(hk_class_of(0), 0u);
  EXPECT_EQ(hk_class_of(1), 1u);
}

TEST(SizeClass, EachSizeFitsItsClassAndNotTheOneBelow) {
  for (size_t size = 1; size <= HK_MID_MAX_BYTES; size++) {
    unsigned class_index = hk_class_of(size);
    ASSERT_GE(class_index, 1u) << size;
    ASSERT_LT(class_index, HK_CLASS_COUNT) << size;
    ASSERT_GE(hk_class_bytes(class_index), size);
    ASSERT_LT(hk_class_bytes(class_index - 1), size);
  }
}

TEST(SizeClass, ClassesFollowEachOtherWithoutAGap) {
  for (size_t size = 1; size <= HK_MID_MAX_BYTES; size++) {
    unsigned step = hk_class_of(size) - hk_class_of(size - 1);
    ASSERT_LE(step, 1u) << size;
    /* The next class begins one byte above a block size, and nowhere else. */
    ASSERT_EQ(step == 1, hk_class_bytes(hk_class_of(size - 1)) == size - 1) << size;
  }
  EXPECT_EQ(hk_class_of(HK_MID_MAX_BYTES), HK_CLASS_COUNT - 1);
}

TEST(SizeClass, TinyAndMidAgreeWithTheWhole) {
  for (size_t size = 0; size <= HK_TINY_MAX_BYTES; size++) ASSERT_EQ(hk_class_of_tiny(size), hk_class_of(size));
  for (size_t size = HK_TINY_MAX_BYTES + 1; size <= HK_MID_MAX_BYTES; size++) {
    ASSERT_EQ(hk_class_of_mid(size), hk_class_of(size));
  }
  EXPECT_EQ(hk_class_of(HK_TINY_MAX_BYTES), HK_TINY_CLASS_MAX);
  EXPECT_EQ(hk_class_of(HK_TINY_MAX_BYTES + 1), HK_TINY_CLASS_MAX + 1);
}

TEST(SizeClass, LittleOfABlockIsNotAskedFor) {
  for (size_t size = 1; size <= HK_MID_MAX_BYTES; size++) {
    size_t bytes = hk_class_bytes(hk_class_of(size));
    size_t waste = bytes - size;
    if (size <= HK_TINY_MAX_BYTES) {
      ASSERT_LT(waste, HK_BLOCK_ALIGNMENT) << size;
    } else {
      ASSERT_LE(waste * 9, bytes) << size;
    }
  }
}

TEST(SizeClass, StartsAreTheMultiplesOfTheBlockSizeThatBeginAWholeBlock) {
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    size_t bytes = hk_class_bytes(i);
    hk_starts_t starts = hk_class_starts(i);
    for (uint32_t offset = 0; offset < HK_SLAB_BYTES; offset++) {
      bool expected = offset % bytes == 0 && offset + bytes <= HK_SLAB_BYTES;
      ASSERT_EQ(hk_starts_has(&starts, offset), expected) << offset << " in class " << i;
      ASSERT_EQ(hk_starts_divide(&starts, offset), offset / bytes) << offset << " in class " << i;
    }
    EXPECT_EQ(hk_starts_divide(&starts, HK_SLAB_BYTES), hk_class_blocks_per_slab(i));
  }
}

TEST(SizeClass, ASlabHoldsWholeBlocksAndNotOneMore) {
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    size_t blocks = hk_class_blocks_per_slab(i);
    EXPECT_LE(blocks * hk_class_bytes(i), HK_SLAB_BYTES) << i;
    EXPECT_GT((blocks + 1) * hk_class_bytes(i), HK_SLAB_BYTES) << i;
  }
  EXPECT_EQ(hk_class_blocks_per_slab(1), 4096u);
  EXPECT_EQ(hk_class_blocks_per_slab(HK_CLASS_COUNT - 1), 2u);
}

TEST(SizeClass, ASpanIsAsShortAsItsLeastNumberOfBlocksAllows) {
  for (unsigned i = 1; i < HK_CLASS_COUNT; i++) {
    unsigned slabs = hk_class_span_slabs(i);
    unsigned per_slab = hk_class_blocks_per_slab(i);
    EXPECT_GE(slabs, 1u) << i;
    EXPECT_LE(slabs, HK_SPAN_MAX_SLABS) << i;
    EXPECT_GE(slabs * per_slab, HK_SPAN_MIN_BLOCKS) << i;
    EXPECT_TRUE(slabs == 1 || (slabs - 1) * per_slab < HK_SPAN_MIN_BLOCKS) << i;
    EXPECT_LE(slabs * per_slab, size_t{UINT16_MAX}) << "a span's counts have 16 bits";
  }
  EXPECT_EQ(hk_class_span_slabs(hk_class_of(8 * HK_KIB)), 1u);
  EXPECT_EQ(hk_class_span_slabs(hk_class_of(8 * HK_KIB + 1)), 2u);
  EXPECT_EQ(hk_class_span_slabs(HK_CLASS_COUNT - 1), 4u);
}

TEST(SizeClass, MidClassesAreThoseAboveTheLargestTinyBlock) {
  for (unsigned i = 0; i < HK_CLASS_COUNT; i++) {
    EXPECT_EQ(hk_class_is_mid(i), hk_class_bytes(i) > HK_TINY_MAX_BYTES) << i;
  }
}

// ---- How many blocks a mid class's list has room for.

TEST(SizeClass, ACoarseClassIsHalfLargerAtTheMost) {
  std::set<unsigned> coarse_classes;
  for (unsigned i = 1; i <= HK_TINY_CLASS_MAX; i++) {
    unsigned coarse = hk_class_coarse(i);
    ASSERT_GE(coarse, i);
    ASSERT_LE(coarse, HK_TINY_CLASS_MAX);
    EXPECT_EQ(hk_class_coarse(coarse), coarse);
    EXPECT_LT(2 * hk_class_bytes(coarse), 3 * hk_class_bytes(i)) << hk_class_bytes(i);
    coarse_classes.insert(coarse);
  }
  EXPECT_EQ(coarse_classes.size(), 12u) << "16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024";
}

TEST(SizeClass, TheRoomIsWhatTheBytesHoldWithinItsBounds) {
  for (unsigned i = HK_TINY_CLASS_MAX + 1; i < HK_CLASS_COUNT; i++) {
    unsigned before = 0;
    for (size_t bytes = 0; bytes <= HK_ROOM_MAX_BLOCKS * HK_MID_MAX_BYTES + 1000; bytes += 1000) {
      unsigned room = hk_class_room(i, bytes);
      ASSERT_GE(room, HK_ROOM_MIN_BLOCKS);
      ASSERT_LE(room, HK_ROOM_MAX_BLOCKS);
      ASSERT_GE(room, before) << "more bytes never have less room";
      before = room;
      if (room > HK_ROOM_MIN_BLOCKS) ASSERT_LE(room * hk_class_bytes(i), bytes);
      if (room < HK_ROOM_MAX_BLOCKS) ASSERT_GT((room + 1) * hk_class_bytes(i), bytes);
    }
    EXPECT_EQ(before, HK_ROOM_MAX_BLOCKS) << "of enough bytes";
    EXPECT_EQ(hk_class_room(i, SIZE_MAX), HK_ROOM_MAX_BLOCKS);
  }
}

TEST(SizeClass, ALargerBlocksListHasNoMoreRoom) {
  for (size_t bytes : {HK_ROOM_FIRST_BYTES, HK_ROOM_MAX_BYTES}) {
    for (unsigned i = HK_TINY_CLASS_MAX + 2; i < HK_CLASS_COUNT; i++) {
      EXPECT_LE(hk_class_room(i, bytes), hk_class_room(i - 1, bytes)) << i;
    }
  }
}

TEST(SizeClass, TheRoomCanGrowAndItsHalfIsSome) {
  bool can_grow = false;
  for (unsigned i = HK_TINY_CLASS_MAX + 1; i < HK_CLASS_COUNT; i++) {
    unsigned first = hk_class_room(i, HK_ROOM_FIRST_BYTES), most = hk_class_room(i, HK_ROOM_MAX_BYTES);
    EXPECT_GE(first / 2, 1u) << "a spill keeps some, and a fill takes some";
    EXPECT_LE(first, most) << i;
    can_grow |= first < most;
    EXPECT_LE(2 * most, unsigned{UINT16_MAX}) << "a bin's room has 16 bits";
    EXPECT_LT(hk_class_room(i, HK_ROOM_AT_ONCE_BYTES), unsigned{UINT8_MAX}) << "the count of spilled blocks has 8";
  }
  EXPECT_TRUE(can_grow);
}

}  // namespace
