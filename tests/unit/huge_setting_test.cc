// os/huge_setting: what the kernel's file says.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

extern "C" {
#include "os/huge_setting.h"
}

namespace {

hk_os_huge_t Read(const std::string &text) {
  char path[] = "/tmp/huge_setting_test_XXXXXX";
  int file = mkstemp(path);
  EXPECT_GE(file, 0);
  EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(file);
  hk_os_huge_t setting = hk_huge_setting_read(path);
  unlink(path);
  return setting;
}

TEST(HugeSetting, IsTheWordInBrackets) {
  EXPECT_EQ(Read("[always] madvise never\n"), hk_os_huge_everywhere);
  EXPECT_EQ(Read("always [madvise] never\n"), hk_os_huge_on_request);
  EXPECT_EQ(Read("always madvise [never]\n"), hk_os_huge_never);
}

TEST(HugeSetting, WhatIsNotKnownIsNever) {
  for (const char *text : {"", "\n", "always", "[", "[alw", "[inherit] always", "madvise\n[always]\n"}) {
    EXPECT_EQ(Read(text), hk_os_huge_never) << text;
  }
  EXPECT_EQ(Read(std::string(5000, ' ') + "[always]"), hk_os_huge_never);
  EXPECT_EQ(hk_huge_setting_read("/nowhere/at/all"), hk_os_huge_never);
}

}  // namespace
