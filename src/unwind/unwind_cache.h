/* unwind/unwind_cache.h - L6. The site of the calling stack, by the shortest possible walk: most samples of a thread
 * are taken at or near the place of its last one.
 *
 * A unwind cache keeps what the thread's last walk depended on: return addresses, and the saved registers that frames
 * are found by. The next walk ends at the first frame that the last one passed too, if everything behind it is
 * unchanged. So it finds what a whole walk would find, unless the code of the stack's functions was replaced at the
 * same addresses.
 */
#ifndef HK_UNWIND_UNWIND_CACHE_H
#define HK_UNWIND_UNWIND_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "unwind/site.h"

HK_C_BEGIN

/* Returns the same as hk_site_of(hk_unwind(...)), which it calls where it can keep no unwind cache; a site without
 * frames when there is no room for a walk. Takes no lock, allocates nothing; from any thread and signal handler. */
hk_site_t *hk_unwind_cache_site(void);

/* Prefetches what the thread's next walk will likely read. */
void hk_unwind_cache_prefetch(void);

/* Visits the memory of unwind caches and walks: stack contents and registers in it may be out of date. */
void hk_unwind_cache_visit_memory(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context);

HK_C_END

#endif /* HK_UNWIND_UNWIND_CACHE_H */
