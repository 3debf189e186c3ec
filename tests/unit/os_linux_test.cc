// os/os_linux, os/os_node: the contract of os.h on the real system, also where the system refuses.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/compiler.h"
#include "base/units.h"
#include "in_child.h"
#include "os/os.h"

#if !HK_SANITIZED
// This program's own names for the memory calls, as an interposing library would have them: hakmem must not enter them.
static std::atomic<int> interposed_calls{0};

extern "C" void *mmap(void *start, size_t bytes, int access, int flags, int file, off_t offset) noexcept {
  interposed_calls++;
  return reinterpret_cast<void *>(syscall(SYS_mmap, start, bytes, access, flags, file, offset));
}
extern "C" int munmap(void *start, size_t bytes) noexcept {
  interposed_calls++;
  return static_cast<int>(syscall(SYS_munmap, start, bytes));
}
extern "C" int madvise(void *start, size_t bytes, int advice) noexcept {
  interposed_calls++;
  return static_cast<int>(syscall(SYS_madvise, start, bytes, advice));
}
#endif

namespace {

using std::chrono::milliseconds;

const size_t kPage = hk_os_page_size();
constexpr int kErrno = 1234;

// Sets errno before each test; the tests end with a look at it.
class OsLinux : public testing::Test {
 protected:
  void SetUp() override { errno = kErrno; }
};

bool IsZero(const void *start, size_t bytes) {
  const char *text = static_cast<const char *>(start);
  return text[0] == 0 && memcmp(text, text + 1, bytes - 1) == 0;
}

bool IsMapped(const void *start, size_t bytes) {
  int saved_errno = errno;
  std::vector<unsigned char> resident(bytes / kPage + 1);
  bool is_mapped = mincore(const_cast<void *>(start), bytes, resident.data()) == 0;
  errno = saved_errno;
  return is_mapped;
}

size_t MappingCount() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count++;
  return count;
}

size_t MappedBytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * kPage;
}

/* ---- Ranges. */

