// policy/stat: one list, expanded everywhere, and sums.
#include "policy/stat.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

TEST(Stat, EveryCounterHasItsText) {
  std::set<std::string> names;
  for (const hk_stat_text_t &text : hk_stat_text) {
    ASSERT_NE(text.name, nullptr);
    names.insert(text.name);
    EXPECT_TRUE(!strcmp(text.unit, "count") || !strcmp(text.unit, "bytes")) << text.name;
    EXPECT_EQ(text.help[strlen(text.help) - 1], '.') << text.name;
  }
  EXPECT_EQ(names.size(), size_t{hk_stat_count});
}

TEST(Stat, TextsStandAtTheirIds) {
#define HK_STAT(id, unit_token, help_text) EXPECT_STREQ(hk_stat_text[hk_stat_##id].name, #id);
#include "policy/stat.def"
#define HK_STAT(id, unit_token, help_text) EXPECT_STREQ(hk_stat_text[hk_stat_##id].help, help_text);
#include "policy/stat.def"
}

TEST(Stat, ProcessCountersStartAtZeroAndAdd) {
  hk_stat_id_t last = static_cast<hk_stat_id_t>(hk_stat_count - 1);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[last]), 0u);
  hk_stat_add(last, 3);
  hk_stat_add(last, 4);
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[last]), 7u);
}

TEST(Stat, BumpWritesOneCounterOfOneSet) {
  hk_stat_set_t set = {};
  hk_stat_bump(&set, hk_stat_carve, 5);
  hk_stat_bump(&set, hk_stat_carve, 1);
  for (unsigned id = 0; id < hk_stat_count; id++) {
    EXPECT_EQ(hk_load_relaxed(&set.value[id]), id == hk_stat_carve ? 6u : 0u) << id;
  }
}

TEST(Stat, SumAddsToWhatIsThere) {
  hk_stat_set_t set = {};
  uint64_t sums[hk_stat_count];
  for (unsigned id = 0; id < hk_stat_count; id++) {
    hk_store_relaxed(&set.value[id], uint64_t{id} * 10);
    sums[id] = 1;
  }
  hk_stat_sum(sums, &set);
  hk_stat_sum(sums, &set);
  for (unsigned id = 0; id < hk_stat_count; id++) EXPECT_EQ(sums[id], 1 + uint64_t{id} * 20) << id;
}

TEST(Stat, SumsWrapInsteadOfSaturating) {
  hk_stat_set_t set = {};
  hk_store_relaxed(&set.value[0], UINT64_MAX);
  uint64_t sums[hk_stat_count] = {2};
  hk_stat_sum(sums, &set);
  EXPECT_EQ(sums[0], 1u);
}

TEST(Stat, ThreadsAddWithoutLoss) {
  uint64_t before = hk_load_relaxed(&hk_stat_process.value[0]);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([] {
      for (int n = 0; n < 10000; n++) hk_stat_add(static_cast<hk_stat_id_t>(0), 1);
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(hk_load_relaxed(&hk_stat_process.value[0]) - before, 40000u);
}

}  // namespace
