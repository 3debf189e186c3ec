/* os/address_hole.h - L1. Hints where ranges shorter than a slab may be mapped. Each starts at a multiple of a slab, so
 * the holes that the kernel would choose, which lie between such ranges, do not fit. Any thread, no lock: where two
 * threads take one hint, the kernel maps the second range elsewhere. */
#ifndef HK_OS_ADDRESS_HOLE_H
#define HK_OS_ADDRESS_HOLE_H

#include <stdint.h>

/* Notes a range that was unmapped. */
void hk_address_hole_note(uintptr_t start);

/* Returns where a range was unmapped, and forgets it; 0 when none is known. */
uintptr_t hk_address_hole_take(void);

/* Notes where a range was mapped for which no hole was known. */
void hk_address_hole_note_mapped(uintptr_t start);

/* Returns the next address below the last range that was mapped; 0 when there was none. */
uintptr_t hk_address_hole_below(void);

#endif /* HK_OS_ADDRESS_HOLE_H */
