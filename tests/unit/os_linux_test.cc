// os/os_linux: time, facts about the process and its memory, waiting, ends of threads and forks, on the real system.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/compiler.h"
#include "base/units.h"
#include "in_child.h"
#include "os/call_count.h"
#include "unit/os_linux_driver.h"

using namespace hk_test;

namespace {

using std::chrono::milliseconds;

/* ---- Its cost. */

TEST_F(OsLinux, SystemCallsAreCountedByKind) {
  auto counts = [] {
    std::vector<uint64_t> all;
    for (int kind = 0; kind < hk_call_kind_count; kind++)
      all.push_back(hk_call_count(static_cast<hk_call_kind_t>(kind)));
    return all;
  };
  std::vector<uint64_t> expected = counts();
  void *pages = hk_os_reserve(4 * kPage, kPage);
  ASSERT_NE(pages, nullptr);
  expected[hk_call_map]++;
  EXPECT_EQ(counts(), expected);
  ASSERT_TRUE(hk_os_purge(pages, kPage));
  expected[hk_call_advise]++;
  EXPECT_EQ(counts(), expected);
  ASSERT_TRUE(hk_os_resize(pages, 4 * kPage, 3 * kPage));
  expected[hk_call_map]++;
  EXPECT_EQ(counts(), expected);
  ASSERT_TRUE(hk_os_unmap(pages, 3 * kPage));
  expected[hk_call_unmap]++;
  EXPECT_EQ(counts(), expected);
  (void)hk_os_process_id();
  expected[hk_call_other]++;
  EXPECT_EQ(counts(), expected);
  hk_call_count_clear();
  EXPECT_EQ(counts(), std::vector<uint64_t>(hk_call_kind_count));
}

/* ---- Time, facts. */

TEST_F(OsLinux, TimeIsMonotonicAndInNanoseconds) {
  uint64_t first = hk_os_now_ns();
  for (int i = 0; i < 1000; i++) {
    uint64_t next = hk_os_now_ns();
    ASSERT_GE(next, first);
    first = next;
  }
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_GE(hk_os_now_ns() - first, uint64_t{20000000});
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  uint64_t now_ns = static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
  EXPECT_LT(hk_os_now_ns() - now_ns, uint64_t{10000000000});
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, CoarseTimeIsMonotonicAndInMilliseconds) {
  uint64_t start = hk_os_now_ns() / 1000000;
  uint64_t first = hk_os_coarse_ms();
  EXPECT_LE(first, hk_os_now_ns() / 1000000 + 1);
  EXPECT_GE(first + 100, start) << "a tick old at most";
  for (int i = 0; i < 1000; i++) {
    uint64_t next = hk_os_coarse_ms();
    ASSERT_GE(next, first);
    first = next;
  }
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_GT(hk_os_coarse_ms(), first);
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, TheSecretIsOneInAProcessAndItsChildren) {
  uint64_t secret = hk_os_process_secret();
  EXPECT_EQ(hk_os_process_secret(), secret);
  EXPECT_EQ(InChild([secret] { return hk_os_process_secret() == secret ? 0 : 1; }), 0);
  uint64_t words[2];
  memcpy(words, reinterpret_cast<void *>(getauxval(AT_RANDOM)), sizeof(words));
  EXPECT_NE(secret, words[0]);
  EXPECT_NE(secret, words[1]);
  EXPECT_NE(secret, 0u);
  EXPECT_EQ(errno, kErrno);
}

const char kSecretFileVariable[] = "OS_LINUX_TEST_SECRET_FILE";

// Run by itself in another process it hands its secret to this one.
TEST_F(OsLinux, TheSecretDiffersFromExecToExec) {
  if (const char *file = getenv(kSecretFileVariable)) {
    uint64_t secret = hk_os_process_secret();
    ASSERT_EQ(write(atoi(file), &secret, sizeof(secret)), static_cast<ssize_t>(sizeof(secret)));
    return;
  }
  uint64_t secrets[2] = {0, 0};
  for (uint64_t &secret : secrets) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    int result = InChild([&] {
      setenv(kSecretFileVariable, std::to_string(ends[1]).c_str(), 1);
      dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
      execl("/proc/self/exe", "os_linux_test", "--gtest_filter=*TheSecretDiffersFromExecToExec", nullptr);
      return 1;
    });
    close(ends[1]);
    EXPECT_EQ(result, 0);
    EXPECT_EQ(read(ends[0], &secret, sizeof(secret)), static_cast<ssize_t>(sizeof(secret)));
    close(ends[0]);
  }
  EXPECT_NE(secrets[0], secrets[1]);
  EXPECT_NE(secrets[0], hk_os_process_secret());
}

