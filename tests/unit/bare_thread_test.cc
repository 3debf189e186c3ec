// os_bare_thread.c and os_rights.c on the real system: a thread that the C library does not know.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

extern "C" {
#include "heap/thread.h"
}
#include "folder.h"
#include "in_child.h"
#include "os/os.h"
#include "scale.h"

namespace {

std::atomic<int> begun, ended;
std::atomic<bool> may_end, has_heap;
std::atomic<uint64_t> mask;
std::atomic<hk_rights_t> rights;
std::atomic<bool> looks_at_rights, was_same;
std::atomic<int> looks;
std::atomic<long> bare_number;

void RunBare() {
  uint64_t found = 0;
  (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &found, sizeof found);
  mask = found;
  bare_number = syscall(SYS_gettid);
  hk_thread_go_without_heap();
  has_heap = hk_thread_own() != HK_EMPTY_HEAP || !hk_thread_keeps_no_heap();
  begun++;
  while (!may_end) {
    if (looks_at_rights) {
      rights = hk_os_rights(was_same);
      looks++;
    }
    sched_yield();
  }
  hk_os_bare_thread_give_up();
  ended++;
}

size_t Mappings() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

size_t Tasks() {
  size_t count = 0;
  for (auto &entry : std::filesystem::directory_iterator("/proc/self/task")) count += !entry.path().empty();
  return count;
}

class BareThread : public ::testing::Test {
 protected:
  void SetUp() override {
    if (HAKMEM_TEST_SANITIZER) GTEST_SKIP() << "a sanitizer must know every thread";
    alarm(hk_test::kChildSeconds);
    begun = ended = 0;
    may_end = false;
    looks_at_rights = false;
  }
  void TearDown() override { alarm(0); }

  static void Start() {
    int before = begun;
    ASSERT_TRUE(hk_os_bare_thread_claim());
    ASSERT_TRUE(hk_os_bare_thread_start("bare", RunBare));
    while (begun == before) sched_yield();
  }
  static void End() {
    may_end = true;
    while (Tasks() > 1) sched_yield();
    may_end = false;
  }
};

TEST_F(BareThread, IsOneAndIsNotCounted) {
  EXPECT_EQ(hk_os_thread_count(), 1u);
  Start();
  EXPECT_EQ(Tasks(), 2u);
  EXPECT_EQ(hk_os_thread_count(), 1u);
  EXPECT_TRUE(hk_os_bare_thread_is_claimed());
  EXPECT_FALSE(hk_os_bare_thread_claim());
  End();
  EXPECT_FALSE(hk_os_bare_thread_is_claimed());
  EXPECT_EQ(ended, 1);
}

TEST_F(BareThread, HandlesNothingThatOthersSend) {
  uint64_t before = 0, after = 0;
  (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &before, sizeof before);
  Start();
  (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &after, sizeof after);
  EXPECT_EQ(before, after);
  auto blocks = [](int number) { return (mask.load() >> (number - 1) & 1) != 0; };
  for (int number : {SIGUSR2, SIGTERM, SIGALRM, 32, 33, 58, 64}) EXPECT_TRUE(blocks(number)) << number;
  for (int number : {SIGSEGV, SIGBUS, SIGSYS}) EXPECT_FALSE(blocks(number)) << number;
  End();
}

TEST_F(BareThread, HasNoHeapAndLeavesErrnoOfOthersAlone) {
  errno = 4711;
  Start();
  EXPECT_EQ(errno, 4711);
  EXPECT_FALSE(has_heap);
  End();
}

TEST_F(BareThread, LeavesNothingBehind) {
  Start();
  End();
  size_t before = Mappings();
  for (int i = 0; i < 100; i++) {
    Start();
    End();
  }
  EXPECT_EQ(Mappings(), before);
  EXPECT_EQ(ended, 101);
}

// ---- Rights. Each case in a child, which gives some up for good.

// Returns the bare thread's next verdict on its rights.
hk_rights_t SeenNext() {
  looks = 0;
  while (looks < 2) sched_yield();
  return rights;
}

// The first thread starts the bare thread, which sees `expected` of its rights.
bool StartsAndSees(hk_rights_t expected) {
  was_same = true;
  looks_at_rights = true;
  return hk_os_bare_thread_claim() && hk_os_bare_thread_start("bare", RunBare) && SeenNext() == expected;
}

// Of a thread of this process, a line of its status.
std::string StatusLine(const std::string &status, const std::string &label) {
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(label + ":", 0) == 0) return line.substr(label.size() + 2);
  }
  return "";
}