TEST_F(OsLinux, PageSizeIsTheSystems) {
  EXPECT_EQ(hk_os_page_size(), static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(hk_os_page_size(), hk_os_page_size());
  EXPECT_TRUE(hk_is_power_of_two(hk_os_page_size()));
}

TEST_F(OsLinux, ReservesWhatWasAskedFor) {
  for (size_t alignment : {kPage, 2 * kPage, HK_SLAB_BYTES, HK_SUPERSLAB_BYTES, 32 * HK_MIB, HK_GIB}) {
    for (size_t bytes : {kPage, 3 * kPage, HK_SUPERSLAB_BYTES, 3 * HK_SUPERSLAB_BYTES + kPage, 64 * HK_MIB}) {
      char *start = static_cast<char *>(hk_os_reserve(bytes, alignment));
      ASSERT_NE(start, nullptr) << bytes << " at " << alignment;
      EXPECT_TRUE(hk_is_aligned(reinterpret_cast<uintptr_t>(start), alignment)) << bytes << " at " << alignment;
      EXPECT_TRUE(IsMapped(start, bytes));
      EXPECT_TRUE(IsZero(start, kPage));
      EXPECT_TRUE(IsZero(start + bytes - kPage, kPage));
      start[0] = start[bytes - 1] = 1;
      EXPECT_TRUE(hk_os_unmap(start, bytes));
      EXPECT_FALSE(IsMapped(start, kPage));
    }
  }
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, ReservesWithoutTheEndsItCutOff) {
  size_t before = MappedBytes();
  std::vector<void *> starts;
  for (int i = 0; i < 8; i++) {
    starts.push_back(hk_os_reserve(kPage, 64 * HK_MIB));
    ASSERT_NE(starts.back(), nullptr);
  }
  EXPECT_LT(MappedBytes(), before + 8 * HK_MIB);
  for (void *start : starts) EXPECT_TRUE(hk_os_unmap(start, kPage));
}

TEST_F(OsLinux, FindsAnAlignedRangeWhereTheNextPlacesAreTaken) {
  EXPECT_EQ(hk_test::InChild([] {
              constexpr size_t kAlignment = 16 * HK_MIB;
              size_t before = MappedBytes();
              for (int i = 0; i < 8; i++) {
                char *start = static_cast<char *>(hk_os_reserve(HK_SUPERSLAB_BYTES, kAlignment));
                HK_CHILD_CHECK(start != nullptr);
                HK_CHILD_CHECK(hk_is_aligned(reinterpret_cast<uintptr_t>(start), kAlignment));
                HK_CHILD_CHECK(IsMapped(start, HK_SUPERSLAB_BYTES));
                HK_CHILD_CHECK(start[0] == 0 && start[HK_SUPERSLAB_BYTES - 1] == 0);
                start[0] = start[HK_SUPERSLAB_BYTES - 1] = 1;
                for (size_t below = 1; below <= 4; below++) {
                  (void)mmap(start - below * kAlignment, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                }
              }
              HK_CHILD_CHECK(MappedBytes() - before < 8 * HK_SUPERSLAB_BYTES + HK_SUPERSLAB_BYTES);
              return 0;
            }),
            0);
}

TEST_F(OsLinux, RangesDoNotOverlap) {
  std::vector<char *> starts;
  for (int i = 0; i < 50; i++) {
    char *start = static_cast<char *>(hk_os_reserve(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES));
    ASSERT_NE(start, nullptr);
    EXPECT_TRUE(IsZero(start, kPage));
    start[0] = 1;
    start[HK_SUPERSLAB_BYTES - 1] = 1;
    starts.push_back(start);
  }
  for (char *start : starts) EXPECT_TRUE(hk_os_unmap(start, HK_SUPERSLAB_BYTES));
}

TEST_F(OsLinux, ARangeIsNotResidentUntilTouched) {
  size_t before = hk_os_memory().resident_bytes;
  void *start = hk_os_reserve(256 * HK_MIB, HK_SUPERSLAB_BYTES);
  ASSERT_NE(start, nullptr);
  EXPECT_LT(hk_os_memory().resident_bytes, before + 16 * HK_MIB);
  EXPECT_TRUE(hk_os_unmap(start, 256 * HK_MIB));
}

TEST_F(OsLinux, MappingsAreCounted) {
  void *start = hk_os_reserve(3 * kPage, kPage);
  ASSERT_NE(start, nullptr);
  size_t before = hk_os_mapping_count();
  ASSERT_GT(before, 3u);
  EXPECT_TRUE(hk_os_unmap(static_cast<char *>(start) + kPage, kPage));
  EXPECT_EQ(hk_os_mapping_count(), before + 1) << "one is two now";
  EXPECT_TRUE(hk_os_unmap(start, kPage));
  EXPECT_TRUE(hk_os_unmap(static_cast<char *>(start) + 2 * kPage, kPage));
  EXPECT_EQ(errno, kErrno);
}

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

TEST_F(OsLinux, AlignedRangesLieSideBySide) {
  EXPECT_EQ(hk_test::InChild([] {
              (void)hk_os_reserve(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES);
              size_t before = MappingCount();
              for (int i = 0; i < 64; i++)
                HK_CHILD_CHECK(hk_os_reserve(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES) != nullptr);
              size_t after = MappingCount();
              HK_CHILD_CHECK(after <= before + 8);
              return 0;
            }),
            0);
}

TEST_F(OsLinux, HolesAreUsedAgain) {
  EXPECT_EQ(hk_test::InChild([] {
              std::set<uintptr_t> regions;
              std::vector<std::pair<void *, size_t>> ranges;
              for (size_t i = 0; i < 5000; i++) {
                size_t bytes = (i * 7 % 5 + 1) * HK_SUPERSLAB_BYTES;
                void *start = hk_os_reserve(bytes, HK_SUPERSLAB_BYTES);
                HK_CHILD_CHECK(start != nullptr);
                regions.insert(reinterpret_cast<uintptr_t>(start) >> HK_REGION_SHIFT);
                ranges.emplace_back(start, bytes);
                if (ranges.size() < 20) continue;
                std::swap(ranges[i * 13 % ranges.size()], ranges.back());
                HK_CHILD_CHECK(hk_os_unmap(ranges.back().first, ranges.back().second));
                ranges.pop_back();
              }
              /* At most 20 ranges of 10 MiB at a time, of 30 GB in all. */
              HK_CHILD_CHECK(regions.size() <= 6);
              return 0;
            }),
            0);
}

TEST_F(OsLinux, ThreadsReserveAtTheSameTime) {
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) {
    threads.emplace_back([&failures] {
      for (int n = 0; n < 200; n++) {
        char *start = static_cast<char *>(hk_os_reserve(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES));
        bool is_good = start != nullptr && hk_is_aligned(reinterpret_cast<uintptr_t>(start), HK_SUPERSLAB_BYTES) &&
                       start[0] == 0 && start[HK_SUPERSLAB_BYTES - 1] == 0;
        if (is_good) {
          start[0] = start[HK_SUPERSLAB_BYTES - 1] = 1;
          is_good = hk_os_unmap(start, HK_SUPERSLAB_BYTES);
        }
        if (!is_good) failures++;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
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

TEST_F(OsLinux, UnmapCutsAHole) {
  char *start = static_cast<char *>(hk_os_reserve(3 * kPage, kPage));
  memset(start, 1, 3 * kPage);
  EXPECT_TRUE(hk_os_unmap(start + kPage, kPage));
  EXPECT_TRUE(IsMapped(start, kPage));
  EXPECT_FALSE(IsMapped(start + kPage, kPage));
  EXPECT_EQ(start[2 * kPage], 1);
  EXPECT_TRUE(hk_os_unmap(start, kPage));
  EXPECT_TRUE(hk_os_unmap(start + 2 * kPage, kPage));
}

TEST_F(OsLinux, PurgedRangesReadAsZeroAndAreNotResident) {
  constexpr size_t kBytes = 64 * HK_MIB;
  char *start = static_cast<char *>(hk_os_reserve(kBytes, HK_SUPERSLAB_BYTES));
  memset(start, 1, kBytes);
  size_t before = hk_os_memory().resident_bytes;
  EXPECT_TRUE(hk_os_purge(start + kPage, kBytes - 2 * kPage));
  EXPECT_LT(hk_os_memory().resident_bytes + kBytes / 2, before);
  EXPECT_EQ(start[kPage - 1], 1);
  EXPECT_TRUE(IsZero(start + kPage, kBytes - 2 * kPage));
  EXPECT_EQ(start[kBytes - kPage], 1);
  EXPECT_TRUE(hk_os_unmap(start, kBytes));
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, ResizeKeepsWhatStaysAndZeroesWhatIsNew) {
  char *start = static_cast<char *>(hk_os_reserve(4 * kPage, kPage));
  memset(start, 1, 4 * kPage);
  EXPECT_TRUE(hk_os_resize(start, 4 * kPage, 2 * kPage));
  EXPECT_FALSE(IsMapped(start + 2 * kPage, kPage));
  EXPECT_EQ(start[2 * kPage - 1], 1);
  EXPECT_TRUE(hk_os_resize(start, 2 * kPage, 2 * kPage));
  ASSERT_TRUE(hk_os_resize(start, 2 * kPage, 4 * kPage));
  EXPECT_EQ(start[2 * kPage - 1], 1);
  EXPECT_TRUE(IsZero(start + 2 * kPage, 2 * kPage));
  EXPECT_TRUE(hk_os_unmap(start, 4 * kPage));
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, ResizeStopsAtTheNeighbour) {
  char *start = static_cast<char *>(hk_os_reserve(4 * kPage, kPage));
  memset(start, 1, 4 * kPage);
  EXPECT_FALSE(hk_os_resize(start, 2 * kPage, 3 * kPage));
  EXPECT_FALSE(hk_os_resize(start, 4 * kPage, size_t{1} << 62));
  EXPECT_FALSE(hk_os_resize(start, 4 * kPage, 0));
  EXPECT_TRUE(IsMapped(start, 4 * kPage));
  EXPECT_EQ(start[4 * kPage - 1], 1);
  EXPECT_TRUE(hk_os_unmap(start, 4 * kPage));
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, MoveTakesThePagesAlong) {
  for (size_t new_pages : {size_t{1}, size_t{2}, size_t{5}}) {
    char *start = static_cast<char *>(hk_os_reserve(2 * kPage, kPage));
    char *target = static_cast<char *>(hk_os_reserve(new_pages * kPage, HK_SUPERSLAB_BYTES));
    memset(start, 1, 2 * kPage);
    memset(target, 2, new_pages * kPage);
    ASSERT_TRUE(hk_os_move(start, 2 * kPage, target, new_pages * kPage));
    EXPECT_FALSE(IsMapped(start, kPage));
    EXPECT_FALSE(IsMapped(start + kPage, kPage));
    EXPECT_EQ(target[0], 1);
    EXPECT_EQ(target[std::min(new_pages, size_t{2}) * kPage - 1], 1);
    if (new_pages > 2) {
      EXPECT_TRUE(IsZero(target + 2 * kPage, (new_pages - 2) * kPage));
    }
    EXPECT_TRUE(hk_os_unmap(target, new_pages * kPage));
  }
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

TEST_F(OsLinux, WipedOnForkIsZeroInTheChildAlone) {
  char *start = static_cast<char *>(hk_os_reserve(2 * kPage, kPage));
  if (!hk_os_wipe_on_fork(start, kPage)) GTEST_SKIP() << "this kernel cannot wipe on fork";
  EXPECT_EQ(errno, kErrno);
  memset(start, 1, 2 * kPage);
  EXPECT_EQ(hk_test::InChild([=] {
              HK_CHILD_CHECK(IsZero(start, kPage));
              HK_CHILD_CHECK(start[kPage] == 1);
              start[0] = 5;
              return hk_test::InChild([=] { return start[0]; });
            }),
            0);
  EXPECT_EQ(start[0], 1);
  EXPECT_TRUE(hk_os_unmap(start, 2 * kPage));
}

#if !HK_SANITIZED

TEST_F(OsLinux, InterposedMemoryCallsAreNotEntered) {
  int before = interposed_calls;
  char *start = static_cast<char *>(hk_os_reserve(2 * kPage, 64 * HK_MIB));
  char *target = static_cast<char *>(hk_os_reserve(3 * kPage, kPage));
  EXPECT_TRUE(hk_os_purge(start, kPage));
  EXPECT_TRUE(hk_os_move(start, 2 * kPage, target, 3 * kPage));
  EXPECT_TRUE(hk_os_resize(target, 3 * kPage, kPage));
  EXPECT_TRUE(hk_os_unmap(target, kPage));
  EXPECT_EQ(interposed_calls, before);
}

/* ---- A system that refuses. A sanitizer's own needs would be refused too. */

// From here on this process gets `error` from the system call. False where that cannot be arranged.
bool Refuse(long number, int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

bool LimitMappedBytes(size_t bytes) {
  rlimit limit = {bytes, RLIM_INFINITY};
  return setrlimit(RLIMIT_AS, &limit) == 0;
}

TEST_F(OsLinux, NearItsLimitAProcessStillGetsAlignedRanges) {
  EXPECT_EQ(hk_test::InChild([] {
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
  EXPECT_EQ(hk_test::InChild([] {
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

TEST_F(OsLinux, EachRefusalIsReportedAndLeavesErrno) {
  EXPECT_EQ(hk_test::InChild([] {
              char *start = static_cast<char *>(hk_os_reserve(2 * kPage, kPage));
              char *target = static_cast<char *>(hk_os_reserve(4 * kPage, kPage));
              start[0] = 1;
              if (!Refuse(SYS_madvise, ENOSYS) || !Refuse(SYS_mremap, ENOMEM) || !Refuse(SYS_openat, EMFILE)) return 0;
              errno = kErrno;
              HK_CHILD_CHECK(!hk_os_purge(start, kPage));
              HK_CHILD_CHECK(!hk_os_wipe_on_fork(start, kPage));
              HK_CHILD_CHECK(!hk_os_resize(start, 2 * kPage, kPage));
              HK_CHILD_CHECK(!hk_os_move(start, 2 * kPage, target, 4 * kPage));
              HK_CHILD_CHECK(IsMapped(start, 2 * kPage) && IsMapped(target, 4 * kPage));
              HK_CHILD_CHECK(start[0] == 1);
              HK_CHILD_CHECK(hk_os_memory().resident_bytes == 0 && hk_os_memory().peak_resident_bytes == 0);
              if (!Refuse(SYS_mmap, ENOMEM)) return 0;
              HK_CHILD_CHECK(hk_os_reserve(kPage, kPage) == nullptr);
              HK_CHILD_CHECK(hk_os_reserve(kPage, HK_SUPERSLAB_BYTES) == nullptr);
              HK_CHILD_CHECK(errno == kErrno);
              return 0;
            }),
            0);
}

TEST_F(OsLinux, WithoutRoomForAnotherMapping) {
  size_t limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  if (limit == 0 || limit > 300000) GTEST_SKIP() << "it takes too long to reach " << limit << " mappings";
  EXPECT_EQ(hk_test::InChild([limit] {
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

/* ---- Text, time, facts. */

// All that can be read from a pipe whose other end is closed.
std::string ReadAll(int file) {
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(file, buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  return text;
}

TEST_F(OsLinux, WritesAllOfALongTextInOnePiece) {
  std::string text(300000, 'x'); /* more than a pipe holds */
  text += "end";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::string read_text;
  std::thread reader([&] { read_text = ReadAll(ends[0]); });
  int stderr_copy = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  errno = kErrno;
  hk_os_write_stderr(text.data(), text.size());
  hk_os_write_stderr("", 0);
  int errno_after = errno;
  dup2(stderr_copy, STDERR_FILENO);
  close(stderr_copy);
  reader.join();
  close(ends[0]);
  EXPECT_EQ(read_text, text);
  EXPECT_EQ(errno_after, kErrno);
}

TEST_F(OsLinux, SignalsDoNotTearAText) {
  std::string text;
  for (int i = 0; text.size() < 2000000; i++) text += std::to_string(i) + ' ';
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::string read_text;
  std::thread reader([&] {
    /* Slow enough that the pipe is full when signals come, which then end a write half-way. */
    for (int i = 0; i < 20; i++) {
      char buffer[4096];
      std::this_thread::sleep_for(milliseconds(5));
      ssize_t count = read(ends[0], buffer, sizeof(buffer));
      if (count > 0) read_text.append(buffer, static_cast<size_t>(count));
    }
    read_text += ReadAll(ends[0]);
  });
  EXPECT_EQ(hk_test::InChild([&] {
              struct sigaction action = {};
              action.sa_handler = [](int) {};
              sigaction(SIGPROF, &action, nullptr);
              timer_t timer;
              sigevent event = {};
              event.sigev_notify = SIGEV_SIGNAL;
              event.sigev_signo = SIGPROF;
              timer_create(CLOCK_MONOTONIC, &event, &timer);
              itimerspec every_ms = {{0, 1000000}, {0, 1000000}};
              timer_settime(timer, 0, &every_ms, nullptr);
              dup2(ends[1], STDERR_FILENO);
              hk_os_write_stderr(text.data(), text.size());
              return 0;
            }),
            0);
  close(ends[1]);
  reader.join();
  close(ends[0]);
  EXPECT_TRUE(read_text == text) << read_text.size() << " bytes of " << text.size();
}

TEST_F(OsLinux, WritingToAClosedStderrIsNoError) {
  EXPECT_EQ(hk_test::InChild([] {
              close(STDERR_FILENO);
              errno = kErrno;
              hk_os_write_stderr("lost\n", 5);
              return errno == kErrno ? 0 : 1;
            }),
            0);
}

TEST_F(OsLinux, KeptStderrOutlivesItsDescriptor) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(hk_test::InChild([&] {
              char path[] = "/tmp/os_linux_test_XXXXXX";
              int file = mkstemp(path);
              unlink(path);
              dup2(ends[1], STDERR_FILENO);
              close(ends[1]);
              errno = kErrno;
              hk_os_keep_stderr();
              hk_os_write_stderr("one ", 4);
              dup2(file, STDERR_FILENO); /* what a program does that closes all it knows and opens its own file */
              hk_os_write_stderr("two", 3);
              HK_CHILD_CHECK(errno == kErrno);
              HK_CHILD_CHECK(lseek(file, 0, SEEK_END) == 0);
              return 0;
            }),
            0);
  close(ends[1]);
  EXPECT_EQ(ReadAll(ends[0]), "one two");
  close(ends[0]);
}

TEST_F(OsLinux, KeptStderrIsNeverAnotherFile) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(hk_test::InChild([&] {
              char path[] = "/tmp/os_linux_test_XXXXXX";
              int file = mkstemp(path);
              unlink(path);
              dup2(ends[1], STDERR_FILENO);
              hk_os_keep_stderr();
              /* Every other descriptor becomes the program's file, our own among them. */
              for (int other = 3; other < 1024; other++) {
                if (other != file && other != STDERR_FILENO) dup2(file, other);
              }
              hk_os_write_stderr("by its number", 13);
              dup2(file, STDERR_FILENO);
              hk_os_write_stderr("lost", 4);
              HK_CHILD_CHECK(lseek(file, 0, SEEK_END) == 0);
              return 0;
            }),
            0);
  close(ends[1]);
  EXPECT_EQ(ReadAll(ends[0]), "by its number");
  close(ends[0]);
}

TEST_F(OsLinux, AClosedStderrIsNotKept) {
  EXPECT_EQ(hk_test::InChild([] {
              close(STDERR_FILENO);
              errno = kErrno;
              hk_os_keep_stderr();
              hk_os_write_stderr("lost", 4);
              return errno == kErrno ? 0 : 1;
            }),
            0);
}

using OsLinuxDeathTest = OsLinux;

TEST_F(OsLinuxDeathTest, AbortEndsByASignalWhateverTheProgramDidToIt) {
  EXPECT_EXIT(hk_os_abort(), testing::KilledBySignal(SIGABRT), "^$");
  EXPECT_EXIT(
      {
        signal(SIGABRT, SIG_IGN);
        hk_os_abort();
      },
      testing::KilledBySignal(SIGABRT), "");
  EXPECT_EXIT(
      {
        sigset_t blocked;
        sigfillset(&blocked);
        sigprocmask(SIG_BLOCK, &blocked, nullptr);
        signal(SIGABRT, [](int) {});
        hk_os_abort();
      },
      testing::KilledBySignal(SIGABRT), "");
}

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
  EXPECT_LE(first, start + 1);
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
  EXPECT_EQ(hk_test::InChild([secret] { return hk_os_process_secret() == secret ? 0 : 1; }), 0);
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
    int result = hk_test::InChild([&] {
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
  EXPECT_EQ(hk_test::InChild([] {
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
  EXPECT_EQ(hk_test::InChild([] { return hk_os_process_id() == static_cast<uint64_t>(getpid()) ? 0 : 1; }), 0);
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

// What the line of /proc/self/smaps that begins with `label` says of the mapping that `start` is in.
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
  (void)hk_os_huge_allow(start, 4 * HK_MIB, false);
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
  EXPECT_TRUE(hk_os_huge_allow(start, HK_SUPERSLAB_BYTES, false));
  EXPECT_NE(SmapsLine(start, "VmFlags:").find(" nh "), std::string::npos);
  memset(start, 1, HK_SUPERSLAB_BYTES);
  EXPECT_FALSE(hk_os_huge_collapse(start, HK_SUPERSLAB_BYTES)) << "forbidden";
  EXPECT_TRUE(hk_os_huge_allow(start, HK_SUPERSLAB_BYTES, true));
  EXPECT_NE(SmapsLine(start, "VmFlags:").find(" hg "), std::string::npos);
  if (hk_os_huge_collapse(start, HK_SUPERSLAB_BYTES)) { /* kernels before 6.1 have no such call */
    EXPECT_EQ(SmapsLine(start, "AnonHugePages:").find(" 0 kB"), std::string::npos);
  }
  for (size_t i = 0; i < HK_SUPERSLAB_BYTES; i++) ASSERT_EQ(start[i], 1);
  EXPECT_TRUE(hk_os_unmap(start, HK_SUPERSLAB_BYTES));
  EXPECT_EQ(errno, kErrno);
}

TEST_F(OsLinux, ARefusedHugePageIsNoError) {
  char *start = static_cast<char *>(hk_os_reserve(HK_SUPERSLAB_BYTES, HK_SUPERSLAB_BYTES));
  EXPECT_TRUE(hk_os_unmap(start, HK_SUPERSLAB_BYTES));
  EXPECT_FALSE(hk_os_huge_allow(start, HK_SUPERSLAB_BYTES, true));
  EXPECT_FALSE(hk_os_huge_allow(start, HK_SUPERSLAB_BYTES, false));
  EXPECT_FALSE(hk_os_huge_collapse(start, HK_SUPERSLAB_BYTES));
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
                     unsigned node = hk_os_current_node();
                     EXPECT_EQ(errno, kErrno);
                     EXPECT_TRUE(IsOfNode(processor, node)) << processor << ", " << node;
                   }
  })
      .join();
}

#if !HK_SANITIZED
TEST_F(OsLinux, WhereNobodyMayLookThereIsOneNode) {
  EXPECT_EQ(hk_test::InChild([] {
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
  EXPECT_EQ(hk_test::InChild([] {
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
  EXPECT_EQ(hk_test::InChild([] {
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
  EXPECT_EQ(hk_test::InChild([] {
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
  EXPECT_EQ(hk_test::InChild([] {
              errno = kErrno;
              hk_os_at_fork([] { forks++; });
              HK_CHILD_CHECK(errno == kErrno);
              HK_CHILD_CHECK(hk_test::InChild([] { return forks == 1 ? 0 : 1; }) == 0);
              HK_CHILD_CHECK(forks == 0);
              return 0;
            }),
            0);
}

}  // namespace