TEST_F(OsLinux, TheEnvironmentIsTheProcesss) {
  EXPECT_EQ(InChild([] {
              setenv("OS_LINUX_TEST", "value", 1);
              bool found = false;
              for (const char *const *entry = hk_os_environment(); *entry != nullptr; entry++) {
                found |= strcmp(*entry, "OS_LINUX_TEST=value") == 0;
              }
              HK_CHILD_CHECK(found);
              clearenv();
              HK_CHILD_CHECK(hk_os_environment() == nullptr || *hk_os_environment() == nullptr);
              return 0;
            }),
            0);
}

TEST_F(OsLinux, KnowsItsProcess) {
  EXPECT_EQ(hk_os_process_id(), static_cast<uint64_t>(getpid()));
  EXPECT_EQ(InChild([] { return hk_os_process_id() == static_cast<uint64_t>(getpid()) ? 0 : 1; }), 0);
}

TEST_F(OsLinux, ThisIsNoSecureProgram) {
  EXPECT_FALSE(hk_os_is_secure_exec());
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, MemoryFollowsWhatIsTouched) {
  constexpr size_t kBytes = 64 * HK_MIB;
  hk_os_memory_t before = hk_os_memory();
  EXPECT_GT(before.resident_bytes, 100 * HK_KIB);
  EXPECT_GE(before.peak_resident_bytes, before.resident_bytes);
  char *start = static_cast<char *>(hk_os_reserve(kBytes, kPage));
  memset(start, 1, kBytes);
  hk_os_memory_t during = hk_os_memory();
  EXPECT_GT(during.resident_bytes, before.resident_bytes + kBytes * 9 / 10);
  EXPECT_TRUE(hk_os_unmap(start, kBytes));
  hk_os_memory_t after = hk_os_memory();
  EXPECT_LT(after.resident_bytes + kBytes / 2, during.resident_bytes);
  EXPECT_GE(after.peak_resident_bytes, during.resident_bytes * 9 / 10);
  EXPECT_GE(hk_os_peak_resident_bytes(), after.peak_resident_bytes);
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, MemoryLeavesNoFileOpen) {
  int lowest_free = dup(STDERR_FILENO);
  close(lowest_free);
  for (int i = 0; i < 10; i++) (void)hk_os_memory();
  int lowest_free_after = dup(STDERR_FILENO);
  close(lowest_free_after);
  EXPECT_EQ(lowest_free_after, lowest_free);
}

// The value of /proc/self/smaps' line `label` for the mapping around `start`.
std::string SmapsLine(const void *start, const std::string &label) {
  std::ifstream smaps("/proc/self/smaps");
  bool is_inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long from = 0, to = 0;
    if (sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      is_inside = from <= reinterpret_cast<uintptr_t>(start) && reinterpret_cast<uintptr_t>(start) < to;
    }
    if (is_inside && line.compare(0, label.size(), label) == 0) return line.substr(label.size()) + " ";
  }
  return "";
}

TEST_F(OsLinux, SaysWhatIsResident) {
  char *start = static_cast<char *>(hk_os_reserve(4 * HK_MIB, HK_SUPERSLAB_BYTES));
  EXPECT_EQ(hk_os_resident_bytes(start, 4 * HK_MIB), 0u);
  (void)hk_os_huge_advise(start, 4 * HK_MIB, false);
  for (size_t at : {size_t{0}, kPage, 3 * HK_MIB, 4 * HK_MIB - kPage}) start[at] = 1;
  EXPECT_EQ(hk_os_resident_bytes(start, 4 * HK_MIB), 4 * kPage);
  EXPECT_EQ(hk_os_resident_bytes(start + kPage, 3 * HK_MIB), 2 * kPage);
  EXPECT_TRUE(hk_os_unmap(start, 4 * HK_MIB));
  EXPECT_EQ(hk_os_resident_bytes(start, 4 * HK_MIB), 0u) << "not mapped";
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, HugePagesAreAllowedForbiddenAndMadeAtOnce) {
  if (hk_os_huge_setting() == hk_os_huge_never) GTEST_SKIP() << "no huge pages here";
  char *start = static_cast<char *>(hk_os_reserve(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES));
  EXPECT_TRUE(hk_os_huge_advise(start, HK_SUPERSLAB_BYTES, false));
  EXPECT_NE(SmapsLine(start, "VmFlags:").find(" nh "), std::string::npos);
  memset(start, 1, HK_SUPERSLAB_BYTES);
  uint64_t cpu_ns = 0;
  EXPECT_FALSE(hk_os_huge_collapse(start, HK_SUPERSLAB_BYTES, &cpu_ns)) << "forbidden";
  EXPECT_TRUE(hk_os_huge_advise(start, HK_SUPERSLAB_BYTES, true));
  EXPECT_NE(SmapsLine(start, "VmFlags:").find(" hg "), std::string::npos);
  if (hk_os_huge_collapse(start, HK_SUPERSLAB_BYTES, &cpu_ns)) { /* kernels before 6.1 have no such call */
    EXPECT_GT(cpu_ns, 0u);
    EXPECT_EQ(SmapsLine(start, "AnonHugePages:").find(" 0 kB"), std::string::npos);
  }
  for (size_t i = 0; i < HK_SUPERSLAB_BYTES; i++) ASSERT_EQ(start[i], 1);
  EXPECT_TRUE(hk_os_unmap(start, HK_SUPERSLAB_BYTES));
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, TheSettingForHugePagesIsReadOnce) {
  hk_os_huge_t setting = hk_os_huge_setting();
  uint64_t calls = hk_call_count(hk_call_other);
  EXPECT_EQ(hk_os_huge_setting(), setting);
  EXPECT_EQ(hk_call_count(hk_call_other), calls);
}