std::string Read(int file) {
  std::string text(8192, '\0');
  ssize_t count = pread(file, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return text;
}

bool SetCapabilities(uint64_t permitted, uint64_t effective) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  for (int i = 0; i < 2; i++) {
    data[i].permitted = static_cast<unsigned>(permitted >> 32 * i);
    data[i].effective = static_cast<unsigned>(effective >> 32 * i);
  }
  return syscall(SYS_capset, &header, data) == 0;
}

uint64_t Permitted() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  syscall(SYS_capget, &header, data);
  return data[0].permitted | static_cast<uint64_t>(data[1].permitted) << 32;
}

// How a program hides what /proc tells.
bool ToWhereThereIsNoProc(const std::string &folder) { return chroot(folder.c_str()) == 0 && chdir("/") == 0; }
bool ToWhereProcIsMadeUp(const std::string &folder) {
  std::string own = folder + "/proc/self", others = folder + "/proc/thread-self";
  std::filesystem::create_directories(own);
  std::filesystem::create_directories(others);
  for (const std::string &path : {own, others}) std::ofstream(path + "/status") << "Uid:\t0\t0\t0\t0\n";
  return ToWhereThereIsNoProc(folder);
}
bool ToWhereNothingCanBeOpened(const std::string &) {
  rlimit none = {0, 0};
  return setrlimit(RLIMIT_NOFILE, &none) == 0;
}

using Hide = bool (*)(const std::string &folder);

// How the first thread, and no other one, gives up rights. With the C library's functions all threads that it knows do.
bool ChangesUser() { return syscall(SYS_setresuid, 65534, 65534, 65534) == 0; }
bool ChangesGroup() { return syscall(SYS_setresgid, 65534, 65534, 65534) == 0; }
bool ChangesEffectiveUser() { return syscall(SYS_setresuid, -1, 65534, -1) == 0; }
bool GivesUpACapability() { return SetCapabilities(Permitted() & ~uint64_t{2}, Permitted() & ~uint64_t{2}); }
bool GivesUpTheUseOfAll() { return SetCapabilities(Permitted(), 0); }
// So that its capabilities tell nothing.
bool ChangesUserAndKeepsAll() {
  constexpr unsigned kNoSetuidFixup = 1 << 2;
  return prctl(PR_SET_SECUREBITS, kNoSetuidFixup) == 0 && ChangesUser() && Permitted() != 0;
}

using GiveUp = bool (*)();

// The bare thread finds a difference once the first thread has given something up, and not before.
void ExpectDifference(Hide hide, GiveUp give_up) {
  hk_test::Folder folder;
  EXPECT_EQ(hk_test::InChild([&] {
              HK_CHILD_CHECK(StartsAndSees(hk_rights_same));
              HK_CHILD_CHECK(hide == nullptr || hide(folder.path()));
              HK_CHILD_CHECK(SeenNext() == hk_rights_same);
              HK_CHILD_CHECK(give_up());
              HK_CHILD_CHECK(SeenNext() == hk_rights_differ);
              return 0;
            }),
            0);
}

class BareThreadRights : public BareThread {
 protected:
  void SetUp() override {
    BareThread::SetUp();
    if (!HAKMEM_TEST_SANITIZER && geteuid() != 0) GTEST_SKIP() << "only root has something to give up";
  }
};

TEST_F(BareThreadRights, WhateverTheFirstThreadGivesUpIsSeenWhateverCanBeRead) {
  for (Hide hide : {Hide{nullptr}, ToWhereThereIsNoProc, ToWhereProcIsMadeUp, ToWhereNothingCanBeOpened}) {
    for (GiveUp give_up : {ChangesUser, ChangesGroup, ChangesEffectiveUser, GivesUpACapability, GivesUpTheUseOfAll,
                           ChangesUserAndKeepsAll}) {
      ExpectDifference(hide, give_up);
      if (HasFailure()) FAIL() << "by " << (hide != nullptr) << " " << (give_up == ChangesUserAndKeepsAll);
    }
  }
}

