/* api/lifecycle.h - L6. The allocator's start, and its life across fork. It has no end: it serves until the process
 * is gone. */
#ifndef HK_API_LIFECYCLE_H
#define HK_API_LIFECYCLE_H

#include "heap/thread.h"

/* Sets everything up in the first call in a process. */
void hk_lifecycle_start(void);

/* Asks the system what it may not be asked in a sandbox, which begins soon: the answers are remembered. */
void hk_lifecycle_look_around(void);

/* hk_thread_enter for a process that may not have started yet. */
hk_thread_lease_t hk_lifecycle_enter(void);

#endif /* HK_API_LIFECYCLE_H */
