// One program has the tests of many source files. `--source=NAME` runs those of NAME.cc in a process of their own. It
// combines with GoogleTest's own flags.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace {

constexpr char kFlag[] = "--source=";

bool IsOf(const testing::TestInfo *test, const std::string &source) {
  const char *slash = strrchr(test->file(), '/');
  return (slash != nullptr ? slash + 1 : test->file()) == source + ".cc";
}

// Returns GoogleTest's filter for the tests of a source file; an empty one when it has no tests.
std::string FilterOf(const std::string &source) {
  std::string filter;
  const testing::UnitTest *all = testing::UnitTest::GetInstance();
  for (int i = 0; i < all->total_test_suite_count(); i++) {
    const testing::TestSuite *suite = all->GetTestSuite(i);
    for (int j = 0; j < suite->total_test_count(); j++) {
      const testing::TestInfo *test = suite->GetTestInfo(j);
      if (IsOf(test, source)) filter += std::string(suite->name()) + "." + test->name() + ":";
    }
  }
  return filter;
}

// Keeps a filter that names tests: a death test runs its program again with one. Combines a filter that only leaves
// tests out with the source's.
bool SelectSource(const std::string &source) {
  std::string wanted = testing::GTEST_FLAG(filter);
  if (wanted != "*" && wanted[0] != '-') return true;
  std::string filter = FilterOf(source);
  if (filter.empty()) {
    fprintf(stderr, "no test of %s.cc is in this program\n", source.c_str());
    return false;
  }
  testing::GTEST_FLAG(filter) = wanted == "*" ? filter : filter + wanted;
  return true;
}

}  // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], kFlag, strlen(kFlag)) != 0) {
      fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 2;
    }
    if (!SelectSource(argv[i] + strlen(kFlag))) return 2;
  }
  return RUN_ALL_TESTS();
}
