// os/whole_file: read as a whole, replaced in one step, nothing left behind.
#include "os/whole_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "folder.h"
#include "in_child.h"

namespace {

class WholeFile : public testing::Test {
 protected:
  std::string Path(const char *name) const { return folder_ / name; }

  static void Make(const std::string &path, const std::string &text) { std::ofstream(path) << text; }

  // The bytes read with room for `capacity`, or the error number as text.
  static std::string Read(const std::string &path, size_t capacity = 100) {
    std::string bytes(capacity, '?');
    size_t length = 0;
    errno = 0;
    int error = hk_whole_file_read(path.c_str(), bytes.data(), capacity, &length);
    EXPECT_EQ(errno, 0);
    return error == 0 ? bytes.substr(0, length) : std::to_string(error);
  }

  static int Replace(const std::string &path, const std::string &text) {
    errno = 0;
    int error = hk_whole_file_replace(path.c_str(), text.data(), text.size());
    EXPECT_EQ(errno, 0);
    return error;
  }

  const hk_test::Folder folder_;
};

TEST_F(WholeFile, IsReadUpToTheRoomThereIs) {
  Make(Path("a"), "0123456789");
  EXPECT_EQ(Read(Path("a")), "0123456789");
  EXPECT_EQ(Read(Path("a"), 4), "0123");
  Make(Path("empty"), "");
  EXPECT_EQ(Read(Path("empty")), "");
}

TEST_F(WholeFile, WhatIsNoRegularFileIsNotRead) {
  alarm(hk_test::kChildSeconds); /* no process writes into the pipe */
  Make(Path("a"), "text");
  ASSERT_EQ(symlink("a", Path("link").c_str()), 0);
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(Read(Path("none")), std::to_string(ENOENT));
  EXPECT_EQ(Read(Path("link")), std::to_string(ELOOP));
  EXPECT_EQ(Read(Path("pipe")), std::to_string(ENXIO));
  EXPECT_EQ(Read(folder_.path()), std::to_string(ENXIO));
  EXPECT_EQ(Read("/dev/zero"), std::to_string(ENXIO));
  alarm(0);
}

TEST_F(WholeFile, IsReplacedWhetherItIsThereOrNot) {
  umask(0);
  EXPECT_EQ(Replace(Path("a"), "first"), 0);
  EXPECT_EQ(Read(Path("a")), "first");
  std::ifstream reader(Path("a"));
  EXPECT_EQ(Replace(Path("a"), "second"), 0);
  EXPECT_EQ(Read(Path("a")), "second");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "first") << "a reader has the old one whole";
  EXPECT_EQ(folder_.FileCount(), 1u);
  struct stat about;
  ASSERT_EQ(stat(Path("a").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0600u);
}

TEST_F(WholeFile, ALinkIsReplacedAndNotFollowed) {
  Make(Path("target"), "mine");
  ASSERT_EQ(symlink("target", Path("link").c_str()), 0);
  EXPECT_EQ(Replace(Path("link"), "text"), 0);
  EXPECT_EQ(Read(Path("link")), "text");
  EXPECT_EQ(Read(Path("target")), "mine");
}

TEST_F(WholeFile, WhatFailsLeavesNothing) {
  std::filesystem::create_directory(Path("folder"));
  EXPECT_EQ(Replace(Path("folder"), "text"), EISDIR);
  EXPECT_EQ(folder_.FileCount(), 1u);
  EXPECT_EQ(Replace(Path("none/a"), "text"), ENOENT);
  EXPECT_EQ(Replace(Path("") + std::string(5000, 'x'), "text"), ENAMETOOLONG);
}

TEST_F(WholeFile, WithoutSpaceTheOldOneStays) {
  Make(Path("a"), "old");
  std::string path = Path("a");
  EXPECT_EQ(hk_test::InChild([&] {
              struct rlimit limit = {3, 3};
              HK_CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
              HK_CHILD_CHECK(Replace(path, "long") == EFBIG);
              return 0;
            }),
            0);
  EXPECT_EQ(Read(path), "old");
  EXPECT_EQ(folder_.FileCount(), 1u);
}

}  // namespace
