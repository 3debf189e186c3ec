// os/os_linux: ranges of memory on the real system, got, given back, purged and moved.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
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
#include "unit/os_linux_driver.h"

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

using namespace hk_test;

namespace {

bool IsZero(const void *start, size_t bytes) {
  const char *text = static_cast<const char *>(start);
  return text[0] == 0 && memcmp(text, text + 1, bytes - 1) == 0;
}

size_t MappingCount() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count++;
  return count;
}

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
  EXPECT_EQ(InChild([] {
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

TEST_F(OsLinux, AlignedRangesLieSideBySide) {
  EXPECT_EQ(InChild([] {
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
  EXPECT_EQ(InChild([] {
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

TEST_F(OsLinux, HolesOfInaccessibleRangesAreUsedAgain) {
  EXPECT_EQ(InChild([] {
              std::set<uintptr_t> regions;
              std::vector<std::pair<char *, size_t>> ranges;
              for (size_t i = 0; i < 5000; i++) {
                /* Shorter than 2 MiB without its front, as the mapping of a block in a hardened build. */
                size_t front = (i * 7 % 15 + 1) * HK_SLAB_BYTES, bytes = HK_SUPERSLAB_BYTES - HK_SLAB_BYTES;
                char *start = static_cast<char *>(hk_os_reserve_inaccessible(front + bytes, HK_SLAB_BYTES));
                HK_CHILD_CHECK(start != nullptr);
                HK_CHILD_CHECK(hk_os_unmap(start, front));
                regions.insert(reinterpret_cast<uintptr_t>(start) >> HK_REGION_SHIFT);
                ranges.emplace_back(start + front, bytes);
                if (ranges.size() < 20) continue;
                std::swap(ranges[i * 13 % ranges.size()], ranges.back());
                HK_CHILD_CHECK(hk_os_unmap(ranges.back().first, ranges.back().second));
                ranges.pop_back();
              }
              /* At most 20 ranges of 3 MiB at a time, of 12 GB in all. */
              HK_CHILD_CHECK(regions.size() <= 3);
              return 0;
            }),
            0);
}

TEST_F(OsLinux, RecordsLeaveTheHolesOfInaccessibleRangesFree) {
  EXPECT_EQ(InChild([] {
              constexpr size_t kRecordBytes = 9 * HK_MIB;
              std::set<uintptr_t> regions;
              std::vector<char *> ranges;
              for (size_t i = 0; i < 2000; i++) {
                /* An aligned block of a slab, and the addresses before it. */
                char *start = static_cast<char *>(hk_os_reserve_inaccessible(HK_GIB + HK_SLAB_BYTES, HK_GIB));
                HK_CHILD_CHECK(start != nullptr);
                HK_CHILD_CHECK(hk_os_unmap(start, HK_GIB));
                ranges.push_back(start + HK_GIB);
                if (regions.insert(reinterpret_cast<uintptr_t>(ranges.back()) >> HK_REGION_SHIFT).second)
                  HK_CHILD_CHECK(hk_os_reserve_readable(kRecordBytes, HK_SLAB_BYTES) != nullptr);
                if (ranges.size() < 20) continue;
                std::swap(ranges[i * 13 % ranges.size()], ranges.back());
                HK_CHILD_CHECK(hk_os_unmap(ranges.back(), HK_SLAB_BYTES));
                ranges.pop_back();
              }
              HK_CHILD_CHECK(regions.size() <= 100);
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

TEST_F(OsLinux, WipedOnForkIsZeroInTheChildAlone) {
  char *start = static_cast<char *>(hk_os_reserve(2 * kPage, kPage));
  if (!hk_os_wipe_on_fork(start, kPage)) GTEST_SKIP() << "this kernel cannot wipe on fork";
  EXPECT_EQ(errno, kErrno);
  memset(start, 1, 2 * kPage);
  EXPECT_EQ(InChild([=] {
              HK_CHILD_CHECK(IsZero(start, kPage));
              HK_CHILD_CHECK(start[kPage] == 1);
              start[0] = 5;
              return InChild([=] { return start[0]; });
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

size_t LazyBytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("LazyFree:", 0) == 0) return std::stoul(line.substr(9)) * HK_KIB;
  }
  return 0;
}

TEST_F(OsLinux, LazilyPurgedRangesAreTheSystemsToTake) {
  EXPECT_EQ(InChild([] {
              constexpr size_t kBytes = 16 * HK_MIB;
              char *start = static_cast<char *>(hk_os_reserve(kBytes, HK_SUPERSLAB_BYTES));
              memset(start, 1, kBytes);
              size_t before = hk_os_resident_bytes(start, kBytes);
              errno = kErrno;
              hk_os_purge_t purged = hk_os_purge_lazily(start + kPage, kBytes - 2 * kPage);
              HK_CHILD_CHECK(errno == kErrno);
              if (purged != hk_os_purge_lazy) return 0; /* a system that has no such thing, as an emulator */
              HK_CHILD_CHECK(start[0] == 1 && start[kBytes - kPage] == 1);
              for (size_t at = kPage; at < kBytes - kPage; at += kPage) HK_CHILD_CHECK((start[at] & ~1) == 0);
              if (hk_os_resident_bytes(start, kBytes) < before) return 0; /* it was short of memory */
              if (LazyBytes() != 0) HK_CHILD_CHECK(LazyBytes() > kBytes / 2);
              start[kPage] = 7;
              HK_CHILD_CHECK(hk_os_purge(start + 2 * kPage, kBytes - 2 * kPage));
              HK_CHILD_CHECK(start[kPage] == 7 && start[2 * kPage] == 0 && LazyBytes() == 0);
              return 0;
            }),
            0);
}

#endif  // !HK_SANITIZED

}  // namespace
