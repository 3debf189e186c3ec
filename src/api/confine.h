/* api/confine.h - L5. A system call filter that the program installs. Before it is in force the library reads the
 * system's settings once more, and ends its threads: a thread without the filter, in the memory of those that have it,
 * would be a way around it. From then on os/sandbox.h permits only the calls of any malloc.
 */
#ifndef HK_API_CONFINE_H
#define HK_API_CONFINE_H

#include <stdbool.h>

#include "os/sandbox.h"

/* Returns the level that these arguments of prctl or seccomp would lead to; hk_sandbox_none: they install no filter. */
hk_sandbox_t hk_confine_by_prctl(unsigned long option, unsigned long mode, unsigned long filter);
hk_sandbox_t hk_confine_by_seccomp(unsigned long operation, unsigned long flags, unsigned long filter);

/* Called before the thread installs the filter. Returns the level before, for hk_confine_undo. Takes locks. */
hk_sandbox_t hk_confine_begin(hk_sandbox_t sandbox);

/* Called when the kernel has refused the filter. */
void hk_confine_undo(hk_sandbox_t before);

#endif /* HK_API_CONFINE_H */