TEST_F(OsLinux, RecordsAreKeptInSmallPagesWhereHugeOnesAreEverywhere) {
  bool is_everywhere = hk_os_huge_setting() == hk_os_huge_everywhere;
  char *start = static_cast<char *>(hk_os_reserve_small(2 * HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES));
  EXPECT_EQ(SmapsLine(start, "VmFlags:").find(" nh ") != std::string::npos, is_everywhere);
  start[kPage] = 1;
  EXPECT_EQ(hk_os_resident_bytes(start, 2 * HK_SUPERSLAB_BYTES), kPage);
  char *map = static_cast<char *>(hk_os_reserve(2 * HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES));
  hk_os_huge_keep_small(map + 1, 2 * HK_SUPERSLAB_BYTES - 1);
  EXPECT_EQ(SmapsLine(map + kPage, "VmFlags:").find(" nh ") != std::string::npos, is_everywhere) << "its whole pages";
  EXPECT_TRUE(hk_os_unmap(start, 2 * HK_SUPERSLAB_BYTES));
  EXPECT_TRUE(hk_os_unmap(map, 2 * HK_SUPERSLAB_BYTES));
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, WhatIsPrefaultedIsThereAndUnchanged) {
  const size_t kBytes = 32 * kPage;
  char *start = static_cast<char *>(hk_os_reserve(kBytes, kPage));
  start[3 * kPage] = 77;
  if (hk_os_prefault(start + 2 * kPage, 8 * kPage)) { /* kernels before 5.14 have no such call */
    EXPECT_EQ(hk_os_resident_bytes(start, kBytes), 8 * kPage);
  }
  for (size_t i = 0; i < kBytes; i++) ASSERT_EQ(start[i], i == 3 * kPage ? 77 : 0);
  EXPECT_TRUE(hk_os_unmap(start, kBytes));
  EXPECT_FALSE(hk_os_prefault(start, kBytes)) << "not mapped";
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, WhatIsTouchedIsThereAndUnchanged) {
  char *start = static_cast<char *>(hk_os_reserve(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES));
  (void)hk_os_huge_advise(start, HK_SUPERSLAB_BYTES, true);
  EXPECT_EQ(hk_os_resident_bytes(start, hk_os_page_size()), 0u);
  EXPECT_GT(hk_os_huge_touch(start), 0u);
  EXPECT_EQ(hk_os_resident_bytes(start, hk_os_page_size()), hk_os_page_size());
  EXPECT_EQ(start[0], 0);
  start[0] = 77;
  (void)hk_os_huge_touch(start);
  EXPECT_EQ(start[0], 77);
  EXPECT_TRUE(hk_os_unmap(start, HK_SUPERSLAB_BYTES));
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, ARefusedHugePageIsNoError) {
  char *start = static_cast<char *>(hk_os_reserve(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES));
  EXPECT_TRUE(hk_os_unmap(start, HK_SUPERSLAB_BYTES));
  EXPECT_FALSE(hk_os_huge_advise(start, HK_SUPERSLAB_BYTES, true));
  EXPECT_FALSE(hk_os_huge_advise(start, HK_SUPERSLAB_BYTES, false));
  uint64_t cpu_ns = 0;
  EXPECT_FALSE(hk_os_huge_collapse(start, HK_SUPERSLAB_BYTES, &cpu_ns));
  EXPECT_EQ(errno, kErrno);
}

const std::string kSystem = "/sys/devices/system/";

// How many nodes have processors, by their folders; and of two or more, the highest number and one more.
unsigned NodesByFolders() {
  unsigned count = 0, behind_last = 1;
  for (unsigned node = 0; node < 1024; node++) {
    std::string processors;
    std::ifstream(kSystem + "node/node" + std::to_string(node) + "/cpulist") >> processors;
    if (processors.empty()) continue;
    behind_last = node + 1;
    count++;
  }
  return count > 1 ? behind_last : 1;
}

