/* api/confine.h - L6. What the library does about a system call filter that the program installs. Before it is in
 * force the library takes a last look at what it could not ask later, and ends its threads: a thread without the
 * filter, in the memory of those that have it, would be a way around it. From then on os/sandbox.h refuses all but
 * the calls of any malloc.
 */
#ifndef HK_API_CONFINE_H
#define HK_API_CONFINE_H

#include <stdbool.h>

#include "os/sandbox.h"

/* Whether these arguments of prctl or seccomp would install a filter, and which kind; hk_sandbox_none: they would
 * not. */
hk_sandbox_t hk_confine_by_prctl(unsigned long option, unsigned long mode, unsigned long filter);
hk_sandbox_t hk_confine_by_seccomp(unsigned long operation, unsigned long flags, unsigned long filter);

/* The thread is about to install it. Returns what holds now, for hk_confine_undo. Locks are taken. */
hk_sandbox_t hk_confine_begin(hk_sandbox_t sandbox);

/* The kernel has refused the filter. */
void hk_confine_undo(hk_sandbox_t before);

#endif /* HK_API_CONFINE_H */
