/* heap/prefault.h - L4. Pages that are made resident before blocks are cut from them: one call of the system instead of a page
 * fault each, which is two thirds of what the faults cost (docs/design.md, "Carving").
 */
#ifndef HK_HEAP_PREFAULT_H
#define HK_HEAP_PREFAULT_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/heap.h"

/* Chosen: of a mid class, whose blocks are cut one by one, so much is made resident at once when the first of it is cut, and of
 * larger blocks nothing: less of them may ever be touched. */
#define HK_PREFAULT_BYTES (16 * HK_KIB)
#define HK_PREFAULT_MAX_BLOCK (8 * HK_KIB)

/* Before the next `count` blocks of a span are cut whose rest is zero, and so not resident. `has_grown`: so many blocks of the class
 * were cut that it will want more. */
void hk_prefault(hk_heap_t *heap, const hk_slab_t *span, unsigned count, bool has_grown);

#endif /* HK_HEAP_PREFAULT_H */
