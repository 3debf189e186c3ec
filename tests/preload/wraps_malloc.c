/* Counts its requests by functions with the names malloc, free, calloc and realloc, which call the C library's own by
 * their other names. It has no aligned_alloc or posix_memalign of its own, as few programs have, and frees what it has
 * from the C library's. Prints `ok`. */
#include "check.h"

#include <malloc.h>

void *__libc_malloc(size_t size);
void __libc_free(void *block);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);

static unsigned requests;

void *malloc(size_t size) {
  requests++;
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  requests++;
  return __libc_calloc(count, size);
}
void *realloc(void *block, size_t size) {
  requests++;
  return __libc_realloc(block, size);
}
void free(void *block) { __libc_free(block); }

static void use(char *block, size_t size, size_t alignment) {
  CHECK(block != NULL && (uintptr_t)block % alignment == 0 && malloc_usable_size(block) >= size);
  paint(block, size, 1);
  block = realloc(block, size + 10000);
  CHECK(block != NULL && is_painted(block, size, 1));
  free(block);
}

int main(void) {
  void *block;
  for (size_t size = 16; size <= 4 * MIB; size *= 4) {
    use(malloc(size), size, 16);
    use(calloc(1, size), size, 16);
    use(strcpy(malloc(size), "some text"), size, 16);
    CHECK(posix_memalign(&block, 64, size) == 0);
    use(block, size, 64);
    use(aligned_alloc(256, 2 * size), size, 256);
    use(memalign(1024, size), size, 1024);
    use(valloc(size), size, 4096);
    use(__libc_memalign(1024, size), size, 1024);
    use(__libc_valloc(size), size, 4096);
    use(__libc_pvalloc(size), size, 4096);
  }
  free(strdup("from the C library"));
  CHECK(requests > 100);
  puts("ok");
  return 0;
}
