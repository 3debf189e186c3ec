// os/huge_setting: what the kernel's file says.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "folder.h"

extern "C" {
#include "os/huge_setting.h"
}

namespace {

hk_os_huge_t Read(const std::string &text) {
  const hk_test::Folder folder;
  const std::string path = folder / "enabled";
  std::ofstream(path) << text;
  return hk_huge_setting_read(path.c_str());
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
  std::string wide(5000, ' ');
  EXPECT_EQ(Read(wide.append("[always]")), hk_os_huge_never);
  EXPECT_EQ(hk_huge_setting_read("/nowhere/at/all"), hk_os_huge_never);
}

}  // namespace
