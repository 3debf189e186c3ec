/* space/class_slabs.h - L3. The slabs of a hardened build whose span is gone: they stay with their size class. So a
 * stale pointer to a small block never leads into a block of another size. Above a bound they are purged: they take
 * addresses then, and no memory.
 *
 * Any thread; takes hk_lock_space, and the lock of a superslab index. A child of fork may lose some of them.
 */
#ifndef HK_SPACE_CLASS_SLABS_H
#define HK_SPACE_CLASS_SLABS_H

#include "space/slab.h"

/* Keeps the slabs of a span of the class. Requires that the caller has retired them, and set is_wiped. */
void hk_class_slabs_put(hk_slab_t *head, unsigned class_index);

/* hk_class_slabs_put for a span that ends with blocks in use. Fills its blocks with zeros, or purges them. So the
 * program finds nothing at their old addresses, and malloc notices a write to them when it hands the blocks out. */
void hk_class_slabs_put_with_blocks(hk_slab_t *head, unsigned class_index);

/* Returns `slab_count` slabs in a row that had blocks of the class, with slab_count, zero and is_wiped set; NULL when
 * there are none. */
hk_slab_t *hk_class_slabs_take(unsigned class_index, unsigned slab_count);

/* Purges the dirty slabs beyond the bound, which falls as more memory is in use near a limit. */
void hk_class_slabs_purge_excess(void);

/* Purges all that are kept. */
void hk_class_slabs_purge(void);

/* Forgets all of them, in a child of fork. */
void hk_class_slabs_repair(void);

#endif /* HK_SPACE_CLASS_SLABS_H */
