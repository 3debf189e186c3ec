// os/sandbox: which calls are made in which sandbox, and how the library recognises one that it was started in.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "folder.h"

extern "C" {
#include "api/confine.h"
#include "os/sandbox_status.h"
#include "os/syscall.h"
}

namespace {

class Sandbox : public testing::Test {
 protected:
  ~Sandbox() override { hk_store_relaxed(&hk_sandbox_level, hk_sandbox_none); }
  static void Enter(hk_sandbox_t level) { hk_store_relaxed(&hk_sandbox_level, level); }

  hk_sandbox_t Read(const std::string &text) const {
    std::filesystem::path file = std::filesystem::path(folder_.path()) / "status";
    std::ofstream(file) << text;
    return hk_sandbox_status_read(file.c_str());
  }

 private:
  hk_test::Folder folder_;
};

TEST_F(Sandbox, ACallThatIsNotPermittedIsNotMade) {
  unsigned char page[1];
  Enter(hk_sandbox_inherited);
  EXPECT_EQ(hk_syscall3(SYS_mincore, 0, 0, reinterpret_cast<long>(page)), -EPERM);
  EXPECT_GT(hk_syscall2(SYS_getpid, 0, 0), 0);
  Enter(hk_sandbox_filtered);
  EXPECT_EQ(hk_syscall2(SYS_getpid, 0, 0), -EPERM);
  EXPECT_EQ(hk_syscall4(SYS_openat, 0, 0, 0, 0), -EPERM);
  EXPECT_EQ(hk_syscall3(SYS_madvise, 0, 0, 0), 0);
  Enter(hk_sandbox_strict);
  EXPECT_EQ(hk_syscall3(SYS_madvise, 0, 0, 0), -EPERM);
  EXPECT_EQ(hk_syscall3(SYS_write, -1, 0, 0), -EBADF);
}

TEST_F(Sandbox, CallsThatAreNotMadeAreNotCounted) {
  uint64_t before = hk_call_count(hk_call_other);
  Enter(hk_sandbox_filtered);
  (void)hk_syscall2(SYS_getpid, 0, 0);
  EXPECT_EQ(hk_call_count(hk_call_other), before);
}

TEST_F(Sandbox, TheKernelTellsOfAFilterSinceExec) {
  EXPECT_EQ(Read("Name:\ta\nNoNewPrivs:\t1\nSeccomp:\t0\nSeccomp_filters:\t0\n"), hk_sandbox_none);
  EXPECT_EQ(Read("Name:\ta\nSeccomp:\t2\nSeccomp_filters:\t1\n"), hk_sandbox_inherited);
  EXPECT_EQ(Read("Name:\ta\nSeccomp:\t1\n"), hk_sandbox_inherited);
  EXPECT_EQ(Read("Name:\ta\n"), hk_sandbox_none) << "a kernel without filters";
  EXPECT_EQ(hk_sandbox_status_read("/nowhere/status"), hk_sandbox_inherited);
  EXPECT_EQ(hk_sandbox_status_read("/"), hk_sandbox_inherited) << "it can be opened, and not be read";
}

TEST_F(Sandbox, WhatInstallsAFilterAndWhatOnlyAsks) {
  constexpr unsigned long kSetSeccomp = 22, kStrict = 1, kFilter = 2, kAFilter = 0x1000;
  EXPECT_EQ(hk_confine_by_prctl(kSetSeccomp, kFilter, kAFilter), hk_sandbox_filtered);
  EXPECT_EQ(hk_confine_by_prctl(kSetSeccomp, kStrict, 0), hk_sandbox_strict);
  EXPECT_EQ(hk_confine_by_prctl(kSetSeccomp, kFilter, 0), hk_sandbox_none);
  EXPECT_EQ(hk_confine_by_prctl(15, kFilter, kAFilter), hk_sandbox_none);
  EXPECT_EQ(hk_confine_by_seccomp(1, 0, kAFilter), hk_sandbox_filtered);
  EXPECT_EQ(hk_confine_by_seccomp(1, 1, 0), hk_sandbox_none) << "libseccomp asks for flags so";
  EXPECT_EQ(hk_confine_by_seccomp(0, 0, 0), hk_sandbox_strict);
  EXPECT_EQ(hk_confine_by_seccomp(2, 0, kAFilter), hk_sandbox_none);
}

}  // namespace
