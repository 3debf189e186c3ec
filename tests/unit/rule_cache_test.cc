// profile/rule_cache: rules that were put are found again, by the same address and module alone, until others push it
// out.
#include "unwind/rule_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace {

constexpr hk_module_t kModule = {0x400000, 0x480000, 0x500000};

hk_frame_rule_t RuleOf(uintptr_t pc) {
  hk_frame_rule_t rule = {};
  rule.kind = hk_frame_ruled;
  rule.offset = static_cast<int32_t>(pc * 2654435761u);
  rule.saved[hk_frame_ra] = -1;
  return rule;
}

bool IsFound(uintptr_t pc, const hk_module_t &module = kModule) {
  hk_frame_rule_t rule = {}, expected = RuleOf(pc);
  if (!hk_rule_cache_get(pc, &module, &rule)) return false;
  EXPECT_EQ(memcmp(&rule, &expected, sizeof rule), 0) << pc << ": another one's";
  return true;
}

void Put(uintptr_t pc) {
  hk_frame_rule_t rule = RuleOf(pc);
  hk_rule_cache_put(pc, &kModule, &rule);
}

TEST(RuleCache, IsOfAnAddressAndItsModule) {
  EXPECT_FALSE(IsFound(0x401000));
  Put(0x401000);
  EXPECT_TRUE(IsFound(0x401000));
  EXPECT_FALSE(IsFound(0x401001));
  EXPECT_FALSE(IsFound(0x401000, {0x400000, 0x480000, 0x600000}));
  EXPECT_FALSE(IsFound(0x401000, {0x300000, 0x480000, 0x500000}));
}

TEST(RuleCache, ForgetsAll) {
  for (uintptr_t pc = 0x30000000; pc < 0x30000000 + 20000; pc++) Put(pc);
  hk_rule_cache_forget();
  for (uintptr_t pc = 0x30000000; pc < 0x30000000 + 20000; pc++) ASSERT_FALSE(IsFound(pc));
  Put(0x401000);
  EXPECT_TRUE(IsFound(0x401000));
  hk_rule_cache_forget();
  EXPECT_FALSE(IsFound(0x401000));
  hk_rule_cache_forget();  // nothing to forget
}

// A program's stacks go through some 800 addresses. If each had one place, a fifth of them would push out another one.
TEST(RuleCache, KeepsNearlyAllThatAProgramGoesThrough) {
  constexpr unsigned kCount = 800;
  std::mt19937 random(4711);
  std::vector<uintptr_t> addresses(kCount);
  for (uintptr_t &address : addresses) address = 0x10000000 + random() % 0x1000000;
  for (uintptr_t address : addresses) Put(address);
  unsigned found = 0;
  for (uintptr_t address : addresses) found += IsFound(address) ? 1 : 0;
  EXPECT_GT(found, kCount * 95 / 100);
}

TEST(RuleCache, TakesMoreThanItHasRoomFor) {
  for (uintptr_t pc = 0x20000000; pc < 0x20000000 + 20000; pc++) {
    Put(pc);
    ASSERT_TRUE(IsFound(pc));
  }
  unsigned found = 0;
  for (uintptr_t pc = 0x20000000; pc < 0x20000000 + 20000; pc++) found += IsFound(pc) ? 1 : 0;
  EXPECT_GT(found, 1000u);
}

}  // namespace
