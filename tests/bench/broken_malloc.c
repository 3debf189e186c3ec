/* tests/bench/broken_malloc.c - a library to preload whose malloc is wrong for blocks of 5000 to 9000 bytes: they come
 * from four places only, calloc's are not zero, and realloc drops their contents. Everything else is glibc's. */
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

enum { least = 5000, most = 9000, places = 4 };
static _Alignas(16) char pool[places][most];
static unsigned next;

static int is_broken(size_t size) { return size >= least && size <= most; }
static int is_ours(const void *block) { return (const char *)block >= pool[0] && (const char *)block < pool[places]; }
static void *place(int filling) {
  return memset(pool[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % places], filling, most);
}

void *malloc(size_t size) { return is_broken(size) ? place(0) : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return is_broken(count * size) ? place(1) : __libc_calloc(count, size); }

void free(void *block) {
  if (!is_ours(block)) __libc_free(block);
}

void *realloc(void *block, size_t size) {
  if (!is_broken(size) && !is_ours(block)) return __libc_realloc(block, size);
  free(block);
  void *moved = malloc(size);
  return moved ? memset(moved, 2, size) : NULL;
}
