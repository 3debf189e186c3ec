/* space/timed_call.h - L3. The system calls that purge memory and make it resident. The first few large ones are timed:
 * they say what the two cost on this machine (policy/cost.h).
 *
 * The time is the thread's CPU time: another thread on the same processor does not lengthen it. Only calls that happen
 * anyway are timed.
 */
#ifndef HK_SPACE_TIMED_CALL_H
#define HK_SPACE_TIMED_CALL_H

#include <stdbool.h>
#include <stddef.h>

/* As the functions of os.h of the same name. Called without hk_lock_space, which they may take. */
bool hk_timed_call_prefault(void *start, size_t bytes);
bool hk_timed_call_purge(void *start, size_t bytes);
bool hk_timed_call_unmap(void *start, size_t bytes);

#endif /* HK_SPACE_TIMED_CALL_H */
