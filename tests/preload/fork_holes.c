/* A child of fork, which lacks a block that the program keeps from it by MADV_DONTFORK, allocates and frees. The system
 * may give the child that block's addresses for another. Prints `ok`. */
#include "check.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { child_count = 20, slot_count = 100, step_count = 20000, most_bytes = 5000 };

static void work(unsigned state) {
  void *slots[slot_count] = {NULL};
  for (int i = 0; i < step_count; ++i) {
    void **slot = &slots[next_random(&state) % slot_count];
    free(*slot);
    *slot = malloc(next_random(&state) % most_bytes);
    CHECK(*slot != NULL);
  }
}

/* A run, and a large block, of which only the start has a record. */
static const size_t sizes[] = {1 << 20, 64 << 20};

int main(void) {
  for (unsigned i = 0; i < child_count; ++i) {
    const size_t block_bytes = sizes[i % 2];
    void *block;
    CHECK(posix_memalign(&block, 4096, block_bytes) == 0);
    memset(block, 1, block_bytes);
    CHECK(madvise(block, block_bytes, MADV_DONTFORK) == 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      work(i + 1);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(madvise(block, block_bytes, MADV_DOFORK) == 0);
    free(block);
  }
  puts("ok");
  return 0;
}
