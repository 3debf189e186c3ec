/* space/meta.h - L3. Memory for our own records: from our own mappings, never given back, reused by whoever owns the
 * type. */
#ifndef HK_SPACE_META_H
#define HK_SPACE_META_H

#include <stddef.h>
#include <stdint.h>

/* `bytes` of zero memory on a cache line of its own; NULL when the system refuses. Any thread; takes hk_lock_meta. */
void *hk_meta_alloc(size_t bytes);

/* What records take of the address space. */
size_t hk_meta_mapped_bytes(void);

/* The same without what was never handed out. Takes hk_lock_meta. */
size_t hk_meta_used_bytes(void);

/* Calls `visit` for each range of memory that records are in, but for those of a program with very many: of these the first
 * ones. Any thread, no lock. */
void hk_meta_visit(void (*visit)(void *context, uintptr_t start, size_t bytes), void *context);

#endif /* HK_SPACE_META_H */
