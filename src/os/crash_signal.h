/* os/crash_signal.h - L1. Catches the signals of a program that crashes: SIGSEGV, SIGBUS and SIGABRT, each once. After
 * that the program ends, or continues, as it would have without hakmem.
 *
 * A handler that the program had installed before gets the same signal after the report, from the kernel, with the same
 * siginfo, mask and stack. A handler that the program installs later replaces hakmem's. Where it then calls hakmem's
 * handler, as some handlers call the one that they found, the crash is reported. Then the handler before hakmem's
 * decides how the program ends.
 */
#ifndef HK_OS_CRASH_SIGNAL_H
#define HK_OS_CRASH_SIGNAL_H

#include "os/crash_context.h"

/* Calls `report` from now on for the first of these signals that is not ignored, in the thread that the signal reached,
 * with most signals blocked. When `report` itself crashes, the rest of it is left out. Only the first call has an
 * effect. */
void hk_crash_signal_catch(void (*report)(const hk_crash_t *crash));

#endif /* HK_OS_CRASH_SIGNAL_H */
