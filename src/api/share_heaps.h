/* api/share_heaps.h - L5. Heaps for threads that begin: where there are many heaps, that of a thread that sleeps. */
#ifndef HK_API_SHARE_HEAPS_H
#define HK_API_SHARE_HEAPS_H

#include "base/compiler.h"
#include "heap/thread.h"

/* For a thread that needs a heap, where the process has many: takes up the heap that the thread had last. If another
 * thread has that heap and no heap is idle, detaches the heap of a thread that sleeps, and may wait for one. Requires
 * that the caller is in no slow path. Safe in signal handlers. Opens files. */
HK_COLD void hk_share_heaps(void);
HK_INLINE void hk_share_heaps_consider(void) {
  if (hk_thread_own() == HK_EMPTY_HEAP) hk_share_heaps();
}

#endif /* HK_API_SHARE_HEAPS_H */
