// base/format: exact text, and never a byte beyond the buffer.
#include "base/format.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace {

// A buffer of `capacity` characters with a fence behind it.
class Text {
 public:
  explicit Text(size_t capacity = 200) {
    memset(buffer_, '#', sizeof(buffer_));
    hk_format_init(&format, buffer_, capacity);
  }
  std::string str() const { return std::string(buffer_); }
  char at(size_t index) const { return buffer_[index]; }

  hk_format_t format;

 private:
  char buffer_[256];
};

std::string Bytes(uint64_t bytes) {
  Text text;
  hk_format_bytes(&text.format, bytes);
  return text.str();
}

std::string Name(const char *name) {
  Text text;
  hk_format_name(&text.format, name);
  return text.str();
}

TEST(Format, NamesAreOnePrintableLine) {
  EXPECT_EQ(Name("plain \"name\""), "plain \"name\"");
  EXPECT_EQ(Name("caf\u00e9 \u20ac \U0001f600"), "caf\u00e9 \u20ac \U0001f600");
  EXPECT_EQ(Name("a\\b"), "a\\\\b");
  EXPECT_EQ(Name("\n\t\x1b[31m\x7f"), "\\x0a\\x09\\x1b[31m\\x7f");
  EXPECT_EQ(Name("\xff\xfe\x80"), "\\xff\\xfe\\x80");
  EXPECT_EQ(Name("\xc2\x9b"), "\\xc2\\x9b") << "a control character";
  EXPECT_EQ(Name("\xc0\x80"), "\\xc0\\x80") << "too long";
  EXPECT_EQ(Name("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(Name("\xe2\x80\xa8"), "\\xe2\\x80\\xa8") << "ends a line";
  EXPECT_EQ(Name("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above the last";
  EXPECT_EQ(Name("x\xe2\x82"), "x\\xe2\\x82") << "cut";
}

std::string Decimal(uint64_t value) {
  Text text;
  hk_format_decimal(&text.format, value);
  return text.str();
}

std::string Count(uint64_t count) {
  Text text;
  hk_format_count(&text.format, count, "block");
  return text.str();
}

std::string Hex(uint64_t value) {
  Text text;
  hk_format_hex(&text.format, value);
  return text.str();
}

TEST(Format, ANounHasAPluralWhereItIsNotOne) {
  EXPECT_EQ(Count(0), "0 blocks");
  EXPECT_EQ(Count(1), "1 block");
  EXPECT_EQ(Count(2), "2 blocks");
}

TEST(Format, StartsEmpty) {
  Text text;
  EXPECT_EQ(text.str(), "");
  EXPECT_EQ(text.format.length, 0u);
}

TEST(Format, TextIsAppended) {
  Text text;
  hk_format_text(&text.format, "one");
  hk_format_text(&text.format, "");
  hk_format_text(&text.format, " two");
  EXPECT_EQ(text.str(), "one two");
  EXPECT_EQ(text.format.length, 7u);
}

TEST(Format, CutsOffWhatDoesNotFit) {
  Text text(5);
  hk_format_text(&text.format, "abcdefgh");
  EXPECT_EQ(text.str(), "abcd");
  EXPECT_EQ(text.format.length, 4u);
  EXPECT_EQ(text.at(5), '#');
  hk_format_decimal(&text.format, 7);
  hk_format_hex(&text.format, 7);
  hk_format_bytes(&text.format, 7);
  hk_format_count(&text.format, 7, "x");
  hk_format_pad(&text.format, 100);
  hk_format_print(&text.format, "%s%u", "x", uint64_t{1});
  EXPECT_EQ(text.str(), "abcd");
  EXPECT_EQ(text.at(5), '#');
}

TEST(Format, FillsTheBufferToItsLastByte) {
  Text text(5);
  hk_format_text(&text.format, "abcd");
  EXPECT_EQ(text.str(), "abcd");
  EXPECT_EQ(text.at(4), '\0');
  EXPECT_EQ(text.at(5), '#');
}

TEST(Format, CapacityOneHoldsTheEmptyText) {
  Text text(1);
  hk_format_text(&text.format, "a");
  EXPECT_EQ(text.str(), "");
  EXPECT_EQ(text.format.length, 0u);
  EXPECT_EQ(text.at(1), '#');
}

TEST(Format, Decimal) {
  EXPECT_EQ(Decimal(0), "0");
  EXPECT_EQ(Decimal(9), "9");
  EXPECT_EQ(Decimal(10), "10");
  EXPECT_EQ(Decimal(1000), "1000");
  EXPECT_EQ(Decimal(UINT64_MAX), "18446744073709551615");
}

TEST(Format, Hex) {
  EXPECT_EQ(Hex(0), "0x0");
  EXPECT_EQ(Hex(0x1f), "0x1f");
  EXPECT_EQ(Hex(0x7f0123456789abcd), "0x7f0123456789abcd");
  EXPECT_EQ(Hex(UINT64_MAX), "0xffffffffffffffff");
}

TEST(Format, BytesBelowOneKibAreExact) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(1), "1 B");
  EXPECT_EQ(Bytes(1023), "1023 B");
}

TEST(Format, BytesAreRoundedDown) {
  EXPECT_EQ(Bytes(1024), "1.0 KiB");
  EXPECT_EQ(Bytes(1024 + 102), "1.0 KiB");
  EXPECT_EQ(Bytes(1024 + 103), "1.1 KiB");
  EXPECT_EQ(Bytes(2047), "1.9 KiB");
  EXPECT_EQ(Bytes(uint64_t{1024} * 1024 - 1), "1023.9 KiB");
  EXPECT_EQ(Bytes(uint64_t{1024} * 1024), "1.0 MiB");
  EXPECT_EQ(Bytes(12900000), "12.3 MiB");
  EXPECT_EQ(Bytes(uint64_t{1} << 30), "1.0 GiB");
  EXPECT_EQ(Bytes((uint64_t{1} << 40) - 1), "1023.9 GiB");
  EXPECT_EQ(Bytes(uint64_t{1} << 40), "1.0 TiB");
}

TEST(Format, BytesStopAtTib) {
  EXPECT_EQ(Bytes(uint64_t{1} << 50), "1024.0 TiB");
  EXPECT_EQ(Bytes(UINT64_MAX), "16777215.9 TiB");
}

TEST(Format, PadsTheLineThatWasBegunLast) {
  Text text;
  hk_format_pad(&text.format, 2);
  EXPECT_EQ(text.str(), "  ");
  hk_format_text(&text.format, "a\nbc");
  hk_format_pad(&text.format, 5);
  hk_format_text(&text.format, "d");
  EXPECT_EQ(text.str(), "  a\nbc   d");
}

TEST(Format, PadLeavesALongerLineAlone) {
  Text text;
  hk_format_text(&text.format, "abc");
  hk_format_pad(&text.format, 3);
  hk_format_pad(&text.format, 0);
  EXPECT_EQ(text.str(), "abc");
  hk_format_text(&text.format, "\n");
  hk_format_pad(&text.format, 0);
  EXPECT_EQ(text.str(), "abc\n");
}

TEST(Format, PadEndsWithTheBuffer) {
  Text text(4);
  hk_format_pad(&text.format, SIZE_MAX);
  EXPECT_EQ(text.str(), "   ");
  EXPECT_EQ(text.at(4), '#');
}

TEST(Format, PrintKnowsItsTypes) {
  Text text;
  hk_format_print(&text.format, "[%s] %u %p %b %n %n 100%%", "text", uint64_t{42}, uintptr_t{0xff}, uint64_t{2048},
                  uint64_t{1}, uint64_t{2048});
  EXPECT_EQ(text.str(), "[text] 42 0xff 2.0 KiB 1 byte 2048 bytes 100%");
}

TEST(Format, PrintTakesManyArgumentsInOrder) {
  Text text;
  hk_format_print(&text.format, "%u%u%u%u%u%u%u%u%s", uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{4}, uint64_t{5},
                  uint64_t{6}, uint64_t{7}, UINT64_MAX, "");
  EXPECT_EQ(text.str(), "123456718446744073709551615");
}

TEST(Format, PrintOfOddPatterns) {
  Text text;
  hk_format_print(&text.format, "");
  EXPECT_EQ(text.str(), "");
  hk_format_print(&text.format, "%");
  EXPECT_EQ(text.str(), "%");
  hk_format_print(&text.format, "%d");
  EXPECT_EQ(text.str(), "%d");
}

}  // namespace
