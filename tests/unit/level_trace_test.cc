// policy/level_trace: the recording against docs/learning.md's description of the format; merging; chunks without
// room.
#include "policy/level_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "level_trace_reader.h"
#include "scale.h"
#include "test_random.h"

using namespace hk_test;

namespace {

using Points = std::vector<LevelPoint>;

class LevelTrace : public testing::Test {
 protected:
  LevelTrace() { Begin(0); }

  void Begin(uint64_t now_ms) { hk_level_trace_begin(&trace_, now_ms); }

  // A chunk that is full goes to the file, as long as there is a writer.
  void Note(uint64_t now_ms, uint64_t units) {
    hk_level_trace_note(&trace_, &chunk_, now_ms, units * HK_LEVEL_TRACE_UNIT_BYTES);
    if (has_writer_ && hk_level_chunk_is_full(&chunk_, now_ms)) Write();
  }

  void Write() {
    unsigned char head[HK_LEVEL_TRACE_HEAD_BYTES];
    hk_level_chunk_head(&chunk_, head);
    file_.append(reinterpret_cast<char *>(head), sizeof head);
    file_.append(reinterpret_cast<char *>(chunk_.payload), chunk_.bytes);
    chunk_.bytes = chunk_.point_count = 0;
  }

  LevelFile File() const {
    unsigned char header[HK_LEVEL_TRACE_HEADER_BYTES];
    hk_level_trace_header(header, 250000);
    return LevelReader::Read(std::string(reinterpret_cast<char *>(header), sizeof header) + file_);
  }

  Points End(uint64_t now_ms) {
    if (chunk_.point_count > 0) Write();
    hk_level_trace_end(&trace_, &chunk_, now_ms);
    Write();
    return File().points;
  }

  hk_level_trace_t trace_ = {};
  hk_level_chunk_t chunk_ = {};
  std::string file_;
  bool has_writer_ = true;
};

TEST_F(LevelTrace, TheReaderKnowsTheChecksum) { EXPECT_EQ(LevelReader::Checksum("123456789"), 0xcbf43926u); }

TEST_F(LevelTrace, TheHeaderHasThePrice) {
  EXPECT_EQ(File().price, 250000u);
  EXPECT_EQ(File().points, Points{});
}

TEST_F(LevelTrace, TimeCountsFromTheBeginning) {
  Begin(5000);
  Note(5000, 3);
  Note(5010, 300);
  Note(5020, 0);
  EXPECT_EQ(End(5100), (Points{{0, 3}, {10, 300}, {20, 0}, {100, 0}}));
}

TEST_F(LevelTrace, WhatIsUsedInPartIsAWholeUnit) {
  hk_level_trace_note(&trace_, &chunk_, 1, HK_LEVEL_TRACE_UNIT_BYTES + 1);
  EXPECT_EQ(End(1), (Points{{1, 2}, {1, 2}}));
}

TEST_F(LevelTrace, TheHighestAndTheLastOfAMillisecondAreKept) {
  Note(1, 10);
  for (uint64_t units : {4, 50, 2, 30, 20}) Note(2, units);
  Note(3, 21);
  EXPECT_EQ(End(3), (Points{{1, 10}, {2, 50}, {2, 20}, {3, 21}, {3, 21}}));
}

TEST_F(LevelTrace, WhatChangesNothingIsNoPoint) {
  Note(1, 10);
  for (uint64_t units : {4, 10}) Note(2, units);
  Note(3, 10);
  for (uint64_t units : {8, 6}) Note(4, units);
  EXPECT_EQ(End(5), (Points{{1, 10}, {4, 6}, {5, 6}}));
}

TEST_F(LevelTrace, AClockThatStepsBackStandsStill) {
  Note(10, 1);
  Note(7, 5);
  Note(12, 2);
  EXPECT_EQ(End(3), (Points{{10, 5}, {12, 2}, {12, 2}}));
}

TEST_F(LevelTrace, AChunkIsFullAfterASecond) {
  EXPECT_FALSE(hk_level_chunk_is_full(&chunk_, 100000)) << "nothing is in it";
  Note(100, 1);
  Note(101, 2);
  EXPECT_FALSE(hk_level_chunk_is_full(&chunk_, 1099));
  EXPECT_TRUE(hk_level_chunk_is_full(&chunk_, 1100));
  EXPECT_FALSE(hk_level_chunk_is_full(&chunk_, 0)) << "another thread's older time";
}

TEST_F(LevelTrace, AllNumbersFit) {
  const uint64_t most_units = SIZE_MAX / HK_LEVEL_TRACE_UNIT_BYTES;
  Note(1, most_units);
  Note(UINT64_MAX - 1, 0);
  Note(UINT64_MAX, most_units);
  EXPECT_EQ(End(UINT64_MAX),
            (Points{{1, most_units}, {UINT64_MAX - 1, 0}, {UINT64_MAX, most_units}, {UINT64_MAX, most_units}}));
}

// What level_trace.h promises, for a course of numbers that was kept whole.
Points Expected(const Points &all) {
  Points expected;
  for (size_t i = 0, next; i < all.size(); i = next) {
    uint64_t before = expected.empty() ? 0 : expected.back().units, highest = 0;
    for (next = i; next < all.size() && all[next].ms == all[i].ms; next++) highest = std::max(highest, all[next].units);
    uint64_t last = all[next - 1].units;
    if (highest > std::max(before, last)) expected.push_back({all[i].ms, before = highest});
    if (last != before) expected.push_back({all[i].ms, last});
  }
  return expected;
}

TEST_F(LevelTrace, AnyCourseIsReadAsItWas) {
  TestRandom random(SeedFor("level_trace"));
  Points all;
  uint64_t now_ms = 0;
  for (uint64_t i = Scaled(20000); i > 0; i--) {
    now_ms += random.Below(4) == 0 ? random.Below(300) : 0;
    all.push_back({now_ms, random.Below(1u << random.Below(24))});
    Note(now_ms, all.back().units);
  }
  Points expected = Expected(all);
  expected.push_back({now_ms + 9, all.back().units});
  EXPECT_EQ(End(now_ms + 9), expected);
  EXPECT_GT(File().chunk_count, 2u);
}

TEST_F(LevelTrace, WithoutRoomTheHighestAndTheLastAreStillKept) {
  has_writer_ = false;
  uint64_t now_ms = 1;
  for (; !hk_level_chunk_is_full(&chunk_, 0); now_ms++) Note(now_ms, 100 + now_ms % 2);
  const uint64_t written = chunk_.point_count, full_ms = now_ms;
  for (; now_ms < full_ms + 5000; now_ms++) Note(now_ms, now_ms == full_ms + 700 ? 900 : 40 + now_ms % 3);
  EXPECT_EQ(chunk_.point_count, written) << "a full chunk stays as it is";
  EXPECT_LE(chunk_.bytes, HK_LEVEL_TRACE_PAYLOAD_BYTES);
  Write();
  Note(now_ms, 7);
  Points read = End(now_ms);
  ASSERT_EQ(read.size(), written + 4);
  Points tail(read.end() - 4, read.end());
  EXPECT_EQ(tail, (Points{{full_ms + 700, 900}, {now_ms - 1, 40 + (now_ms - 1) % 3}, {now_ms, 7}, {now_ms, 7}}));
}

}  // namespace
