/* os/fault_signal.h - L1. A handler for faults at addresses of the library's own (SIGSEGV). Every other SIGSEGV goes on
 * to the handler that the program has installed, before or after, with the siginfo, the context and the mask that it
 * would have had.
 *
 * A program may install its handler at any time, and replaces the library's with it. hk_fault_signal_renew then puts
 * the library's handler before the program's. What the program finds and saves is a handler of the library that goes on
 * to the action which it would have found: it may call that handler, and may put it back, by sigaction or signal.
 */
#ifndef HK_OS_FAULT_SIGNAL_H
#define HK_OS_FAULT_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "os/crash_context.h"

HK_C_BEGIN

typedef struct {
  /* Returns whether the address is one of the library's. Called in the handler, for each fault. */
  bool (*has)(uintptr_t address);
  /* Handles a fault there. Returns true when the interrupted instruction can be repeated; with false the signal goes
   * on to the program. */
  bool (*handle)(const hk_crash_t *crash);
} hk_fault_hook_t;

/* Installs the handler. Only the first call has an effect. Returns false when the system refuses, and in a sandbox that
 * may end the process for it. */
bool hk_fault_signal_catch(const hk_fault_hook_t *hook);

/* Puts the handler back in front where the program has installed one. One system call, or none under a filter that may
 * end the process for it; any thread, without a lock. */
void hk_fault_signal_renew(void);

HK_C_END

#endif /* HK_OS_FAULT_SIGNAL_H */
