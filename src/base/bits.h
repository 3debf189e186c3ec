/* base/bits.h - L0. Arithmetic on bits, alignments and powers of two. */
#ifndef HK_BASE_BITS_H
#define HK_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

HK_INLINE bool hk_is_power_of_two(size_t value) { return value != 0 && (value & (value - 1)) == 0; }

/* `alignment` is a power of two. The caller has checked that the result fits. */
HK_INLINE size_t hk_align_up(size_t value, size_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }
HK_INLINE size_t hk_align_down(size_t value, size_t alignment) { return value & ~(alignment - 1); }
HK_INLINE bool hk_is_aligned(uintptr_t value, size_t alignment) { return (value & (alignment - 1)) == 0; }

/* Returns the smallest power of two that is at least `value`, or 0 when none fits. `value` is not 0. */
HK_INLINE size_t hk_next_power_of_two(size_t value) {
  if (value <= 1) return 1;
  unsigned shift = 64 - (unsigned)__builtin_clzll(value - 1);
  return shift == 64 ? 0 : (size_t)1 << shift;
}

/* Return the index of the highest and of the lowest set bit. `value` is not 0. */
HK_INLINE unsigned hk_highest_bit(size_t value) { return 63 - (unsigned)__builtin_clzll(value); }
HK_INLINE unsigned hk_lowest_bit(size_t value) { return (unsigned)__builtin_ctzll(value); }

#endif /* HK_BASE_BITS_H */
