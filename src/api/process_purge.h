/* api/process_purge.h - L5. Purging for the whole process: collects what the heaps keep, and gives it back to the
 * system. */
#ifndef HK_API_PROCESS_PURGE_H
#define HK_API_PROCESS_PURGE_H

#include <stddef.h>
#include <stdint.h>

#include "heap/detach.h"
#include "heap/named.h"
#include "heap/remote.h"
#include "heap/thread.h"
#include "space/dirty.h"

/* Purges: moves what the caller's heap and the idle heaps can spare to the superslabs, and gives memory back to the
 * system until at most `keep_bytes` are dirty. Returns the bytes purged. Requires that the caller is in no slow path of
 * its heap. */
size_t hk_process_purge(size_t keep_bytes);

/* hk_process_purge at the program's request: collects from the heaps of threads that sleep too. Opens files. */
size_t hk_process_purge_everywhere(size_t keep_bytes);

/* Moves what the caller's part of a named heap or tag, and the parts without a thread, can spare to the superslabs.
 * Requires that the caller is in no slow path. */
void hk_process_flush_named(hk_named_t *named);

/* hk_process_flush_named, and then a purge of all dirty memory of the process. Returns the bytes purged. */
size_t hk_process_purge_named(hk_named_t *named);

/* Gives everything that is free back to the system, with its addresses, before a request fails: what the caller's heap,
 * idle heaps and heaps of sleeping threads can spare. `may_be_short`: addresses may be short, so these heaps' spans
 * become short too (space/short_span.h). Requires that the caller is in no slow path of its heap. Opens files. */
void hk_process_purge_all(bool may_be_short);

/* hk_process_purge_all for the caller's heap alone, if a request of another thread was refused since its last call. For
 * a shortage. */
HK_COLD void hk_process_purge_after_refusal(void);

/* Moves what the idle heaps can spare to the superslabs. For a thread without a heap. */
void hk_process_purge_idle_heaps(void);

/* Returns the terms on which heaps of sleeping threads are worth detaching now. For the purge thread. */
hk_detach_terms_t hk_process_purge_detach_terms(uint64_t now_ms);

/* Detaches the heaps that meet hk_process_purge_detach_terms. Where there were any, near a memory limit, also calls
 * hk_process_purge_idle_heaps. Opens files. */
void hk_process_purge_detach_sleepers(uint64_t now_ms);

/* Detaches heaps for a thread that grows near a memory limit, also those of threads that have slept for a moment only.
 * Requires that the caller is in no slow path. Opens files. */
HK_COLD void hk_process_purge_near_limit(void);
HK_INLINE void hk_process_purge_consider(void) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_dirty_is_heap_purge_due))) hk_process_purge_near_limit();
  if (HK_UNLIKELY(hk_load_relaxed(&hk_remote_overdue) != NULL)) hk_detach_overdue();
}

/* Collects the remote frees of the calling thread's blocks. Called before a thread takes more memory than a bin
 * holds. */
void hk_process_purge_drain_own(void);

#endif /* HK_API_PROCESS_PURGE_H */
