// os/peek: reading memory that may not be there.
#include "os/peek.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "in_child.h"
#include "os/copy_out.h"
#include "refuse_call.h"

namespace {

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

void *MapPages(size_t count, int protection = PROT_READ | PROT_WRITE) {
  return mmap(nullptr, count * PageBytes(), protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void *const kUntouched = reinterpret_cast<void *>(uintptr_t{0x1234});

// Whether the word cannot be read.
bool IsAbsent(const void *address) {
  void *word = kUntouched;
  bool present = hk_os_peek(address, &word);
  if (!present) EXPECT_EQ(word, kUntouched) << "a refusal writes nothing";
  return !present;
}

TEST(Peek, ReadsEachWordOfAPage) {
  auto *words = static_cast<uintptr_t *>(MapPages(1));
  size_t count = PageBytes() / sizeof *words;
  for (size_t i = 0; i < count; i++) words[i] = i * 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < count; i++) {
    void *word = nullptr;
    ASSERT_TRUE(hk_os_peek(&words[i], &word));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(word), words[i]) << i;
  }
  munmap(words, PageBytes());
}

TEST(Peek, ReadsWhatIsReadOnlyOrWasNeverTouched) {
  void *word = kUntouched;
  void *page = MapPages(1, PROT_READ);
  EXPECT_TRUE(hk_os_peek(page, &word));
  EXPECT_EQ(word, nullptr);
  munmap(page, PageBytes());
  static const uintptr_t constant = 42;
  EXPECT_TRUE(hk_os_peek(&constant, &word));
  EXPECT_EQ(word, reinterpret_cast<void *>(constant));
  uintptr_t on_stack = 43;
  EXPECT_TRUE(hk_os_peek(&on_stack, &word));
  EXPECT_EQ(word, reinterpret_cast<void *>(uintptr_t{43}));
}

TEST(Peek, SaysThatNothingIsMapped) {
  char *pages = static_cast<char *>(MapPages(3));
  char *middle = pages + PageBytes();
  munmap(middle, PageBytes());
  void *word;
  EXPECT_TRUE(IsAbsent(middle));
  EXPECT_TRUE(IsAbsent(middle + PageBytes() - sizeof word));
  EXPECT_TRUE(hk_os_peek(middle - sizeof word, &word)) << "the word before it is there";
  EXPECT_TRUE(hk_os_peek(middle + PageBytes(), &word)) << "and the one behind it";
  munmap(pages, 3 * PageBytes());
  EXPECT_TRUE(IsAbsent(pages));
}

TEST(Peek, UnreadableMemoryCountsAsNotMapped) {
  void *page = MapPages(1, PROT_NONE);
  EXPECT_TRUE(IsAbsent(page));
  munmap(page, PageBytes());
}

TEST(Peek, AddressesThatAreNone) {
  EXPECT_TRUE(IsAbsent(nullptr));
  EXPECT_TRUE(IsAbsent(reinterpret_cast<void *>(uintptr_t{8})));
  EXPECT_TRUE(IsAbsent(reinterpret_cast<void *>(uintptr_t{1} << 62))) << "no address of this machine";
  EXPECT_TRUE(IsAbsent(reinterpret_cast<void *>(~uintptr_t{7}))) << "the kernel's";
}

TEST(Peek, CopiesAcrossPagesAndAllOrNothing) {
  size_t page = PageBytes();
  char *pages = static_cast<char *>(MapPages(3));
  for (size_t i = 0; i < 3 * page; i++) pages[i] = static_cast<char>(i * 31);
  std::vector<char> copy(2 * page);
  EXPECT_TRUE(hk_os_copy(copy.data(), pages + 16, copy.size()));
  EXPECT_EQ(memcmp(copy.data(), pages + 16, copy.size()), 0);
  munmap(pages + 2 * page, page);
  EXPECT_FALSE(hk_os_copy(copy.data(), pages + 16, copy.size())) << "its end is not mapped";
  EXPECT_TRUE(hk_os_copy(copy.data(), pages, copy.size()));
  munmap(pages, 2 * page);
}

TEST(Peek, LeavesErrnoAlone) {
  void *word;
  errno = 12345;
  EXPECT_TRUE(IsAbsent(nullptr));
  EXPECT_TRUE(hk_os_peek(&word, &word));
  EXPECT_EQ(errno, 12345);
}

// A page that comes and goes: each look sees it as it is, or that it is not there. The other thread may be stopped for
// any time while the page is gone, so the looks go on until one has found it.
TEST(Peek, WhileAnotherThreadMapsAndUnmaps) {
  char *page = static_cast<char *>(MapPages(1));
  std::atomic<bool> done{false};
  std::thread other([&done, page] {
    while (!done) {
      munmap(page, PageBytes());
      void *again = mmap(page, PageBytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      if (again == page) __atomic_store_n(reinterpret_cast<uintptr_t *>(page), 77, __ATOMIC_RELAXED);
    }
  });
  int present = 0;
  for (int i = 0; i < 20000 || present == 0; i++) {
    void *word = kUntouched;
    if (!hk_os_peek(page, &word)) continue;
    present++;
    ASSERT_TRUE(word == nullptr || word == reinterpret_cast<void *>(uintptr_t{77})) << word;
  }
  done = true;
  other.join();
  munmap(page, PageBytes());
}

TEST(Peek, WhereTheSystemRefusesTheWordIsReadPlainly) {
  constexpr int kNoFilters = 77;
  for (unsigned error : {EPERM, ENOSYS}) {
    int result = hk_test::InChild([error] {
      if (!hk_test::Refuse(SYS_process_vm_readv, error)) return kNoFilters;
      uintptr_t value = 4711;
      void *word = nullptr;
      errno = 12345;
      HK_CHILD_CHECK(hk_os_peek(&value, &word));
      HK_CHILD_CHECK(word == reinterpret_cast<void *>(value));
      HK_CHILD_CHECK(!hk_os_copy(&word, &value, sizeof word));
      HK_CHILD_CHECK(errno == 12345);
      return 0;
    });
    if (result == kNoFilters) GTEST_SKIP() << "no system call filters here";
    EXPECT_EQ(result, 0) << error;
  }
}

}  // namespace
