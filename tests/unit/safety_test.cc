// policy/safety: what passes for a free block, and where a block may start.
#include "policy/safety.h"

#include <gtest/gtest.h>

#include "base/units.h"

#if HK_SAFETY

namespace {

TEST(Safety, TheSecretIsNeverZero) {
  EXPECT_NE(hk_secret, 0u);
  for (uint64_t bits : {uint64_t{0}, uint64_t{1}, uint64_t{0x9e3779b97f4a7c15}, UINT64_MAX - 0x9e3779b97f4a7c15 + 1}) {
    hk_safety_init(bits);
    EXPECT_NE(hk_secret, 0u) << bits;
    EXPECT_NE(hk_secret, bits) << bits;
    EXPECT_EQ(hk_secret >> HK_SEAL_TOP_SHIFT, HK_SEAL_TOP) << bits;
  }
}

TEST(Safety, TheSecretDependsOnTheRandomBits) {
  hk_safety_init(1);
  uintptr_t first = hk_secret;
  hk_safety_init(2);
  uintptr_t second = hk_secret;
  hk_safety_init(1);
  EXPECT_NE(first, second);
  EXPECT_EQ(hk_secret, first);
  EXPECT_GT(__builtin_popcountll(first ^ second), 8);
}

TEST(Safety, TheEndOfAListIsNoIntactBlock) {
  EXPECT_FALSE(hk_block_is_intact(HK_LIST_END));
  hk_safety_init(7);
  EXPECT_FALSE(hk_block_is_intact(HK_LIST_END));
  EXPECT_EQ(hk_list_end.next, nullptr);
  EXPECT_EQ(hk_list_end.seal, 0u);
}

TEST(Safety, ALinkedBlockIsIntactUntilItIsHandedOut) {
  hk_block_t block;
  hk_block_link(&block, HK_LIST_END);
  EXPECT_EQ(block.next, HK_LIST_END);
  EXPECT_TRUE(hk_block_is_intact(&block));
  EXPECT_TRUE(hk_block_looks_free(&block));
  EXPECT_TRUE(hk_block_may_look_free(&block));
  hk_block_t *next = nullptr;
  EXPECT_TRUE(hk_block_open(&block, &next));
  EXPECT_EQ(next, HK_LIST_END);
  EXPECT_FALSE(hk_block_open(HK_LIST_END, &next));
  hk_block_unseal(&block);
  EXPECT_FALSE(hk_block_looks_free(&block));
  EXPECT_FALSE(hk_block_may_look_free(&block));
  EXPECT_FALSE(hk_block_open(&block, &next));
}

// Links of all lengths, and with the lowest bit set, as those of remote frees.
TEST(Safety, EveryBlockThatLooksFreeMayLookFree) {
  for (unsigned bit = 0; bit < HK_ADDRESS_BITS; bit++) {
    hk_block_t block;
    hk_block_link(&block, reinterpret_cast<hk_block_t *>((uintptr_t{1} << HK_ADDRESS_BITS) - (uintptr_t{1} << bit)));
    EXPECT_TRUE(hk_block_looks_free(&block) && hk_block_may_look_free(&block)) << bit;
  }
}

TEST(Safety, EveryFlippedBitIsNoticed) {
  hk_block_t block, next, *link;
  hk_block_link(&next, HK_LIST_END);
  for (unsigned bit = 0; bit < 64; bit++) {
    hk_block_link(&block, &next);
    block.seal ^= uintptr_t{1} << bit;
    EXPECT_FALSE(hk_block_is_intact(&block) || hk_block_open(&block, &link)) << bit;
    hk_block_link(&block, &next);
    block.next = reinterpret_cast<hk_block_t *>(reinterpret_cast<uintptr_t>(block.next) ^ (uintptr_t{1} << bit));
    EXPECT_FALSE(hk_block_is_intact(&block) || hk_block_open(&block, &link)) << bit;
  }
}

TEST(Safety, AZeroBlockAndAConstantBlockDoNotLookFree) {
  for (uintptr_t fill : {uintptr_t{0}, uintptr_t{0xdbdbdbdbdbdbdbdb}, UINTPTR_MAX}) {
    hk_block_t block = {reinterpret_cast<hk_block_t *>(fill), fill};
    EXPECT_FALSE(hk_block_looks_free(&block)) << fill;
  }
}

}  // namespace

#endif
