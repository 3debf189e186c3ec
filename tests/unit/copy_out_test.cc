// os/copy_out: as much as can be read, by the kernel's copies and without.
#include "os/copy_out.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "fresh_test.h"

namespace {

constexpr size_t kPage = 4096;

// Two pages that can be read, and one behind them that cannot.
void ExpectCopies() {
  char *pages =
      static_cast<char *>(mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  auto start = reinterpret_cast<uintptr_t>(pages);
  for (size_t i = 0; i < 2 * kPage; i++) pages[i] = static_cast<char>(i * 7);
  ASSERT_EQ(mprotect(pages + 2 * kPage, kPage, PROT_NONE), 0);
  static char copy[3 * kPage];
  EXPECT_EQ(hk_os_copy_out(copy, start, 2 * kPage), 2 * kPage);
  EXPECT_EQ(memcmp(copy, pages, 2 * kPage), 0);
  EXPECT_EQ(hk_os_copy_out(copy, start + 100, 3 * kPage - 200), 2 * kPage - 100);
  EXPECT_EQ(memcmp(copy, pages + 100, 2 * kPage - 100), 0);
  EXPECT_EQ(hk_os_copy_out(copy, start + 2 * kPage - 3, 8), 3u);
  EXPECT_EQ(hk_os_copy_out(copy, start + 2 * kPage, 8), 0u);
  EXPECT_EQ(hk_os_copy_out(copy, start, 0), 0u);
  for (uintptr_t nowhere : {uintptr_t{0}, uintptr_t{5}, uintptr_t{1} << 47, uintptr_t{1} << 60, UINTPTR_MAX - 3}) {
    EXPECT_EQ(hk_os_copy_out(copy, nowhere, 8), 0u) << nowhere;
  }
  munmap(pages, 3 * kPage);
}

HK_FRESH_TEST(CopyOut, ByTheKernel) { ExpectCopies(); }

HK_FRESH_TEST(CopyOut, WhereTheKernelRefuses) {
  hk_os_copy_out_refuse();
  ExpectCopies();
}

TEST(CopyOut, KnowsAWrittenPage) {
  char *pages =
      static_cast<char *>(mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  auto page = reinterpret_cast<uintptr_t>(pages);
  pages[kPage] = 1; /* the next page */
  for (size_t at : {size_t{0}, size_t{511}, size_t{512}, size_t{2000}, kPage - 513, kPage - 1}) {
    EXPECT_FALSE(hk_os_is_written(page)) << at;
    pages[at] = 1;
    EXPECT_TRUE(hk_os_is_written(page)) << at;
    pages[at] = 0;
  }
  ASSERT_EQ(mprotect(pages, kPage, PROT_NONE), 0);
  EXPECT_FALSE(hk_os_is_written(page)) << "it cannot be read";
  munmap(pages, 2 * kPage);
}

TEST(CopyOut, SaysWhatCanBeRead) {
  static int here;
  EXPECT_TRUE(hk_os_can_read(reinterpret_cast<uintptr_t>(&here)));
  for (uintptr_t nowhere : {uintptr_t{0}, uintptr_t{7}, uintptr_t{8}, uintptr_t{1} << 60}) {
    EXPECT_FALSE(hk_os_can_read(nowhere)) << nowhere;
  }
}

}  // namespace
