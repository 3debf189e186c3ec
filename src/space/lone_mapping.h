/* space/lone_mapping.h - L3. The mappings of blocks above 32 KiB in a hardened build: each is a mapping of its own,
 * between addresses that cannot be accessed. A freed one is made inaccessible too, and waits for some later frees
 * until it serves again or its addresses go back. Until then a stale pointer leads to no other block, and its use
 * faults. */
#ifndef HK_SPACE_LONE_MAPPING_H
#define HK_SPACE_LONE_MAPPING_H

#include <stddef.h>

/* Maps `bytes`, whole pages, zero, at a multiple of `alignment`, a power of two of at least a slab. Returns NULL when
 * the system refuses. Any thread. */
void *hk_lone_mapping_make(size_t bytes, size_t alignment);

/* Makes a block inaccessible that hk_lone_mapping_make made, of the same `bytes`. Any thread; takes hk_lock_space.
 * The block's descriptor says hk_slab_free until it is unmapped or serves again. */
void hk_lone_mapping_end(void *block, size_t bytes);

/* Unmaps a block that hk_lone_mapping_make made, of the same `bytes`, and that no thread was given. Any thread. */
void hk_lone_mapping_drop(void *block, size_t bytes);

/* Unmaps the ended blocks that kept their pages. */
void hk_lone_mapping_purge(void);

/* Unmaps the guards of a block whose pages were moved away. */
void hk_lone_mapping_unmap_guards(void *block, size_t bytes);

#endif /* HK_SPACE_LONE_MAPPING_H */
