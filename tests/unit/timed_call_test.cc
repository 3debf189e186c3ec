// space/timed_call: which calls are measured, by a machine whose clock the test moves, and what follows from them.
#include "fake_os.h"
#include "fresh_test.h"
#include "policy/cost.h"
#include "policy/price.h"
#include "unit/core_parts.h"

extern "C" {
#include "space/dirty.h"
#include "space/timed_call.h"
}

namespace {

constexpr size_t kBytes = HK_MIB;

unsigned Samples(hk_timed_kind_t kind) {
  unsigned samples;
  (void)hk_timed_call_cost_ns(kind, &samples);
  return samples;
}
unsigned Purges() { return Samples(hk_timed_purge); }
unsigned Faults() { return Samples(hk_timed_fault); }
void *Memory(size_t bytes) { return hk_os_reserve(bytes, HK_SUPERSLAB_BYTES); }

uint64_t CostOf(hk_timed_kind_t kind) {
  unsigned samples;
  return hk_timed_call_cost_ns(kind, &samples);
}

uint64_t BreakEven() {
  hk_learn_t learned;
  hk_dirty_copy_learned(&learned);
  return hk_price_break_even_ms(&learned.price);
}

using Call = bool(void *, size_t);

// Calls both for the same memory, in turn. The one that is timed costs `ns_per_mib`.
void Repeat(unsigned count, uint64_t ns_per_mib, Call *first, Call *second) {
  void *memory = Memory(kBytes);
  fake_os_set_cpu_step(ns_per_mib);
  for (unsigned i = 0; i < count; i++) ASSERT_TRUE(first(memory, kBytes) && second(memory, kBytes));
}
void Purge(unsigned count, uint64_t ns_per_mib) { Repeat(count, ns_per_mib, hk_os_prefault, hk_timed_call_purge); }
void Fault(unsigned count, uint64_t ns_per_mib) { Repeat(count, ns_per_mib, hk_timed_call_prefault, hk_os_purge); }

HK_FRESH_TEST(TimedCall, TheFirstLargeOnesAreMeasured) {
  hk_timed_call_allow();
  fake_os_set_cpu_step(4 * HK_PRICE_PURGE_NS);
  void *memory = Memory(kBytes);
  for (unsigned i = 0; i < 2 * HK_COST_SAMPLES; i++) {
    EXPECT_TRUE(hk_timed_call_prefault(memory, kBytes));
    EXPECT_TRUE(hk_timed_call_purge(memory, kBytes));
    EXPECT_EQ(Purges(), i < HK_COST_SAMPLES ? i + 1 : HK_COST_SAMPLES);
    EXPECT_EQ(Faults(), Purges());
  }
  hk_learn_t learned;
  hk_dirty_copy_learned(&learned);
  EXPECT_EQ(learned.price.purge_ns, 4 * HK_PRICE_PURGE_NS);
}

HK_FRESH_TEST(TimedCall, WhatSaysLittleIsNot) {
  hk_timed_call_allow();
  fake_os_set_cpu_step(1000);
  void *memory = Memory(kBytes);
  EXPECT_TRUE(hk_timed_call_purge(memory, kBytes));
  EXPECT_EQ(Purges(), 0u) << "nothing was resident";
  EXPECT_TRUE(hk_timed_call_prefault(memory, kBytes));
  EXPECT_TRUE(hk_timed_call_prefault(memory, kBytes));
  EXPECT_EQ(Faults(), 1u) << "all was resident the second time";
  EXPECT_TRUE(hk_timed_call_purge(memory, HK_COST_MIN_BYTES / 2));
  EXPECT_EQ(Purges(), 0u) << "small";
  EXPECT_TRUE(hk_timed_call_unmap(memory, kBytes));
  EXPECT_EQ(Purges(), 1u);
}

HK_FRESH_TEST(TimedCall, TheBreakEvenTimeFollowsTheCosts) {
  uint64_t break_even_ms = BreakEven();
  Purge(1, 3 * HK_PRICE_PURGE_NS);
  EXPECT_EQ(Purges(), 0u) << "tests can be repeated";
  hk_timed_call_allow();
  Purge(HK_COST_SAMPLES - 1, 3 * HK_PRICE_PURGE_NS);
  EXPECT_EQ(BreakEven(), break_even_ms) << "too few";
  Purge(2, 1000 * HK_PRICE_PURGE_NS);
  EXPECT_EQ(BreakEven(), break_even_ms / 5 * (3 + 4)) << "a fifth is the purge, and slow calls do not count";
  EXPECT_EQ(CostOf(hk_timed_purge), 3 * HK_PRICE_PURGE_NS);
  EXPECT_EQ(Purges(), HK_COST_SAMPLES);
  EXPECT_EQ(CostOf(hk_timed_fault), HK_PRICE_FAULT_NS);
  EXPECT_EQ(Faults(), 0u);
  Fault(HK_COST_SAMPLES, 2 * HK_PRICE_FAULT_NS);
  EXPECT_EQ(BreakEven(), break_even_ms / 5 * (3 + 2 * 4));
  hk_option.mode = HK_PRICE_LEAN;
  EXPECT_EQ(BreakEven(), break_even_ms / 5 * (3 + 2 * 4) / 10);
}

HK_FRESH_TEST(TimedCall, CostsNearTheExpectedOnesChangeNothing) {
  uint64_t break_even_ms = BreakEven();
  hk_timed_call_allow();
  Purge(HK_COST_SAMPLES, 2 * HK_PRICE_PURGE_NS);
  EXPECT_EQ(CostOf(hk_timed_purge), 2 * HK_PRICE_PURGE_NS);
  EXPECT_EQ(BreakEven(), break_even_ms) << "a fifth more together";
}

HK_FRESH_TEST(TimedCall, NothingIsMeasuredWhereLearningIsOff) {
  hk_timed_call_allow();
  hk_option.learn = hk_learn_off;
  Purge(1, HK_PRICE_PURGE_NS);
  EXPECT_EQ(Purges(), 0u);
}

HK_FRESH_TEST(TimedCall, NothingIsMeasuredWithoutTheClock) {
  hk_timed_call_allow();
  void *memory = Memory(kBytes);
  EXPECT_TRUE(hk_timed_call_prefault(memory, kBytes));
  EXPECT_EQ(Faults(), 0u);
}

}  // namespace
