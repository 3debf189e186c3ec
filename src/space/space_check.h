/* space/space_check.h - L3. In debug builds, walks everything that the shards' locks and hk_lock_space guard: each
 * superslab's masks (superslab_index.h), the free extents (extent.h), and the sums and the retention (dirty.h). */
#ifndef HK_SPACE_SPACE_CHECK_H
#define HK_SPACE_SPACE_CHECK_H

#include "base/compiler.h"
#include "base/panic.h"

/* Follows a change: call it after its locks are released. Walks when a walk is due (base/walk.h), and panics with the
 * sentence that does not hold. Allocates nothing; takes the locks. */
#if HK_DEBUG
void hk_space_check(void);
#else
HK_INLINE void hk_space_check(void) {}
#endif

#endif /* HK_SPACE_SPACE_CHECK_H */
