/* inspect/pinned.h - L8. Fragmentation by site: which free memory cannot go back because of whose blocks. */
#ifndef HK_INSPECT_PINNED_H
#define HK_INSPECT_PINNED_H

#include <stdbool.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Works out `pinned_bytes` of each site: the free blocks between those that are handed out, of each size class, are shared among the
 * latter; a sampled block has the parts of all that it stands for. By class and not by span: a sampled block lies in a span of
 * a longer class than the others of its kind. All sites together have nearly all free bytes if the profile knows nearly all
 * blocks. False when the system refuses memory for it. For one thread at a time; takes no lock. */
bool hk_pinned_estimate(void);

HK_C_END

#endif /* HK_INSPECT_PINNED_H */