TEST_F(BareThreadRights, GroupsAndTheBoundingSetAreSeenInProc) {
  ExpectDifference(nullptr, [] {
    gid_t group = 4711;
    return syscall(SYS_setgroups, 1, &group) == 0;
  });
  ExpectDifference(nullptr, [] { return prctl(PR_CAPBSET_DROP, 5) == 0; });
}

TEST_F(BareThreadRights, WhatCannotBeComparedIsGivenUp) {
  hk_test::Folder folder;
  EXPECT_EQ(hk_test::InChild([&] {
              gid_t groups[] = {4711, 4712};
              HK_CHILD_CHECK(setgroups(2, groups) == 0);
              uint64_t before = Permitted();
              HK_CHILD_CHECK(StartsAndSees(hk_rights_same));
              std::string task = "/proc/self/task/" + std::to_string(bare_number) + "/status";
              int file = open(task.c_str(), O_RDONLY);
              HK_CHILD_CHECK(file >= 0 && StatusLine(Read(file), "Groups") == "4711 4712 ");
              HK_CHILD_CHECK(ToWhereThereIsNoProc(folder.path()));
              HK_CHILD_CHECK(SeenNext() == hk_rights_same);
              std::string status = Read(file);
              HK_CHILD_CHECK(StatusLine(status, "Groups").find_first_not_of(" ") == std::string::npos);
              HK_CHILD_CHECK(StatusLine(status, "NoNewPrivs") == "1");
              HK_CHILD_CHECK(StatusLine(status, "CapBnd") == "0000000000000000");
              HK_CHILD_CHECK(std::stoull(StatusLine(status, "CapPrm"), nullptr, 16) == before);
              HK_CHILD_CHECK(prctl(PR_GET_DUMPABLE) == 1);
              return 0;
            }),
            0);
}

TEST_F(BareThreadRights, InAUserNamespace) {
  hk_test::Folder folder;
  for (Hide hide : {Hide{nullptr}, ToWhereThereIsNoProc}) {
    int result = hk_test::InChild([&] {
      if (unshare(CLONE_NEWUSER) != 0) return 77;
      HK_CHILD_CHECK(StartsAndSees(hk_rights_same));
      HK_CHILD_CHECK(hide == nullptr || hide(folder.path()));
      HK_CHILD_CHECK(SeenNext() == hk_rights_same);
      HK_CHILD_CHECK(SetCapabilities(0, 0));
      HK_CHILD_CHECK(SeenNext() == hk_rights_differ);
      return 0;
    });
    if (result == 77) GTEST_SKIP() << "no user namespace can be made here";
    EXPECT_EQ(result, 0);
  }
}

// Without capabilities and with one user and group nothing can be given up any more but what a filter is.
TEST_F(BareThreadRights, AreSettledWhereNothingIsLeft) {
  hk_test::Folder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  EXPECT_EQ(hk_test::InChild([&] {
              HK_CHILD_CHECK(ToWhereThereIsNoProc(folder.path()) && ChangesGroup() && ChangesUser());
              HK_CHILD_CHECK(StartsAndSees(hk_rights_settled));
              return 0;
            }),
            0);
}

TEST_F(BareThreadRights, AreUnknownWhereTheOwnOnesAreMixed) {
  hk_test::Folder folder;
  EXPECT_EQ(hk_test::InChild([&] {
              HK_CHILD_CHECK(ToWhereThereIsNoProc(folder.path()) && ChangesEffectiveUser());
              HK_CHILD_CHECK(StartsAndSees(hk_rights_unknown));
              return 0;
            }),
            0);
}

// Of the first thread alone, as without SECCOMP_FILTER_FLAG_TSYNC.
bool IsFiltered() {
  sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  sock_fprog program = {1, &allow};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(BareThread, AFilterOfTheFirstThreadIsSeen) {
  EXPECT_EQ(hk_test::InChild([] {
              HK_CHILD_CHECK(StartsAndSees(hk_rights_same));
              HK_CHILD_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
              HK_CHILD_CHECK(SeenNext() == hk_rights_same);
              std::ifstream file("/proc/self/task/" + std::to_string(bare_number) + "/status");
              std::string status((std::istreambuf_iterator<char>(file)), {});
              HK_CHILD_CHECK(StatusLine(status, "NoNewPrivs") == "1"); /* it took that over */
              HK_CHILD_CHECK(IsFiltered());
              HK_CHILD_CHECK(SeenNext() == hk_rights_confined);
              return 0;
            }),
            0);
}

}  // namespace
