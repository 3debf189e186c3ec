/* os/process.h - L1. Tells the process from all others that read the same variables: its ancestors by fork, and
 * children of vfork, which borrow its memory. For things that one process alone may have or do.
 *
 * The process's number does not tell: a child that is the first of a pid namespace has the number 1, as its parent may
 * have. */
#ifndef HK_OS_PROCESS_H
#define HK_OS_PROCESS_H

#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* The calling process's mark, never 0. No process that it descends from by fork, in any way, has the same; nor has a
 * child of vfork, unless both are the first of their pid namespaces. From signal handlers too. */
uint64_t hk_process_mark(void);

HK_C_END

#endif /* HK_OS_PROCESS_H */
