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
#include "os/growing_file.h"
#include "os/sandbox_status.h"
#include "os/syscall.h"
#include "os/whole_file.h"
}

namespace {

class Sandbox : public testing::Test {
 protected:
  ~Sandbox() override { hk_store_relaxed(&hk_sandbox_level, hk_sandbox_none); }
  static void Enter(hk_sandbox_t level) { hk_store_relaxed(&hk_sandbox_level, level); }

  std::string Write(const std::string &name, const std::string &text) const {
    std::filesystem::path file = std::filesystem::path(folder_.path()) / name;
    std::ofstream(file) << text;
    return file;
  }

  hk_sandbox_t Read(const std::string &text) const { return hk_sandbox_status_read(Write("status", text).c_str()); }

  bool IsSame(const std::string &own, const std::string &first) const {
    return hk_sandbox_status_is_same(Write("own", own).c_str(), Write("first", first).c_str());
  }

 private:
  hk_test::Folder folder_;
};

TEST_F(Sandbox, ACallThatIsNotPermittedIsNotMade) {
  unsigned char page[1];
  Enter(hk_sandbox_container);
  EXPECT_EQ(hk_syscall3(SYS_mincore, 0, 0, reinterpret_cast<long>(page)), -EPERM);
  EXPECT_GT(hk_syscall2(SYS_getpid, 0, 0), 0);
  Enter(hk_sandbox_inherited);
  EXPECT_EQ(hk_syscall2(SYS_getpid, 0, 0), -EPERM);
  EXPECT_EQ(hk_syscall3(SYS_fcntl, 0, 0, 0), -EPERM);
  EXPECT_EQ(hk_syscall4(SYS_openat, -1, reinterpret_cast<long>("nowhere"), 0, 0), -EBADF);
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

TEST_F(Sandbox, TheContainersFilterIsTheOneOfItsFirstProcess) {
  const std::string none = "Seccomp:\t0\nSeccomp_filters:\t0\n", one = "Seccomp:\t2\nSeccomp_filters:\t1\n",
                    two = "Seccomp:\t2\nSeccomp_filters:\t2\n";
  EXPECT_TRUE(IsSame(one, one));
  EXPECT_TRUE(IsSame("Seccomp:\t2\n", "Seccomp:\t2\n")) << "a kernel that does not count them";
  EXPECT_FALSE(IsSame(one, none));
  EXPECT_FALSE(IsSame(two, one)) << "one more filter than the container's";
  EXPECT_FALSE(hk_sandbox_status_is_same(Write("own", one).c_str(), "/nowhere/status"));
}

TEST_F(Sandbox, SignsOfAContainer) {
  const char *const no_files[] = {"/nowhere/file", nullptr};
  const std::string file = Write("mark", "");
  const char *const files[] = {"/nowhere/file", file.c_str(), nullptr};
  const char *const other[] = {"HOME=/", "CONTAINER=x", nullptr},
                    *const engine[] = {"HOME=/", "container=podman", nullptr},
                    *const pod[] = {"KUBERNETES_SERVICE_HOST=10.0.0.1", nullptr};
  EXPECT_FALSE(hk_sandbox_status_is_contained(other, no_files));
  EXPECT_FALSE(hk_sandbox_status_is_contained(nullptr, no_files));
  EXPECT_TRUE(hk_sandbox_status_is_contained(engine, no_files));
  EXPECT_TRUE(hk_sandbox_status_is_contained(pod, no_files));
  EXPECT_TRUE(hk_sandbox_status_is_contained(other, files));
}

TEST_F(Sandbox, AFileIsNotReplacedWhereNoExchangeIsPermitted) {
  Enter(hk_sandbox_inherited);
  const std::string file = Write("file", "old"), fresh = file + ".fresh", trace = file + ".trace";
  EXPECT_EQ(hk_whole_file_replace(file.c_str(), "new", 3), EEXIST);
  EXPECT_EQ(hk_whole_file_replace(fresh.c_str(), "new", 3), 0);
  char text[8];
  size_t length = 0;
  EXPECT_EQ(hk_whole_file_read(fresh.c_str(), text, sizeof text, &length), 0);
  EXPECT_EQ(std::string(text, length), "new");
  hk_kept_file_t kept;
  const hk_file_piece_t piece = {"a", 1, "b", 1};
  EXPECT_EQ(hk_growing_file_open(&kept, trace.c_str(), &piece), EPERM);
  EXPECT_FALSE(std::filesystem::exists(trace)) << "no empty file stays behind";
}

TEST_F(Sandbox, WhatInstallsAFilterAndWhatOnlyAsks) {
  constexpr unsigned long kSetSeccomp = 22, kStrict = 1, kFilter = 2, kAFilter = 0x1000;
  EXPECT_EQ(hk_confine_level_of_prctl(kSetSeccomp, kFilter, kAFilter), hk_sandbox_filtered);
  EXPECT_EQ(hk_confine_level_of_prctl(kSetSeccomp, kStrict, 0), hk_sandbox_strict);
  EXPECT_EQ(hk_confine_level_of_prctl(kSetSeccomp, kFilter, 0), hk_sandbox_none);
  EXPECT_EQ(hk_confine_level_of_prctl(15, kFilter, kAFilter), hk_sandbox_none);
  EXPECT_EQ(hk_confine_level_of_seccomp(1, 0, kAFilter), hk_sandbox_filtered);
  EXPECT_EQ(hk_confine_level_of_seccomp(1, 1, 0), hk_sandbox_none) << "libseccomp asks for flags so";
  EXPECT_EQ(hk_confine_level_of_seccomp(0, 0, 0), hk_sandbox_strict);
  EXPECT_EQ(hk_confine_level_of_seccomp(2, 0, kAFilter), hk_sandbox_none);
}

}  // namespace
