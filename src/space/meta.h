/* space/meta.h - L3. Memory for hakmem's own records, from mappings of its own. It is never given back: each record
 * type reuses its own records. */
#ifndef HK_SPACE_META_H
#define HK_SPACE_META_H

#include <stddef.h>
#include <stdint.h>

/* Returns `bytes` of zero memory on a cache line of its own; NULL when the system refuses. Any thread; takes
 * hk_lock_meta. */
void *hk_meta_alloc(size_t bytes);

/* Returns the address space of the records' mappings, in bytes. Any thread, no lock. */
size_t hk_meta_mapped_bytes(void);

/* Returns the bytes of it that were handed out. Takes hk_lock_meta. */
size_t hk_meta_used_bytes(void);

/* Calls `visit` for each range of memory that contains records; of a program with more than 256 ranges, for the first
 * 256. Any thread, no lock. */
void hk_meta_visit(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context);

#endif /* HK_SPACE_META_H */
