// report/report: every form is whole, at whatever room there is, and is right about known blocks.
#include <gtest/gtest.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "fake_os.h"
#include "fresh_test.h"
#include "in_child.h"
#include "os/shard.h"
#include "refuse_call.h"
#include "unit/core_parts.h"
#include "unit/heap_driver.h"

extern "C" {
#include "hakmem/hakmem.h"
#include "inspect/leak.h"
#include "report/leak_report.h"
#include "report/report.h"
#include "report/report_form.h"
}

namespace {

using namespace hk_test;

std::string Written(void (*report)(hk_format_t *), size_t bytes = 4 * HK_MIB) {
  std::vector<char> buffer(bytes);
  hk_format_t text;
  hk_format_init(&text, buffer.data(), buffer.size());
  report(&text);
  EXPECT_EQ(strlen(text.text), text.length);
  return text.text;
}

/* ---- As much of a JSON parser as says that a text is one value. */

class JsonReader {
 public:
  explicit JsonReader(const std::string &text) : at_(text.c_str()) {}

  bool IsWhole() {
    bool is_value = Value();
    Space();
    return is_value && *at_ == '\0';
  }

 private:
  void Space() {
    while (std::isspace(static_cast<unsigned char>(*at_))) at_++;
  }
  bool Take(char wanted) {
    Space();
    if (*at_ != wanted) return false;
    at_++;
    return true;
  }
  bool Word(const char *word) {
    if (strncmp(at_, word, strlen(word)) != 0) return false;
    at_ += strlen(word);
    return true;
  }
  bool String() {
    if (!Take('"')) return false;
    for (; *at_ != '"'; at_++) {
      if (static_cast<unsigned char>(*at_) < ' ') return false;
      if (*at_ == '\\' && *++at_ == '\0') return false;
    }
    at_++;
    return true;
  }
  bool Members() {
    if (Take('}')) return true;
    do {
      if (!String() || !Take(':') || !Value()) return false;
    } while (Take(','));
    return Take('}');
  }
  bool Elements() {
    if (Take(']')) return true;
    do {
      if (!Value()) return false;
    } while (Take(','));
    return Take(']');
  }
  bool Value() {
    if (Take('{')) return Members();
    if (Take('[')) return Elements();
    if (*at_ == '"') return String();
    if (Word("true") || Word("false") || Word("null")) return true;
    const char *start = at_;
    while (std::isdigit(static_cast<unsigned char>(*at_))) at_++;
    return at_ > start;
  }

  const char *at_;
};

bool IsJson(const std::string &text) { return JsonReader(text).IsWhole(); }

size_t CountOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) count++;
  return count;
}

std::string InHex(const void *address) {
  char buffer[32];
  hk_format_t text;
  hk_format_init(&text, buffer, sizeof buffer);
  hk_format_hex(&text, reinterpret_cast<uintptr_t>(address));
  return text.text;
}

TEST(Report, TheReaderOfThisTestKnowsJson) {
  EXPECT_TRUE(IsJson("{\"a\": [1, {}, \"b\\\"\", null, true]}\n"));
  for (const char *text : {"", "{", "{\"a\": }", "[1,]", "{} {}", "{\"a\" 1}", "\"\n\"", "[1 2]"}) {
    EXPECT_FALSE(IsJson(text)) << text;
  }
}

/* The list of mappings ends where the room does. The test program itself has several. */
TEST(Report, JsonOfLeaksIsWholeInAnyRoom) {
  hk_leak_t leak = {};
  leak.scan = hk_leak_scanned;
  std::set<size_t> listed;
  std::vector<char> buffer(64 * HK_KIB);
  for (size_t room = 2; room <= buffer.size(); room += 61) { /* at least for the first brace */
    hk_format_t out;
    hk_format_init(&out, buffer.data(), room);
    hk_leak_report_json(&out, &leak);
    if (out.left_out > 0) continue; /* not even the figures fit */
    EXPECT_TRUE(IsJson(out.text)) << out.text;
    listed.insert(CountOf(out.text, "\"start\""));
  }
  EXPECT_EQ(*listed.begin(), 0u);
  EXPECT_GE(listed.size(), 3u) << "no list was cut in its middle";
}

