// report/long_text: a text that grows, up to what the system has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "fake_os.h"

extern "C" {
#include "report/long_text.h"
}

namespace {

class LongText : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_os_reset();
    mapped_ = fake_os_mapped_bytes();
  }
  void TearDown() override { EXPECT_EQ(fake_os_mapped_bytes(), mapped_); }

  // How long a text becomes, and that nothing of it is lost; 0: it does not begin.
  size_t Length(size_t least_bytes) const {
    hk_format_t text;
    if (!hk_long_text_begin(&text, least_bytes)) return 0;
    EXPECT_EQ(fake_os_mapped_bytes() - mapped_, least_bytes);
    for (size_t i = 0; i < 100000; i++) hk_format_text(&text, kDigits + i % 10);
    while (hk_format_has_room(&text, text.capacity - text.length)) continue;
    EXPECT_EQ(fake_os_mapped_bytes() - mapped_, text.capacity);
    EXPECT_EQ(text.left_out, 0u);
    ExpectDigits(text);
    hk_long_text_end(&text);
    return text.capacity;
  }

  static void ExpectDigits(const hk_format_t &text) {
    size_t at = 0;
    for (size_t i = 0; at < text.length; i++) {
      size_t bytes = std::min(strlen(kDigits) - i % 10, text.length - at);
      ASSERT_EQ(memcmp(text.text + at, kDigits + i % 10, bytes), 0) << at;
      at += bytes;
    }
    EXPECT_EQ(text.text[text.length], '\0');
  }

  static constexpr char kDigits[] = "0123456789";
  size_t mapped_ = 0;
};

TEST_F(LongText, GrowsToAllItsRoom) {
  EXPECT_EQ(Length(HK_MIB), HK_LONG_TEXT_BYTES);
  EXPECT_EQ(Length(256 * HK_KIB), HK_LONG_TEXT_BYTES);
}

TEST_F(LongText, MovesWhereItCannotGrow) {
  fake_os_fail_all(fake_os_resize, true);
  EXPECT_EQ(Length(256 * HK_KIB), HK_LONG_TEXT_BYTES);
}

TEST_F(LongText, WhatDoesNotFitIsCutAndSaysSo) {
  fake_os_limit_mapped(mapped_ + 256 * HK_KIB);
  hk_format_t text;
  ASSERT_TRUE(hk_long_text_begin(&text, 256 * HK_KIB));
  while (text.length + 1 < text.capacity) hk_format_text(&text, "x");
  EXPECT_EQ(text.left_out, 0u);
  hk_format_text(&text, "y");
  EXPECT_GT(text.left_out, 0u);
  EXPECT_EQ(text.text[text.length - 1], 'x');
  hk_long_text_end(&text);
}

// Under locked memory all that is mapped is resident.
TEST_F(LongText, BeginsSmallAndEmpty) {
  hk_format_t text;
  ASSERT_TRUE(hk_long_text_begin(&text, 256 * HK_KIB));
  EXPECT_EQ(fake_os_mapped_bytes() - mapped_, 256 * HK_KIB);
  EXPECT_STREQ(text.text, "");
  hk_format_print(&text, "%u", uint64_t{7});
  EXPECT_STREQ(text.text, "7");
  EXPECT_EQ(text.left_out, 0u);
  hk_long_text_end(&text);
}

TEST_F(LongText, MakesRoomAheadOfWhatIsWritten) {
  hk_format_t text;
  ASSERT_TRUE(hk_long_text_begin(&text, 256 * HK_KIB));
  hk_format_text(&text, "kept");
  EXPECT_TRUE(hk_format_has_room(&text, 3 * HK_MIB));
  EXPECT_GT(text.capacity, 3 * HK_MIB);
  EXPECT_STREQ(text.text, "kept");
  EXPECT_FALSE(hk_format_has_room(&text, HK_LONG_TEXT_BYTES));
  EXPECT_EQ(text.left_out, 0u);
  hk_long_text_end(&text);
}

TEST_F(LongText, TakesWhatTheSystemHas) {
  fake_os_limit_mapped(mapped_ + 5 * HK_MIB);
  EXPECT_GE(Length(HK_MIB), 3 * HK_MIB) << "where it moves, both are there for a moment";
  EXPECT_GE(Length(4 * HK_MIB), 4 * HK_MIB);
  EXPECT_EQ(Length(8 * HK_MIB), 0u);
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(Length(256 * HK_KIB), 0u);
}

}  // namespace
