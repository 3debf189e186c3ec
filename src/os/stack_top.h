/* os/stack_top.h - L1. Finds the upper end of a thread's stack, and the C library's record of the thread above it. */
#ifndef HK_OS_STACK_TOP_H
#define HK_OS_STACK_TOP_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Returns the calling thread's pointer: the address of the C library's record of the thread, around which its
 * thread-local memory lies. The record of a thread that the C library has made lies above the thread's stack. */
HK_INLINE uintptr_t hk_os_thread_pointer(void) {
  uintptr_t pointer;
#if defined(__x86_64__)
  __asm__("movq %%fs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__)
  __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
  return pointer;
}

/* Returns an address above all frames of the calling thread and in the same mapping, if `sp` is on the stack that the
 * system or the C library gave it. On another stack returns 0 in the first thread, and in others the address above
 * their own stack. No system call after the first one. */
uintptr_t hk_os_stack_top(uintptr_t sp);

HK_C_END

#endif /* HK_OS_STACK_TOP_H */
