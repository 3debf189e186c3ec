// inspect/crash_report where the preloaded programs cannot bring it: a crash while every lock of ours is held. On the
// real system.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/units.h"
#include "hakmem/hakmem.h"
#include "in_child.h"
#include "os/lock.h"
#include "os/os.h"
#include "policy/option.h"
#include "scale.h"

extern "C" {
#include "api/instruments.h"
}

namespace {

// The stderr of `body` in a child that reports crashes, and the child's end.
template <typename Body>
std::string ErrorsOf(Body body, int *end) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  *end = hk_test::InChild([&] {
    (void)dup2(ends[1], STDERR_FILENO);
    hk_option.crash_report = 1;
    hk_crash_report_install();
    body();
    return 0;
  });
  (void)close(ends[1]);
  std::string text(16384, '\0');
  ssize_t length = read(ends[0], &text[0], text.size());
  (void)close(ends[0]);
  text.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return text;
}

TEST(CrashReport, NeedsNoLock) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer has handlers of its own";
  int end = 0;
  std::string text = ErrorsOf(
      [] {
        auto *block = static_cast<char *>(hakmem_malloc(100000));
        auto *freed = static_cast<char *>(hakmem_malloc(100));
        hakmem_free(freed);
        (void)mprotect(block, hk_os_page_size(), PROT_NONE);
        for (int lock = 0; lock < hk_lock_count; lock++) hk_lock_acquire(static_cast<hk_lock_id_t>(lock));
        *const_cast<volatile char *>(block + 5) = 1;
      },
      &end);
  EXPECT_EQ(end, -SIGSEGV);
  EXPECT_EQ(text.find("hakmem: crash: SIGSEGV in thread "), 0u) << text;
  EXPECT_NE(text.find(" is 5 bytes into a live block of 131072 bytes at 0x"), std::string::npos) << text;
}

TEST(CrashReport, IsNotThereUnlessAskedFor) {
  struct sigaction before, after;
  ASSERT_EQ(sigaction(SIGABRT, nullptr, &before), 0);
  EXPECT_EQ(hk_test::InChild([&] {
              hk_crash_report_install();
              (void)sigaction(SIGABRT, nullptr, &after);
              return std::memcmp(&before.sa_handler, &after.sa_handler, sizeof after.sa_handler) == 0 ? 0 : 1;
            }),
            0);
}

// A thread's second stack: made once, given back whole, and never in the place of one that the program has made.
TEST(CrashReport, AThreadsStackIsItsOwn) {
  if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer has second stacks of its own";
  EXPECT_EQ(hk_test::InChild([] {
              hk_option.crash_report = 1;
              stack_t now;
              hk_crash_report_begin_thread();
              (void)sigaltstack(nullptr, &now);
              if ((now.ss_flags & SS_DISABLE) != 0 || now.ss_size < 32 * HK_KIB) return 1;
              void *first = now.ss_sp;
              hk_crash_report_begin_thread();
              (void)sigaltstack(nullptr, &now);
              if (now.ss_sp != first) return 2;
              hk_crash_report_end_thread();
              (void)sigaltstack(nullptr, &now);
              if ((now.ss_flags & SS_DISABLE) == 0) return 3;
              unsigned char resident;
              if (mincore(first, 1, &resident) == 0) return 4;

              static char own[64 * 1024];
              stack_t stack = {};
              stack.ss_sp = own;
              stack.ss_size = sizeof own;
              hk_crash_report_begin_thread();
              (void)sigaltstack(&stack, nullptr); /* the program's takes the place of ours */
              hk_crash_report_end_thread();
              (void)sigaltstack(nullptr, &now);
              if (now.ss_sp != own) return 5;
              hk_crash_report_begin_thread();
              (void)sigaltstack(nullptr, &now);
              return now.ss_sp == own ? 0 : 6;
            }),
            0);
}

}  // namespace
