/* api/purge_thread.h - L5. The purge thread: purges dirty memory whose time is over while the program's own threads
 * take and free nothing. A program with more than one thread gets it once it holds HK_PURGE_WAKEUP_WORTH_BYTES. The
 * thread sleeps unless something is due, and ends when the program has one thread left. Without it, threads that take
 * and free memory poll the deadlines on their slow paths (policy/retention.h).
 */
#ifndef HK_API_PURGE_THREAD_H
#define HK_API_PURGE_THREAD_H

#include "space/purge_wakeup.h"

HK_COLD void hk_purge_thread_consider_slow(void);

/* Starts the purge thread if that is due and the system permits it. Called from requests, without a lock. Never called
 * from a free: the C library frees while it holds locks that a new thread takes. */
HK_INLINE void hk_purge_thread_consider(void) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_purge_wakeup_is_thread_due))) hk_purge_thread_consider_slow();
}

#endif /* HK_API_PURGE_THREAD_H */
