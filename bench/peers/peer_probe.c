/* bench/peers/peer_probe.c - prints the files that serve this process's allocations: peer_probe SYMBOL...
 *
 * One line a name, "NAME FILE": for the functions of malloc that every allocator must serve, and for each SYMBOL; "-"
 * where there is none. First it uses them from a few threads and checks the written data: exit code 1 and a line on
 * stderr when they do not work.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { thread_count = 4, block_count = 500 };

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "peer_probe: %s\n", what);
  exit(1);
}

static void *checked(void *block, size_t alignment, size_t size) {
  if (block == NULL) fail("NULL instead of a block");
  if ((uintptr_t)block % alignment != 0) fail("a block that is not aligned");
  if (malloc_usable_size(block) < size) fail("a block that is too small");
  return block;
}

/* Block i, from one function after the other. */
static unsigned char *new_block(size_t i, size_t size) {
  void *aligned = NULL;
  switch (i % 5) {
    case 0:
      return checked(malloc(size), 8, size);
    case 1:
      return checked(calloc(1, size), 8, size);
    case 2:
      return checked(realloc(malloc(size / 2 + 1), size), 8, size);
    case 3:
      return checked(aligned_alloc(64, (size + 63) / 64 * 64), 64, size);
    default:
      if (posix_memalign(&aligned, 256, size) != 0) fail("posix_memalign failed");
      return checked(aligned, 256, size);
  }
}

/* Frees the blocks that the previous thread left, and leaves its own. */
static void *use(void *argument) {
  unsigned char **blocks = argument;
  for (size_t i = 0; i < block_count; ++i) {
    const size_t size = 1 + i * i % 70000;
    if (blocks[i]) {
      if (blocks[i][0] != (unsigned char)i || blocks[i][size - 1] != (unsigned char)i) fail("a block was changed");
      free(blocks[i]);
    }
    blocks[i] = new_block(i, size);
    memset(blocks[i], (int)(i & 0xff), size);
  }
  return NULL;
}

static void print_home(const char *name) {
  Dl_info info;
  void *address = dlsym(RTLD_DEFAULT, name);
  const int found = address != NULL && dladdr(address, &info) != 0 && info.dli_fname != NULL;
  printf("%s %s\n", name, found ? info.dli_fname : "-");
}

int main(int argc, char **argv) {
  static const char *const names[] = {
      "malloc", "free", "calloc", "realloc", "posix_memalign", "aligned_alloc", "malloc_usable_size"};
  static unsigned char *blocks[block_count];
  for (int i = 0; i < thread_count; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, use, blocks) != 0) fail("no thread");
    pthread_join(thread, NULL);
  }
  for (size_t i = 0; i < block_count; ++i) free(blocks[i]);
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) print_home(names[i]);
  for (int i = 1; i < argc; ++i) print_home(argv[i]);
  return 0;
}
