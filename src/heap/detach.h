/* heap/detach.h - L4. Detaches heaps from threads that sleep: the memory that such a heap keeps serves other threads,
 * or goes back to the system (attachment.h has the protocol).
 */
#ifndef HK_HEAP_DETACH_H
#define HK_HEAP_DETACH_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/heap.h"

/* The heaps to detach: of threads that sleep, and were in no slow path for a while. */
typedef struct {
  uint64_t now_ms;
  uint64_t asleep_ms;   /* the least time in no slow path; doubles each time that a thread came back */
  uint32_t least_slabs; /* the least number of slabs that such a heap has, unless it has blocks of others to send */
} hk_detach_terms_t;

/* Detaches the heaps that meet the terms. Returns how many. For a thread that is in no slow path of its heap. Opens
 * files. */
unsigned hk_detach_sleepers(const hk_detach_terms_t *terms);

/* Detaches the heap of a thread that sleeps, for a thread that needs one. Looks at a few heaps, at others each time.
 * Takes the heap of a thread that has lost others before only after a longer sleep. Returns false when none of the few
 * can be had. For a thread that is in no slow path. Opens files. */
bool hk_detach_one(uint64_t now_ms);

/* Detaches the overdue heap (remote.h), if its thread sleeps. For a thread that is in no slow path. Opens files. */
void hk_detach_overdue(void);

/* Makes the next call of each thread that has a heap a slow path, where it takes its heap up again. For a change that
 * fast paths do not see. For a thread that is in no slow path. */
void hk_detach_loosen_all(void);

/* Returns when more heaps may meet the terms, if their threads sleep on; UINT64_MAX: never. Any thread. */
uint64_t hk_detach_next_due(const hk_detach_terms_t *terms);

/* Repairs all attachments in a child of fork. */
void hk_detach_repair(void);

#endif /* HK_HEAP_DETACH_H */
