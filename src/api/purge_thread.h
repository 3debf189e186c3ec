/* api/purge_thread.h - L5. The purge thread: gives back what has been idle for its time while the program does nothing that would
 * bring its own threads here. A program with more than one thread gets it when it holds enough to be worth it. It sleeps
 * unless something is due, and ends when the program has one thread left. Where it cannot be had, memory is given back
 * as soon as it is free (policy/keep.h).
 */
#ifndef HK_API_PURGE_THREAD_H
#define HK_API_PURGE_THREAD_H

#include "space/purge_wakeup.h"

HK_COLD void hk_purge_thread_consider_slow(void);

/* Starts it if it is wanted and can be had. Called from requests, holding nothing, and never from a free: the C library
 * frees while it holds locks that a new thread takes. */
HK_INLINE void hk_purge_thread_consider(void) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_purge_wakeup_is_wanted))) hk_purge_thread_consider_slow();
}

#endif /* HK_API_PURGE_THREAD_H */