TEST_F(OsLinux, NodesAreTheSystems) {
  unsigned count = hk_os_node_count();
  EXPECT_EQ(errno, kErrno);
  EXPECT_EQ(count, NodesByFolders());
}

bool IsOfNode(unsigned processor, unsigned node) {
  std::string folder = kSystem + "cpu/cpu" + std::to_string(processor) + "/node" + std::to_string(node);
  return access(folder.c_str(), F_OK) == 0;
}

TEST_F(OsLinux, AThreadIsOnItsProcessorsNode) {
  if (access((kSystem + "node").c_str(), F_OK) != 0) GTEST_SKIP() << "this kernel knows no nodes";
  std::thread([] { /* its affinity is its own */
                   cpu_set_t allowed, one;
                   ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
                   for (unsigned processor = 0; processor < CPU_SETSIZE; processor++) {
                     if (!CPU_ISSET(processor, &allowed)) continue;
                     CPU_ZERO(&one);
                     CPU_SET(processor, &one);
                     ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
                     errno = kErrno;
                     unsigned node = hk_os_current_place().node;
                     EXPECT_EQ(errno, kErrno);
                     EXPECT_TRUE(IsOfNode(processor, node)) << processor << ", " << node;
                   }
  })
      .join();
}

#if !HK_SANITIZED
TEST_F(OsLinux, WhereTheNodesCannotBeReadThereIsOne) {
  EXPECT_EQ(InChild([] {
              if (!Refuse(SYS_openat, EACCES)) return 0;
              errno = kErrno;
              HK_CHILD_CHECK(hk_os_node_count() == 1);
              HK_CHILD_CHECK(errno == kErrno);
              return 0;
            }),
            0);
}
#endif

TEST_F(OsLinux, WaitReturnsWhenTheWordHasChanged) {
  uint32_t word = 1;
  hk_os_wait(&word, 2);
  hk_os_wake_one(&word);
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, WakeOneWakesOneAtATime) {
  static std::atomic<uint32_t> word{0};
  static std::atomic<int> awake{0};
  const uint32_t *address = reinterpret_cast<const uint32_t *>(&word);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; i++) {
    threads.emplace_back([=] {
      while (word == 0) hk_os_wait(address, 0);
      awake++;
    });
  }
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(awake, 0);
  word = 1;
  while (awake < 1) hk_os_wake_one(address);
  while (awake < 2) hk_os_wake_one(address);
  for (std::thread &thread : threads) thread.join();
}

/* ---- Ends of threads, and forks. */

std::atomic<int> exits;
std::atomic<int> rearm_count;

void CountExit() {
  exits++;
  if (rearm_count > 0) {
    rearm_count--;
    hk_os_thread_exit_arm();
  }
}

TEST_F(OsLinux, TheExitHookRunsInArmedThreadsAlone) {
  EXPECT_EQ(InChild([] {
              hk_os_thread_exit_arm(); /* before there is a hook: nothing */
              HK_CHILD_CHECK(hk_os_thread_exit_init(CountExit));
              std::thread([] {}).join();
              HK_CHILD_CHECK(exits == 0);
              errno = kErrno;
              std::thread([] {
                hk_os_thread_exit_arm();
                hk_os_thread_exit_arm();
                if (exits != 0) exits = 100;
              }).join();
              HK_CHILD_CHECK(exits == 1);
              HK_CHILD_CHECK(errno == kErrno);
              return 0;
            }),
            0);
}

TEST_F(OsLinux, TheExitHookMayAskForThreeMoreRuns) {
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_os_thread_exit_init(CountExit));
              for (int again = 0; again <= 3; again++) {
                exits = 0;
                rearm_count = again;
                std::thread(hk_os_thread_exit_arm).join();
                HK_CHILD_CHECK(exits == again + 1);
              }
              return 0;
            }),
            0);
}

TEST_F(OsLinux, WithoutRoomForAKeyThereIsNoHook) {
  EXPECT_EQ(InChild([] {
              pthread_key_t key;
              while (pthread_key_create(&key, nullptr) == 0) {
              }
              errno = kErrno;
              HK_CHILD_CHECK(!hk_os_thread_exit_init(CountExit));
              HK_CHILD_CHECK(errno == kErrno);
              std::thread(hk_os_thread_exit_arm).join();
              HK_CHILD_CHECK(exits == 0);
              return 0;
            }),
            0);
}

std::atomic<int> forks;

TEST_F(OsLinux, TheForkHookRunsInChildrenAlone) {
  EXPECT_EQ(InChild([] {
              errno = kErrno;
              hk_os_at_fork([] { forks++; });
              HK_CHILD_CHECK(errno == kErrno);
              HK_CHILD_CHECK(InChild([] { return forks == 1 ? 0 : 1; }) == 0);
              HK_CHILD_CHECK(forks == 0);
              return 0;
            }),
            0);
}

}  // namespace
