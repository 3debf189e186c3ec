/* profile/trail.h - L5. The site of who calls, by a walk that is as short as can be: most samples of a thread are
 * taken where the one before was, or not far from there.
 *
 * Of a thread's last walk it is kept what it depended on: return addresses, and the saved registers that frames were
 * counted from. The next one ends at the first frame that the last one came through too, where all that lies behind
 * it is as it was. So what it finds is what a whole walk would find. (That a stack's code changes under it, at the
 * same addresses, is left out.)
 */
#ifndef HK_PROFILE_TRAIL_H
#define HK_PROFILE_TRAIL_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "profile/site.h"

HK_C_BEGIN

/* As hk_site_of(hk_unwind(...)), which it is where nothing can be kept. A site without frames when there is no room
 * for a walk. Takes no lock, allocates nothing; from any thread and signal handler. */
hk_site_t *hk_trail_site(void);

/* Has the processor fetch what the thread's next walk will need, likely. */
void hk_trail_fetch(void);

/* The memory that trails and walks are in: what it holds of stacks and registers may be of long ago. */
void hk_trail_visit_memory(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context);

HK_C_END

#endif /* HK_PROFILE_TRAIL_H */
