/* os/stack_top.c - L1. See stack_top.h. */
#include "os/stack_top.h"

#include <errno.h>
#include <sys/auxv.h>

#include "base/atomic.h"
#include "base/units.h"

/* The kernel keeps at least 128 MiB below the end of the first thread's stack free of other mappings. */
#define FIRST_STACK_BYTES (64 * HK_MIB)

/* The address of the random bytes that the kernel puts above the first thread's stack. */
static uintptr_t first_stack_top(void) {
  static _Atomic(uintptr_t) known;
  uintptr_t top = hk_load_relaxed(&known);
  if (HK_UNLIKELY(top == 0)) {
    int saved_errno = errno;
    top = getauxval(AT_RANDOM);
    errno = saved_errno;
    hk_store_relaxed(&known, top);
  }
  return top;
}

/* The first thread's pointer, since it was first seen on its stack: when the library starts, as a rule. */
static _Atomic(uintptr_t) first_pointer;

/* The first thread's record lies among other mappings, which may be the stacks of coroutines. */
uintptr_t hk_os_stack_top(uintptr_t sp) {
  uintptr_t top = first_stack_top(), pointer = hk_os_thread_pointer(), first = hk_load_relaxed(&first_pointer);
  if (sp >= top || top - sp > FIRST_STACK_BYTES) return pointer != first ? pointer : 0;
  if (first != pointer) hk_store_relaxed(&first_pointer, pointer);
  return top;
}
