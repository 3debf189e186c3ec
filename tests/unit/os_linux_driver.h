// What the tests of os_linux.c share: a known errno, and a system that refuses.
#ifndef HK_TESTS_UNIT_OS_LINUX_DRIVER_H
#define HK_TESTS_UNIT_OS_LINUX_DRIVER_H

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstddef>

#include "os/os.h"

namespace hk_test {

inline const size_t kPage = hk_os_page_size();
inline constexpr int kErrno = 1234;

// Sets errno before each test; the tests end with a look at it.
class OsLinux : public testing::Test {
 protected:
  void SetUp() override { errno = kErrno; }
};

// From here on this process gets `error` from the system call. False where that cannot be arranged.
inline bool Refuse(long number, int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace hk_test

#endif  // HK_TESTS_UNIT_OS_LINUX_DRIVER_H
