/* heap/detach.h - L4. Detaches heaps from threads that sleep: what such a heap keeps serves other threads, or goes
 * back to the system (attachment.h has the protocol).
 */
#ifndef HK_HEAP_DETACH_H
#define HK_HEAP_DETACH_H

#include <stdint.h>

#include "heap/heap.h"

/* Which heaps to detach: of threads that sleep, and were in no slow path for a while. */
typedef struct {
  uint64_t now_ms;
  uint64_t asleep_ms;   /* for so long; twice as long after each time that a thread came back */
  uint32_t least_slabs; /* that have so much */
} hk_detach_t;

/* Detaches them. How many. Any thread that is in no slow path of its heap. Opens files. */
unsigned hk_detach_sleepers(const hk_detach_t *which);

/* When there may be more if their threads sleep on; UINT64_MAX: none. Any thread. */
uint64_t hk_detach_next_due(const hk_detach_t *which);

/* In a child of fork. */
void hk_detach_repair(void);

#endif /* HK_HEAP_DETACH_H */
