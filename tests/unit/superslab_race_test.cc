// space/superslab: two threads that need a new superslab at once. The other one comes while the first asks the system.
#include "fake_os.h"
#include "fresh_test.h"
#include "unit/core_parts.h"

namespace {

hk_slab_t *by_the_other;

void LetTheOtherAcquire(fake_os_call_t call) {
  fake_os_set_hook(call, nullptr);
  by_the_other = hk_superslab_acquire(1, 1, hk_from_bottom);
}
void AcquireInReserve() { LetTheOtherAcquire(fake_os_reserve); }
void AcquireInPurge() { LetTheOtherAcquire(fake_os_purge); }

// The records' first chunk and the region's leaf are mapped before.
void PrepareRecords() {
  hk_slab_t *slab = hk_superslab_acquire(1, 1, hk_from_bottom);
  hk_slab_retire(slab, 1);
  hk_superslab_release(slab, 1);
  (void)hk_purge_down_to(0);
  ASSERT_EQ(hk_superslab_usage().superslab_count, 0u);
}

void ExpectBothInOne(const hk_slab_t *slab) {
  ASSERT_NE(slab, nullptr);
  ASSERT_NE(by_the_other, nullptr);
  EXPECT_NE(slab, by_the_other);
  EXPECT_EQ(slab->superslab, by_the_other->superslab);
  EXPECT_EQ(hk_superslab_usage().superslab_count, 1u);
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 2 * HK_SLAB_BYTES);
}

size_t MappedBytes() {
  return hk_superslab_usage().mapped_bytes + hk_extent_usage().free_bytes + hk_region_map_mapped_bytes() +
         hk_meta_mapped_bytes();
}

HK_FRESH_TEST(SuperslabRace, ALaterThreadTakesFromTheFirstOnes) {
  PrepareRecords();
  fake_os_set_hook(fake_os_reserve, AcquireInReserve);
  ExpectBothInOne(hk_superslab_acquire(1, 1, hk_from_bottom));
  EXPECT_EQ(hk_extent_usage().free_bytes, 0u) << "its own is given back";
  EXPECT_EQ(fake_os_mapped_bytes(), MappedBytes());
}

HK_FRESH_TEST(SuperslabRace, WhatCannotBeUnmappedStaysForLater) {
  PrepareRecords();
  fake_os_set_hook(fake_os_reserve, AcquireInReserve);
  fake_os_fail_all(fake_os_unmap, true);
  ExpectBothInOne(hk_superslab_acquire(1, 1, hk_from_bottom));
  EXPECT_EQ(hk_extent_usage().free_bytes, HK_SUPERSLAB_BYTES);
  EXPECT_EQ(fake_os_mapped_bytes(), MappedBytes());

  uint64_t reserved = fake_os_calls(fake_os_reserve);
  EXPECT_NE(hk_superslab_acquire(HK_SUPERSLAB_SLABS, 1, hk_from_bottom), nullptr);
  EXPECT_EQ(fake_os_calls(fake_os_reserve), reserved) << "it is what the next one is made of";
}

HK_FRESH_TEST(SuperslabRace, WhatALargeBlockLeftIsLeftAgain) {
  fake_os_set_node_count(2);  // so that it is purged, and the other one can come meanwhile
  PrepareRecords();
  hk_option.retain = HK_TIB;
  bool is_zero;
  void *block = hk_large_alloc(2 * HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES, &is_zero);
  ASSERT_NE(block, nullptr);
  ASSERT_TRUE(hk_large_free(hk_slab_of(block), block));
  size_t left = hk_extent_usage().free_bytes;
  ASSERT_GE(left, 2 * HK_SUPERSLAB_BYTES);

  fake_os_set_hook(fake_os_purge, AcquireInPurge);
  ExpectBothInOne(hk_superslab_acquire(1, 1, hk_from_bottom));
  EXPECT_EQ(hk_extent_usage().free_bytes, left - HK_SUPERSLAB_BYTES);
  EXPECT_EQ(fake_os_mapped_bytes(), MappedBytes());
}

HK_FRESH_TEST(SuperslabRace, WhereTheFirstOnesIsFullEachHasItsOwn) {
  PrepareRecords();
  fake_os_set_hook(fake_os_reserve, AcquireInReserve);
  const hk_slab_t *all = hk_superslab_acquire(HK_SUPERSLAB_SLABS, 1, hk_from_bottom);
  ASSERT_NE(all, nullptr);
  EXPECT_NE(all->superslab, by_the_other->superslab);
  EXPECT_EQ(hk_superslab_usage().superslab_count, 2u);
  EXPECT_EQ(fake_os_mapped_bytes(), MappedBytes());
}

}  // namespace
