// serve/serve_command: the table of the commands of the socket.
#include "serve/serve_command.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "hakmem/hakmem.h"
#include "in_child.h"

namespace {

std::string Answer(const char *line, const char **reason, bool (*may_go_on)(void) = nullptr) {
  static char buffer[64 << 10];
  hk_format_t out;
  hk_format_init(&out, buffer, sizeof buffer);
  uint64_t run = 0;
  *reason = hk_serve_command(&out, line, &run, may_go_on);
  return std::string(out.text, out.length);
}

TEST(ServeCommand, WordsMustBeWhole) {
  const char *reason;
  EXPECT_EQ(Answer("protocol", &reason), "hakmem: this process answers, protocol 1\n");
  EXPECT_EQ(reason, nullptr);
  for (const char *line : {"", "p", "protocols", "stats", "stats json5", " protocol", "STATS JSON"}) {
    EXPECT_EQ(Answer(line, &reason), "") << line;
    EXPECT_STREQ(reason, "unknown command") << line;
  }
}

TEST(ServeCommand, AScanForLeaksIsStopped) {
  EXPECT_EQ(hk_test::InChild([] {
              const char *reason;
              HK_CHILD_CHECK(hakmem_profile_start(1));
              void *volatile block = hakmem_malloc(100);
              HK_CHILD_CHECK(block != nullptr);
              (void)Answer("leaks scan", &reason, [] { return false; });
              HK_CHILD_CHECK(reason != nullptr && strstr(reason, "rights have changed") != nullptr);
              (void)Answer("leaks", &reason, [] { return false; });
              HK_CHILD_CHECK(reason == nullptr);
              return 0;
            }),
            0);
}

}  // namespace
