// os/new_file: a file is made whole or not at all, and nothing that exists is touched.
#include "os/new_file.h"

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

class NewFile : public testing::Test {
 protected:
  std::string Path(const char *name) const { return folder_ / name; }
  static int Write(const std::string &path, const std::string &text) {
    errno = 0;
    int error = hk_new_file_write(path.c_str(), text.data(), text.size());
    EXPECT_EQ(errno, 0);
    return error;
  }
  static std::string Read(const std::string &path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const hk_test::Folder folder_;
};

TEST_F(NewFile, HoldsTheTextForItsOwnerAlone) {
  umask(0);
  EXPECT_EQ(hk_new_file_obstacle(Path("a").c_str()), 0);
  EXPECT_EQ(Write(Path("a"), "all of it\n"), 0);
  EXPECT_EQ(Read(Path("a")), "all of it\n");
  struct stat about;
  ASSERT_EQ(stat(Path("a").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0600u);
}

TEST_F(NewFile, LeavesWhatExists) {
  ASSERT_EQ(Write(Path("a"), "old"), 0);
  EXPECT_EQ(hk_new_file_obstacle(Path("a").c_str()), EEXIST);
  EXPECT_EQ(Write(Path("a"), "new"), EEXIST);
  EXPECT_EQ(Read(Path("a")), "old");
}

TEST_F(NewFile, FollowsNoLink) {
  ASSERT_EQ(symlink(Path("target").c_str(), Path("link").c_str()), 0);
  EXPECT_EQ(Write(Path("link"), "text"), EEXIST);
  EXPECT_FALSE(std::filesystem::exists(Path("target")));
}

TEST_F(NewFile, NeedsAFolder) {
  EXPECT_EQ(hk_new_file_obstacle(Path("none/a").c_str()), ENOENT);
  EXPECT_EQ(Write(Path("none/a"), "text"), ENOENT);
  EXPECT_EQ(hk_new_file_obstacle("no-such-file-in-the-current-folder"), 0);
  EXPECT_EQ(hk_new_file_obstacle("/no-such-file-in-the-root"), geteuid() == 0 ? 0 : EACCES);
}

TEST_F(NewFile, ALimitIsNoSignal) {
  std::string path = Path("a");
  EXPECT_EQ(hk_test::InChild([&] {
              struct rlimit limit = {3, 3};
              HK_CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
              HK_CHILD_CHECK(Write(path, "long") == EFBIG);
              HK_CHILD_CHECK(!std::filesystem::exists(path));
              HK_CHILD_CHECK(Write(path, "fit") == 0);
              return 0;
            }),
            0);
}

}  // namespace
