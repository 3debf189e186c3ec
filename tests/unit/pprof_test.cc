// profile/gzip, proto, pprof, site_list: byte by byte, and into receivers that take no more.
#include "pprof/pprof.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "fake_os.h"
#include "fresh_test.h"
#include "inspect/site_list.h"
#include "pprof/gzip.h"
#include "pprof/proto.h"
#include "unwind/site.h"
#include "unwind/site_sums.h"
#include "unwind/unwind.h"

namespace {

// Takes `limit` bytes.
struct Receiver {
  hk_output_t output{Put};
  std::string bytes;
  size_t limit = SIZE_MAX;

  static bool Put(hk_output_t *output, const void *bytes, size_t count) {
    auto *self = reinterpret_cast<Receiver *>(output);
    if (count > self->limit - self->bytes.size()) return false;
    self->bytes.append(static_cast<const char *>(bytes), count);
    return true;
  }
};

uint64_t Number(const std::string &bytes, size_t at, unsigned count) {
  return hk_bytes_get(reinterpret_cast<const unsigned char *>(bytes.data()) + at, count);
}

// The contents of a gzip file of stored blocks.
std::string Unpack(const std::string &file) {
  std::string content;
  EXPECT_EQ(file.substr(0, 4), std::string("\x1f\x8b\x08\0", 4));
  size_t at = 10;
  for (bool is_last = false; !is_last;) {
    is_last = file.at(at) == 1;
    uint64_t length = Number(file, at + 1, 2);
    EXPECT_EQ(length ^ Number(file, at + 3, 2), 0xffffu);
    content += file.substr(at + 5, length);
    at += 5 + length;
  }
  EXPECT_EQ(at + 8, file.size());
  EXPECT_EQ(Number(file, at, 4),
            hk_bytes_crc32(0, reinterpret_cast<const unsigned char *>(content.data()), content.size()));
  EXPECT_EQ(Number(file, at + 4, 4), content.size());
  return content;
}

std::string Pack(const std::string &content, size_t piece) {
  Receiver receiver;
  hk_gzip_t gzip;
  hk_gzip_begin(&gzip, &receiver.output);
  for (size_t at = 0; at < content.size(); at += piece) {
    std::string part = content.substr(at, piece);
    EXPECT_TRUE(gzip.output.put(&gzip.output, part.data(), part.size()));
  }
  EXPECT_TRUE(hk_gzip_end(&gzip));
  return receiver.bytes;
}

TEST(Gzip, WhatGoesInComesOut) {
  for (size_t length : {0, 1, 1023, 1024, 1025, 5000}) {
    std::string content;
    for (size_t i = 0; i < length; i++) content += static_cast<char>(i * 31);
    EXPECT_EQ(Unpack(Pack(content, 1)), content);
    EXPECT_EQ(Unpack(Pack(content, 700)), content);
    EXPECT_EQ(Unpack(Pack(content, 10000)), content);
  }
}

TEST(Gzip, SaysThatTheReceiverTookNoMore) {
  for (size_t limit : {0, 9, 10, 14, 500, 1050, 2070}) {
    Receiver receiver;
    receiver.limit = limit;
    hk_gzip_t gzip;
    hk_gzip_begin(&gzip, &receiver.output);
    std::string content(2048, 'x');
    (void)gzip.output.put(&gzip.output, content.data(), content.size());
    EXPECT_FALSE(hk_gzip_end(&gzip)) << limit;
  }
}

TEST(Proto, WhatDoesNotFitIsAFailure) {
  Receiver receiver;
  hk_proto_t message;
  hk_proto_begin(&message);
  for (unsigned i = 0; i < HK_PROTO_MESSAGE_BYTES; i++) hk_proto_element(&message, 1);
  EXPECT_TRUE(hk_proto_put(&receiver.output, 1, &message));
  hk_proto_element(&message, 1);
  EXPECT_FALSE(hk_proto_put(&receiver.output, 1, &message));
}

// ---- A reader of protocol buffers: the fields of one message.

struct Field {
  uint64_t number = 0;
  std::string bytes;
};
using Message = std::multimap<uint64_t, Field>;

uint64_t TakeNumber(const std::string &bytes, size_t *at) {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    auto byte = static_cast<unsigned char>(bytes.at((*at)++));
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
}

Message Parse(const std::string &bytes) {
  Message message;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t key = TakeNumber(bytes, &at);
    Field field;
    field.number = TakeNumber(bytes, &at);
    if (key % 8 == 2) {
      field.bytes = bytes.substr(at, field.number);
      at += field.number;
    } else {
      EXPECT_EQ(key % 8, 0u);
    }
    message.emplace(key / 8, field);
  }
  return message;
}

