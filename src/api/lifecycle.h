/* api/lifecycle.h - L5. The allocator's start, and its life across fork. It has no end: it serves until the process
 * is gone. */
#ifndef HK_API_LIFECYCLE_H
#define HK_API_LIFECYCLE_H

#include "heap/thread.h"

/* Sets everything up in the first call in a process. */
void hk_lifecycle_start(void);

/* Reads what the library may not read in a sandbox, and remembers it. Called before a sandbox begins. */
void hk_lifecycle_look_around(void);

/* hk_thread_enter for a process that may not have started yet. */
hk_thread_lease_t hk_lifecycle_enter(void);

/* A thread of ours has seen that the first thread is under a filter that it installed past the C library: from now on
 * the process counts as one that has installed a filter, unless the user says that none kills. */
void hk_lifecycle_note_filter(void);

#endif /* HK_API_LIFECYCLE_H */
