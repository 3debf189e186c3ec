/* api/process_purge.h - L5. Memory that nobody uses, gathered from the heaps and given back to the system. */
#ifndef HK_API_PROCESS_PURGE_H
#define HK_API_PROCESS_PURGE_H

#include <stddef.h>
#include <stdint.h>

#include "heap/detach.h"
#include "space/idle.h"

/* What the caller's heap and those without a thread can spare goes to the superslabs, and from there to the system
 * until at most `keep_bytes` are idle. How many bytes the system got. The caller is in no slow path of its heap. */
size_t hk_process_purge(size_t keep_bytes);

/* The same for a program that asks for it: from the heaps of threads that sleep too. Opens files. */
size_t hk_process_purge_everywhere(size_t keep_bytes);

/* The same from the heaps without a thread alone, and as far as the superslabs. For a thread that has no heap. */
void hk_process_purge_idle_heaps(void);

/* Which heaps of threads that sleep are worth to be taken now. For the purge thread. */
hk_detach_t hk_process_purge_which(uint64_t now_ms);

/* Takes them; near a limit on memory idle heaps keep nothing either. Opens files. */
void hk_process_purge_from_sleepers(uint64_t now_ms);

/* The same for a thread that grows near a limit, in no slow path: of threads that just fell asleep too. */
HK_COLD void hk_process_purge_near_limit(void);
HK_INLINE void hk_process_purge_consider(void) {
  if (HK_UNLIKELY(hk_load_relaxed(&hk_idle_wants_heaps))) hk_process_purge_near_limit();
}

/* Takes back what other threads freed of the calling thread's blocks, and of an idle heap's, if anything: whoever is
 * about to use more memory than a bin holds does it first. */
void hk_process_purge_remote(void);

#endif /* HK_API_PROCESS_PURGE_H */
