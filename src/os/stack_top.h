/* os/stack_top.h - L1. Finds the upper end of a thread's stack. */
#ifndef HK_OS_STACK_TOP_H
#define HK_OS_STACK_TOP_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Returns an address above all frames of the calling thread and in the same mapping, if `sp` is on the stack that the
 * system or the C library gave it. On another stack returns 0 in the first thread, and in others the address above
 * their own stack. No system call after the first one. */
uintptr_t hk_os_stack_top(uintptr_t sp);

HK_C_END

#endif /* HK_OS_STACK_TOP_H */
