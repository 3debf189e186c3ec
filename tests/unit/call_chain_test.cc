// inspect/call_chain: which file an address is in, and where in it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "folder.h"

extern "C" {
#include "inspect/call_chain.h"
}

namespace {

class CallPlaces : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(file_, 0);
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    ASSERT_EQ(ftruncate(file_, static_cast<off_t>(4 * page_)), 0);
  }
  void TearDown() override {
    munmap(start_, bytes_);
    close(file_);
  }

  void Map(size_t first_page, size_t pages) {
    bytes_ = pages * page_;
    start_ = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file_, static_cast<off_t>(first_page * page_));
    ASSERT_NE(start_, MAP_FAILED);
  }
  void ExpectPlace(size_t offset, const std::string &name, size_t expected) const {
    uintptr_t address = reinterpret_cast<uintptr_t>(start_) + offset;
    hk_call_place_t place;
    hk_call_places_of(&address, 1, &place);
    EXPECT_TRUE(place.is_known);
    EXPECT_FALSE(place.is_code);
    EXPECT_EQ(place.name, name);
    EXPECT_EQ(place.offset, expected);
  }
  void ExpectOffset(size_t offset, size_t expected) const { ExpectPlace(offset, Shown(name_), expected); }

  // The end of a path that is too long, as one in a folder for temporary files may be.
  static std::string Shown(const std::string &name) {
    constexpr size_t kEnd = HK_CALL_PLACE_NAME_BYTES - 4;
    return name.size() < HK_CALL_PLACE_NAME_BYTES ? name : "..." + name.substr(name.size() - kEnd);
  }

  const hk_test::Folder folder_;
  const std::string name_ = folder_ / "file";
  int file_ = -1;
  size_t page_ = 0, bytes_ = 0;
  void *start_ = nullptr;
};

TEST_F(CallPlaces, OfAFileFromItsBeginning) {
  Map(0, 4);
  ExpectOffset(5, 5);
  ExpectOffset(3 * page_ + 5, 3 * page_ + 5);
}

TEST_F(CallPlaces, OfAFileWhoseBeginningIsNotMapped) {
  Map(2, 2);
  ExpectOffset(5, 2 * page_ + 5);
}

TEST_F(CallPlaces, OfAFileWithOtherMemoryInIt) {
  Map(0, 4);
  void *second = static_cast<char *>(start_) + page_;
  ASSERT_EQ(mmap(second, page_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), second);
  ExpectOffset(2 * page_ + 5, 2 * page_ + 5);
}

TEST_F(CallPlaces, OfNoFileFromTheMapping) {
  bytes_ = 3 * page_;
  start_ = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(start_, MAP_FAILED);
  void *second = static_cast<char *>(start_) + page_;
  ASSERT_EQ(mprotect(second, page_, PROT_READ), 0);  // a mapping of its own
  ExpectPlace(page_ + 5, "", 5);
}

TEST(CallPlace, IsPrintedInOneLine) {
  hk_call_place_t place = {};
  char text[64];
  hk_format_t out;
  std::strcpy(place.name, "/a b\n\\012\xff \xc3\xa9");
  place.offset = 0x12;
  hk_format_init(&out, text, sizeof text);
  hk_call_place_print(&out, &place);
  EXPECT_STREQ(text, R"( /a b\x0a\\012\xff é+0x12)");
}

TEST_F(CallPlaces, OfALongPathHaveItsEnd) {
  std::string folders = folder_ / "";
  while (folders.size() < 2 * HK_CALL_PLACE_NAME_BYTES) {
    folders += "0123456/";
    ASSERT_EQ(mkdir(folders.c_str(), 0700), 0);
  }
  std::string name = folders + "file";
  ASSERT_EQ(rename(name_.c_str(), name.c_str()), 0);
  Map(0, 4);
  ExpectPlace(5, "..." + name.substr(name.size() - (HK_CALL_PLACE_NAME_BYTES - 4)), 5);
}

TEST_F(CallPlaces, OfNothing) {
  uintptr_t address = 1;
  hk_call_place_t place;
  hk_call_places_of(&address, 1, &place);
  EXPECT_FALSE(place.is_known);
}

}  // namespace
