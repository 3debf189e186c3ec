// os/memory_limit: the limits of control groups, as files of a machine that the test writes say them.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/units.h"
#include "folder.h"

extern "C" {
#include "os/kernel_file.h"
#include "os/memory_limit.h"
}

namespace {

namespace fs = std::filesystem;

constexpr char kMountV2[] = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kMountV1[] = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
constexpr char kV2[] = "sys/fs/cgroup";
constexpr char kV1[] = "sys/fs/cgroup/memory";

class MemoryLimit : public testing::Test {
 protected:
  void Write(const std::string &path, const std::string &text) {
    fs::path file = fs::path(root_.path()) / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  // The process is in this group, with these mounts.
  void Process(const std::string &cgroup, const std::string &mountinfo) {
    Write("proc/self/cgroup", cgroup);
    Write("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/root rw\n" + mountinfo);
  }

  void GroupV2(const std::string &folder, const std::string &max, const std::string &high, size_t current,
               size_t inactive = 0) {
    Write(folder + "/memory.max", max + "\n");
    Write(folder + "/memory.high", high + "\n");
    Write(folder + "/memory.current", std::to_string(current) + "\n");
    Write(folder + "/memory.stat", "anon 1\nfile 2\nactive_file 4\ninactive_file " + std::to_string(inactive) + "\n");
  }

  void GroupV1(const std::string &folder, const std::string &limit, size_t usage, size_t inactive = 0) {
    Write(folder + "/memory.limit_in_bytes", limit + "\n");
    Write(folder + "/memory.usage_in_bytes", std::to_string(usage) + "\n");
    Write(folder + "/memory.stat",
          "cache 1\ninactive_file 7\ntotal_cache 2\ntotal_inactive_file " + std::to_string(inactive) + "\n");
  }

  bool Find() { return hk_memory_limit_find(&place_, root_.path().c_str(), &buffers_); }

  // Reads the limit; 0 is none.
  hk_os_memory_limit_t Read() {
    hk_os_memory_limit_t found = {77, 77, 77, 77};
    EXPECT_TRUE(hk_memory_limit_read(&place_, &found, &buffers_));
    return found;
  }

  void ExpectFound(size_t limit, size_t use) {
    ASSERT_TRUE(Find());
    hk_os_memory_limit_t found = Read();
    EXPECT_EQ(found.limit_bytes, limit);
    EXPECT_EQ(found.use_bytes, use);
  }

  unsigned Stalled(const std::string &otherwise = "nowhere") {
    return hk_memory_limit_stalled(&place_, (root_ / otherwise).c_str(), &buffers_);
  }

  const hk_test::Folder root_;
  hk_memory_limit_place_t place_ = {};
  hk_memory_limit_buffers_t buffers_ = {};
};

TEST_F(MemoryLimit, AGroupOfVersion2HasItsLimitAndUse) {
  Process("0::/box\n", kMountV2);
  GroupV2(kV2 + std::string("/box"), "268435456", "max", 1000);
  ExpectFound(256 * HK_MIB, 1000);
}

TEST_F(MemoryLimit, TheMountsAreTheCallingThreads) {
  Write("proc/self/cgroup", "0::/box\n"); /* after the end of the first thread */
  Write("proc/thread-self/mountinfo", kMountV2);
  GroupV2(kV2 + std::string("/box"), "268435456", "max", 1000);
  ExpectFound(256 * HK_MIB, 1000);
}

TEST_F(MemoryLimit, TheGroupOfVersion1IsTheCallingThreadsOnceTheFirstHasEnded) {
  const std::string mounts = std::string(kMountV2) + kMountV1;
  Process("4:memory:/\n0::/box\n", mounts);
  Write("proc/thread-self/cgroup", "4:memory:/box\n0::/box/threaded\n");
  GroupV1(kV1, "9223372036854771712", 5000);
  GroupV1(kV1 + std::string("/box"), "268435456", 1000);
  ExpectFound(256 * HK_MIB, 1000);
}

TEST_F(MemoryLimit, TheRootOfVersion1IsAGroupToo) {
  Process("4:memory:/\n", kMountV1); /* without thread-self */
  GroupV1(kV1, "268435456", 1000);
  ExpectFound(256 * HK_MIB, 1000);
  Write("proc/thread-self/cgroup", "4:memory:/\n");
  ExpectFound(256 * HK_MIB, 1000);
}

TEST_F(MemoryLimit, AVersion2GroupIsNeverAThreadsOwn) {
  Process("0::/box\n", kMountV2);
  Write("proc/thread-self/cgroup", "0::/box/threaded\n");
  GroupV2(kV2 + std::string("/box"), "268435456", "max", 1000);
  GroupV2(kV2 + std::string("/box/threaded"), "1000", "max", 10);
  ExpectFound(256 * HK_MIB, 1000);
}

TEST_F(MemoryLimit, TheLowerOfTheTwoLimitsCounts) {
  Process("0::/box\n", kMountV2);
  GroupV2(kV2 + std::string("/box"), "268435456", "200000000", 1000);
  ExpectFound(200000000, 1000);
  GroupV2(kV2 + std::string("/box"), "max", "200000000", 1000);
  ExpectFound(200000000, 1000);
  GroupV2(kV2 + std::string("/box"), "100000000", "200000000", 1000);
  ExpectFound(100000000, 1000);
}

TEST_F(MemoryLimit, AGroupOfVersion1HasItsLimitAndUse) {
  Process("9:name=systemd:/\n4:cpu,memory:/box/inner\n0::/\n", std::string(kMountV2) + kMountV1);
  GroupV1(kV1 + std::string("/box/inner"), "268435456", 1000);
  GroupV1(kV1 + std::string("/box"), "9223372036854771712", 1000);
  ExpectFound(256 * HK_MIB, 1000);
}

TEST_F(MemoryLimit, WhatOnlyLooksLikeTheControllerIsNone) {
  Process("5:memoryx,xmemory:/box\n6:cpu:/memory\n",
          "36 31 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  GroupV1(kV1 + std::string("/box"), "1000000", 1000);
  GroupV1(kV1 + std::string("/memory"), "1000000", 1000);
  EXPECT_FALSE(Find());
  Process("5:memory:/box\n", "36 31 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory_hugetlb\n");
  EXPECT_FALSE(Find());
}

TEST_F(MemoryLimit, WhereVersion1HasNoMemoryVersion2Has) {
  Process("4:pids:/\n0::/box\n",
          std::string("34 31 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n") + kMountV2);
  GroupV2(kV2 + std::string("/box"), "5000000", "max", 10);
  ExpectFound(5000000, 10);
}

TEST_F(MemoryLimit, GroupsAboveCountToo) {
  Process("0::/pod/box\n", kMountV2);
  GroupV2(kV2 + std::string("/pod/box"), "max", "max", 10);
  GroupV2(kV2 + std::string("/pod"), "5000000", "max", 20);
  ExpectFound(5000000, 20);
}

TEST_F(MemoryLimit, TheOneWithTheLeastRoomIsTold) {
  Process("0::/a/b/c\n", kMountV2);
  GroupV2(kV2 + std::string("/a/b/c"), "3000000", "max", 100);
  GroupV2(kV2 + std::string("/a/b"), "9000000", "max", 1000);
  GroupV2(kV2 + std::string("/a"), "10000000", "max", 9900000);
  ExpectFound(10000000, 9900000);
  GroupV2(kV2 + std::string("/a"), "10000000", "max", 1000);
  EXPECT_EQ(Read().limit_bytes, 3000000u);
  GroupV2(kV2 + std::string("/a/b"), "9000000", "max", 9100000);
  EXPECT_EQ(Read().limit_bytes, 9000000u) << "none left at all";
}

TEST_F(MemoryLimit, NothingAboveTheMountPointIsLookedAt) {
  Process("0::/box\n", kMountV2);
  GroupV2(kV2 + std::string("/box"), "max", "max", 10);
  GroupV2("sys/fs", "1000", "max", 10);
  EXPECT_FALSE(Find());
}

TEST_F(MemoryLimit, AContainersOwnRootHasALimit) {
  Process("0::/\n", kMountV2);
  GroupV2(kV2, "5000000", "max", 10);
  ExpectFound(5000000, 10);
}

TEST_F(MemoryLimit, AMountMayShowAPart) {
  Process("0::/docker/abc/inner\n", "30 25 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
  GroupV2(kV2 + std::string("/inner"), "5000000", "max", 10);
  ExpectFound(5000000, 10);
}

TEST_F(MemoryLimit, AMountOfAnotherPartIsPassedOver) {
  Process("0::/docker/abcd\n", std::string("29 25 0:26 /docker/abc /mnt rw - cgroup2 cgroup2 rw\n") + kMountV2);
  GroupV2("mnt", "1000", "max", 10);
  GroupV2("mnt/d", "1000", "max", 10);
  GroupV2(kV2 + std::string("/docker/abcd"), "5000000", "max", 10);
  ExpectFound(5000000, 10);
}

TEST_F(MemoryLimit, AGroupOutsideOfWhatIsSeenHasNoFiles) {
  Process("0::/../other\n", kMountV2);
  GroupV2(kV2, "5000000", "max", 10);
  EXPECT_FALSE(Find());
}

TEST_F(MemoryLimit, ANameThatLeadsUpIsNotFollowed) {
  Process("0::/box/../other\n", kMountV2);
  GroupV2(kV2 + std::string("/box"), "6000000", "max", 10);
  GroupV2(kV2 + std::string("/other"), "5000000", "max", 10);
  EXPECT_FALSE(Find());
  Process("0::/box/..\n", kMountV2);
  EXPECT_FALSE(Find());
}

TEST_F(MemoryLimit, NamesMayBeginWithDots) {
  Process("0::/..box/...\n", kMountV2);
  GroupV2(kV2 + std::string("/..box"), "5000000", "max", 10);
  ExpectFound(5000000, 10);
}

TEST_F(MemoryLimit, NamesMayHoldSpaces) {
  Process("0::/my box\n", "30 25 0:26 / /sys/fs/my\\040groups rw - cgroup2 cgroup2 rw\n");
  GroupV2("sys/fs/my groups/my box", "5000000", "max", 10);
  ExpectFound(5000000, 10);
}

TEST_F(MemoryLimit, NoLimitIsNone) {
  Process("0::/box\n", kMountV2);
  GroupV2(kV2 + std::string("/box"), "max", "max", 10);
  EXPECT_FALSE(Find());
  Process("4:memory:/box\n", kMountV1);
  for (const char *huge : {"9223372036854771712", "9223372036854775807", "18446744073709551615",
                           "99999999999999999999999999999999999999"}) {
    GroupV1(kV1 + std::string("/box"), huge, 10);
    EXPECT_FALSE(Find()) << huge;
  }
}

TEST_F(MemoryLimit, LargeLimitsAreLimits) {
  Process("0::/box\n", kMountV2);
  GroupV2(kV2 + std::string("/box"), "1125899906842624", "max", 10);
  ExpectFound(1024 * HK_TIB, 10);
}

TEST_F(MemoryLimit, ALimitOfNothingIsALimit) {
  Process("0::/box\n", kMountV2);
  GroupV2(kV2 + std::string("/box"), "0", "max", 10);
  ExpectFound(1, 10);
}

TEST_F(MemoryLimit, GarbageIsNone) {
  Process("0::/box\n", kMountV2);
  for (const char *text : {"", "\n", "abc", "-1", " 5", "max 5", "\xff\xff"}) {
    GroupV2(kV2 + std::string("/box"), text, "max", 10);
    EXPECT_FALSE(Find()) << "'" << text << "'";
  }
  GroupV2(kV2 + std::string("/box"), "5000000", "max", 10);
  for (const char *text : {"", "\n", "abc", "-1", "max"}) {
    Write(kV2 + std::string("/box/memory.current"), text);
    EXPECT_FALSE(Find()) << "'" << text << "'";
  }
}

TEST_F(MemoryLimit, GarbageInTheProcesssFilesIsNone) {
  GroupV2(kV2 + std::string("/box"), "5000000", "max", 10);
  for (const char *group : {"", "\n", "0", "0:", "0::", "0::box", ":::::", "4:memory", "4:memory:", "4:memory:box"}) {
    Process(group, std::string(kMountV2) + kMountV1);
    EXPECT_FALSE(Find()) << "'" << group << "'";
  }
  for (const char *mount : {"", "\n", "- cgroup2", " - cgroup2 \n", "30 25 0:26 - cgroup2 cgroup2 rw\n",
                            "30 25 0:26 x y - cgroup2 cgroup2 rw\n", "30 25 0:26 / - cgroup2", "cgroup2 cgroup2\n"}) {
    Process("0::/box\n", mount);
    EXPECT_FALSE(Find()) << "'" << mount << "'";
  }
}

TEST_F(MemoryLimit, MissingFilesAreNoneAndKeepErrno) {
  errno = 77;
  EXPECT_FALSE(Find());
  EXPECT_EQ(errno, 77);
  Process("0::/box\n", kMountV2);
  errno = 77;
  EXPECT_FALSE(Find());
  EXPECT_EQ(errno, 77);
}

TEST_F(MemoryLimit, LinesThatAreTooLongArePassedOver) {
  std::string layers = "40 22 0:44 / /merged rw - overlay overlay rw,lowerdir=" + std::string(5000, 'x') + "\n";
  Process("0::/" + std::string(3000, 'x') + "\n0::/box\n", layers + kMountV2);
  GroupV2(kV2 + std::string("/box"), "5000000", "max", 10);
  ExpectFound(5000000, 10);
  Process("0::/" + std::string(HK_KERNEL_LINE_BYTES - 4, 'x') + "\n0::/box\n", kMountV2);
  ExpectFound(5000000, 10);
  Process("0::/box\n", std::string(HK_KERNEL_LINE_BYTES - 1, 'x') + "\n" + kMountV2);
  ExpectFound(5000000, 10);
}

TEST_F(MemoryLimit, AFolderWithTooLongANameIsNotLookedAt) {
  std::string name;
  for (int i = 0; i < 5; i++) name += "/" + std::string(120, 'x');
  Process("0::" + name + "\n", kMountV2);
  GroupV2(kV2 + name, "5000000", "max", 10);
  EXPECT_FALSE(Find());
  name.resize(HK_MEMORY_GROUP_PATH_BYTES - 1 - root_.path().size() - strlen("/") - strlen(kV2));
  Process("0::" + name + "\n", kMountV2);
  GroupV2(kV2 + name, "5000000", "max", 10);
  ExpectFound(5000000, 10);
}

TEST_F(MemoryLimit, TheLastLineNeedsNoEnd) {
  Process("0::/box", std::string(kMountV2).substr(0, sizeof kMountV2 - 2));
  GroupV2(kV2 + std::string("/box"), "5000000", "max", 10);
  Write(kV2 + std::string("/box/memory.max"), "6000000");
  ExpectFound(6000000, 10);
}

TEST_F(MemoryLimit, MoreLevelsThanAreLookedAtDoNoHarm) {
  std::string name;
  for (int i = 0; i < 20; i++) {
    name += "/g";
    GroupV2(kV2 + name, std::to_string(1000000 * (i + 1)), "max", 10);
  }
  Process("0::" + name + "\n", kMountV2);
  ExpectFound(13000000, 10);
  EXPECT_EQ(place_.level_count, HK_MEMORY_LIMIT_LEVELS);
}

TEST_F(MemoryLimit, ContentsOfFilesThatWouldGoAreLeftOutNearTheLimit) {
  Process("0::/box\n", kMountV2);
  GroupV2(kV2 + std::string("/box"), "5000000", "max", 4900000, 3000000);
  ExpectFound(5000000, 1900000);
  GroupV2(kV2 + std::string("/box"), "5000000", "max", 4900000, 6000000);
  EXPECT_EQ(Read().use_bytes, 0u) << "the two are not read at one moment";
  Process("4:memory:/box\n", kMountV1);
  GroupV1(kV1 + std::string("/box"), "5000000", 4900000, 3000000);
  ExpectFound(5000000, 1900000);
  fs::remove(fs::path(root_.path()) / kV1 / "box/memory.stat");
  EXPECT_EQ(Read().use_bytes, 4900000u);
}

TEST_F(MemoryLimit, LimitsThatChangeAreSeen) {
  Process("0::/box\n", kMountV2);
  GroupV2(kV2 + std::string("/box"), "5000000", "max", 10);
  ExpectFound(5000000, 10);
  GroupV2(kV2 + std::string("/box"), "7000000", "max", 20);
  EXPECT_EQ(Read().limit_bytes, 7000000u);
  EXPECT_EQ(Read().use_bytes, 20u);
  GroupV2(kV2 + std::string("/box"), "max", "max", 20);
  EXPECT_EQ(Read().limit_bytes, 0u);
}

TEST_F(MemoryLimit, FilesThatAreGoneAreNoLimit) {
  Process("0::/box\n", kMountV2);
  GroupV2(kV2 + std::string("/box"), "5000000", "max", 10);
  ASSERT_TRUE(Find());
  fs::remove_all(fs::path(root_.path()) / kV2);
  EXPECT_EQ(Read().limit_bytes, 0u) << "as after a chroot";
}

TEST_F(MemoryLimit, WithoutADescriptorItCannotBeTold) {
  Process("0::/box\n", kMountV2);
  GroupV2(kV2 + std::string("/box"), "5000000", "max", 10);
  ASSERT_TRUE(Find());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  hk_os_memory_limit_t found;
  bool is_told = hk_memory_limit_read(&place_, &found, &buffers_);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(is_told);
  EXPECT_EQ(Read().limit_bytes, 5000000u);
}

TEST_F(MemoryLimit, NoFileStaysOpen) {
  Process("4:memory:/none\n0::/box\n", std::string(kMountV1) + kMountV2);
  GroupV2(kV2 + std::string("/box"), "5000000", "max", 4999999);
  Write(kV2 + std::string("/box/memory.pressure"), "some avg10=1.00 avg60=0.00\n");
  int before = dup(STDOUT_FILENO);
  close(before);
  for (int i = 0; i < 10; i++) {
    ASSERT_TRUE(Find());
    (void)Read();
    (void)Stalled();
  }
  int after = dup(STDOUT_FILENO);
  close(after);
  EXPECT_EQ(before, after);
}

TEST_F(MemoryLimit, PressureIsTheGroupsElseTheMachines) {
  Write("proc/pressure/memory", "some avg10=12.34 avg60=1.00 avg300=0.50 total=1\nfull avg10=99.00\n");
  EXPECT_EQ(Stalled("proc/pressure/memory"), 123u) << "without a group";
  Process("0::/box\n", kMountV2);
  GroupV2(kV2 + std::string("/box"), "5000000", "max", 10);
  ASSERT_TRUE(Find());
  EXPECT_EQ(Stalled("proc/pressure/memory"), 123u);
  Write(kV2 + std::string("/box/memory.pressure"), "some avg10=5.60 avg60=1.00 avg300=0.50 total=1\n");
  EXPECT_EQ(Stalled("proc/pressure/memory"), 56u);
}

TEST_F(MemoryLimit, PressureThatCannotBeReadIsNone) {
  EXPECT_EQ(Stalled(), 0u);
  for (const char *text : {"", "\n", "some", "some avg10=", "some avg10=x", "some avg10=-1.00", "full avg10=3.00\n",
                           "some avg10=101.00", "some avg10=99999999999999999999999.9", "some avg60=3.00"}) {
    Write("pressure", text);
    EXPECT_EQ(Stalled("pressure"), 0u) << "'" << text << "'";
  }
  for (auto [text, permille] : std::vector<std::pair<const char *, unsigned>>{
           {"some avg10=7", 70}, {"some avg10=7.", 70}, {"some avg10=0.99", 9}, {"some avg10=100.00", 1000}}) {
    Write("pressure", text);
    EXPECT_EQ(Stalled("pressure"), permille) << text;
  }
}

}  // namespace