std::vector<uint64_t> Numbers(const std::string &bytes) {
  std::vector<uint64_t> numbers;
  for (size_t at = 0; at < bytes.size();) numbers.push_back(TakeNumber(bytes, &at));
  return numbers;
}

uint64_t NumberOf(const Message &message, uint64_t field) {
  auto found = message.find(field);
  return found == message.end() ? 0 : found->second.number;
}

// A byte of no printable character is written as Python writes it in names of files; other text stays.
TEST(Proto, APathIsUtf8) {
  const std::pair<const char *, const char *> paths[] = {
      {"/usr/lib/a b\\\n\x01", "/usr/lib/a b\\\n\x01"},
      {"/\xc3\xa9\xe2\x82\xac", "/\xc3\xa9\xe2\x82\xac"},
      {"/caf\xe9/\xc3\xa9", "/caf\\udce9/\xc3\xa9"},
      {"\xff\xed\xa0\x80\xc2\x85\xe2\x82", "\\udcff\\udced\\udca0\\udc80\\udcc2\\udc85\\udce2\\udc82"},
  };
  for (const auto &[path, text] : paths) {
    Receiver receiver;
    EXPECT_TRUE(hk_proto_put_path(&receiver.output, 6, path));
    Message message = Parse(receiver.bytes);
    ASSERT_EQ(message.count(6), 1u);
    EXPECT_EQ(message.find(6)->second.bytes, text);
  }
}

constexpr hk_profile_facts_t kFacts = {524288, 1700000000000000000, 1700000009000000000, 5000000000};
constexpr hk_sample_weight_t kWeight = {1000, 1024, 3 << 16};

std::string Write() {
  Receiver receiver;
  EXPECT_TRUE(hk_pprof_write(&receiver.output, &kFacts));
  return receiver.bytes;
}

// Two stacks of this process, one without frames, and the shared one.
__attribute__((noinline)) void MakeSites() {
  uintptr_t frames[20];
  unsigned count = hk_unwind(frames, 20, 0);
  ASSERT_GT(count, 3u);
  hk_site_sums_count_alloc(hk_site_of(frames, count), &kWeight);
  hk_site_t *other = hk_site_of(frames + 1, count - 1);
  hk_site_sums_count_alloc(other, &kWeight);
  hk_site_sums_count_free(other, &kWeight, 100);
  hk_site_sums_count_alloc(hk_site_of(frames, 0), &kWeight);
}

