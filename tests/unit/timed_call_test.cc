// space/timed_call: which calls are measured, by a machine whose clock the test moves.
#include "fake_os.h"
#include "fresh_test.h"
#include "policy/cost.h"
#include "unit/core_parts.h"

extern "C" {
#include "space/dirty.h"
#include "space/timed_call.h"
}

namespace {

constexpr size_t kBytes = HK_MIB;

unsigned Samples(hk_dirty_cost_t kind) {
  unsigned samples;
  (void)hk_dirty_cost_ns(kind, &samples);
  return samples;
}
unsigned Purges() { return Samples(hk_dirty_cost_purge); }
unsigned Faults() { return Samples(hk_dirty_cost_fault); }
void *Memory(size_t bytes) { return hk_os_reserve(bytes, HK_SUPERSLAB_BYTES); }

HK_FRESH_TEST(TimedCall, TheFirstLargeOnesAreMeasured) {
  hk_dirty_allow_costs();
  fake_os_set_cpu_step(4 * HK_PRICE_GIVE_NS);
  void *memory = Memory(kBytes);
  for (unsigned i = 0; i < 2 * HK_COST_SAMPLES; i++) {
    EXPECT_TRUE(hk_timed_call_prefault(memory, kBytes));
    EXPECT_TRUE(hk_timed_call_purge(memory, kBytes));
    EXPECT_EQ(Purges(), i < HK_COST_SAMPLES ? i + 1 : HK_COST_SAMPLES);
    EXPECT_EQ(Faults(), Purges());
  }
  hk_learn_t learned;
  hk_dirty_copy_learned(&learned);
  EXPECT_EQ(learned.price.give_ns, 4 * HK_PRICE_GIVE_NS);
}

HK_FRESH_TEST(TimedCall, WhatSaysLittleIsNot) {
  hk_dirty_allow_costs();
  fake_os_set_cpu_step(1000);
  void *memory = Memory(kBytes);
  EXPECT_TRUE(hk_timed_call_purge(memory, kBytes));
  EXPECT_EQ(Purges(), 0u) << "nothing was resident";
  EXPECT_TRUE(hk_timed_call_prefault(memory, kBytes));
  EXPECT_TRUE(hk_timed_call_prefault(memory, kBytes));
  EXPECT_EQ(Faults(), 1u) << "all was resident the second time";
  EXPECT_TRUE(hk_timed_call_purge(memory, HK_COST_LEAST_BYTES / 2));
  EXPECT_EQ(Purges(), 0u) << "small";
  EXPECT_TRUE(hk_timed_call_unmap(memory, kBytes));
  EXPECT_EQ(Purges(), 1u);
}

HK_FRESH_TEST(TimedCall, NothingIsMeasuredWithoutTheClock) {
  hk_dirty_allow_costs();
  void *memory = Memory(kBytes);
  EXPECT_TRUE(hk_timed_call_prefault(memory, kBytes));
  EXPECT_EQ(Faults(), 0u);
}

}  // namespace
