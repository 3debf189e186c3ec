/* unwind/unwind_cache.h - L6. Finds the site of the calling stack by a short walk: most samples of a thread are taken
 * at or near the place of its last one.
 *
 * An unwind cache keeps what the thread's last walk depended on: return addresses, and the saved registers that its
 * frames were counted from. The next walk ends at the first frame that the last walk passed too, if everything further
 * out is unchanged. So it finds the same as a whole walk, unless other code has taken the addresses of the stack's
 * functions.
 */
#ifndef HK_UNWIND_UNWIND_CACHE_H
#define HK_UNWIND_UNWIND_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/site.h"

HK_C_BEGIN

/* Returns the site of the calling stack, without hakmem's own innermost frames. Walks the whole stack when the
 * thread has no unwind cache. Returns a site without frames when there is no room for a walk. Takes no lock and
 * allocates nothing. Any thread and signal handler may call it. */
hk_site_t *hk_unwind_cache_site(void);

/* Prefetches the lines of the unwind cache that the thread's next walk will likely read. */
void hk_unwind_cache_prefetch(void);

/* Visits the memory of unwind caches and walk rooms. It may have outdated contents of stacks and registers. */
void hk_unwind_cache_visit_memory(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context);

HK_C_END

#endif /* HK_UNWIND_UNWIND_CACHE_H */
