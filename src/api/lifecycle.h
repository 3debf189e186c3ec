/* api/lifecycle.h - L5. The start of the allocator, and its children of fork. It has no end: it serves until the
 * process ends. */
#ifndef HK_API_LIFECYCLE_H
#define HK_API_LIFECYCLE_H

#include "heap/thread.h"

/* Starts the allocator at the process's first call; does nothing later. */
void hk_lifecycle_start(void);

/* Starts the allocator, reads the options, and decides which system calls the library makes. Called first in each
 * constructor, in whatever order they run. */
void hk_lifecycle_prepare(void);

/* Reads and stores those of the system's settings that the library may not read in a sandbox. Called before a sandbox
 * begins. */
void hk_lifecycle_read_settings(void);

/* hk_lifecycle_enter for a thread without a heap. */
hk_thread_lease_t hk_lifecycle_enter_heapless(void);

/* hk_thread_enter for a process in which the allocator may not have started. */
HK_INLINE hk_thread_lease_t hk_lifecycle_enter(void) {
  hk_heap_t *heap = hk_thread_own();
  return HK_UNLIKELY(heap == HK_EMPTY_HEAP) ? hk_lifecycle_enter_heapless() : hk_thread_enter_own(heap);
}

/* Notes that the first thread has installed a filter without the C library, as one of the library's threads has seen.
 * From now on the process counts as one with a filter of its own, unless the option `sandbox` is `off`. */
void hk_lifecycle_note_filter(void);

#endif /* HK_API_LIFECYCLE_H */
