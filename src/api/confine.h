/* api/confine.h - L5. System call filters that the program installs. Before a filter is in force, the library reads the
 * system's settings once more and ends its own threads: a thread without the filter could be used to get around it.
 * From then on os/sandbox.h permits only the system calls that every malloc makes.
 */
#ifndef HK_API_CONFINE_H
#define HK_API_CONFINE_H

#include <stdbool.h>

#include "os/sandbox.h"

/* Returns the level that these arguments of prctl or seccomp lead to, or hk_sandbox_none when they install no
 * filter. */
hk_sandbox_t hk_confine_level_of_prctl(unsigned long option, unsigned long mode, unsigned long filter);
hk_sandbox_t hk_confine_level_of_seccomp(unsigned long operation, unsigned long flags, unsigned long filter);

/* Prepares the library for the filter that the calling thread is about to install. Returns the earlier level, for
 * hk_confine_undo. Takes locks. */
hk_sandbox_t hk_confine_begin(hk_sandbox_t sandbox);

/* Restores the earlier level. Called when the kernel has refused the filter. */
void hk_confine_undo(hk_sandbox_t before);

#endif /* HK_API_CONFINE_H */
