/* space/timed_call.h - L3. The system calls that purge memory and make it resident. The first few large ones are timed:
 * they say what the two cost on this machine (policy/cost.h). Once a cost is known, the retention uses it.
 *
 * The time is the thread's CPU time: another thread on the same processor does not lengthen it. Only calls that happen
 * anyway are timed.
 */
#ifndef HK_SPACE_TIMED_CALL_H
#define HK_SPACE_TIMED_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Call the functions of os.h of the same name, and may measure the call. Called without hk_lock_space, which they may
 * take. */
bool hk_timed_call_prefault(void *start, size_t bytes);
bool hk_timed_call_purge(void *start, size_t bytes);
bool hk_timed_call_unmap(void *start, size_t bytes);

/* What a timed call measures. */
typedef enum {
  hk_timed_purge, /* the purge of memory */
  hk_timed_fault, /* the faults that make it resident again, in one call */
  hk_timed_count,
} hk_timed_kind_t;

/* Permits timing calls, while the process has one thread. Without it the expected costs hold, so that tests can be
 * repeated. */
void hk_timed_call_allow(void);

/* Returns what a MiB costs here, in ns of CPU time; the expected cost until enough calls were timed. Sets
 * `*samples` to their number. Any thread; takes hk_lock_space. */
uint64_t hk_timed_call_cost_ns(hk_timed_kind_t kind, unsigned *samples);

#endif /* HK_SPACE_TIMED_CALL_H */
