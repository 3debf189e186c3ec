// A folder for one test, which the destructor removes with its contents. Its path has no symbolic links.
#ifndef HK_TESTS_SUPPORT_FOLDER_H
#define HK_TESTS_SUPPORT_FOLDER_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace hk_test {

class Folder {
 public:
  Folder() : path_(std::filesystem::canonical(testing::TempDir()) / ("hakmem_test_" + kMadeUnique)) {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;

  const std::string &path() const { return path_; }
  std::string operator/(const std::string &name) const { return path_ + "/" + name; }
  size_t FileCount() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  static inline const std::string kMadeUnique = std::string(6, 'X'); /* mkdtemp replaces these letters */
  std::string path_;
};

}  // namespace hk_test

#endif  // HK_TESTS_SUPPORT_FOLDER_H
