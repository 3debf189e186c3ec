// What the tests of os_linux.c share: a known errno.
#ifndef HK_TESTS_UNIT_OS_LINUX_DRIVER_H
#define HK_TESTS_UNIT_OS_LINUX_DRIVER_H

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>

#include "os/os.h"
#include "refuse_call.h"

namespace hk_test {

inline const size_t kPage = hk_os_page_size();
inline constexpr int kErrno = 1234;

// Sets errno before each test; the tests end with a look at it.
class OsLinux : public testing::Test {
 protected:
  void SetUp() override { errno = kErrno; }
};

}  // namespace hk_test

#endif  // HK_TESTS_UNIT_OS_LINUX_DRIVER_H
