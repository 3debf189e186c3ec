/* space/superslab_check.h - L3. In debug builds, checks that the superslabs, their indexes and the sums agree. */
#ifndef HK_SPACE_SUPERSLAB_CHECK_H
#define HK_SPACE_SUPERSLAB_CHECK_H

#include <stdint.h>

#include "base/panic.h"

#if HK_DEBUG
/* Walks all superslabs and returns the number of steps. Panics with the sentence that does not hold. Requires the locks
 * of all shards and hk_lock_space. */
uint64_t hk_superslab_check_locked(void);
#endif

#endif /* HK_SPACE_SUPERSLAB_CHECK_H */
