// Heaps that change hands with blocks in their lists: by a thread's end, and by fork. What a calloc takes from such a
// list was used before.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "hakmem/hakmem.h"

namespace {

constexpr size_t kBytes = 1100; /* a mid class, of which a refill carves several */

char *AllocDirty(size_t bytes) {
  char *block = static_cast<char *>(hakmem_malloc(bytes));
  std::memset(block, 0x55, bytes);
  return block;
}

// Whether a calloc gives something else than zeroes. The blocks stay in use.
bool FindsDirt() {
  for (int i = 0; i < 200; i++) {
    char *block = static_cast<char *>(hakmem_calloc(1, kBytes));
    for (size_t at = 0; at < kBytes; at++) {
      if (block[at] != 0) return true;
    }
    std::memset(block, 0x77, kBytes);
  }
  return false;
}

bool NewThreadFindsDirt() {
  bool dirty = true;
  std::thread([&dirty] { dirty = FindsDirt(); }).join();
  return dirty;
}

TEST(AdoptedHeap, CallocIsZeroWhereAnIdleHeapTookBlocksBack) {
  hakmem_free(hakmem_malloc(1)); /* this thread has a heap of its own */
  std::vector<char *> blocks;
  std::thread([&blocks] {
    for (int i = 0; i < 300; i++) blocks.push_back(AllocDirty(kBytes));
  }).join();
  for (char *block : blocks) hakmem_free(block);
  std::vector<char *> grown; /* a heap that grows drains idle heaps first */
  for (int i = 0; i < 40; i++) grown.push_back(AllocDirty(30000));
  EXPECT_FALSE(NewThreadFindsDirt());
  for (char *block : grown) hakmem_free(block);
}

TEST(AdoptedHeap, CallocIsZeroInAChildOfForkThatAdoptsAHeap) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer cannot start a thread in the child of a program with threads";
#endif
  std::atomic<bool> ready{false}, over{false};
  std::thread owner([&ready, &over] {
    std::vector<char *> blocks;
    for (int i = 0; i < 3000; i++) blocks.push_back(AllocDirty(kBytes));
    for (char *block : blocks) hakmem_free(block);
    for (int i = 0; i < 300; i++) (void)AllocDirty(kBytes);
    ready = true;
    while (!over) usleep(100);
  });
  while (!ready) usleep(100);
  pid_t child = fork();
  if (child == 0) _exit(NewThreadFindsDirt() ? 1 : 0);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  over = true;
  owner.join();
}

}  // namespace
