/* inspect/pinned.h - L8. Fragmentation by site: the free memory that cannot be purged because of a site's blocks.
 *
 * In each size class the free blocks are divided equally among the live blocks. A sampled block gets the parts of all
 * blocks that it stands for. The division is by class and not by span, because a sampled block lies in a span of a
 * longer class than the others of its kind. The sum over all sites is nearly all free bytes if the profile knows nearly
 * all blocks.
 */
#ifndef HK_INSPECT_PINNED_H
#define HK_INSPECT_PINNED_H

#include <stdbool.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Computes `pinned_bytes` of each site. Returns false when the system refuses memory for the census. One thread at a
 * time; takes no lock but the census's. */
bool hk_pinned_estimate(void);

HK_C_END

#endif /* HK_INSPECT_PINNED_H */
