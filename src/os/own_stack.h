/* os/own_stack.h - L1. Runs a function on a stack of its own: a thread or coroutine of the program may have a stack of
 * few KiB. */
#ifndef HK_OS_OWN_STACK_H
#define HK_OS_OWN_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Maps a stack, calls `run(context)` on it and unmaps it. The program's signals wait until then. Returns false without
 * the call when the system has no memory for it. `run` returns: a jump out of it leaves the stack mapped, and the
 * signals blocked. */
bool hk_own_stack_run(void (*run)(void *context), void *context);

/* Returns whether the address lies in the code that calls `run`: its frame ends on the stack before, which may have
 * lower addresses. */
bool hk_own_stack_is_caller(uintptr_t pc);

HK_C_END

#endif /* HK_OS_OWN_STACK_H */
