/* tests/support/process_memory.h - the virtual and resident memory of this process. */
#ifndef HK_TESTS_SUPPORT_PROCESS_MEMORY_H
#define HK_TESTS_SUPPORT_PROCESS_MEMORY_H

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace hk_test {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kGiB = 1024 * kMiB;

/* The largest tiny, mid and run sizes: tests look at both sides of each. */
constexpr size_t kTinyMax = kKiB;
constexpr size_t kMidMax = 32 * kKiB;
constexpr size_t kRunMax = kMiB;

struct ProcessMemory {
  size_t virtual_bytes;
  size_t resident_bytes;
};

/* Reads /proc without stdio, whose buffers would come from malloc. */
inline ProcessMemory ReadProcessMemory() {
  char text[128] = {0};
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    ssize_t count = read(file, text, sizeof text - 1);
    close(file);
    if (count < 0) text[0] = '\0';
  }
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char *end = text;
  size_t virtual_pages = std::strtoull(text, &end, 10);
  size_t resident_pages = std::strtoull(end, nullptr, 10);
  return {virtual_pages * page, resident_pages * page};
}

inline size_t ResidentBytes() { return ReadProcessMemory().resident_bytes; }

/* Returns the highest resident bytes since the process, or the child of fork, began. */
inline size_t PeakResidentBytes() {
  char text[8192] = {0};
  int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  const char *line = count > 0 ? std::strstr(text, "VmHWM:") : nullptr;
  return line != nullptr ? std::strtoull(line + 6, nullptr, 10) * kKiB : 0;
}

} /* namespace hk_test */

#endif
