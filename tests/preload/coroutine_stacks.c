/* tests/preload/coroutine_stacks.c - allocates on the stacks of coroutines that lie next to each other below the first
 * thread's record, and unmaps the stack of one that has ended. */
#include "check.h"

#include <malloc.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { stack_bytes = 64 * 1024, allocations = 20000, rounds = 3 };

static ucontext_t caller, upper, lower;
static void *volatile sink;

static void allocate(ucontext_t *self) {
  for (;;) {
    for (int i = 0; i < allocations; i++) {
      sink = malloc(64);
      free(sink);
    }
    CHECK(swapcontext(self, &caller) == 0);
  }
}

static void allocate_above(void) { allocate(&upper); }
static void allocate_below(void) { allocate(&lower); }

/* The kernel maps each stack right below the one before, as far as there is room. */
static char *begin(ucontext_t *coroutine, void (*function)(void)) {
  char *stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(stack != MAP_FAILED);
  CHECK(getcontext(coroutine) == 0);
  coroutine->uc_stack.ss_sp = stack;
  coroutine->uc_stack.ss_size = stack_bytes;
  coroutine->uc_link = NULL;
  makecontext(coroutine, function, 0);
  return stack;
}

int main(void) {
  char *ended = begin(&upper, allocate_above);
  (void)begin(&lower, allocate_below);
  for (int i = 0; i < rounds; i++) {
    CHECK(swapcontext(&caller, &lower) == 0);
    CHECK(swapcontext(&caller, &upper) == 0);
  }
  CHECK(munmap(ended, stack_bytes) == 0);
  CHECK(swapcontext(&caller, &lower) == 0);
  return 0;
}
