// profile/unwind_table, call_frame, place: what tables say, and damaged ones.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "in_child.h"
#include "unwind/call_frame.h"
#include "unwind/memory_reader.h"
#include "unwind/place.h"
#include "unwind/unwind_table.h"

namespace {

using Bytes = std::vector<unsigned char>;

#if defined(__x86_64__)
constexpr unsigned kSp = 7, kFp = 6, kRa = 16;
#else
constexpr unsigned kSp = 31, kFp = 29, kRa = 30;
#endif
constexpr uintptr_t kFunction = 0x10000;
constexpr uintptr_t kFunctionBytes = 0x100;

void Append(Bytes *bytes, uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; i++) bytes->push_back(static_cast<unsigned char>(value >> (8 * i)));
}

void AppendEntry(Bytes *bytes, Bytes body) {
  while (body.size() % 8 != 4) body.push_back(0);
  Append(bytes, body.size(), 4);
  bytes->insert(bytes->end(), body.begin(), body.end());
}

// An index with one function, the common entry and the function's own, all in one piece of memory.
class Table {
 public:
  explicit Table(const Bytes &function, const Bytes &common = {0x0c, kSp, 8, 0x80 | kRa, 1}) {
    constexpr size_t kIndexBytes = 24;
    Bytes common_body, function_body;
    Append(&common_body, 0, 4);
    const Bytes head_of_common = {1, 'z', 'R', 0, 1, 0x78, kRa, 1, 0x04};
    common_body.insert(common_body.end(), head_of_common.begin(), head_of_common.end());
    common_body.insert(common_body.end(), common.begin(), common.end());
    bytes_.resize(kIndexBytes);
    AppendEntry(&bytes_, common_body);
    size_t entry = bytes_.size();
    Append(&function_body, entry + 4 - kIndexBytes, 4);
    Append(&function_body, kFunction, 8);
    Append(&function_body, kFunctionBytes, 8);
    function_body.push_back(0);
    function_body.insert(function_body.end(), function.begin(), function.end());
    AppendEntry(&bytes_, function_body);
    Bytes head = {1, 0x1b, 0x03, 0x3b};
    Append(&head, 0, 4);
    Append(&head, 1, 4);
    memory_ = static_cast<unsigned char *>(
        mmap(reinterpret_cast<void *>(0x20000), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    Append(&head, kFunction - Index(), 4);
    Append(&head, entry, 4);
    memcpy(bytes_.data(), head.data(), head.size());
    memcpy(memory_, bytes_.data(), bytes_.size());
  }
  ~Table() { munmap(memory_, 4096); }
  Table(const Table &) = delete;
  Table &operator=(const Table &) = delete;

  uintptr_t Index() const { return reinterpret_cast<uintptr_t>(memory_); }
  unsigned char *memory() { return memory_; }
  size_t size() const { return bytes_.size(); }

  bool Find(uintptr_t offset, hk_frame_rule_t *rule) const {
    hk_memory_reader_t reader;
    return hk_unwind_table_find(Index(), kFunction + offset, rule, &reader);
  }
  hk_frame_rule_t At(uintptr_t offset) const {
    hk_frame_rule_t rule{};
    EXPECT_TRUE(Find(offset, &rule));
    return rule;
  }

 private:
  Bytes bytes_;
  unsigned char *memory_;
};

// The index reaches 2 GiB: the function has to be near.
class CallFrame : public testing::Test {
 protected:
  void SetUp() override {
    void *low = mmap(reinterpret_cast<void *>(0x20000), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool is_near = reinterpret_cast<uintptr_t>(low) < (uintptr_t{1} << 31);
    munmap(low, 4096);
    if (!is_near) GTEST_SKIP() << "no low addresses here";
  }
};

TEST_F(CallFrame, RowsBeginWhereTheySay) {
  // push; 16 bytes more from the 4th byte on; the frame pointer from the 8th.
  Table table({0x41, 0x0e, 16, 0x80 | kFp, 2, 0x43, 0x0e, 32, 0x44, 0x0d, kFp});
  EXPECT_EQ(table.At(0).offset, 8);
  EXPECT_EQ(table.At(0).base, hk_frame_sp);
  EXPECT_EQ(table.At(0).saved[hk_frame_ra], -1);
  EXPECT_EQ(table.At(0).saved[hk_frame_fp], HK_SAVED_SAME);
  EXPECT_EQ(table.At(1).offset, 16);
  EXPECT_EQ(table.At(1).saved[hk_frame_fp], -2);
  EXPECT_EQ(table.At(3).offset, 16);
  EXPECT_EQ(table.At(4).offset, 32);
  EXPECT_EQ(table.At(7).base, hk_frame_sp);
  EXPECT_EQ(table.At(8).base, hk_frame_fp);
  EXPECT_EQ(table.At(kFunctionBytes - 1).offset, 32);
}

TEST_F(CallFrame, NothingIsSaidOfWhatIsNotInTheFunction) {
  Table table({});
  hk_frame_rule_t rule;
  EXPECT_FALSE(table.Find(kFunctionBytes, &rule));
  hk_memory_reader_t reader;
  EXPECT_FALSE(hk_unwind_table_find(table.Index(), kFunction - 1, &rule, &reader));
}

TEST_F(CallFrame, RemembersAndRestores) {
  // Saved, remembered, restored to what all functions have, recalled.
  Table table({0x80 | kFp, 2, 0x0e, 64, 0x41, 0x0a, 0xc0 | kFp, 0x0e, 8, 0x41, 0x0b});
  EXPECT_EQ(table.At(0).saved[hk_frame_fp], -2);
  EXPECT_EQ(table.At(1).saved[hk_frame_fp], HK_SAVED_SAME);
  EXPECT_EQ(table.At(1).offset, 8);
  EXPECT_EQ(table.At(2).saved[hk_frame_fp], -2);
  EXPECT_EQ(table.At(2).offset, 64);
}

// Compilers write these seldom: of high registers, of distances below zero, and in hand-written code.
TEST_F(CallFrame, TheLongFormsMeanWhatTheShortOnesDo) {
  auto fp_after = [](const Bytes &function) { return Table(function).At(0).saved[hk_frame_fp]; };
  EXPECT_EQ(fp_after({0x05, kFp, 3}), -3) << "offset";
  EXPECT_EQ(fp_after({0x11, kFp, 3}), -3) << "signed offset";
  EXPECT_EQ(fp_after({0x11, kFp, 0x7e}), 2) << "signed offset";
  EXPECT_EQ(fp_after({0x2f, kFp, 4}), 4) << "negative offset";
  EXPECT_EQ(fp_after({0x05, kFp, 3, 0x06, kFp}), HK_SAVED_SAME) << "restored";
  EXPECT_EQ(fp_after({0x05, kFp, 3, 0x08, kFp}), HK_SAVED_SAME) << "the same value";
  EXPECT_EQ(fp_after({0x07, kFp}), HK_SAVED_LOST) << "undefined";
  // What follows is read right.
  for (const Bytes &lost :
       {Bytes{0x09, kFp, 1}, Bytes{0x14, kFp, 2}, Bytes{0x15, kFp, 0x7e}, Bytes{0x14, kFp, 0x82, 1}}) {
    Bytes function = lost;
    function.insert(function.end(), {0x0e, 40});
    EXPECT_EQ(fp_after(function), HK_SAVED_LOST) << int{lost[0]};
    EXPECT_EQ(Table(function).At(0).offset, 40) << int{lost[0]};
  }
}

TEST_F(CallFrame, TheFramesEndInEachForm) {
  EXPECT_EQ(Table({0x12, kFp, 0x7c}).At(0).base, hk_frame_fp);
  EXPECT_EQ(Table({0x12, kFp, 0x7c}).At(0).offset, 32) << "signed, in units of -8";
  EXPECT_EQ(Table({0x13, 0x7a}).At(0).offset, 48);
  EXPECT_EQ(Table({0x13, 0x7a}).At(0).base, hk_frame_sp);
}

// By one byte, two and four.
TEST_F(CallFrame, RowsBeginFarOn) {
  Table table({0x02, 0x10, 0x0e, 16, 0x03, 0x20, 0x00, 0x0e, 24, 0x04, 0x40, 0, 0, 0, 0x0e, 32});
  for (auto [offset, end] : {std::pair{0x0f, 8}, {0x10, 16}, {0x2f, 16}, {0x30, 24}, {0x6f, 24}, {0x70, 32}}) {
    EXPECT_EQ(table.At(static_cast<uintptr_t>(offset)).offset, end) << offset;
  }
}

TEST_F(CallFrame, AReturnAddressThatIsUndefinedIsTheEnd) {
  Table table({0x07, kRa});
  EXPECT_EQ(table.At(0).kind, hk_frame_last);
}

TEST_F(CallFrame, WhatIsNotUnderstoodGivesNoRule) {
  hk_frame_rule_t rule;
  EXPECT_FALSE(Table({0x3f}).Find(0, &rule)) << "an instruction that there is not";
  EXPECT_FALSE(Table({0x0b}).Find(0, &rule)) << "recalled before it was remembered";
  EXPECT_FALSE(Table({0x0a, 0x0a, 0x0a, 0x0a, 0x0a}).Find(0, &rule)) << "remembered too often";
  EXPECT_FALSE(Table({0x0d, 1}).Find(0, &rule)) << "counted from a register that is not followed";
  EXPECT_FALSE(Table({0x0e, 0xff, 0xff, 0xff, 0xff, 0x7f}).Find(0, &rule)) << "farther than any frame";
}

TEST_F(CallFrame, ExpressionsOfAnAlignedStack) {
  // The frame's end is the word 8 below the frame pointer; the frame pointer is saved where it leads.
  unsigned char fp = 0x70 + kFp;
  Table table({0x0f, 3, fp, 0x78, 0x06, 0x10, kFp, 2, fp, 0});
  hk_frame_rule_t rule = table.At(0);
  EXPECT_EQ(rule.base, hk_frame_fp);
  EXPECT_EQ(rule.offset, -8);
  EXPECT_TRUE(rule.is_in_memory);
  EXPECT_EQ(rule.saved[hk_frame_fp], 0);
  EXPECT_EQ(rule.from_base, 1u << hk_frame_fp);
}

#if defined(__x86_64__)
TEST_F(CallFrame, ExpressionsOfStubs) {
  // sp + 8 + ((pc & 15) >= 11) * 8
  Table table({0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22});
  EXPECT_EQ(table.At(0).offset, 8);
  EXPECT_EQ(table.At(10).offset, 8);
  EXPECT_EQ(table.At(11).offset, 16);
  EXPECT_EQ(table.At(16).offset, 8);
}
#endif

TEST_F(CallFrame, NoDamageDoesHarm) {
  Bytes function = {0x41, 0x0e, 16,   0x80 | kFp, 2,    0x0a, 0x0f, 3,    0x70 + kFp,
                    0x78, 0x06, 0x42, 0x0b,       0x10, kFp,  2,    0x70, 0};
  uint64_t random = 88172645463325252u;
  unsigned found = 0;
  alarm(hk_test::kChildSeconds);
  for (unsigned i = 0; i < 6000; i++) {
    Table table(function);
    for (unsigned changes = 1 + i % 4; changes > 0; changes--) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      table.memory()[random % table.size()] = static_cast<unsigned char>(random >> 32);
    }
    hk_frame_rule_t rule;
    found += table.Find(random % kFunctionBytes, &rule);
  }
  alarm(0);
  EXPECT_GT(found, 100u) << "some damage is not noticed";
  EXPECT_LT(found, 6000u) << "some is";
}

TEST_F(CallFrame, TablesThatAreNotThere) {
  hk_frame_rule_t rule;
  hk_memory_reader_t reader;
  for (uintptr_t index : {uintptr_t{0}, uintptr_t{4096}, UINTPTR_MAX - 3, uintptr_t{1} << 60}) {
    EXPECT_FALSE(hk_unwind_table_find(index, kFunction, &rule, &reader));
  }
}

// ---- Numbers.

TEST(MemoryReader, NumbersOfVariableLength) {
  Bytes bytes = {0xe5, 0x8e, 0x26, 0x7f, 0x80, 0x7f, 0x02};
  auto start = reinterpret_cast<uintptr_t>(bytes.data());
  hk_memory_reader_t reader;
  hk_memory_reader_init(&reader, start, start + bytes.size());
  EXPECT_EQ(hk_memory_reader_uleb(&reader), 624485u);
  EXPECT_EQ(hk_memory_reader_sleb(&reader), -1);
  EXPECT_EQ(hk_memory_reader_sleb(&reader), -128);
  EXPECT_FALSE(reader.failed);
  EXPECT_EQ(hk_memory_reader_number(&reader, 2), 0u);
  EXPECT_TRUE(reader.failed) << "one byte is left";
}

TEST(MemoryReader, ANumberThatIsLongerThanItsPaddingIsDamaged) {
  Bytes bytes(100, 0x80);
  bytes[15] = 1;
  auto start = reinterpret_cast<uintptr_t>(bytes.data());
  hk_memory_reader_t reader;
  hk_memory_reader_init(&reader, start, start + bytes.size());
  EXPECT_EQ(hk_memory_reader_uleb(&reader), 0u);
  EXPECT_FALSE(reader.failed);
  hk_memory_reader_uleb(&reader);
  EXPECT_TRUE(reader.failed);
  EXPECT_LE(reader.at, start + 40) << "all memory may follow";
}

TEST(MemoryReader, AcrossWindows) {
  Bytes bytes(1000);
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<unsigned char>(i * 7);
  auto start = reinterpret_cast<uintptr_t>(bytes.data());
  hk_memory_reader_t reader;
  hk_memory_reader_init(&reader, start, start + bytes.size());
  for (size_t i = 0; i + 3 <= bytes.size(); i += 3) {
    uint64_t expected = bytes[i] | bytes[i + 1] << 8 | bytes[i + 2] << 16;
    ASSERT_EQ(hk_memory_reader_number(&reader, 3), expected) << i;
  }
}

}  // namespace