HK_FRESH_TEST(Pprof, SamplesLocationsMappings) {
  MakeSites();
  Message profile = Parse(Unpack(Write()));
  std::vector<std::string> strings;
  auto texts = profile.equal_range(6);
  for (auto text = texts.first; text != texts.second; text++) strings.push_back(text->second.bytes);
  EXPECT_EQ(strings.at(0), "");
  std::string types;
  auto type_fields = profile.equal_range(1);
  for (auto field = type_fields.first; field != type_fields.second; field++) {
    Message type = Parse(field->second.bytes);
    types += strings.at(NumberOf(type, 1)) + "/" + strings.at(NumberOf(type, 2)) + " ";
  }
  EXPECT_EQ(types, "alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes ");
  EXPECT_EQ(NumberOf(profile, 9), kFacts.taken_ns);
  EXPECT_EQ(NumberOf(profile, 10), kFacts.duration_ns);
  EXPECT_EQ(NumberOf(profile, 12), kFacts.rate_bytes);

  std::map<uint64_t, Message> mappings, locations;
  auto mapping_fields = profile.equal_range(3);
  for (auto field = mapping_fields.first; field != mapping_fields.second; field++) {
    Message mapping = Parse(field->second.bytes);
    EXPECT_TRUE(mappings.emplace(NumberOf(mapping, 1), mapping).second);
  }
  auto location_fields = profile.equal_range(4);
  for (auto field = location_fields.first; field != location_fields.second; field++) {
    Message location = Parse(field->second.bytes);
    EXPECT_TRUE(locations.emplace(NumberOf(location, 1), location).second) << "each once";
  }
  char own[1000] = {0};
  ASSERT_GT(readlink("/proc/self/exe", own, sizeof(own) - 1), 0);
  unsigned samples = 0, without_stack = 0, freed = 0;
  auto sample_fields = profile.equal_range(2);
  for (auto field = sample_fields.first; field != sample_fields.second; field++, samples++) {
    Message sample = Parse(field->second.bytes);
    std::vector<uint64_t> values = Numbers(sample.find(2)->second.bytes), ids = Numbers(sample.find(1)->second.bytes);
    ASSERT_EQ(values.size(), 4u);
    EXPECT_EQ(values[0], 3u);
    EXPECT_EQ(values[1], 3000u);
    freed += values[2] == 0 && values[3] == 0;
    const Message &inner = locations.at(ids.at(0));
    if (NumberOf(inner, 3) == 0) {
      without_stack++;
      continue;
    }
    for (uint64_t id : ids) {
      const Message &location = locations.at(id), &mapping = mappings.at(NumberOf(location, 2));
      EXPECT_GE(NumberOf(location, 3), NumberOf(mapping, 2));
      EXPECT_LT(NumberOf(location, 3), NumberOf(mapping, 3));
    }
    const Message &mapping = mappings.at(NumberOf(inner, 2));
    EXPECT_EQ(strings.at(NumberOf(mapping, 5)), own);
  }
  EXPECT_EQ(samples, 3u);
  EXPECT_EQ(without_stack, 1u);
  EXPECT_EQ(freed, 1u);
}

HK_FRESH_TEST(Pprof, OfNothing) {
  Message profile = Parse(Unpack(Write()));
  EXPECT_EQ(profile.count(2), 0u);
  EXPECT_EQ(profile.count(1), 4u);
}

HK_FRESH_TEST(Pprof, GivesItsMemoryBack) {
  MakeSites();
  size_t before = fake_os_mapped_bytes();
  (void)Write();
  EXPECT_EQ(fake_os_mapped_bytes(), before);
}

HK_FRESH_TEST(Pprof, WithoutMemoryThereIsNone) {
  MakeSites();
  size_t before = fake_os_mapped_bytes();
  for (uint64_t nth : {1, 2}) {
    Receiver receiver;
    fake_os_fail_nth(fake_os_reserve, nth);
    EXPECT_FALSE(hk_pprof_write(&receiver.output, &kFacts)) << nth;
    EXPECT_EQ(fake_os_mapped_bytes(), before);
  }
}

HK_FRESH_TEST(Pprof, AReceiverThatTakesNoMore) {
  MakeSites();
  size_t whole = Write().size();
  for (size_t limit : {size_t{0}, size_t{100}, whole / 2, whole - 1}) {
    Receiver receiver;
    receiver.limit = limit;
    EXPECT_FALSE(hk_pprof_write(&receiver.output, &kFacts)) << limit;
  }
}

