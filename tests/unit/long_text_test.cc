// api/long_text: as much room as there is, and at least what is asked for.
#include <gtest/gtest.h>

#include "fake_os.h"

extern "C" {
#include "api/long_text.h"
}

namespace {

class LongText : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_os_reset();
    mapped_ = fake_os_mapped_bytes();
  }
  void TearDown() override { EXPECT_EQ(fake_os_mapped_bytes(), mapped_); }

  // What there is room for; 0: none.
  size_t Room(size_t least_bytes) const {
    hk_format_t text;
    if (!hk_long_text_begin(&text, least_bytes)) return 0;
    EXPECT_EQ(fake_os_mapped_bytes() - mapped_, text.capacity);
    text.text[text.capacity - 1] = 'x';
    hk_long_text_end(&text);
    return text.capacity;
  }

  size_t mapped_ = 0;
};

TEST_F(LongText, HasAllItsRoom) { EXPECT_EQ(Room(HK_MIB), HK_LONG_TEXT_BYTES); }

TEST_F(LongText, BeginsEmpty) {
  hk_format_t text;
  ASSERT_TRUE(hk_long_text_begin(&text, HK_MIB));
  EXPECT_STREQ(text.text, "");
  hk_format_print(&text, "%u", uint64_t{7});
  EXPECT_STREQ(text.text, "7");
  hk_long_text_end(&text);
}

TEST_F(LongText, TakesWhatTheSystemHas) {
  fake_os_limit_mapped(mapped_ + 5 * HK_MIB);
  EXPECT_EQ(Room(HK_MIB), 4 * HK_MIB);
  EXPECT_EQ(Room(4 * HK_MIB), 4 * HK_MIB);
  EXPECT_EQ(Room(8 * HK_MIB), 0u);
  fake_os_fail_all(fake_os_reserve, true);
  EXPECT_EQ(Room(256 * HK_KIB), 0u);
}

}  // namespace
