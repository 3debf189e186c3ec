/* api/reclaim.h - L6. Memory that nobody uses, gathered from the heaps and given back to the system. */
#ifndef HK_API_RECLAIM_H
#define HK_API_RECLAIM_H

#include <stddef.h>

/* What the caller's heap and those without a thread can spare goes to the superslabs, and from there to the system
 * until at most `keep_bytes` are idle. How many bytes the system got. The caller is in no slow path of its heap. */
size_t hk_reclaim(size_t keep_bytes);

/* The same from the heaps without a thread alone, and as far as the superslabs. For a thread that has no heap. */
void hk_reclaim_idle_heaps(void);

/* Takes back what other threads freed of the calling thread's blocks, and of an idle heap's, if anything: whoever is
 * about to use more memory than a bin holds does it first. */
void hk_reclaim_remote(void);

#endif /* HK_API_RECLAIM_H */
