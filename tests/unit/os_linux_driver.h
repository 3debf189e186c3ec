// What the tests of os_linux.c share: a known errno, and the list of mappings.
#ifndef HK_TESTS_UNIT_OS_LINUX_DRIVER_H
#define HK_TESTS_UNIT_OS_LINUX_DRIVER_H

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <vector>

#include "os/os.h"
#include "refuse_call.h"

namespace hk_test {
inline namespace os_linux_driver {

inline const size_t kPage = hk_os_page_size();
inline constexpr int kErrno = 1234;

inline bool IsMapped(const void *start, size_t bytes) {
  int saved_errno = errno;
  std::vector<unsigned char> resident(bytes / kPage + 1);
  bool is_mapped = mincore(const_cast<void *>(start), bytes, resident.data()) == 0;
  errno = saved_errno;
  return is_mapped;
}

inline size_t MappedBytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * kPage;
}

// Sets errno before each test; the tests end with a look at it.
class OsLinux : public testing::Test {
 protected:
  void SetUp() override { errno = kErrno; }
};

}  // namespace os_linux_driver
}  // namespace hk_test

#endif  // HK_TESTS_UNIT_OS_LINUX_DRIVER_H
