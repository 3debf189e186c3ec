/* base/mask.h - L0. Set bits of a 32-bit mask: how many, and rows of them. */
#ifndef HK_BASE_MASK_H
#define HK_BASE_MASK_H

#include <stdint.h>

#include "base/compiler.h"

#define HK_MASK_BITS 32u
#define HK_MASK_ALL UINT32_MAX

/* Returns the `count` bits from bit `first` on. `count` is 1 to 32, and all bits fit. */
HK_INLINE uint32_t hk_mask_range(unsigned first, unsigned count) {
  return HK_MASK_ALL >> (HK_MASK_BITS - count) << first;
}

/* Returns the number of set bits: sums pairs, then fours, then bytes, and a product sums the bytes. The compiler's
 * builtin is a call on x86-64, whose oldest processors have no instruction for it. */
HK_INLINE unsigned hk_mask_count(uint32_t mask) {
  mask -= mask >> 1 & UINT32_C(0x55555555);
  mask = (mask & UINT32_C(0x33333333)) + (mask >> 2 & UINT32_C(0x33333333));
  mask = (mask + (mask >> 4)) & UINT32_C(0x0F0F0F0F);
  return mask * UINT32_C(0x01010101) >> 24;
}

/* Returns a mask whose bit i is set where i is a multiple of `step`, a power of two up to 32. */
HK_INLINE uint32_t hk_mask_multiples(unsigned step) {
  return step == HK_MASK_BITS ? 1 : HK_MASK_ALL / ((UINT32_C(1) << step) - 1);
}

/* Returns a mask whose bit i is set where the bits i to i + count - 1 of `mask` are all set. `count` is 1 to 32. */
HK_INLINE uint32_t hk_mask_row_starts(uint32_t mask, unsigned count) {
  for (unsigned have = 1; have < count;) {
    unsigned step = have < count - have ? have : count - have;
    mask &= mask >> step;
    have += step;
  }
  return mask;
}

/* Returns the length of the longest row of set bits. First finds the starts of rows of 1, 2, 4, 8 and 16 bits. Then
 * extends the longest of these rows by each shorter power of two that fits. */
HK_INLINE unsigned hk_mask_longest_row(uint32_t mask) {
  if (mask == 0 || mask == HK_MASK_ALL) return mask == 0 ? 0 : HK_MASK_BITS;
  uint32_t starts[5] = {mask};
  unsigned power = 0;
  for (; power < 4; power++) {
    uint32_t doubled = starts[power] & (starts[power] >> (1u << power));
    if (doubled == 0) break;
    starts[power + 1] = doubled;
  }
  uint32_t found = starts[power];
  unsigned length = 1u << power;
  while (power-- > 0) {
    uint32_t longer = found & (starts[power] >> length);
    if (longer == 0) continue;
    found = longer;
    length += 1u << power;
  }
  return length;
}

#endif /* HK_BASE_MASK_H */
