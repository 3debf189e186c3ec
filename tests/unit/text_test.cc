// base/text: words and numbers at the beginning of a text.
#include "base/text.h"

#include <gtest/gtest.h>

#include <string>

namespace {

using Reader = const char *(const char *, uint64_t *);

// "number|rest", or "none".
std::string Read(Reader *reader, const char *text) {
  uint64_t number = 77;
  const char *rest = reader(text, &number);
  if (rest != nullptr) return std::to_string(number) + "|" + rest;
  EXPECT_EQ(number, 77u) << text;
  return "none";
}

TEST(Text, AfterAPrefixComesTheRest) {
  EXPECT_STREQ(hk_text_after("word and", "word"), " and");
  EXPECT_STREQ(hk_text_after("word", "word"), "");
  EXPECT_STREQ(hk_text_after("word", ""), "word");
  EXPECT_EQ(hk_text_after("wor", "word"), nullptr);
  EXPECT_EQ(hk_text_after("", "word"), nullptr);
}

TEST(Text, EndsWithItsLastCharacters) {
  EXPECT_TRUE(hk_text_ends("a.om", ".om"));
  EXPECT_TRUE(hk_text_ends(".om", ".om"));
  EXPECT_TRUE(hk_text_ends("a", ""));
  for (const char *text : {"om", "", "a.om.json", "a.xm"}) EXPECT_FALSE(hk_text_ends(text, ".om")) << text;
}

TEST(Text, AListNamesAWordBetweenCommas) {
  for (const char *text : {"cpu,memory:/", "memory,cpu", "memory", "memory rw", "cpu,memory"}) {
    EXPECT_TRUE(hk_text_lists(text, "memory")) << text;
  }
  for (const char *text : {"", "memory_2,cpu", "cpu:memory", "cpu memory", "my,mem"}) {
    EXPECT_FALSE(hk_text_lists(text, "memory")) << text;
  }
}

TEST(Text, AByteOfNoCharacterIsCodedAsJsonHasIt) {
  char coded[HK_TEXT_ESCAPE_BYTES];
  auto code = [&coded](unsigned char byte) {
    hk_text_escape(coded, byte);
    return std::string(coded);
  };
  EXPECT_EQ(code(0x00), "\\u0000");
  EXPECT_EQ(code(0x7f), "\\u007f");
  EXPECT_EQ(code(0x80), "\\udc80");
  EXPECT_EQ(code(0xff), "\\udcff");
}

TEST(Text, ANumberIsReadUpToItsLastDigit) {
  EXPECT_EQ(Read(hk_text_number, "0"), "0|");
  EXPECT_EQ(Read(hk_text_number, "0012.5"), "12|.5");
  EXPECT_EQ(Read(hk_text_number, "18446744073709551614 kB"), "18446744073709551614| kB");
  for (const char *text : {"18446744073709551615", "18446744073709551616", "184467440737095516150000"}) {
    EXPECT_EQ(Read(hk_text_number, text), "18446744073709551615|") << text;
  }
  for (const char *text : {"", " 1", "-1", "x", "/", ":"}) EXPECT_EQ(Read(hk_text_number, text), "none") << text;
}

TEST(Text, AHexadecimalNumberIsReadUpToItsLastDigit) {
  EXPECT_EQ(Read(hk_text_hex, "7fFe-8"), "32766|-8");
  EXPECT_EQ(Read(hk_text_hex, "ffffffffffffffff"), "18446744073709551615|");
  EXPECT_EQ(Read(hk_text_hex, "1000000000000000a"), "10|");
  EXPECT_EQ(Read(hk_text_hex, "0x1"), "0|x1");
  for (const char *text : {"", "g", "G", "@", "`", " 1", "/", ":", "-"}) {
    EXPECT_EQ(Read(hk_text_hex, text), "none") << text;
  }
}

}  // namespace
