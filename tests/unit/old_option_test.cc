// policy/old_option: what has become of the names from before, and the exact lines that say so.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "loaded_options.h"
#include "policy/option.h"
#include "policy/price.h"

using namespace hk_test;

namespace {

TEST(OldOption, AceEnabledIsLearn) {
  Loaded loaded = Load({"HAKMEM_ACE_ENABLED=0"});
  EXPECT_EQ(loaded.option.learn, uint64_t{hk_learn_off});
  EXPECT_STREQ(
      loaded.warnings,
      "hakmem: warning: HAKMEM_ACE_ENABLED=0 is taken as HAKMEM_LEARN=off, its name now (see: hakmem help options)\n");
  loaded = Load({"HAKMEM_ACE_ENABLED=YES"});
  EXPECT_EQ(loaded.option.learn, uint64_t{hk_learn_on});
  EXPECT_STREQ(
      loaded.warnings,
      "hakmem: warning: HAKMEM_ACE_ENABLED=YES is taken as HAKMEM_LEARN=on, its name now (see: hakmem help options)\n");
}

TEST(OldOption, MemDietIsAMode) {
  Loaded loaded = Load({"HAKMEM_TINY_MEM_DIET=1"});
  EXPECT_EQ(loaded.option.mode, HK_PRICE_LEAN);
  EXPECT_STREQ(loaded.warnings,
               "hakmem: warning: HAKMEM_TINY_MEM_DIET=1 is taken as HAKMEM_MODE=lean, its name now (see: hakmem help "
               "options)\n");
  loaded = Load({"HAKMEM_TINY_MEM_DIET=0"});
  EXPECT_TRUE(IsDefault(loaded.option));
  EXPECT_STREQ(loaded.warnings,
               "hakmem: warning: HAKMEM_TINY_MEM_DIET=0 is taken as HAKMEM_MODE=balanced, its name now (see: hakmem "
               "help options)\n");
}

TEST(OldOption, CountersDumpIsStats) {
  Loaded loaded = Load({"HAKMEM_TINY_COUNTERS_DUMP=1"});
  EXPECT_EQ(loaded.option.stats, 1u);
  EXPECT_STREQ(loaded.warnings,
               "hakmem: warning: HAKMEM_TINY_COUNTERS_DUMP=1 is taken as HAKMEM_STATS=on, its name now (see: hakmem "
               "help options)\n");
  loaded = Load({"HAKMEM_TINY_COUNTERS_DUMP=off"});
  EXPECT_TRUE(IsDefault(loaded.option));
  EXPECT_STREQ(loaded.warnings,
               "hakmem: warning: HAKMEM_TINY_COUNTERS_DUMP=off is taken as HAKMEM_STATS=off, its name now (see: hakmem "
               "help options)\n");
}

TEST(OldOption, OfTheOthersNothingIsLeft) {
  Loaded loaded = Load({"HAKMEM_TINY_USE_SUPERSLAB=1", "HAKMEM_TINY_REFILL_COUNT_HOT=64", "HAKMEM_TINY_IDLE_TRIM_MS=x",
                        "HAKMEM_TINY_TRIM_SS=", "HAKMEM_TINY_SS_FORCE_LG=21", "HAKMEM_ALLOW_MALLOC_FALLBACK=1"});
  EXPECT_TRUE(IsDefault(loaded.option));
  EXPECT_STREQ(
      loaded.warnings,
      "hakmem: warning: HAKMEM_TINY_USE_SUPERSLAB no longer exists: superslabs are always used (see: hakmem help "
      "options)\n"
      "hakmem: warning: HAKMEM_TINY_REFILL_COUNT_HOT no longer exists: the size of a refill adapts by itself "
      "(see: hakmem help options)\n"
      "hakmem: warning: HAKMEM_TINY_IDLE_TRIM_MS no longer exists: HAKMEM_MODE decides for how long memory "
      "stays dirty (see: hakmem help options)\n"
      "hakmem: warning: HAKMEM_TINY_TRIM_SS no longer exists: empty superslabs are always purged (see: hakmem help "
      "options)\n"
      "hakmem: warning: HAKMEM_TINY_SS_FORCE_LG no longer exists: all superslabs have the same size (see: hakmem help "
      "options)\n"
      "hakmem: warning: HAKMEM_ALLOW_MALLOC_FALLBACK no longer exists: hakmem never falls back to another malloc "
      "(see: hakmem help options)\n");
  EXPECT_EQ(loaded.writes, 6u);
}

TEST(OldOption, ANewNameWinsWhateverTheOrder) {
  const char *line =
      "hakmem: warning: HAKMEM_TINY_MEM_DIET=1 is not used: its name now is HAKMEM_MODE, which is set "
      "(see: hakmem help options)\n";
  Loaded loaded = Load({"HAKMEM_TINY_MEM_DIET=1", "HAKMEM_MODE=fast"});
  EXPECT_EQ(loaded.option.mode, HK_PRICE_FAST);
  EXPECT_STREQ(loaded.warnings, line);
  loaded = Load({"HAKMEM_MODE=fast", "HAKMEM_TINY_MEM_DIET=1"});
  EXPECT_EQ(loaded.option.mode, HK_PRICE_FAST);
  EXPECT_STREQ(loaded.warnings, line);
}

TEST(OldOption, ANewNameWinsEvenWithAValueThatIsRefused) {
  Loaded loaded = Load({"HAKMEM_ACE_ENABLED=0", "HAKMEM_LEARN=never"});
  EXPECT_TRUE(IsDefault(loaded.option));
  EXPECT_STREQ(
      loaded.warnings,
      "hakmem: warning: HAKMEM_LEARN=never is not accepted: expected on, off or frozen; keeping the default on "
      "(see: hakmem help options)\n"
      "hakmem: warning: HAKMEM_ACE_ENABLED=0 is not used: its name now is HAKMEM_LEARN, which is set "
      "(see: hakmem help options)\n");
}

TEST(OldOption, AnOldNamesValueIsCheckedAsStrictly) {
  Loaded loaded = Load({"HAKMEM_ACE_ENABLED=frozen"});
  EXPECT_TRUE(IsDefault(loaded.option));
  EXPECT_STREQ(loaded.warnings,
               "hakmem: warning: HAKMEM_ACE_ENABLED=frozen is not accepted: expected 0, 1, off, on, no, yes, false or "
               "true; its name now is HAKMEM_LEARN (see: hakmem help options)\n");
  for (const char *value : {"", "2", "00", "1 ", " on", "lean"}) {
    for (const char *name : {"HAKMEM_ACE_ENABLED=", "HAKMEM_TINY_MEM_DIET=", "HAKMEM_TINY_COUNTERS_DUMP="}) {
      std::string variable = std::string(name) + value;
      loaded = Load({variable.c_str()});
      EXPECT_TRUE(IsDefault(loaded.option)) << variable;
      EXPECT_NE(strstr(loaded.warnings, " is not accepted: "), nullptr) << variable;
      EXPECT_EQ(loaded.writes, 1u) << variable;
    }
  }
}

TEST(OldOption, ABadValueOfAnOldNameLeavesTheNewOneAlone) {
  Loaded loaded = Load({"HAKMEM_MODE=2000", "HAKMEM_TINY_MEM_DIET=lean"});
  EXPECT_EQ(loaded.option.mode, 2000u);
  EXPECT_STREQ(loaded.warnings,
               "hakmem: warning: HAKMEM_TINY_MEM_DIET=lean is not accepted: expected 0, 1, off, on, no, yes, false or "
               "true; its name now is HAKMEM_MODE (see: hakmem help options)\n");
}

TEST(OldOption, TheFirstOfTwoCounts) {
  Loaded loaded =
      Load({"HAKMEM_TINY_MEM_DIET=1", "HAKMEM_TINY_TRIM_SS=1", "HAKMEM_TINY_MEM_DIET=0", "HAKMEM_TINY_TRIM_SS=0"});
  EXPECT_EQ(loaded.option.mode, HK_PRICE_LEAN);
  EXPECT_EQ(loaded.writes, 2u);
}

TEST(OldOption, WhatOnlyLooksLikeOneIsNoOption) {
  Loaded loaded = Load({"HAKMEM_ACE=1", "HAKMEM_ACE_ENABLEDX=1", "HAKMEM_ace_enabled=1", "HAKMEM_ACE_ENABLED"});
  EXPECT_TRUE(IsDefault(loaded.option));
  EXPECT_STREQ(loaded.warnings,
               "hakmem: warning: HAKMEM_ACE is no option (see: hakmem help options)\n"
               "hakmem: warning: HAKMEM_ACE_ENABLEDX is no option (see: hakmem help options)\n"
               "hakmem: warning: HAKMEM_ace_enabled is no option (see: hakmem help options)\n");
}

TEST(OldOption, ALongValueIsCut) {
  std::string value(100, '1');
  EXPECT_EQ(std::string(Load({("HAKMEM_ACE_ENABLED=" + value).c_str()}).warnings),
            "hakmem: warning: HAKMEM_ACE_ENABLED=" + value.substr(0, 64) +
                "... is not accepted: expected 0, 1, off, on, no, yes, false or true; its name now is HAKMEM_LEARN "
                "(see: hakmem help options)\n");
}

TEST(OldOption, ASecureProgramIgnoresThem) {
  Loaded loaded = Load({"HAKMEM_ACE_ENABLED=0", "HAKMEM_TINY_TRIM_SS=1"}, true);
  EXPECT_TRUE(IsDefault(loaded.option));
  EXPECT_STREQ(loaded.warnings, "");
}

}  // namespace
