// os/os_linux: memory that the system refuses. Each refusal is reported or gone around, and leaves errno and the
// memory as they were.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/units.h"
#include "in_child.h"
#include "os/call_count.h"
#include "unit/os_linux_driver.h"

using namespace hk_test;

namespace {

TEST_F(OsLinux, RefusesWhatCannotBe) {
  EXPECT_EQ(hk_os_reserve(0, kPage), nullptr);
  EXPECT_EQ(hk_os_reserve(0, HK_SUPERSLAB_BYTES), nullptr);
  for (size_t alignment : {kPage, HK_SUPERSLAB_BYTES, size_t{1} << 62}) {
    EXPECT_EQ(hk_os_reserve(SIZE_MAX & ~(kPage - 1), alignment), nullptr);
    EXPECT_EQ(hk_os_reserve(size_t{1} << 62, alignment), nullptr);
    EXPECT_EQ(hk_os_reserve(size_t{1} << 47, alignment), nullptr);
  }
  EXPECT_EQ(hk_os_reserve(kPage, size_t{1} << 62), nullptr);
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, UnmapAndPurgeSayWhenTheyAreRefused) {
  char *start = static_cast<char *>(hk_os_reserve(2 * kPage, kPage));
  EXPECT_FALSE(hk_os_unmap(start + 1, kPage));
  EXPECT_FALSE(hk_os_unmap(start, 0));
  EXPECT_FALSE(hk_os_purge(start + 1, kPage));
  EXPECT_TRUE(IsMapped(start, 2 * kPage));
  EXPECT_TRUE(hk_os_unmap(start, 2 * kPage));
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, ARefusedMoveLeavesBothRanges) {
  char *start = static_cast<char *>(hk_os_reserve(3 * kPage, kPage));
  char *target = static_cast<char *>(hk_os_reserve(4 * kPage, kPage));
  memset(start, 1, 3 * kPage);
  memset(target, 7, 4 * kPage);
  /* What a program may do to its own block: the kernel then has two mappings there and moves none. */
  ASSERT_EQ(mprotect(start + kPage, kPage, PROT_READ), 0);
  errno = kErrno;
  EXPECT_FALSE(hk_os_resize(start, 3 * kPage, 4 * kPage));
  EXPECT_FALSE(hk_os_move(start, 3 * kPage, target, 4 * kPage));
  EXPECT_EQ(errno, kErrno);
  EXPECT_TRUE(IsMapped(start, 3 * kPage));
  EXPECT_TRUE(IsMapped(target, 4 * kPage));
  EXPECT_EQ(target[0] + target[4 * kPage - 1], 14) << "never unmapped, not even for a moment";
  EXPECT_EQ(start[0] + start[kPage] + start[2 * kPage], 3);
  memset(target, 3, 4 * kPage);
  EXPECT_FALSE(hk_os_move(start + 1, kPage, target, kPage));
  EXPECT_TRUE(IsMapped(target, 4 * kPage));
  EXPECT_TRUE(hk_os_unmap(start, 3 * kPage));
  EXPECT_TRUE(hk_os_unmap(target, 4 * kPage));
}

#if !HK_SANITIZED

/* ---- A sanitizer's own needs would be refused too. */

bool LimitMappedBytes(size_t bytes) {
  rlimit limit = {bytes, RLIM_INFINITY};
  return setrlimit(RLIMIT_AS, &limit) == 0;
}

TEST_F(OsLinux, NearItsLimitAProcessStillGetsAlignedRanges) {
  EXPECT_EQ(InChild([] {
              constexpr size_t kAlignment = 16 * HK_MIB;
              /* One range each under the limit, none with room for an alignment more; below each, a page is taken, so
               * that the place beside the last one is not free. */
              for (int i = 0; i < 6; i++) {
                HK_CHILD_CHECK(LimitMappedBytes(MappedBytes() + HK_SUPERSLAB_BYTES + 64 * kPage));
                char *start = static_cast<char *>(hk_os_reserve(HK_SUPERSLAB_BYTES, kAlignment));
                HK_CHILD_CHECK(start != nullptr);
                HK_CHILD_CHECK(hk_is_aligned(reinterpret_cast<uintptr_t>(start), kAlignment));
                start[HK_SUPERSLAB_BYTES - 1] = 1;
                HK_CHILD_CHECK(LimitMappedBytes(RLIM_INFINITY));
                for (size_t below = 1; below <= 4; below++) {
                  (void)mmap(start - below * kAlignment, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                }
              }
              errno = kErrno;
              HK_CHILD_CHECK(LimitMappedBytes(MappedBytes() + HK_MIB));
              HK_CHILD_CHECK(hk_os_reserve(HK_SUPERSLAB_BYTES, kAlignment) == nullptr);
              HK_CHILD_CHECK(hk_os_reserve(HK_SUPERSLAB_BYTES, kPage) == nullptr);
              HK_CHILD_CHECK(errno == kErrno);
              return 0;
            }),
            0);
}

TEST_F(OsLinux, WhereNothingCanBeCutOffRangesAreStillAligned) {
  EXPECT_EQ(InChild([] {
              char *start = static_cast<char *>(hk_os_reserve(kPage, kPage));
              if (!Refuse(SYS_munmap, ENOMEM)) return 0;
              errno = kErrno;
              HK_CHILD_CHECK(!hk_os_unmap(start, kPage));
              for (int i = 0; i < 8; i++) {
                char *aligned = static_cast<char *>(hk_os_reserve(HK_SUPERSLAB_BYTES, 16 * HK_MIB));
                HK_CHILD_CHECK(aligned != nullptr);
                HK_CHILD_CHECK(hk_is_aligned(reinterpret_cast<uintptr_t>(aligned), 16 * HK_MIB));
                HK_CHILD_CHECK(aligned[0] == 0);
                aligned[0] = 1;
              }
              HK_CHILD_CHECK(errno == kErrno);
              start[0] = 1; /* still ours */
              return 0;
            }),
            0);
}

/* As after mlockall, which the kernel may refuse an unprivileged user for the size of all. */
TEST_F(OsLinux, WhatIsLockedCanBePurgedAndStaysLocked) {
  EXPECT_EQ(InChild([] {
              const size_t kBytes = 16 * kPage;
              char *before = static_cast<char *>(hk_os_reserve(kBytes, kPage));
              before[0] = 1;
              HK_CHILD_CHECK(!hk_os_purge_if_locked(before + kPage, kBytes - kPage));
              if (mlockall(MCL_FUTURE) != 0) return 0;
              char *start = static_cast<char *>(hk_os_reserve(kBytes, kPage));
              if (hk_os_resident_bytes(start, kBytes) != kBytes) return 0; /* an emulator */
              errno = kErrno;
              if (!hk_os_purge_if_locked(start, kBytes)) return 0; /* an old kernel */
              HK_CHILD_CHECK(hk_os_resident_bytes(start, kBytes) == 0);
              memset(start, 1, 2 * kPage);
              HK_CHILD_CHECK(hk_os_resident_bytes(start, kBytes) == 2 * kPage);
              HK_CHILD_CHECK(hk_os_purge(start, kPage) && start[0] == 0 && start[kPage] == 1);
              HK_CHILD_CHECK(hk_os_purge_lazily(start + kPage, kPage) == hk_os_purge_done && start[kPage] == 0);
              HK_CHILD_CHECK(errno == kErrno);
              HK_CHILD_CHECK(madvise(start, kBytes, MADV_DONTNEED) != 0); /* locked */
              return 0;
            }),
            0);
}

/* Without a system call for it from the second time on. */
TEST_F(OsLinux, WhereALazyPurgeIsUnknownItIsAPurge) {
  EXPECT_EQ(InChild([] {
              char *start = static_cast<char *>(hk_os_reserve(2 * kPage, kPage));
              memset(start, 1, 2 * kPage);
              errno = kErrno;
              if (!RefuseWhere(SYS_madvise, MADV_FREE, EINVAL)) return 0;
              for (uint64_t calls : {2, 1, 1}) {
                uint64_t before = hk_call_count(hk_call_advise);
                start[kPage] = 1;
                HK_CHILD_CHECK(hk_os_purge_lazily(start + kPage, kPage) == hk_os_purge_done);
                HK_CHILD_CHECK(start[0] == 1 && start[kPage] == 0);
                HK_CHILD_CHECK(hk_call_count(hk_call_advise) == before + calls);
              }
              HK_CHILD_CHECK(errno == kErrno);
              return 0;
            }),
            0);
}

/* The kernel refuses to purge locked memory in either old way, and by the same error, which says nothing of the rest.
 * Kernels before 5.18 know no other way. */
TEST_F(OsLinux, ALockedPageSaysNothingOfOthers) {
  EXPECT_EQ(InChild([] {
              char *start = static_cast<char *>(hk_os_reserve(2 * kPage, kPage));
              memset(start, 1, 2 * kPage);
              if (hk_os_purge_lazily(start + kPage, kPage) != hk_os_purge_lazy || mlock(start, kPage) != 0) return 0;
              errno = kErrno;
              hk_os_purge_t purged = hk_os_purge_lazily(start, kPage);
              HK_CHILD_CHECK(purged == (start[0] == 0 ? hk_os_purge_done : hk_os_purge_refused));
              HK_CHILD_CHECK(errno == kErrno);
              HK_CHILD_CHECK(hk_os_purge_lazily(start + kPage, kPage) == hk_os_purge_lazy);
              return 0;
            }),
            0);
}

TEST_F(OsLinux, EachRefusalIsReportedAndLeavesErrno) {
  EXPECT_EQ(InChild([] {
              char *start = static_cast<char *>(hk_os_reserve(2 * kPage, kPage));
              char *target = static_cast<char *>(hk_os_reserve(4 * kPage, kPage));
              start[0] = 1;
              if (!Refuse(SYS_madvise, ENOSYS) || !Refuse(SYS_mremap, ENOMEM) || !Refuse(SYS_openat, EMFILE)) return 0;
              errno = kErrno;
              HK_CHILD_CHECK(!hk_os_purge(start, kPage));
              HK_CHILD_CHECK(hk_os_purge_lazily(start, kPage) == hk_os_purge_refused);
              HK_CHILD_CHECK(!hk_os_wipe_on_fork(start, kPage));
              HK_CHILD_CHECK(!hk_os_resize(start, 2 * kPage, kPage));
              HK_CHILD_CHECK(!hk_os_move(start, 2 * kPage, target, 4 * kPage));
              HK_CHILD_CHECK(IsMapped(start, 2 * kPage) && IsMapped(target, 4 * kPage));
              HK_CHILD_CHECK(start[0] == 1);
              HK_CHILD_CHECK(hk_os_memory().resident_bytes == 0 && hk_os_memory().peak_resident_bytes == 0);
              HK_CHILD_CHECK(hk_os_peak_resident_bytes() != 0);
              if (!Refuse(SYS_getrusage, EPERM)) return 0;
              HK_CHILD_CHECK(hk_os_peak_resident_bytes() == 0);
              if (!Refuse(SYS_mmap, ENOMEM)) return 0;
              HK_CHILD_CHECK(hk_os_reserve(kPage, kPage) == nullptr);
              HK_CHILD_CHECK(hk_os_reserve(kPage, HK_SUPERSLAB_BYTES) == nullptr);
              HK_CHILD_CHECK(errno == kErrno);
              return 0;
            }),
            0);
}

/* What belongs to the process by that number is its own yet when the refusals end. */
TEST_F(OsLinux, AProcessThatMayNotAskItsNumberHasItsFirstThreads) {
  EXPECT_EQ(InChild([] {
              uint64_t process = static_cast<uint64_t>(getpid());
              HK_CHILD_CHECK(Refuse(SYS_getpid, EPERM));
              HK_CHILD_CHECK(hk_os_process_id() == process);
              HK_CHILD_CHECK(Refuse(SYS_gettid, EPERM));
              HK_CHILD_CHECK(hk_os_process_id() == process);
              return 0;
            }),
            0);
}

/* A refused futex wakes no thread: a thread that waited on would never sleep. */
TEST_F(OsLinux, WhereAWaitIsRefusedAThreadSleepsByTheClock) {
  for (unsigned error : {EPERM, ENOSYS, EAGAIN}) {
    EXPECT_EQ(InChild([error] {
                const uint32_t word = 0;
                HK_CHILD_CHECK(Refuse(SYS_futex, error));
                errno = kErrno;
                uint64_t calls = hk_call_count(hk_call_other), now_ns = hk_os_now_ns();
                HK_CHILD_CHECK(hk_os_wait_for(&word, 0, 20));
                HK_CHILD_CHECK(hk_os_now_ns() - now_ns >= 20000000 && hk_call_count(hk_call_other) - calls <= 10);
                calls = hk_call_count(hk_call_other), now_ns = hk_os_now_ns();
                hk_os_wait(&word, 0);
                HK_CHILD_CHECK(hk_os_now_ns() > now_ns && hk_call_count(hk_call_other) == calls + 2);
                HK_CHILD_CHECK(Refuse(SYS_nanosleep, ENOSYS)); /* as where only the newer call is known */
                now_ns = hk_os_now_ns();
                HK_CHILD_CHECK(hk_os_wait_for(&word, 0, 20) && hk_os_now_ns() - now_ns >= 20000000);
                HK_CHILD_CHECK(errno == kErrno);
                return 0;
              }),
              0);
  }
}

TEST_F(OsLinux, AWaitThatIsRefusedEndsWhenTheWordIsAnother) {
  EXPECT_EQ(InChild([] {
              const uint32_t word = 1;
              HK_CHILD_CHECK(Refuse(SYS_futex, EPERM));
              HK_CHILD_CHECK(hk_os_wait_for(&word, 0, UINT64_MAX));
              return 0;
            }),
            0);
}

TEST_F(OsLinux, AWaitSaysWhenNoTimeCanPass) {
  EXPECT_EQ(InChild([] {
              const uint32_t word = 0;
              for (unsigned call : {SYS_futex, SYS_nanosleep, SYS_clock_nanosleep, SYS_ppoll})
                HK_CHILD_CHECK(Refuse(call, EPERM));
              HK_CHILD_CHECK(!hk_os_wait_for(&word, 0, UINT64_MAX));
              hk_os_wait(&word, 0);
              return 0;
            }),
            0);
}

char *touched_page;

void RefuseClockAtTouch(int) {
  if (!Refuse(SYS_clock_gettime, EPERM) || mprotect(touched_page, kPage, PROT_READ | PROT_WRITE) != 0) _exit(2);
}

/* The clock is refused between its two readings: the difference is no huge time. */
TEST_F(OsLinux, AHugePageCostsNothingWhereNoClockTells) {
  touched_page = static_cast<char *>(hk_os_reserve(kPage, kPage));
  EXPECT_EQ(InChild([] {
              HK_CHILD_CHECK(hk_os_huge_touch(touched_page) < 1000000000);
              HK_CHILD_CHECK(signal(SIGSEGV, RefuseClockAtTouch) != SIG_ERR);
              HK_CHILD_CHECK(mprotect(touched_page, kPage, PROT_NONE) == 0);
              HK_CHILD_CHECK(hk_os_huge_touch(touched_page) == 0);
              HK_CHILD_CHECK(hk_os_huge_touch(touched_page) == 0);
              uint64_t cpu_ns = 1;
              (void)hk_os_huge_collapse(touched_page, kPage, &cpu_ns);
              HK_CHILD_CHECK(cpu_ns == 0);
              return 0;
            }),
            0);
  EXPECT_TRUE(hk_os_unmap(touched_page, kPage));
}

TEST_F(OsLinux, WithoutRoomForAnotherMapping) {
  size_t limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  if (limit == 0 || limit > 300000) GTEST_SKIP() << "it takes too long to reach " << limit << " mappings";
  EXPECT_EQ(InChild([limit] {
              char *range = static_cast<char *>(hk_os_reserve(3 * HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES));
              memset(range, 1, 3 * HK_SUPERSLAB_BYTES);
              char *many = static_cast<char *>(hk_os_reserve(2 * limit * kPage, kPage));
              HK_CHILD_CHECK(many != nullptr);
              size_t splits = 0;
              while (splits < limit && mprotect(many + 2 * splits * kPage, kPage, PROT_READ) == 0) splits++;
              HK_CHILD_CHECK(splits > 0 && splits < limit);
              errno = kErrno;
              /* Refused, and all of it still there. */
              HK_CHILD_CHECK(!hk_os_unmap(range + HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES));
              HK_CHILD_CHECK(range[HK_SUPERSLAB_BYTES] == 1);
              HK_CHILD_CHECK(hk_os_purge(range + HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES));
              HK_CHILD_CHECK(range[HK_SUPERSLAB_BYTES] == 0);
              /* Granted or not, never half. */
              for (int i = 0; i < 10; i++) {
                char *start = static_cast<char *>(hk_os_reserve(HK_SUPERSLAB_BYTES, 16 * HK_MIB));
                HK_CHILD_CHECK(hk_is_aligned(reinterpret_cast<uintptr_t>(start), 16 * HK_MIB));
                if (start != nullptr) start[0] = start[HK_SUPERSLAB_BYTES - 1] = 1;
              }
              HK_CHILD_CHECK(errno == kErrno);
              /* And it recovers. */
              HK_CHILD_CHECK(hk_os_unmap(many, limit * kPage));
              HK_CHILD_CHECK(hk_os_unmap(range + HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES));
              HK_CHILD_CHECK(hk_os_reserve(HK_SUPERSLAB_BYTES, 16 * HK_MIB) != nullptr);
              return 0;
            }),
            0);
}

#endif  // !HK_SANITIZED

TEST_F(OsLinux, ALimitOnAddressesIsSeen) {
  EXPECT_EQ(InChild([] {
              for (auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
                struct rlimit old = {}, limit = {};
                HK_CHILD_CHECK(getrlimit(resource, &old) == 0 && old.rlim_cur == RLIM_INFINITY);
                HK_CHILD_CHECK(!hk_os_limits_addresses());
                limit = {static_cast<rlim_t>(1) << 46, old.rlim_max};
                HK_CHILD_CHECK(setrlimit(resource, &limit) == 0 && hk_os_limits_addresses());
                HK_CHILD_CHECK(setrlimit(resource, &old) == 0 && !hk_os_limits_addresses());
              }
              HK_CHILD_CHECK(Refuse(SYS_prlimit64, EPERM) && hk_os_limits_addresses());
              return 0;
            }),
            0);
}

}  // namespace
