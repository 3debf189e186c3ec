/* bench/pair_loop.c - the loop that bench/instructions.py counts: pair_loop SIZE PAIRS LIVE malloc|nothing
 *
 * Allocates LIVE blocks, frees them in the same order, and so on until PAIRS pairs are done. The calls go through
 * pointers that are read once, so there are no stubs between the loop and the allocator. `nothing` makes the same loop
 * call a function of one instruction instead: what then remains is the price of the loop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { max_live = 4096 };

/* One instruction, on x86-64 and AArch64 alike, under two names. It returns the old value of the register. */
__asm__(".text\nallocate_nothing:\nfree_nothing:\n\tret\n");
void *allocate_nothing(size_t size) __attribute__((visibility("hidden")));
void free_nothing(void *block) __attribute__((visibility("hidden")));

static void *blocks[max_live];

/* Never a copy for known arguments: both loops must be the same instructions. */
__attribute__((noipa)) static void run(size_t size, long pairs, long live, void *(*allocate)(size_t),
                                       void (*release)(void *)) {
  for (long done = 0; done < pairs; done += live) {
    for (long i = 0; i < live; ++i) blocks[i] = allocate(size);
    for (long i = 0; i < live; ++i) release(blocks[i]);
  }
}

int main(int argc, char **argv) {
  const long live = argc == 5 ? atol(argv[3]) : 0;
  if (live < 1 || live > max_live) {
    fputs("usage: pair_loop SIZE PAIRS LIVE malloc|nothing\n", stderr);
    return 2;
  }
  const size_t size = strtoul(argv[1], NULL, 10);
  const long pairs = atol(argv[2]);
  const int is_empty = strcmp(argv[4], "nothing") == 0;
  run(size, pairs, live, is_empty ? allocate_nothing : malloc, is_empty ? free_nothing : free);
  return 0;
}
