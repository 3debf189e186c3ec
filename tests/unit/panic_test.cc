// base/panic: the line and the end of the process.
#include "base/panic.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "in_child.h"

namespace {

TEST(PanicDeathTest, WritesOneLineAndAborts) {
  EXPECT_EXIT(hk_panic("space/run.c", 12, "the map is torn"), testing::KilledBySignal(SIGABRT),
              "^hakmem: internal error: the map is torn \\(space/run.c:12\\)\n$");
}

TEST(PanicDeathTest, RequireNamesItsPlace) {
  HK_REQUIRE(1 + 1 == 2, "arithmetic holds");
  EXPECT_EXIT(HK_REQUIRE(1 + 1 == 3, "arithmetic fails"), testing::KilledBySignal(SIGABRT),
              "internal error: arithmetic fails \\(.*panic_test.cc:[0-9]+\\)\n$");
}

TEST(PanicDeathTest, AbortsThoughSigabrtIsIgnored) {
  EXPECT_EXIT(
      {
        signal(SIGABRT, SIG_IGN);
        hk_panic("f.c", 1, "x");
      },
      testing::KilledBySignal(SIGABRT), "internal error");
}

TEST(Panic, ALongLineIsCutButEnded) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  int result = hk_test::InChild([&] {
    dup2(pipe_ends[1], STDERR_FILENO);
    hk_panic("f.c", 1, std::string(5000, 'x').c_str());
    return 0;
  });
  EXPECT_EQ(result, -SIGABRT);
  char text[6000];
  ssize_t length = read(pipe_ends[0], text, sizeof(text));
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  ASSERT_EQ(length, 1023);
  EXPECT_EQ(std::string(text, 30), "hakmem: internal error: xxxxxx");
  EXPECT_EQ(text[length - 2], 'x');
  EXPECT_EQ(text[length - 1], '\n');
}

TEST(PanicDeathTest, AssertIsForDebugBuilds) {
  int evaluated = 0;
#if HK_DEBUG
  HK_ASSERT(++evaluated == 1, "evaluated once");
  EXPECT_EQ(evaluated, 1);
  EXPECT_EXIT(HK_ASSERT(evaluated == 2, "not so"), testing::KilledBySignal(SIGABRT), "internal error: not so");
#else
  HK_ASSERT(++evaluated == 5, "not evaluated");
  EXPECT_EQ(evaluated, 0);
#endif
}

}  // namespace