TEST(Report, TextsAreQuoted) {
  auto quoted = [](const char *text) {
    char buffer[64];
    hk_format_t out;
    hk_format_init(&out, buffer, sizeof buffer);
    hk_form_json_quote(&out, text);
    return std::string(out.text);
  };
  EXPECT_EQ(quoted(""), "\"\"");
  EXPECT_EQ(quoted("a b~"), "\"a b~\"");
  EXPECT_EQ(quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(quoted("\n\x7f\xc3"), "\"\\u000a\\u007f\\u00c3\"");
}

TEST(Report, JsonIsWhole) {
  hk_heap_t *heap = hk_heap_take();
  auto blocks = AllocMany(heap, hk_class_of(100), 50);
  std::string text = Written(hk_report_json);
  EXPECT_TRUE(IsJson(text)) << text;
  EXPECT_EQ(CountOf(text, "\"schema\": 2"), 1u);
  EXPECT_EQ(CountOf(text, "\"bytes\": 112, \"band\": \"tiny\", \"spans\": 1, \"slabs\": 1, \"live_blocks\": 50"), 1u)
      << text;
  for (hk_block_t *block : blocks) Free(heap, block);
  hk_heap_give_back(heap);
}

TEST(Report, WithoutMemoryItSaysSo) {
  fake_os_fail_all(fake_os_reserve, true);
  for (auto *report : {hk_report_json, hk_report_text, hk_report_openmetrics, hk_report_prometheus}) {
    EXPECT_EQ(Written(report), "hakmem: no statistics: the system refuses memory for them\n");
  }
  hakmem_stats_t stats = {};
  EXPECT_EQ(hakmem_stats_get(&stats, sizeof stats), ENOMEM);
  EXPECT_EQ(stats.version, 0u);
  fake_os_fail_all(fake_os_reserve, false);
}

TEST(Report, LeavesNothingMapped) {
  (void)Written(hk_report_json);
  size_t before = fake_os_mapped_bytes();
  (void)Written(hk_report_json);
  (void)Written(hk_report_map);
  EXPECT_EQ(fake_os_mapped_bytes(), before);
}

TEST(Report, HeapsThatDoNotFitAreLeftOut) {
  auto heaps = TakeMany(60);
  std::string text = Written(hk_report_json, 16 * HK_KIB);
  EXPECT_TRUE(IsJson(text)) << text;
  size_t told = CountOf(text, "\"state\": \"attached\"");
  EXPECT_GT(told, 0u);
  EXPECT_LT(told, 60u);
  for (hk_heap_t *heap : heaps) hk_heap_give_back(heap);
}

TEST(Report, HeapsThatAreNoMetricOfTheirOwnAreSummedUp) {
  std::string before = Written(hk_report_openmetrics);
  auto heaps = TakeMany(200);
  std::vector<Blocks> blocks;
  for (hk_heap_t *heap : heaps) blocks.push_back(AllocMany(heap, hk_class_of(100), 3));
  std::string text = Written(hk_report_openmetrics);
  size_t total = hk_heap_total();
  ASSERT_GE(total, 200u);
  EXPECT_EQ(CountOf(text, "\nhakmem_heap_live_blocks{heap=\"64\"} 3\n"), 1u);
  EXPECT_EQ(CountOf(text, "{heap=\"65\"}"), 0u);
  EXPECT_EQ(CountOf(text, "\nhakmem_heap_live_blocks{heap=\"others\"} " + std::to_string(3 * (200 - 64)) + "\n"), 1u);
  EXPECT_EQ(CountOf(text, "hakmem_heap_number"), 0u);
  EXPECT_EQ(CountOf(text, "hakmem_heap_requested"), 0u) << "there is no profile";
  std::string lines = Written(hk_report_text);
  EXPECT_EQ(CountOf(lines, "\n  and " + std::to_string(total - 16) + " more with less in use\n"), 1u) << lines;
  for (size_t i = 0; i < heaps.size(); i++) {
    for (hk_block_t *block : blocks[i]) Free(heaps[i], block);
    hk_heap_give_back(heaps[i]);
  }
}

TEST(Report, TheTextHasTheHeapsWithMostInUse) {
  auto heaps = TakeMany(40);
  std::vector<Blocks> blocks;
  for (size_t i = 0; i < heaps.size(); i++) blocks.push_back(AllocMany(heaps[i], hk_class_of(48), i * 7 % 40 + 1));
  std::string text = Written(hk_report_text);
  std::string table = text.substr(text.find("hakmem: heaps\n"));
  size_t at = table.find('\n', table.find('\n') + 1);
  for (unsigned want = 40; want > 40 - 16; want--) {
    std::istringstream line(table.substr(at + 1));
    std::string number, state;
    unsigned live = 0;
    line >> number >> state >> live;
    EXPECT_EQ(live, want) << table;
    at = table.find('\n', at + 1);
  }
  for (size_t i = 0; i < heaps.size(); i++) {
    for (hk_block_t *block : blocks[i]) Free(heaps[i], block);
    hk_heap_give_back(heaps[i]);
  }
}

/* Where the system does not copy memory for us, descriptors are read plainly, and blocks of unknown contents not at
 * all. */
TEST(Report, WhereMemoryMayNotBeCopied) {
  constexpr int kNoFilters = 77;
  hk_heap_t *heap = hk_heap_take();
  auto tiny = AllocMany(heap, hk_class_of(160), 10), mid = AllocMany(heap, hk_class_of(4096), 10);
  int result = InChild([] {
    if (!Refuse(SYS_process_vm_readv, EPERM)) return kNoFilters;
    std::string text = Written(hk_report_json);
    HK_CHILD_CHECK(IsJson(text));
    HK_CHILD_CHECK(CountOf(text, "\"spans_estimated\": 0,") == 0);
    /* All 25 carved blocks of the tiny class. */
    HK_CHILD_CHECK(
        CountOf(text, "\"bytes\": 160, \"band\": \"tiny\", \"spans\": 1, \"slabs\": 1, \"live_blocks\": 25") == 1);
    HK_CHILD_CHECK(
        CountOf(text, "\"bytes\": 4096, \"band\": \"mid\", \"spans\": 1, \"slabs\": 1, \"live_blocks\": 10") == 1);
    return 0;
  });
  for (hk_block_t *block : tiny) Free(heap, block);
  for (hk_block_t *block : mid) Free(heap, block);
  hk_heap_give_back(heap);
  if (result == kNoFilters) GTEST_SKIP() << "no system call filters here";
  EXPECT_EQ(result, 0);
}

/* ---- The map. */

TEST(Map, ShowsWhereBlocksLie) {
  hk_heap_t *heap = hk_heap_take();
  auto blocks = AllocMany(heap, hk_class_of(32 * HK_KIB), 2);
  bool is_zero;
  char *run = static_cast<char *>(hk_run_alloc(3 * HK_SLAB_BYTES, 1, &is_zero));
  char *big = static_cast<char *>(hk_large_alloc(3 * HK_MIB, 1, &is_zero));
  memset(run, 1, HK_SLAB_BYTES);
  memset(big, 1, HK_MIB);
  std::string text = Written(hk_report_map);
  ASSERT_TRUE(IsJson(text)) << text;
  EXPECT_EQ(CountOf(text, "\"" + InHex(reinterpret_cast<void *>(hk_slab_of(run)->superslab->start)) + "\""), 1u);
  EXPECT_EQ(CountOf(text, "\"state\": \"span\", \"resident\": 8192, \"class_bytes\": 32768, \"live_permille\": 250"),
            1u)
      << "the first slab, of whose two blocks the first words are written";
  EXPECT_EQ(CountOf(text, "\"class_bytes\": 32768, \"live_permille\": 250"), 4u) << "all slabs of the span";
  EXPECT_EQ(CountOf(text, "\"state\": \"run\", \"resident\": 65536, \"class_bytes\": 196608"), 1u);
  EXPECT_EQ(CountOf(text, "\"state\": \"run\", \"resident\": 0, \"class_bytes\": 196608"), 2u);
  std::string of_big =
      "{\"address\": \"" + InHex(big) + "\", \"state\": \"live\", \"bytes\": 3145728, \"resident\": 1048576}";
  EXPECT_EQ(CountOf(text, of_big), 1u) << text;
  EXPECT_EQ(CountOf(text, "\"left_out\": 0"), 1u);

  ASSERT_TRUE(hk_large_free(hk_slab_of(big), big));
  ASSERT_TRUE(hk_run_free(hk_slab_of(run)));
  text = Written(hk_report_map);
  EXPECT_EQ(CountOf(text, of_big), 0u);
  EXPECT_EQ(CountOf(text, "\"state\": \"free\", \"bytes\": "), 1u) << text;
  EXPECT_EQ(CountOf(text, "\"state\": \"run\""), 0u);
  EXPECT_EQ(CountOf(text, "\"state\": \"idle\", \"resident\": 65536"), 1u) << text;
  for (hk_block_t *block : blocks) Free(heap, block);
  hk_heap_give_back(heap);
}

TEST(Map, WhatDoesNotFitIsCounted) {
  hk_slab_t *slabs[20];
  for (hk_slab_t *&slab : slabs) slab = hk_superslab_acquire(HK_SUPERSLAB_SLABS, HK_SUPERSLAB_SLABS, hk_from_bottom);
  std::string text = Written(hk_report_map, 16 * HK_KIB);
  EXPECT_TRUE(IsJson(text)) << text;
  EXPECT_GT(CountOf(text, "\"address\""), 0u);
  EXPECT_LT(CountOf(text, "\"address\""), 20u);
  EXPECT_EQ(CountOf(text, "\"left_out\": 0"), 0u);
  for (hk_slab_t *slab : slabs) hk_superslab_release(slab, HK_SUPERSLAB_SLABS);
}

HK_FRESH_TEST(MapOfShards, TellsASuperslabsNodeAndNotItsShard) {
  hk_shard_set_each(4); /* of the only node */
  fake_os_move_to_cpu(3);
  unsigned shard = 0;
  for (int i = 0; i < 10 && shard != 3; i++) /* the first may be of another shard, which had it free */
    shard = hk_superslab_acquire(HK_SUPERSLAB_SLABS, 1, hk_from_bottom)->superslab->shard;
  ASSERT_EQ(shard, 3u);
  std::string text = Written(hk_report_map);
  EXPECT_GE(CountOf(text, "\"node\": 0,"), 1u) << text;
  EXPECT_EQ(CountOf(text, "\"node\": 3,"), 0u);
}

}  // namespace
