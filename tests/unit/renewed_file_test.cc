// os/renewed_file: a file of ours is replaced whole, and anything else stays.
#include "os/renewed_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "folder.h"

namespace {

bool IsOurs(const char *beginning) { return strncmp(beginning, "ours", 4) == 0; }

class RenewedFile : public ::testing::Test {
 protected:
  void Put(const std::string &text) const { std::ofstream(path_) << text; }
  std::string Text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  int Write(const std::string &text) const {
    return hk_renewed_file_write(path_.c_str(), IsOurs, text.data(), text.size());
  }
  int Obstacle() const { return hk_renewed_file_obstacle(path_.c_str(), IsOurs); }
  unsigned Mode() const {
    struct stat about = {};
    EXPECT_EQ(stat(path_.c_str(), &about), 0);
    return about.st_mode & 07777;
  }
  void ExpectRefused(int error) const {
    EXPECT_EQ(Obstacle(), error);
    EXPECT_EQ(Write("ours: new"), error);
  }

  const hk_test::Folder folder_;
  std::string path_ = folder_ / "file";
};

TEST_F(RenewedFile, IsMadeAndReplaced) {
  EXPECT_EQ(Obstacle(), 0);
  EXPECT_EQ(Write("ours: 1"), 0);
  EXPECT_EQ(Mode(), 0600u);
  EXPECT_EQ(Obstacle(), 0);
  EXPECT_EQ(Write("ours: 2"), 0);
  EXPECT_EQ(Text(), "ours: 2");
  EXPECT_EQ(folder_.FileCount(), 1u);
}

TEST_F(RenewedFile, AnEmptyOneKeepsItsReaders) {
  Put("");
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  EXPECT_EQ(Write("ours: 1"), 0);
  EXPECT_EQ(Mode(), 0644u);
  EXPECT_EQ(Write("ours: 2"), 0);
  EXPECT_EQ(Mode(), 0644u);
}

TEST_F(RenewedFile, SomethingElseStays) {
  Put("our neighbours'");
  ExpectRefused(EEXIST);
  EXPECT_EQ(Text(), "our neighbours'");
  EXPECT_EQ(folder_.FileCount(), 1u);
}

TEST_F(RenewedFile, ALinkIsNotFollowed) {
  std::ofstream(folder_ / "other") << "ours";
  ASSERT_EQ(symlink("other", path_.c_str()), 0);
  ExpectRefused(ELOOP);
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(link((folder_ / "other").c_str(), path_.c_str()), 0);
  ExpectRefused(EEXIST);
  EXPECT_EQ(Text(), "ours");
}

TEST_F(RenewedFile, ADeviceOrFolderIsNone) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectRefused(ENXIO);
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  ExpectRefused(ENXIO);
}

TEST_F(RenewedFile, AnotherUsersStays) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  Put("ours");
  ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  ExpectRefused(EEXIST);
}

TEST_F(RenewedFile, WithoutAFolderThereIsNone) {
  path_ = folder_ / "none/file";
  ExpectRefused(ENOENT);
}

}  // namespace
