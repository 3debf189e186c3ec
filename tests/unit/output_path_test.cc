// policy/output_path: %p and %% in paths.
#include "policy/output_path.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

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
  EXPECT_STREQ(hk_output_path_reason(EIO), "the system refuses");
}

}  // namespace
