// space/superslab: while a superslab is unmapped, another one may get its addresses.
#include "fresh_test.h"
#include "os/lock.h"
#include "unit/superslab_driver.h"

using namespace hk_test;

namespace {

// `theirs` has the addresses of a superslab that is being unmapped: it was the only one, and is free.
struct ChangedHands {
  hk_superslab_t *theirs = hk_superslab_index_take_record();
  ChangedHands() {
    hk_superslab_t *old = Acquire(1)->superslab;
    uintptr_t start = old->start;
    Release(old->slabs);
    hk_lock_acquire(hk_lock_space);
    EXPECT_EQ(hk_superslab_index_detach_free_locked(old), UINT32_MAX);
    EXPECT_TRUE(hk_superslab_index_enter_locked(theirs, {start, HK_SUPERSLAB_BYTES, true}, 0));
    hk_lock_release(hk_lock_space);
  }
};

HK_FRESH_TEST(SuperslabUnmap, AVisitComesOnceToAddressesThatHaveChangedHands) {
  ChangedHands addresses;
  unsigned visits = 0;
  hk_superslab_visit([](hk_slab_t *, void *context) { ++*static_cast<unsigned *>(context); }, &visits);
  EXPECT_EQ(visits, 1u);
}

// A process may fork in that moment.
HK_FRESH_TEST(SuperslabUnmap, AChildOfForkCountsTheNewOnesSlabsAlone) {
  ChangedHands addresses;
  hk_slab_t *slab = Acquire(1);
  ASSERT_EQ(slab->superslab, addresses.theirs);
  hk_superslab_index_repair();
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, HK_SLAB_BYTES);
  EXPECT_EQ(hk_superslab_usage().superslab_count, 1u);
#if HK_DEBUG
  hk_lock_acquire(hk_lock_space);
  (void)hk_superslab_check_locked();
  hk_lock_release(hk_lock_space);
#endif
  Release(slab);
  EXPECT_EQ(hk_superslab_usage().in_use_bytes, 0u);
  EXPECT_NE(Acquire(kAll), nullptr);
}

}  // namespace