HK_FRESH_TEST(Pprof, IntoATextWithAnEndOfItsOwn) {
  MakeSites();
  size_t whole = Write().size();
  constexpr size_t kBefore = 3, kKept = 5;
  for (bool fits : {true, false}) {
    std::vector<char> memory(kBefore + whole + kKept + fits);
    hk_format_t text;
    hk_format_init(&text, memory.data(), memory.size());
    hk_format_text(&text, "abc");
    hk_output_text_t to;
    hk_output_text_init(&to, &text, kKept);
    EXPECT_EQ(hk_pprof_write(&to.output, &kFacts), fits);
    EXPECT_EQ(text.length == kBefore + whole, fits);
    EXPECT_EQ(memory[text.length], '\0');
    EXPECT_EQ(std::string(memory.data(), kBefore), "abc");
  }
}

// Parca refuses a profile whose mappings, functions and locations are not numbered 1, 2, 3 as they come.
HK_FRESH_TEST(Pprof, NumbersWithoutAGap) {
  constexpr uint64_t kMapping = 3, kLocation = 4, kFunction = 5;
  constexpr uintptr_t kSites = 500;
  MakeSites();
  for (uintptr_t i = 0; i < kSites; i++) {
    uintptr_t frames[] = {0x100000 + i * 16, 0x5000000};
    hk_site_sums_count_alloc(hk_site_of(frames, 2), &kWeight);
  }
  Message profile = Parse(Unpack(Write()));
  for (uint64_t table : {kMapping, kLocation, kFunction}) {
    uint64_t last = 0;
    auto fields = profile.equal_range(table);
    for (auto field = fields.first; field != fields.second; field++) {
      EXPECT_EQ(NumberOf(Parse(field->second.bytes), 1), ++last);
    }
    EXPECT_GT(last, 1u);
  }
}

// 20,000 sites: more than fits into any buffer of the writer's.
HK_FRESH_TEST(Pprof, Many) {
  constexpr uintptr_t kSites = 20000;
  for (uintptr_t i = 0; i < kSites; i++) {
    uintptr_t frames[] = {0x100000 + i * 16, 0x100000 + i / 10 * 16, 0x5000000};
    hk_site_sums_count_alloc(hk_site_of(frames, 3), &kWeight);
  }
  Message profile = Parse(Unpack(Write()));
  EXPECT_EQ(profile.count(2), kSites);
  EXPECT_EQ(profile.count(4), kSites + 1 + 2) << "each address once, and two that have none";
}

HK_FRESH_TEST(SiteList, IsJson) {
  MakeSites();
  Receiver receiver;
  EXPECT_TRUE(hk_site_list_write(&receiver.output, 4096, false));
  EXPECT_EQ(receiver.bytes.find("{\"schema\":1,\"rate\":4096,\"sites\":[\n{\"frames\":["), 0u) << receiver.bytes;
  EXPECT_NE(receiver.bytes.find("\"alloc_objects\":3,\"alloc_bytes\":3000,\"inuse_objects\":0"), std::string::npos);
  EXPECT_NE(receiver.bytes.find("\"lifetimes\":[0,0,0,0,0,0,0,3,0"), std::string::npos);
  for (size_t limit : {size_t{0}, receiver.bytes.size() - 1}) {
    Receiver less;
    less.limit = limit;
    EXPECT_FALSE(hk_site_list_write(&less.output, 4096, false));
  }
}

// For other projects' readers (tests/preload/test_profile_files.py): writes the file and the list if a path is
// set.
HK_FRESH_TEST(Pprof, FilesForOthers) {
  const char *folder = getenv("HAKMEM_TEST_PROFILE_FOLDER");
  if (folder == nullptr) return;
  MakeSites();
  Receiver list;
  EXPECT_TRUE(hk_site_list_write(&list.output, kFacts.rate_bytes, false));
  for (auto [name, bytes] : {std::pair("/profile.pb.gz", Write()), std::pair("/sites.json", list.bytes)}) {
    FILE *file = fopen((std::string(folder) + name).c_str(), "wb");
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
    EXPECT_EQ(fclose(file), 0);
  }
}

}  // namespace
