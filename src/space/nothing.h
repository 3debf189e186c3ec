/* space/nothing.h - L3. Blocks of no bytes in a hardened build: addresses of their own, which cannot be accessed. Each
 * has a live bit (live_bit.h), which any thread sets and clears by atomic instructions. */
#ifndef HK_SPACE_NOTHING_H
#define HK_SPACE_NOTHING_H

#include <stdbool.h>

/* Returns an address that no other block has; NULL when the system refuses, or very many are in use. */
void *hk_nothing_alloc(void);

/* Gives an address back. Returns false when it is not in use. Requires an address in a slab whose state is
 * hk_slab_nothing. */
bool hk_nothing_free(const void *block);

#endif /* HK_SPACE_NOTHING_H */
