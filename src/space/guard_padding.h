/* space/guard_padding.h - L3. Padding: the bytes of a guarded block's pages around the block. They hold a pattern, so
 * that a write outside of the block shows. */
#ifndef HK_SPACE_GUARD_PADDING_H
#define HK_SPACE_GUARD_PADDING_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_C_BEGIN

/* Fills the bytes of the pages that are not the block's. Requires that the pages are writable. */
void hk_guard_padding_fill(uintptr_t pages, size_t pages_bytes, uintptr_t start, size_t bytes);

/* Returns the damaged byte that is nearest to the block; 0 when none is. */
uintptr_t hk_guard_padding_damage(uintptr_t pages, size_t pages_bytes, uintptr_t start, size_t bytes);

HK_C_END

#endif /* HK_SPACE_GUARD_PADDING_H */
