// policy/output_path: %p and %% in paths.
#include "policy/output_path.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "base/atomic.h"
#include "os/sandbox.h"

namespace {

std::string Expand(const std::string &pattern) {
  std::vector<char> buffer(HK_OUTPUT_PATH_BYTES);
  hk_output_path_expand(buffer.data(), pattern.c_str());
  return buffer.data();
}

TEST(OutputPath, StandsForTheProcess) {
  std::string id = std::to_string(getpid());
  EXPECT_EQ(Expand("/a/b.json"), "/a/b.json");
  EXPECT_EQ(Expand("%p/x-%p"), id + "/x-" + id);
  EXPECT_EQ(Expand("100%%%%p%%%p"), "100%%p%" + id);
  EXPECT_EQ(Expand("50%"), "50%");
  EXPECT_EQ(Expand("%q%"), "%q%");
}

TEST(OutputPath, KnowsWhetherEachProcessHasItsOwn) {
  EXPECT_TRUE(hk_output_path_has_process_id("a%p"));
  EXPECT_TRUE(hk_output_path_has_process_id("%%%p"));
  EXPECT_FALSE(hk_output_path_has_process_id("a%%p"));
  EXPECT_FALSE(hk_output_path_has_process_id("p%"));
  EXPECT_FALSE(hk_output_path_has_process_id(""));
}

// Makes no file: notes the path, and finds that the first ones exist.
struct Paths {
  int existing;
  std::vector<std::string> seen;
};

int Make(const char *path, void *context) {
  auto *paths = static_cast<Paths *>(context);
  paths->seen.push_back(path);
  return static_cast<int>(paths->seen.size()) <= paths->existing ? EEXIST : 0;
}

TEST(OutputPath, ANameThatExistsGetsTheTimeBehindItsLastProcessId) {
  std::string id = std::to_string(getpid());
  std::vector<char> buffer(HK_OUTPUT_PATH_BYTES);
  Paths paths = {1, {}};
  EXPECT_EQ(hk_output_path_make(buffer.data(), "%p/%%%p.%p.om", Make, &paths), 0);
  ASSERT_EQ(paths.seen.size(), 2u);
  EXPECT_EQ(paths.seen[0], id + "/%" + id + "." + id + ".om");
  std::string start = id + "/%" + id + "." + id + "-", second = paths.seen[1];
  EXPECT_EQ(second.substr(0, start.size()), start);
  EXPECT_EQ(second.find_first_not_of("0123456789", start.size()), second.size() - 3);
  EXPECT_EQ(second, buffer.data());
}

TEST(OutputPath, ANameWithoutAProcessIdHasNoOther) {
  std::vector<char> buffer(HK_OUTPUT_PATH_BYTES);
  for (const char *pattern : {"a", "%p/a", "a%%p"}) {
    Paths paths = {1, {}};
    EXPECT_EQ(hk_output_path_make(buffer.data(), pattern, Make, &paths), EEXIST);
    EXPECT_EQ(paths.seen.size(), 1u);
  }
}

TEST(OutputPath, TheLongestPatternHasRoom) {
  std::string id = std::to_string(getpid()), pattern, expected;
  while (pattern.size() + 2 < HK_OPTION_TEXT_BYTES && expected.size() + id.size() < HK_OUTPUT_PATH_BYTES) {
    pattern += pattern.size() % 40 == 0 ? "%p" : "ab";
    expected += pattern.back() == 'p' ? id : "ab";
  }
  EXPECT_EQ(Expand(pattern), expected);
}

TEST(OutputPath, SaysWhatAnErrorMeans) {
  EXPECT_STREQ(hk_output_path_reason(EROFS), "permission denied");
  EXPECT_STREQ(hk_output_path_reason(ENOSPC), hk_output_path_reason(EFBIG));
  EXPECT_STREQ(hk_output_path_reason(EBADF), "the program has closed it");
  EXPECT_STREQ(hk_output_path_reason(ENOMEM), "the system refuses memory for it");
  EXPECT_STREQ(hk_output_path_reason(EMFILE), "the process has as many files open as its limit allows (ulimit -n)");
  EXPECT_STREQ(hk_output_path_reason(ENFILE), "the system has as many files open as it allows (fs.file-max)");
  EXPECT_STREQ(hk_output_path_reason(EIO), "the system refuses");
}

TEST(OutputPath, SaysThatAFilterIsTheReason) {
  EXPECT_STREQ(hk_output_path_reason(EPERM), "permission denied");
  hk_store_relaxed(&hk_sandbox_level, hk_sandbox_filtered);
  EXPECT_STREQ(hk_output_path_reason(EPERM), "a system call filter may kill for it (see HAKMEM_SANDBOX)");
  EXPECT_STREQ(hk_output_path_reason(EACCES), "permission denied");
  hk_store_relaxed(&hk_sandbox_level, hk_sandbox_none);
}

}  // namespace
