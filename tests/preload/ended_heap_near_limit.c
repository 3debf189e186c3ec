/* tests/preload/ended_heap_near_limit.c - near a limit on addresses, where spans are short, ends a named heap with free
 * blocks among those in use, and then allocates blocks of the same size outside. argv: the size, and how many. */
#include "check.h"

#include <dlfcn.h>
#include <sys/resource.h>

enum { blocks_most = 4000, rounds = 6 };

static size_t mapped_bytes(void) {
  char text[256];
  int file = open("/proc/self/statm", O_RDONLY);
  CHECK(file >= 0);
  ssize_t length = read(file, text, sizeof text - 1);
  CHECK(length > 0 && close(file) == 0);
  text[length] = '\0';
  return strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void limit_addresses(size_t bytes) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
  limit.rlim_cur = bytes;
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

static char *filled(char *block, size_t size, size_t stamp) {
  return block != NULL ? memset(block, (int)stamp, size) : NULL;
}

static void use_outside(size_t size, size_t count) {
  static char *block[blocks_most];
  for (size_t i = 0; i < count; i++) block[i] = filled(malloc(size), size, i);
  for (size_t i = 0; i < count; i += 2) {
    free(block[i]);
    block[i] = i % 4 == 0 ? filled(malloc(size), size, i) : NULL;
  }
  for (size_t i = 0; i < count; i++) {
    if (block[i] == NULL) continue;
    for (size_t k = 0; k < size; k++) CHECK(block[i][k] == (char)i);
    free(block[i]);
  }
}

int main(int argc, char **argv) {
  void *(*create)(const char *, void *) = (void *(*)(const char *, void *))dlsym(RTLD_DEFAULT, "hakmem_heap_create");
  void *(*allocate)(void *, size_t) = (void *(*)(void *, size_t))dlsym(RTLD_DEFAULT, "hakmem_heap_malloc");
  void (*destroy)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "hakmem_heap_destroy");
  if (create == NULL || allocate == NULL || destroy == NULL || argc < 3) return exit_usage;
  size_t size = strtoul(argv[1], NULL, 10), count = strtoul(argv[2], NULL, 10);
  CHECK(count <= blocks_most);
  static char *inside[blocks_most];
  void *heap = create("first", NULL);
  CHECK(filled(allocate(heap, size), size, 1) != NULL); /* the records of a heap exist */
  destroy(heap);
  size_t before = mapped_bytes();
  while (mapped_bytes() == before) CHECK(malloc(50000) != NULL); /* the next superslab, ... */
  for (int i = 0; i < 31; i++) CHECK(malloc(50000) != NULL);     /* ... and all of it */
  limit_addresses(mapped_bytes() + 19 * MIB / 10);
  for (int i = 0; i < 4; i++) CHECK(malloc(50000) != NULL);
  free(malloc(MIB + 4096));
  for (int round = 0; round < rounds; round++) {
    heap = create("ends", NULL);
    CHECK(heap != NULL);
    size_t made = 0;
    for (; made < count; made++) {
      inside[made] = filled(allocate(heap, size), size, made);
      if (inside[made] == NULL) break;
    }
    for (size_t i = 0; i < made; i += 2) free(inside[i]);
    destroy(heap);
    use_outside(size, count);
  }
  return 0;
}
